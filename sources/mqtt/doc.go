// Package mqtt is the source that subscribes to an MQTT broker, version 5 or
// 3.1.1. A message is acknowledged to the broker when it is synced to the
// write-ahead log of the stream, in the order in which it came.
//
// A [server] lives as long as a run. It has one or more links, connections that
// come back by themselves; each hands its messages to a lane, which submits them
// to the stream in their order and acknowledges them on the link that brought
// them. The network loop of a client never waits for the stream: what keeps the
// broker from sending more is that it gets no acknowledgements (receive maximum).
//
// Nothing outside of this package knows an MQTT client. Start to read at [Config],
// server.go and lane.go.
package mqtt

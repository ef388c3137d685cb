// Package network holds tests of the real program on a bad network: it runs in a
// network namespace of its own, and every packet between it and the real servers
// (a Kafka broker, an MQTT broker, an Iceberg REST catalog, an S3 store) passes
// through the test, which delays it, loses it, lets it overtake others, or cuts one
// way or both. The servers need not know: they listen on loopback as ever.
//
// It needs Linux, root and the program ip (Debian's iproute2), and nothing of the
// kernel but tun devices. Everything it makes belongs to the process and is gone
// with it, however it ends. No packet leaves the machine.
package network

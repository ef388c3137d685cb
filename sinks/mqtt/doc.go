// Package mqtt is the sink that publishes rows to an MQTT 5 broker.
//
// How it works, file by file:
//
//   - config.go: what a user can write, and the plan.
//   - rows.go: a batch to messages as they are spooled; what can be none is bad.
//   - writer.go: the writer that spools (dataflow/spool).
//   - sender.go: the messages of a commit, many under way at a time, in order.
//   - session.go: the connection, and who waits for which acknowledgement.
//
// Positions and what was delivered are kept by spool.NewCommitter. A connection that is
// lost is given up with all that is under way: the next try begins with the first
// message that was not acknowledged.
//
// Start to read at [Config] and sender.Send.
package mqtt

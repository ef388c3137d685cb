// Package kafka is the sink that writes rows as records to Kafka topics, in one
// transaction per commit together with the pipeline's positions, or through an
// idempotent producer as they come.
//
// How it works, file by file:
//
//   - config.go: what a user can write, and the plan.
//   - layout.go: which parts of a record come from which expression.
//   - record.go: the bytes of a record as it is spooled.
//   - rows.go: a batch to records; what cannot be one is bad.
//   - encode.go: values in a schema of a registry.
//   - events.go: the headers of CloudEvents.
//   - writer.go: the writer that spools (dataflow/spool), for exactly once.
//   - through.go: the writer that sends at once, for at least once.
//   - committer.go: one transaction of rows and positions, claims.
//   - positions.go: the compacted topic that holds the positions.
//   - client.go: options of the client, and which errors time heals.
//
// A transaction that the broker gave up, a producer that was fenced and an answer
// that was lost all end alike: another producer is begun under the same transactional
// id, which the broker lets live only when the one before is over, the positions are
// read again, and they say whether the rows are there.
//
// Start to read at [Config] and committer.Commit.
package kafka

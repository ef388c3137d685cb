// Package kafka is the source that reads Kafka topics.
//
// It reads partitions that the engine assigns to it, from positions that the
// engine keeps: no consumer group decides what is read, and nothing is ever
// committed automatically. Group offsets are written after the fact, as a
// mirror for tools that show lag.
//
// It is not where payloads are decoded: the step's decode block does that, and
// what cannot be decoded leaves by the port "bad".
//
// How it works, file by file:
//
//   - config.go: what a user can write, and the plan.
//   - client.go: options and buffers of the client.
//   - position.go: the text of a position, and what it means.
//   - source.go: splits, Poll, and where fetched records go. The goroutine that
//     calls Poll owns all of it.
//   - batch.go: records to one Arrow batch, cut at Until.
//   - keys.go, metadata.go: the columns of keys, and of what stands beside a value.
//   - missing.go: a split waits for what its next record cannot be decoded without.
//   - heed.go: what Poll does with the watcher's answers.
//   - watch.go: one goroutine that asks the broker questions on behalf of Poll:
//     where a split starts, whether records are missing, where its log ends.
//   - offsets.go: discovery, starts, ends, and the group's offsets.
//
// Two things are easily got wrong. The end of a partition is often no record:
// transaction markers, aborted records and compaction leave offsets that no
// consumer sees. So the client is asked to hand out markers, and where a split
// stands still before the end, the broker is asked once whether anything is left
// (see probe). And an offset means nothing without its topic's identity: a
// topic that was deleted and created again reuses the offsets. So a position
// holds the topic's id and a generation (see position).
//
// Start to read at [Config] and Source.
package kafka

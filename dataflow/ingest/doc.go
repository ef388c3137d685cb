// Package ingest is what all push sources have in common (HTTP, MQTT, ...): a
// [Stream] takes records from producers, decodes them, makes them durable in a
// write-ahead log, answers, and is read by the engine as a source with one split.
//
// Two goroutines work for a stream. The first gathers the requests that wait,
// decodes them together into columns and encodes those; the second writes a group
// with one sync and answers its producers, while the first works on the next. What
// was just written is handed to the engine from memory; what is not there any
// more, after a restart or behind a slow pipeline, is read from the log.
//
// It knows nothing of protocols. Start to read at [Stream.Submit].
package ingest

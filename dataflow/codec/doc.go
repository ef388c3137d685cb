// Package codec turns payload bytes into Arrow columns. A decode block of a
// pipeline file ([Config]) names one format; each format is a dataflow.Decoder.
//
// JSON is decoded twice over: a schema-directed pass writes straight into
// column buffers (fast.go), and whatever it does not take goes to a plain
// decoder over a parsed document (reference.go), which alone decides that a
// record is bad and why. Where the fast pass takes a record, both give the same
// row; fuzz tests hold them to it.
//
// It reads no files and no network, and knows nothing of sources. Start to read
// at [JSONConfig] and [JSON.Append].
package codec

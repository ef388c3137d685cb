// Package registry takes rows through topics in the formats of schema registries, by the
// real program, a real broker and a real registry that is ended and started again.
//
// What other writers and readers do is done by other libraries: github.com/twmb/avro, the
// runtime of Protobuf, and the head of payloads by franz-go's sr.
package registry

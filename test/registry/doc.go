// Package registry takes rows through topics in the formats of schema registries, by the
// real program, a real broker and a real registry that is ended and started again.
//
// What other writers do is done by other libraries: github.com/twmb/avro, and Python's
// fastavro where it is installed.
package registry

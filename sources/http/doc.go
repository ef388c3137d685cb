// Package http is the source that services and devices post their records to. A
// request is answered when its records are synced to the write-ahead log (or are
// in every table).
//
// It knows the protocol and nothing of how records are kept: dataflow/ingest does
// that, and the formats are read by dataflow/codec. Start to read at [Config] and
// endpoint.post; then, file by file:
//
//   - plan.go: what a user can write, and what is wrong with it.
//   - listener.go, limited.go, tls.go: an address, which several streams share.
//   - auth.go, sign.go: who may post.
//   - endpoint.go: one request from its headers to its answer (answer.go).
//   - body.go, formats.go: from a body to records.
//   - metadata.go: columns of what came beside a record.
//   - openapi.go: the description for others.
//
// One rule holds for all answers: a status that begins with 2 says that what
// accepted counts is kept; any other says that nothing is, or (5xx) that it is not
// known.
package http

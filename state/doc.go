// Package state keeps the keyed state of operators and the manifests of
// epochs, in one Pebble store per pipeline. It knows nothing of pipelines: a
// caller asks for the key space of a named step and a range of key groups, and
// hands over frozen changes together with the manifest bytes that belong to
// them; both become durable in one synced write.
//
// Start to read at [KV] and [Store]. The bytes are described in docs/state-format.md.
package state

// Package http is the sink that posts rows to HTTP servers, webhooks among them: one by
// one or in batches, signed, with an idempotency key, in order per key.
//
// How it works, file by file:
//
//   - config.go: what a user can write, and the plan.
//   - layout.go: which part of a request comes from which expression; the URL.
//   - rows.go: a batch to requests as they are spooled; what can be none is bad.
//   - writer.go: the writer that spools (dataflow/spool).
//   - sender.go: lanes, each of which has one request under way; batches.
//   - post.go: one request, its answer and what becomes of it.
//
// Positions and what was delivered are kept by spool.NewCommitter. A receiver that
// honours the idempotency key has each row once: a request has the same key and body
// whenever it is sent, by whatever process.
//
// Start to read at [Config] and sender.Send.
package http

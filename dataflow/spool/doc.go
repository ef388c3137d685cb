// Package spool keeps what a sink has staged in files of this machine until its
// commit. Sinks whose target cannot take rows that nobody sees yet use it (Kafka,
// PostgreSQL, webhooks, MQTT): Prepare cuts a file, its part names that, and Commit
// reads it and sends the rows together with the positions. So a part outlives a
// transaction that the target gave up, a fenced producer and a target that is away
// for hours.
//
// A file holds chunks of rows, each with its length and checksum (see file.go). The
// bytes of a row are the sink's own. Files lie in a folder per sink and are removed
// when the commit that holds them is done (see [Sweep]); what a crash leaves without
// a part is removed with the next commit or the next start.
//
// Sinks whose target can hold no positions are a [Sender] to [NewCommitter], which keeps
// positions, progress and refused rows beside the staged ones (ledger.go, deliver.go,
// refused.go).
//
// Start to read at [Writer].
package spool

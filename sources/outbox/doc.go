// Package outbox is the source that reads transactional outboxes: tables into which an
// application writes its events, in the transaction that makes them true.
//
// PostgreSQL is read by logical replication: the rows that are there first, in the
// snapshot that belongs to the slot, then every committed insert in the order of
// commits.
//
// How it works, file by file:
//
//   - config.go: what a user can write, and the plan.
//   - rows.go: the columns of an outbox row to Arrow.
//   - position.go: how far a split is read.
//   - pg_connect.go: connections, and what errors of the server mean.
//   - pg_slot.go: slot and publication: made, checked, and what is wrong with them.
//   - pg_snapshot.go: the rows that were there before the slot.
//   - pg_stream.go: the goroutine that owns the replication connection.
//   - pg_message.go: the messages of pgoutput.
//   - pg_cleanup.go: what becomes of rows that were relayed.
//   - pg_read.go: messages to rows, and how far that leads.
//   - pg_source.go: Poll, Ack and the rest of a source.
//
// Three things are easily got wrong. A slot that is confirmed further than what is
// committed in the targets loses rows: it is told exactly the position of the last Ack,
// and nothing in between. A slot that is not confirmed keeps the database's log for
// ever: where nothing of interest happens, the position moves with the server's
// keep-alives. And a snapshot cannot be read twice: all of it is one epoch, and where
// that failed, slot and snapshot are made anew.
//
// Start to read at [Config] and pgSource.Poll.
package outbox

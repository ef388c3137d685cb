// Package outbox is the source that reads transactional outboxes: tables into which an
// application writes its events, in the transaction that makes them true.
//
// PostgreSQL is read by logical replication: the rows that are there first, in the
// snapshot that belongs to the slot, then every committed insert in the order of
// commits. Or it is polled, as MySQL and MariaDB are: by queries for what was not read,
// which are told so that a row that is committed late is not lost.
//
// How it works, file by file:
//
//   - config.go: what a user can write, and the plan.
//   - rows.go: the columns of an outbox row to Arrow.
//   - position.go: how far the log is read.
//   - pg_connect.go: connections, and what errors of the server mean.
//   - pg_slot.go: slot and publication: made, checked, and what is wrong with them.
//   - pg_snapshot.go: the rows that were there before the slot.
//   - pg_stream.go: the goroutine that owns the replication connection.
//   - pg_message.go: the messages of pgoutput.
//   - pg_read.go: messages to rows, and how far that leads.
//   - pg_source.go: Poll, Ack and the rest of the source of the log.
//   - pg_watch.go: what the server keeps for the slot.
//   - poll.go: Poll, Ack and the rest of a source that polls, in rounds.
//   - poll_position.go, spans.go: what a table that is polled was read of.
//   - pg_poll.go: rounds of PostgreSQL, by the numbers of transactions.
//   - my_poll.go: rounds of MySQL and MariaDB, by the numbers of rows.
//   - my_connect.go: connections of those, and what errors of the server mean.
//   - cleanup.go: what becomes of rows that were relayed; pg_cleanup.go, my_cleanup.go.
//   - partitions.go: whole partitions of them; pg_partitions.go, my_partitions.go.
//   - pg_outside.go, my_outside.go: what the commands look at, make and remove.
//
// Some things are easily got wrong. A slot that is confirmed further than what is
// committed in the targets loses rows: it is told exactly the position of the last Ack,
// and nothing in between. A slot that is not confirmed keeps the database's log for
// ever: where nothing of interest happens, the position moves with the server's
// keep-alives. A snapshot of a slot cannot be read twice: all of it is one epoch, and where
// that failed, slot and snapshot are made anew. And of a poll it is not enough to know what
// is there: it must be known what may still come below it: which transactions and
// statements are under way is asked before the rows are, never after.
//
// Start to read at [Config], pgSource.Poll and poller.Poll.
package outbox

// Package postgres is the sink that writes rows to a table of PostgreSQL, in one
// transaction per commit together with the pipeline's positions: appended, or put by
// their key.
//
// How it works, file by file:
//
//   - config.go: what a user can write, and the plan.
//   - connect.go: connections, and what errors of the server mean.
//   - table.go: the table as the database describes it, made where that is asked for.
//   - fit.go: which column of ours fits which of the table's, checked before rows come.
//   - encode.go: values as PostgreSQL's COPY takes them in binary form.
//   - rows.go: a batch to rows of COPY; what the table can never take is bad.
//   - writer.go: the writer that spools (dataflow/spool).
//   - committer.go: the transaction of rows and positions, claims.
//   - positions.go: our tables, for the positions and for rows that are refused.
//   - copy.go: rows from the spool to the server.
//   - stage.go: rows by way of a temporary table: by key, and one by one where the
//     table refuses some.
//
// An answer that was lost, a server that was killed and a process that was, all end
// alike: the next commit locks the row of the positions, which waits for a transaction
// that is still under way, and what stands there says whether the rows are in the
// table.
//
// Start to read at [Config] and committer.Commit.
package postgres

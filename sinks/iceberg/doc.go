// Package iceberg is the sink that appends to Apache Iceberg tables, and the
// connection "iceberg_catalog" that says where the tables are known.
//
// Delivery is exactly once. Writers put rows into Parquet files under the
// table's data location, where no reader sees them, and describe them in a
// Part. The Committer adds the files of an epoch to the table in one
// transaction together with the source positions they cover (a table property),
// and only if the table still holds the positions that the epoch started from.
// A conflict is answered by loading the table anew, comparing again and adding
// the same files; an answer that was lost is answered by looking. A file is
// deleted only while no Part has ever named it.
//
// It does not write updates or deletes, evolve schemas or compact. Start to
// read at [Writer] and [Committer].
package iceberg

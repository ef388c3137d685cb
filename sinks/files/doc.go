// Package files is the sink "files": rows as JSON lines in a folder, published
// exactly once. It is the smallest sink with a [dataflow.Committer] and needs
// nothing but a file system with hard links. Start to read at [Config].
//
// # Layout
//
//	PATH/NNNNNNNNNNNNNNNNNNNN-FFFF.ndjson   published rows: commit N, file F
//	PATH/_frazil/NNNNNNNNNNNNNNNNNNNN.json  commit N: positions and files
//	PATH/_frazil/table.json                 the folder's identity
//	PATH/.frazil/*.staged                   rows that are not published
//
// # Protocol
//
// A writer writes rows to .frazil and syncs them; the part names the files. The
// committer writes the whole commit record to a file in .frazil, syncs it, and
// links it to the next free number in _frazil. A link fails if the name exists,
// so that one call is both the commit point and the compare-and-set: of two
// committers that read the same state one gets the number, and the other looks
// again and finds itself fenced (or done). The number belongs to the folder;
// epochs belong to a state directory and would not do, since two copies of it
// count the same epochs.
//
// Then the rows are renamed to their published names. Whoever next reads a
// commit record finishes renames that a crash left open, and nobody writes
// commit N+1 before those of commit N are done and synced; so only the newest
// commit can have any.
//
// A reader of *.ndjson sees committed rows only, each once; while a commit is
// being renamed it may see some of its files and not yet others. A reader that
// wants whole commits takes the list of files from _frazil.
//
// Commit records are never deleted: they are the list of files. Files in
// .frazil that no commit names stay after a crash, since a state directory may
// still name them; they may be deleted by hand once the pipeline has run again.
package files

// Package wal is the write-ahead log of push sources: what a producer was told
// is safe stands here, synced, until the tables hold it.
//
// A [Log] holds the records of one stream in segments, files that are only ever
// appended to. One Append writes any number of frames with one write and one
// sync; the caller gathers what many producers wait for into one Append (group
// commit). Records are numbered by a sequence that starts at 1 and never goes
// back; frames are opaque to the log. Truncate removes whole segments once their
// records are committed.
//
// What is found on open is either recovered exactly or refused loudly: a torn
// tail, which no producer was told of, is left out; bytes that were synced once
// and are damaged or missing make Open fail with [ErrCorrupt]. The bytes are
// described in docs/wal-format.md.
//
// It knows nothing of sources, rows or pipelines. Start to read at [Log].
package wal

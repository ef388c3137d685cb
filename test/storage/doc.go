// Package storage runs whole pipelines, the real engine with its state and its
// write-ahead logs, on disks that fail: that forget what was not synced, give an
// error at one operation, lose what a sync that failed should have written, have
// no room. What stands outside of the process is simulated: sources that can be
// read again, a producer that knows what was acknowledged to it, and targets whose
// commits are atomic. However often the process ends and begins again, the rows
// must be those of a run in which nothing happened.
package storage

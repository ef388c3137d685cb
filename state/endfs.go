package state

import (
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// endFS ends the store where Pebble panics when the disk fails: a folder cannot be
// synced, or a file of its log cannot be begun, written, synced or closed. It does so
// before Pebble learns of it: some of those panics come where nobody can catch them,
// others with a lock in a state that ends the process without the reason.
type endFS struct {
	vfs.FS
	// log is where it is told; nil: the store is not open yet, and Pebble returns the
	// error.
	log atomic.Pointer[pebbleLogger]
}

// Unwrap implements vfs.FS.
func (e *endFS) Unwrap() vfs.FS { return e.FS }

func (e *endFS) end(what, name string, err error) error {
	if log := e.log.Load(); err != nil && log != nil {
		log.Fatalf("%s %s: %v", what, name, err)
	}
	return err
}

// OpenDir implements vfs.FS.
func (e *endFS) OpenDir(name string) (vfs.File, error) {
	f, err := e.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &endFile{f, e, name}, nil
}

// Create implements vfs.FS.
func (e *endFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := e.FS.Create(name, c)
	return e.logFile(name, f, err)
}

// ReuseForWrite implements vfs.FS.
func (e *endFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := e.FS.ReuseForWrite(from, to, c)
	return e.logFile(to, f, err)
}

func (e *endFS) logFile(name string, f vfs.File, err error) (vfs.File, error) {
	if !strings.HasSuffix(name, ".log") {
		return f, err
	}
	if err != nil {
		return nil, e.end("create", name, err)
	}
	return &endFile{f, e, name}, nil
}

// endFile is a folder or a file of the log.
type endFile struct {
	vfs.File
	fs   *endFS
	name string
}

// Write implements vfs.File.
func (f *endFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	return n, f.fs.end("write", f.name, err)
}

// Sync implements vfs.File.
func (f *endFile) Sync() error { return f.fs.end("sync", f.name, f.File.Sync()) }

// SyncData implements vfs.File.
func (f *endFile) SyncData() error { return f.fs.end("sync", f.name, f.File.SyncData()) }

// SyncTo implements vfs.File.
func (f *endFile) SyncTo(length int64) (fullSync bool, err error) {
	fullSync, err = f.File.SyncTo(length)
	return fullSync, f.fs.end("sync", f.name, err)
}

// Close implements vfs.File.
func (f *endFile) Close() error { return f.fs.end("close", f.name, f.File.Close()) }

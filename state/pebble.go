package state

import (
	"fmt"
	"log/slog"
	"runtime"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// pebbleFormat is at least FormatWALSyncChunks: from there on Pebble can tell a
// torn tail of its log from corruption. The one after it adds a checksum to the
// footers of tables.
const pebbleFormat = pebble.FormatTableFormatV6

// pebbleOptions are tuned for one synced batch per epoch: little memory when
// idle, one compaction at a time, filters for keys that are not there. A batch
// larger than half a memtable goes past it, straight into the log and a sorted
// run.
func pebbleOptions(fs vfs.FS, cache *pebble.Cache, log pebbleLogger) *pebble.Options {
	o := &pebble.Options{
		Cache:                       cache,
		FS:                          fs,
		FormatMajorVersion:          pebbleFormat,
		Logger:                      log,
		MemTableSize:                4 << 20,
		MemTableStopWritesThreshold: 4,
		MaxOpenFiles:                256,
		MaxManifestFileSize:         4 << 20,
		BytesPerSync:                1 << 20,
		WALBytesPerSync:             1 << 20,
		LBaseMaxBytes:               64 << 20,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       32,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 1 },
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].FilterType = pebble.TableFilter
		o.Levels[i].BlockSize = 16 << 10
		// Most of it is hashes and counters, which no compressor makes smaller;
		// trying cost a tenth of the processor time of a dedup.
		o.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
	}
	return o
}

// pebbleLogger passes Pebble's messages on. Fatalf is called when the store
// cannot go on (its log or the list of its files cannot be written or synced: the
// disk is full or gone) and must not return: a sync that failed is never tried
// again, since the system may have thrown away what it did not write. The state on
// disk is that of the last durable epoch, or of the one that was being written.
type pebbleLogger struct {
	log   *slog.Logger
	fatal func(reason string)
}

func (l pebbleLogger) Infof(format string, args ...any) {
	l.log.Debug("state store: " + fmt.Sprintf(format, args...))
}

func (l pebbleLogger) Errorf(format string, args ...any) {
	l.log.Warn("state store: " + fmt.Sprintf(format, args...))
}

func (l pebbleLogger) Fatalf(format string, args ...any) {
	reason := fmt.Sprintf(format, args...)
	l.log.Error("state store cannot go on; the last durable epoch is kept, and the next start goes on from it: " + reason)
	l.fatal(reason)
}

// guarded calls f, which writes by Pebble. An error for which Pebble has nothing
// but a panic (it could not begin the next file of its log) ends the store like
// those that it gives to Fatalf.
func (s *Store) guarded(f func() error) error {
	panicked, err := panicError(f)
	if panicked {
		s.opts.Logger.Fatalf("%v", err)
	}
	return err
}

// commit writes b, synced.
func (s *Store) commit(b *pebble.Batch) error {
	return s.guarded(func() error { return b.Commit(pebble.Sync) })
}

// openPebble is pebble.Open, whose panics are errors: nothing was promised yet.
func openPebble(dir string, o *pebble.Options) (db *pebble.DB, err error) {
	_, err = panicError(func() (err error) {
		db, err = pebble.Open(dir, o)
		return err
	})
	return db, err
}

// panicError calls f, and returns an error that it panics with.
func panicError(f func() error) (panicked bool, err error) {
	defer func() {
		r := recover()
		_, bug := r.(runtime.Error)
		switch e, ok := r.(error); {
		case r == nil:
		case ok && !bug:
			panicked, err = true, e
		default:
			panic(r)
		}
	}()
	return false, f()
}

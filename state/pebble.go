package state

import (
	"fmt"
	"log/slog"
	"os"

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
func pebbleOptions(fs vfs.FS, cache *pebble.Cache, log *slog.Logger) *pebble.Options {
	o := &pebble.Options{
		Cache:                       cache,
		FS:                          fs,
		FormatMajorVersion:          pebbleFormat,
		Logger:                      pebbleLogger{log},
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
// cannot go on (its log cannot be written: the disk is full or gone) and must
// not return; the state on disk is that of the last durable epoch.
type pebbleLogger struct{ log *slog.Logger }

func (l pebbleLogger) Infof(format string, args ...any) {
	l.log.Debug("state store: " + fmt.Sprintf(format, args...))
}

func (l pebbleLogger) Errorf(format string, args ...any) {
	l.log.Warn("state store: " + fmt.Sprintf(format, args...))
}

func (l pebbleLogger) Fatalf(format string, args ...any) {
	l.log.Error("state store cannot go on; the last durable epoch is kept: " + fmt.Sprintf(format, args...))
	os.Exit(1)
}

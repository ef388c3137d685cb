package state

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"frazil/dataflow/failpoint"

	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Many changes go to the disk as finished tables, which Pebble takes in all at
// once: a batch would be in memory twice, as itself and on its way into the log,
// and stay there until it is a table.

const (
	// tablesFrom is from how many bytes of changes on they go as tables.
	tablesFrom = 2 << 20
	// tableBytes is about the size of each.
	tableBytes = 8 << 20
	// tablePrefix begins the names of those that Pebble has not taken in yet.
	tablePrefix = "epoch-"
)

// writeTables does what Write does. Of each KV there is one delta at most.
func (s *Store) writeTables(deltas []*Delta, manifest []byte) (err error) {
	w := tableWriter{store: s}
	defer func() {
		if err != nil {
			w.abort()
		}
	}()
	if err := w.set(keyManifest, manifest); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	deltas = slices.Clone(deltas)
	slices.SortFunc(deltas, func(a, b *Delta) int {
		return cmp.Or(cmp.Compare(a.kv.id, b.kv.id), cmp.Compare(a.kv.groups.Lo, b.kv.groups.Lo))
	})
	for _, d := range deltas {
		for g, gl := range d.layer.groups {
			if gl == nil || d.bytes == 0 {
				continue
			}
			if err := w.group(d.kv.id, g, gl); err != nil {
				return fmt.Errorf("write state of step %q: %w", d.kv.step, err)
			}
		}
	}
	if err := w.finish(); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	if err := failpoint.Hit(failpoint.StateTables); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	if err := s.guarded(func() error { return s.db.Ingest(context.Background(), w.paths) }); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	return failpoint.Hit(failpoint.StateIngested)
}

// tableWriter writes keys in their order into tables.
type tableWriter struct {
	store  *Store
	paths  []string
	table  *sstable.Writer // nil between two tables
	bytes  int
	order  []recordOrder
	key    []byte
	lo, hi []byte
}

// recordOrder is a record with 16 bytes of its key, as numbers in the order of the
// bytes.
type recordOrder struct {
	first, second uint64
	n             uint32
}

func (w *tableWriter) open() error {
	if w.table != nil {
		return nil
	}
	if err := failpoint.Hit(failpoint.StateTable); err != nil {
		return err
	}
	s := w.store
	path := s.fs.PathJoin(s.dir, fmt.Sprintf("%s%d.tmp", tablePrefix, len(w.paths)))
	f, err := s.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	w.paths = append(w.paths, path)
	f = vfs.NewSyncingFile(f, vfs.SyncingFileOptions{BytesPerSync: 1 << 20})
	w.table = sstable.NewWriter(objstorageprovider.NewFileWritable(f), s.opts.MakeWriterOptions(0, s.db.TableFormat()))
	w.bytes = 0
	return nil
}

func (w *tableWriter) set(key, value []byte) error {
	if err := w.open(); err != nil {
		return err
	}
	w.bytes += len(key) + len(value)
	return w.table.Set(key, value)
}

// group writes the changes of a key group: its ranges, which are in order and do
// not touch, and its entries, which are all newer.
func (w *tableWriter) group(id uint32, g int, gl *groupLayer) error {
	if err := w.open(); err != nil {
		return err
	}
	for _, r := range gl.ranges {
		w.lo = append(appendStatePrefix(w.lo[:0], id, g), r.lo...)
		if r.hi == nil {
			w.hi = appendGroupEnd(w.hi[:0], id, g)
		} else {
			w.hi = append(appendStatePrefix(w.hi[:0], id, g), r.hi...)
		}
		if err := w.table.DeleteRange(w.lo, w.hi); err != nil {
			return err
		}
	}
	for _, o := range w.inOrder(gl) {
		w.key = append(appendStatePrefix(w.key[:0], id, g), gl.key(o.n)...)
		if e := gl.entry(o.n); !e.deleted {
			if err := w.set(w.key, e.value); err != nil {
				return err
			}
		} else if err := w.table.Delete(w.key); err != nil {
			return err
		}
	}
	if w.bytes >= tableBytes {
		return w.finish()
	}
	return nil
}

// inOrder returns the records that are not gone by their keys. The layer has a
// cache of that order, but it belongs to the goroutine of the KV.
func (w *tableWriter) inOrder(gl *groupLayer) []recordOrder {
	w.order = w.order[:0]
	for n := range gl.records {
		if gl.records[n].state == recordGone {
			continue
		}
		var p [16]byte
		copy(p[:], gl.key(uint32(n)))
		w.order = append(w.order, recordOrder{binary.BigEndian.Uint64(p[:]), binary.BigEndian.Uint64(p[8:]), uint32(n)})
	}
	slices.SortFunc(w.order, func(a, b recordOrder) int {
		if a.first != b.first {
			return cmp.Compare(a.first, b.first)
		}
		if a.second != b.second {
			return cmp.Compare(a.second, b.second)
		}
		return bytes.Compare(gl.key(a.n), gl.key(b.n))
	})
	return w.order
}

// finish makes the table at hand durable.
func (w *tableWriter) finish() error {
	if w.table == nil {
		return nil
	}
	err := w.table.Close()
	w.table = nil
	return err
}

func (w *tableWriter) abort() {
	_ = w.finish()
	for _, path := range w.paths {
		_ = w.store.fs.Remove(path)
	}
}

// removeTables removes tables that a crash has left behind, before Pebble took
// them in or after.
func removeTables(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, tablePrefix) {
			err = errors.Join(err, fs.Remove(fs.PathJoin(dir, name)))
		}
	}
	return err
}

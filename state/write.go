package state

import (
	"fmt"
	"maps"
	"slices"

	"frazil/dataflow/failpoint"

	"github.com/cockroachdb/pebble/v2"
)

// Write makes deltas and manifest durable at once: after a crash either all of it
// is there or nothing. Deltas of one KV must be handed over in
// the order of their Freezes, none left out. Afterwards the KVs have forgotten
// them. After an error nothing is forgotten and it is not known whether the
// batch is durable: Reset and read the manifest, or Close.
//
// It may run beside reads and writes of the KVs.
func (s *Store) Write(deltas []*Delta, manifest []byte) error {
	s.write.Lock()
	defer s.write.Unlock()
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	counts, err := inOrder(deltas)
	if err != nil {
		return err
	}
	write := s.writeBatch
	if largeWrite(deltas, s.tablesFrom) && !slices.ContainsFunc(slices.Collect(maps.Values(counts)), func(n int) bool { return n > 1 }) {
		write = s.writeTables
	}
	if err := write(deltas, manifest); err != nil {
		return err
	}
	for kv, n := range counts {
		kv.forget(n)
	}
	return nil
}

// largeWrite says whether deltas have at least so many bytes.
func largeWrite(deltas []*Delta, from int64) bool {
	var n int64
	for _, d := range deltas {
		n += d.bytes
	}
	return n >= from
}

// writeBatch writes deltas and manifest in one synced batch.
func (s *Store) writeBatch(deltas []*Delta, manifest []byte) error {
	b := s.db.NewBatchWithSize(batchSize(deltas, manifest))
	defer b.Close()
	for _, d := range deltas {
		if err := d.addTo(b); err != nil {
			return fmt.Errorf("write state of step %q: %w", d.kv.step, err)
		}
	}
	if err := b.Set(keyManifest, manifest, nil); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	if err := failpoint.Hit(failpoint.StateBatched); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	if err := s.commit(b); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	return failpoint.Hit(failpoint.StateSynced)
}

// inOrder checks that deltas are the oldest of their KVs and counts them per KV.
func inOrder(deltas []*Delta) (map[*TaskKV]int, error) {
	counts := map[*TaskKV]int{}
	for _, d := range deltas {
		if d.kv.stale.Load() {
			return nil, fmt.Errorf("write state of step %q: %w", d.kv.step, ErrStale)
		}
		if d.bytes == 0 {
			continue
		}
		n := counts[d.kv]
		if p := d.kv.pending(); n >= len(p) || p[n] != d {
			return nil, fmt.Errorf("write state of step %q: changes left out or written twice", d.kv.step)
		}
		counts[d.kv]++
	}
	return counts, nil
}

// batchOverhead is the most that an entry takes in a batch beside key and value:
// what it is, two lengths, and the prefix of the key.
const batchOverhead = 1 + 2*5 + statePrefixLen

// batchSize is what the batch will take, so that it is not moved while it grows
// and has no room to spare.
func batchSize(deltas []*Delta, manifest []byte) int {
	n := len(manifest) + 1024
	for _, d := range deltas {
		if d.bytes == 0 {
			continue // its layer is still the task's
		}
		for _, gl := range d.layer.groups {
			if gl == nil {
				continue
			}
			for _, r := range gl.ranges {
				n += len(r.lo) + len(r.hi) + 2*batchOverhead
			}
			for i := range gl.records {
				n += int(gl.records[i].keyLen+gl.records[i].valueLen) + batchOverhead
			}
		}
	}
	return min(n, 1<<30)
}

// addTo adds the changes: ranges first, since every entry is newer.
func (d *Delta) addTo(b *pebble.Batch) error {
	if d.bytes == 0 {
		return nil
	}
	var lo, hi []byte
	for g, gl := range d.layer.groups {
		if gl == nil {
			continue
		}
		for _, r := range gl.ranges {
			lo = append(appendStatePrefix(lo[:0], d.kv.id, g), r.lo...)
			if r.hi == nil {
				hi = appendGroupEnd(hi[:0], d.kv.id, g)
			} else {
				hi = append(appendStatePrefix(hi[:0], d.kv.id, g), r.hi...)
			}
			if err := b.DeleteRange(lo, hi, nil); err != nil {
				return err
			}
		}
		for n := range gl.records {
			if gl.records[n].state == recordGone {
				continue
			}
			if err := addEntry(b, d.kv.id, g, gl.key(uint32(n)), gl.entry(uint32(n))); err != nil {
				return err
			}
		}
	}
	return nil
}

func addEntry(b *pebble.Batch, id uint32, g int, key []byte, e entry) error {
	if e.deleted {
		op := b.DeleteDeferred(statePrefixLen + len(key))
		copy(appendStatePrefix(op.Key[:0], id, g)[statePrefixLen:statePrefixLen+len(key)], key)
		return op.Finish()
	}
	op := b.SetDeferred(statePrefixLen+len(key), len(e.value))
	copy(appendStatePrefix(op.Key[:0], id, g)[statePrefixLen:statePrefixLen+len(key)], key)
	copy(op.Value, e.value)
	return op.Finish()
}

package state

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// ErrStale is returned by a KV that a Reset or a newer KV of the same groups has
// replaced, and by Write for its changes.
var ErrStale = errors.New("this view of the state has been replaced")

// TaskKV is the KV of one step in one task. Reads go from what was changed since
// the last Freeze over the changes that are being written to Pebble. The
// methods of [KV] and Freeze belong to the goroutine of the task; DirtyBytes and
// FrozenBytes may be called from any.
type TaskKV struct {
	store  *Store
	step   string
	id     uint32
	groups Groups

	live    *layer
	scratch []byte // the full key of the Get at hand
	dirty   atomic.Int64
	stale   atomic.Bool

	mu struct {
		sync.Mutex
		frozen []*Delta // not yet written, oldest first; the slice is never changed in place
	}
}

// Delta is what one KV has changed between two Freezes. It is read-only.
type Delta struct {
	kv    *TaskKV
	layer *layer
	bytes int64
}

// Bytes estimates the memory that the changes hold.
func (d *Delta) Bytes() int64 { return d.bytes }

// Freeze cuts: the changes since the last Freeze become a Delta for
// [Store.Write]. It costs the same for any number of changes. Reads go on seeing
// them.
func (kv *TaskKV) Freeze() *Delta {
	d := &Delta{kv: kv, layer: kv.live}
	if !kv.live.changed {
		return d
	}
	kv.live = &layer{}
	kv.mu.Lock()
	defer kv.mu.Unlock()
	var older int64
	for _, f := range kv.mu.frozen {
		older += f.bytes
	}
	d.bytes = max(1, kv.dirty.Load()-older)
	kv.mu.frozen = append(kv.mu.frozen[:len(kv.mu.frozen):len(kv.mu.frozen)], d)
	return d
}

// DirtyBytes estimates the memory of all changes that are not yet durable,
// frozen or not.
func (kv *TaskKV) DirtyBytes() int64 { return kv.dirty.Load() }

// FrozenBytes is the part of DirtyBytes that a Freeze has cut off and no Write has
// made durable.
func (kv *TaskKV) FrozenBytes() int64 {
	var n int64
	for _, d := range kv.pending() {
		n += d.bytes
	}
	return n
}

// pending returns the frozen changes, oldest first.
func (kv *TaskKV) pending() []*Delta {
	kv.mu.Lock()
	defer kv.mu.Unlock()
	return kv.mu.frozen
}

// forget drops the n oldest frozen changes: they are in Pebble now. A reader
// that still holds the longer list reads the same values from it.
func (kv *TaskKV) forget(n int) {
	kv.mu.Lock()
	defer kv.mu.Unlock()
	for _, d := range kv.mu.frozen[:n] {
		kv.dirty.Add(-d.bytes)
	}
	kv.mu.frozen = kv.mu.frozen[n:]
}

func (kv *TaskKV) check(group int) error {
	if kv.stale.Load() {
		return fmt.Errorf("state of step %q: %w", kv.step, ErrStale)
	}
	if !kv.groups.Contains(group) {
		return fmt.Errorf("state of step %q: key group %d is outside of this task's groups %d to %d", kv.step, group, kv.groups.Lo, kv.groups.Hi-1)
	}
	return nil
}

// Get implements KV.
func (kv *TaskKV) Get(group int, key []byte) ([]byte, error) {
	if err := kv.check(group); err != nil {
		return nil, err
	}
	// The order matters: a change leaves the frozen list only after it is in
	// Pebble, so a key missed in the list read first is found there.
	frozen := kv.pending()
	e, found := kv.live.get(group, key)
	for i := len(frozen) - 1; i >= 0 && !found; i-- {
		e, found = frozen[i].layer.get(group, key)
	}
	if found {
		if e.deleted {
			return nil, ErrNotFound
		}
		return append(make([]byte, 0, len(e.value)), e.value...), nil
	}
	kv.scratch = append(appendStatePrefix(kv.scratch[:0], kv.id, group), key...)
	v, err := kv.store.get(kv.scratch)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("state of step %q: %w", kv.step, err)
	}
	return v, err
}

// Set implements KV.
func (kv *TaskKV) Set(group int, key, value []byte) error {
	if err := kv.check(group); err != nil {
		return err
	}
	kv.dirty.Add(kv.live.put(group, key, value, false))
	return nil
}

// Delete implements KV.
func (kv *TaskKV) Delete(group int, key []byte) error {
	if err := kv.check(group); err != nil {
		return err
	}
	kv.dirty.Add(kv.live.put(group, key, nil, true))
	return nil
}

// DeleteRange implements KV.
func (kv *TaskKV) DeleteRange(group int, lo, hi []byte) error {
	if err := kv.check(group); err != nil {
		return err
	}
	if hi != nil && view(lo) >= view(hi) {
		return nil
	}
	kv.dirty.Add(kv.live.deleteRange(group, lo, hi))
	return nil
}

var _ KV = (*TaskKV)(nil)

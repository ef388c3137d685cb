package operators

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"frazil/dataflow"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// The state of a window is one entry per window and key in the key's group. The
// bytes are a format (docs/state-format.md):
//
//	key   = 'w', start of the window (8 bytes, big endian, sign bit flipped),
//	        the canonical key (see keyEncoder)
//	value = 0x01, then the accumulators (see accLayout)
const (
	windowStatePrefix  = 'w'
	windowStateVersion = 1
)

// windowKeyed is the half of a window behind the exchange: it merges partial
// rows into the open windows and fires those that the watermark closes.
type windowKeyed struct {
	*windowShape
	env     *dataflow.Env
	layout  *accLayout
	results *windowResults
	wm      dataflow.Time
	open    []*openWindow // by start
	last    *openWindow   // where the last row went
	free    []*openWindow
	buf     []byte
}

// openWindow is a window that has not fired.
type openWindow struct {
	start  int64
	table  *state.Table
	heaps  []accHeap
	stored [state.NumGroups]bool // groups with entries in the KV
}

const (
	// windowsFree is how many fired windows are kept for their memory, unless
	// they have more than windowFreeBytes of it.
	windowsFree     = 4
	windowFreeBytes = 16 << 20
	// windowWarm is how many rows at once are looked up.
	windowWarm = 64
)

func newWindowKeyed(env *dataflow.Env, s *windowShape) (*windowKeyed, error) {
	w := &windowKeyed{windowShape: s, env: env, layout: newAccLayout(s.funcs), wm: dataflow.MinTime}
	var err error
	if w.results, err = newWindowResults(env, s, w.layout); err != nil {
		return nil, err
	}
	for g := env.Groups.Lo; g < env.Groups.Hi; g++ {
		if err := env.State.Scan(g, []byte{windowStatePrefix}, []byte{windowStatePrefix + 1}, func(key, value []byte) error {
			return w.restore(g, key[1:], value)
		}); err != nil {
			return nil, fmt.Errorf("restore windows of key group %d: %w", g, err)
		}
	}
	for _, o := range w.open {
		o.table.ClearDirty()
	}
	return w, nil
}

// restore takes in one entry; key is without its prefix.
func (w *windowKeyed) restore(group int, key, value []byte) error {
	if len(key) < 8 || len(value) < 1 || value[0] != windowStateVersion {
		return fmt.Errorf("entry %x is not one of a window of version %d", key, windowStateVersion)
	}
	o := w.window(int64(binary.BigEndian.Uint64(key) ^ 1<<63))
	o.stored[group] = true
	e, _ := o.table.Upsert(keyHash(key[8:]), key[8:])
	return w.layout.merge(o.table.Row(e), o.heaps, value[1:])
}

// window returns the open window from start on, opening it if there is none.
func (w *windowKeyed) window(start int64) *openWindow {
	if w.last != nil && w.last.start == start {
		return w.last
	}
	i, ok := slices.BinarySearchFunc(w.open, start, func(o *openWindow, start int64) int {
		switch {
		case o.start < start:
			return -1
		case o.start > start:
			return 1
		}
		return 0
	})
	if !ok {
		w.open = slices.Insert(w.open, i, w.newWindow(start))
	}
	w.last = w.open[i]
	return w.last
}

func (w *windowKeyed) newWindow(start int64) *openWindow {
	if n := len(w.free); n > 0 {
		o := w.free[n-1]
		w.free = w.free[:n-1]
		o.start = start
		return o
	}
	return &openWindow{start: start, table: state.NewTable(w.layout.stride), heaps: w.layout.newHeaps()}
}

// recycle keeps the memory of a fired window for another.
func (w *windowKeyed) recycle(o *openWindow) {
	w.last = nil
	if len(w.free) == windowsFree || o.table.Bytes() > windowFreeBytes {
		return
	}
	o.table.Reset()
	for h := range o.heaps {
		o.heaps[h].reset()
	}
	o.stored = [state.NumGroups]bool{}
	w.free = append(w.free, o)
}

// errWindowFired is a broken promise of an input: rows are judged late by their
// own stamp, and no stamp is behind the watermark.
var errWindowFired = errors.New("row for a window that has fired")

// Process implements dataflow.Operator.
func (w *windowKeyed) Process(_ context.Context, _ int, b arrow.RecordBatch, _ dataflow.Emitter) error {
	hashes := b.Column(0).(*array.Uint64).Uint64Values()
	keys, accs := b.Column(1).(*array.Binary), b.Column(3).(*array.Binary)
	for i, start := range b.Column(2).(*array.Int64).Int64Values() {
		if w.last == nil || w.last.start != start {
			if due := w.due(start); due <= int64(w.wm) {
				return fmt.Errorf("%w: it closed at %s, the watermark is %s", errWindowFired, dataflow.Time(due), w.wm)
			}
		}
		o := w.window(start)
		if i%windowWarm == 0 {
			o.table.Warm(hashes[i:min(i+windowWarm, len(hashes))])
		}
		e, _ := o.table.Upsert(hashes[i], keys.Value(i))
		if err := w.layout.merge(o.table.Row(e), o.heaps, accs.Value(i)); err != nil {
			return fmt.Errorf("merge a partial row: %w", err)
		}
	}
	return nil
}

// OnWatermark implements dataflow.WatermarkHandler: windows fire in the order
// of their ends. A drained source closes windows that its rows would have left
// open; Closed remembers it, so that rows which come for them in a later run are
// late.
func (w *windowKeyed) OnWatermark(ctx context.Context, wm dataflow.Time, out dataflow.Emitter) error {
	w.wm = wm
	for len(w.open) > 0 {
		o := w.open[0]
		due := w.due(o.start)
		if due > int64(wm) {
			return nil
		}
		if err := w.results.emit(ctx, o, out); err != nil {
			return err
		}
		if err := w.forget(o); err != nil {
			return err
		}
		if wm == dataflow.MaxTime && w.env.Closed != nil {
			w.env.Closed.Raise(dataflow.Time(due))
		}
		w.open = slices.Delete(w.open, 0, 1)
		w.recycle(o)
	}
	return nil
}

// forget removes a fired window from the state.
func (w *windowKeyed) forget(o *openWindow) error {
	lo, hi := appendWindowStart([]byte{windowStatePrefix}, o.start), appendWindowStart([]byte{windowStatePrefix}, o.start+1)
	for g, stored := range o.stored {
		if !stored {
			continue
		}
		if err := w.env.State.DeleteRange(g, lo, hi); err != nil {
			return fmt.Errorf("remove a fired window from key group %d: %w", g, err)
		}
	}
	return nil
}

func appendWindowStart(dst []byte, start int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(start)^1<<63)
}

// OnBarrier implements dataflow.BarrierHandler.
func (w *windowKeyed) OnBarrier(context.Context, dataflow.Epoch, dataflow.Emitter) error {
	for _, o := range w.open {
		if err := w.store(o); err != nil {
			return err
		}
	}
	return nil
}

// store writes the changed entries of a window.
func (w *windowKeyed) store(o *openWindow) error {
	err := o.table.Dirty(func(e state.Entry) error {
		group := state.GroupOf(o.table.Hash(e))
		o.stored[group] = true
		w.buf = append(appendWindowStart(append(w.buf[:0], windowStatePrefix), o.start), o.table.Key(e)...)
		n := len(w.buf)
		w.buf = w.layout.encode(append(w.buf, windowStateVersion), o.table.Row(e), o.heaps)
		return w.env.State.Set(group, w.buf[:n], w.buf[n:])
	})
	if err != nil {
		return fmt.Errorf("store the window of %s: %w", dataflow.Time(o.start), err)
	}
	o.table.ClearDirty()
	return nil
}

// Close implements dataflow.Operator.
func (w *windowKeyed) Close() error {
	w.results.release()
	return nil
}

var (
	_ dataflow.Operator         = (*windowKeyed)(nil)
	_ dataflow.WatermarkHandler = (*windowKeyed)(nil)
	_ dataflow.BarrierHandler   = (*windowKeyed)(nil)
)

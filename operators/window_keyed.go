package operators

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"frazil/dataflow"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// windowKeyed is the half of a window behind the exchange: it merges partial
// rows into panes and fires the windows that the watermark closes.
type windowKeyed struct {
	*windowShape
	env     *dataflow.Env
	layout  *accLayout
	results *windowResults
	wm      dataflow.Time
	open    []*windowPane // none of whose windows has fired, by first and start
	last    *windowPane   // where the last row went
	free    []*windowPane
	buf     []byte
	values  *state.Log // the distinct values, nil without any

	// Where windows share panes: the panes of windows that have fired and of the
	// next, and the end of the last window that fired.
	sliding            *windowSliding
	fired, firedStored int64
}

const (
	// windowsFree is how many fired panes are kept for their memory, unless they
	// have more than windowFreeBytes of it.
	windowsFree     = 4
	windowFreeBytes = 16 << 20
	// windowWarm is how many rows at once are looked up.
	windowWarm = 64
)

func newWindowKeyed(env *dataflow.Env, s *windowShape) (*windowKeyed, error) {
	layout := newAccLayout(s.funcs)
	w := &windowKeyed{windowShape: s, env: env, layout: layout, wm: dataflow.MinTime, last: noPane, fired: int64(dataflow.MinTime)}
	if !s.single {
		w.sliding = newWindowSliding(layout)
	}
	var err error
	if w.results, err = newWindowResults(env, s, layout); err != nil {
		return nil, err
	}
	if err := w.openValues(); err != nil {
		return nil, err
	}
	for g := env.Groups.Lo; g < env.Groups.Hi; g++ {
		if err := w.restore(g); err != nil {
			return nil, fmt.Errorf("restore windows of key group %d: %w", g, err)
		}
	}
	w.firedStored = w.fired
	for _, p := range w.open {
		p.table.ClearDirty()
		if p.distinct != nil {
			p.distinct.clean()
		}
	}
	for len(w.open) > 0 && w.open[0].first <= w.fired {
		w.enter()
	}
	return w, nil
}

// noPane stands for no pane: no row lies in it.
var noPane = &windowPane{start: int64(dataflow.MaxTime)}

// pane returns the open pane from start on whose rows count in the windows from
// first on, opening it if there is none.
func (w *windowKeyed) pane(start, first int64) *windowPane {
	if w.last.start == start && w.last.first == first {
		return w.last
	}
	i, ok := slices.BinarySearchFunc(w.open, start, func(p *windowPane, start int64) int {
		if c := cmp.Compare(p.first, first); c != 0 {
			return c
		}
		return cmp.Compare(p.start, start)
	})
	if !ok {
		w.open = slices.Insert(w.open, i, w.newPane(start, first))
	}
	w.last = w.open[i]
	return w.last
}

func (w *windowKeyed) newPane(start, first int64) *windowPane {
	if n := len(w.free); n > 0 {
		p := w.free[n-1]
		w.free = w.free[:n-1]
		p.start, p.first = start, first
		return p
	}
	return &windowPane{start: start, first: first, table: state.NewTable(w.layout.stride), heaps: w.layout.newHeaps(), distinct: w.newDistinctTable()}
}

// recycle keeps the memory of a pane for another.
func (w *windowKeyed) recycle(p *windowPane) {
	w.last = noPane
	size := p.table.Bytes() + 8*int64(cap(p.saved))
	if p.distinct != nil {
		size += p.distinct.Bytes()
	}
	if len(w.free) == windowsFree || size > windowFreeBytes {
		return
	}
	p.table.Reset()
	for h := range p.heaps {
		p.heaps[h].reset()
	}
	if p.distinct != nil {
		p.distinct.reset()
	}
	p.stored = [state.NumGroups]bool{}
	w.free = append(w.free, p)
}

// errWindowFired is a broken promise of an input: rows are judged late by their
// own stamp, and no stamp is behind the watermark.
var errWindowFired = errors.New("row for a window that has fired")

// Process implements dataflow.Operator.
func (w *windowKeyed) Process(_ context.Context, _ int, b arrow.RecordBatch, _ dataflow.Emitter) error {
	hashes := b.Column(0).(*array.Uint64).Uint64Values()
	keys, accs := b.Column(1).(*array.Binary), b.Column(3).(*array.Binary)
	var firsts []int64
	if !w.single {
		firsts = b.Column(4).(*array.Int64).Int64Values()
	}
	var values *array.Binary
	if len(w.distinct) > 0 {
		values = b.Column(int(b.NumCols()) - 1).(*array.Binary)
	}
	for i, start := range b.Column(2).(*array.Int64).Int64Values() {
		p := w.last
		if p.start != start || firsts != nil && p.first != firsts[i] {
			first := int64(0)
			if firsts == nil {
				first = w.windows.first(start)
			} else {
				first = firsts[i]
			}
			if due := w.due(first); due <= int64(w.wm) {
				return fmt.Errorf("%w: it closed at %s, the watermark is %s", errWindowFired, dataflow.Time(due), w.wm)
			}
			p = w.pane(start, first)
		}
		if i%windowWarm == 0 {
			p.table.Warm(hashes[i:min(i+windowWarm, len(hashes))])
		}
		e, _ := p.table.Upsert(hashes[i], keys.Value(i))
		if err := w.layout.merge(p.table.Row(e), p.heaps, accs.Value(i)); err != nil {
			return fmt.Errorf("merge a partial row: %w", err)
		}
		if values != nil {
			if err := p.distinct.add(hashes[i], keys.Value(i), values.Value(i), nil); err != nil {
				return fmt.Errorf("merge a partial row: %w", err)
			}
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
	for {
		end, ok := w.nextEnd()
		due := w.due(end)
		if !ok || due > int64(wm) {
			return nil
		}
		var err error
		if w.single {
			err = w.firePane(ctx, out)
		} else {
			err = w.fire(ctx, end, out)
		}
		if err != nil {
			return err
		}
		if wm == dataflow.MaxTime && w.env.Closed != nil {
			w.env.Closed.Raise(dataflow.Time(due))
		}
	}
}

// nextEnd is the end of the next window with rows.
func (w *windowKeyed) nextEnd() (end int64, ok bool) {
	switch {
	case w.sliding != nil && !w.sliding.empty():
		return w.windows.next(w.fired), true
	case len(w.open) > 0:
		return w.open[0].first, true
	}
	return 0, false
}

// firePane fires a window that is one pane.
func (w *windowKeyed) firePane(ctx context.Context, out dataflow.Emitter) error {
	p := w.open[0]
	if err := w.results.pane(ctx, p, out); err != nil {
		return err
	}
	if err := errors.Join(w.forget(p), w.expireValues(p.start+1)); err != nil {
		return err
	}
	w.open = slices.Delete(w.open, 0, 1)
	w.recycle(p)
	return nil
}

// fire fires the window that ends at end, and lets go of the panes that are not
// in the next one.
func (w *windowKeyed) fire(ctx context.Context, end int64, out dataflow.Emitter) error {
	for len(w.open) > 0 && w.open[0].first == end {
		w.enter()
	}
	s := w.sliding
	if err := w.results.emit(ctx, windowFired{w.windows.start(end), end, s.entries(), s.table, s.heaps, s, slices.Concat(s.front, s.back)}, out); err != nil {
		return err
	}
	w.fired = end
	from := w.windows.start(w.windows.next(end))
	for _, p := range s.leave(from) {
		if err := w.forget(p); err != nil {
			return err
		}
		w.recycle(p)
	}
	return w.expireValues(from)
}

// enter puts the first of the open panes into the window that fires next.
func (w *windowKeyed) enter() {
	w.sliding.enter(w.open[0])
	w.open = slices.Delete(w.open, 0, 1)
	w.last = noPane
}

// OnBarrier implements dataflow.BarrierHandler.
func (w *windowKeyed) OnBarrier(context.Context, dataflow.Epoch, dataflow.Emitter) error {
	panes := w.open
	if w.sliding != nil {
		panes = slices.Concat(w.open, w.sliding.front, w.sliding.back)
	}
	for _, p := range panes {
		if err := w.store(p); err != nil {
			return err
		}
	}
	return errors.Join(w.flushValues(), w.storeFired())
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

package operators

import (
	"context"
	"fmt"
	"slices"

	"frazil/dataflow"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// windowOrdered is the half of an ordered window behind the exchange, inside
// [inStampOrder]: it gets rows in the order of their stamps and gives, before
// each row, what is due at the row's stamp.
//
// Which window a row belongs to is decided row by row; its values are added to
// the accumulators later, for as many rows at once as can be: before a window is
// looked at (segment), and at the end of the batch.
type windowOrdered struct {
	*orderedShape
	env     *dataflow.Env
	layout  *accLayout
	store   *orderedStore
	feed    *aggregateFeed
	timers  orderedTimers
	clock   orderedClock
	cold    orderedCold
	results *orderedResults
	late    *orderedLate
	buf     []byte

	// now is the greatest stamp or watermark so far: what is due at it was given.
	now    int64
	closed int64 // Env.Closed as the run began: other tasks raise it while they drain
	drains bool  // the input has ended, and what is due then closes windows
	// emptied are the key groups whose windows all close now, as the input has
	// ended: their entries go together.
	ends    bool
	emptied [state.NumGroups]bool
	// Of the call at hand.
	ctx context.Context
	out dataflow.Emitter

	// Of the batch at hand; rows before added are in the accumulators, the others
	// wait in layers: the windows of each row, 0 for none.
	batch   arrow.RecordBatch
	args    []arrow.Array
	hashes  []uint64
	keys    *array.Binary
	times   []int64
	stamps  []int64
	layers  [][]uint32
	added   int
	segment uint32
	touched []uint32 // the windows of the row at hand
}

func newWindowOrderedKeyed(env *dataflow.Env, s *orderedShape) (*windowOrdered, error) {
	w := &windowOrdered{
		orderedShape: s, env: env, layout: newAccLayout(s.funcs),
		now: int64(dataflow.MinTime), closed: int64(env.Closed.Get()), segment: 1, late: newOrderedLate(env, s),
	}
	// Rows have their system columns where the exchange has them.
	behind := *s.aggregateSet
	behind.schema = s.exchange
	w.feed = behind.newFeed(env)
	w.store = newOrderedStore(w.layout, s.changelog)
	w.store.distinct = newOrderedDistinct(w.feed.aggregateSet, w.store)
	w.timers.store = w.store
	w.clock = orderedClock{store: w.store, after: s.earlyAfter.Microseconds()}
	w.cold.init(env.Memory, s.gap+s.keep)
	var err error
	if w.results, err = newOrderedResults(env, s, w.layout); err != nil {
		return nil, err
	}
	if err := w.restore(); err != nil {
		w.results.release()
		return nil, err
	}
	return w, nil
}

// Process implements dataflow.Operator.
func (w *windowOrdered) Process(ctx context.Context, _ int, b arrow.RecordBatch, out dataflow.Emitter) error {
	w.ctx, w.out = ctx, out
	w.bind(b)
	for i := range w.hashes {
		if s := w.stamps[i]; s > w.now {
			if err := w.advance(s, i); err != nil {
				return err
			}
		}
		if err := w.row(i); err != nil {
			return err
		}
	}
	if err := w.add(len(w.hashes)); err != nil {
		return err
	}
	if err := w.shrink(); err != nil {
		return err
	}
	late := int64(len(w.late.rows))
	w.env.Fates.Late.Add(late)
	w.env.Fates.Absorbed.Add(b.NumRows() - late)
	if err := w.late.flush(ctx, b, out); err != nil {
		return err
	}
	return w.end()
}

// end gives what the clock asks for and sends the results of the call.
func (w *windowOrdered) end() error {
	if err := w.giveByClock(); err != nil {
		return err
	}
	w.store.packHeaps()
	return w.results.flush(w.ctx, w.out)
}

func (w *windowOrdered) bind(b arrow.RecordBatch) {
	c := &w.cols
	w.batch, w.added = b, 0
	w.hashes = b.Column(c.hash).(*array.Uint64).Uint64Values()
	w.keys = b.Column(c.key).(*array.Binary)
	w.times = b.Column(c.time).(*array.Int64).Int64Values()
	w.stamps = b.Column(c.stamp).(*array.Int64).Int64Values()
	w.args = b.Columns()[c.args : c.args+len(w.exprs)]
	w.late.bind(b)
	w.layers = w.layers[:0]
	w.layer(0)
	w.clock.read(w.env)
}

// layer returns the i-th windows of all rows of the batch.
func (w *windowOrdered) layer(i int) []uint32 {
	if i == len(w.layers) {
		if cap(w.layers) > i {
			w.layers = w.layers[:i+1]
		} else {
			w.layers = append(w.layers, nil)
		}
		n := len(w.hashes)
		w.layers[i] = slices.Grow(w.layers[i][:0], n)[:n]
		clear(w.layers[i])
	}
	return w.layers[i]
}

// put says that row i belongs to a window, its layer-th.
func (w *windowOrdered) put(i, layer int, id uint32) {
	w.layer(layer)[i] = id
	x := &w.store.windows[id]
	x.segment = w.segment
	x.rows++
	w.store.touch(x.key)
}

// add adds the rows before row to that wait to their accumulators.
func (w *windowOrdered) add(to int) error {
	from := w.added
	if from == to {
		return nil
	}
	w.added = to
	w.segment++
	if from == 0 && to == len(w.hashes) {
		w.feed.bindArgs(w.args, w.batch)
	} else {
		part := w.batch.NewSlice(int64(from), int64(to))
		defer part.Release()
		w.feed.bindArgs(part.Columns()[w.cols.args:w.cols.args+len(w.exprs)], part)
	}
	defer w.feed.unbind()
	for _, ids := range w.layers {
		w.feed.update(w.layout, w.store.accs, w.store.heaps, ids[from:to])
	}
	if w.store.distinct != nil {
		return w.store.distinct.add(w.feed, w.layers, from, to)
	}
	return nil
}

// settle adds the waiting rows before row i if a window has some of them.
func (w *windowOrdered) settle(i int, id uint32) error {
	if w.store.windows[id].segment != w.segment {
		return nil
	}
	return w.add(i)
}

// advance gives what is due up to a time, at row i of the batch at hand.
func (w *windowOrdered) advance(to int64, i int) error {
	w.now = to
	if w.cold.first <= to {
		if err := w.advanceCold(to, i); err != nil {
			return err
		}
	}
	return w.advanceHot(to, i)
}

// advanceCold is advance where groups that are not in memory are due, one key
// group after the other.
func (w *windowOrdered) advanceCold(to int64, i int) error {
	w.cold.first = orderedNever
	for g := w.env.Groups.Lo; g < w.env.Groups.Hi; g++ {
		if w.cold.next[g] <= to {
			if err := w.wake(g, to); err != nil {
				return err
			}
			if err := w.advanceHot(to, i); err != nil {
				return err
			}
		}
		w.cold.first = min(w.cold.first, w.cold.next[g])
	}
	return nil
}

func (w *windowOrdered) advanceHot(to int64, i int) error {
	for {
		t, ok := w.timers.due(to)
		if !ok {
			return nil
		}
		at := w.due(&w.store.windows[t.id])
		if at > t.at {
			w.timers.set(at, t.id)
			continue
		}
		if err := w.settle(i, t.id); err != nil {
			return err
		}
		if err := w.timeout(t.id, at); err != nil {
			return err
		}
	}
}

// due is when something happens to a window next.
func (w *windowOrdered) due(x *orderedWindow) int64 {
	if w.updates && x.marks&orderedFired == 0 {
		return x.end
	}
	return x.end + w.keep
}

// timeout does what is due at a time for a window.
func (w *windowOrdered) timeout(id uint32, at int64) error {
	x := &w.store.windows[id]
	stamp := at - 1 - w.keep
	if w.drains {
		w.env.Closed.Raise(dataflow.Time(x.end + w.keep))
	}
	if !w.updates {
		if err := w.give(id, timingOnTime, stamp); err != nil {
			return err
		}
		return w.drop(id)
	}
	if x.marks&orderedFired == 0 {
		x.marks |= orderedFired
		w.store.touch(x.key)
		if !w.discarding || x.rows > 0 {
			if err := w.give(id, timingOnTime, stamp); err != nil {
				return err
			}
		}
		if x = &w.store.windows[id]; w.keep > 0 {
			w.timers.set(w.due(x), id)
			return nil
		}
	}
	return w.drop(id)
}

// rowStamp is the stamp of a result that the row at hand made.
func (w *windowOrdered) rowStamp() int64 {
	if w.now == int64(dataflow.MinTime) {
		return w.now
	}
	return w.now - w.keep
}

// give gives the result of a window as it is now. Its rows were added.
func (w *windowOrdered) give(id uint32, timing orderedTiming, stamp int64) error {
	s := w.store
	x := &s.windows[id]
	x.rows, x.since = 0, 0
	s.touch(x.key)
	r := orderedResult{
		key: s.key(x.key), start: x.start, end: x.end, timing: timing,
		acc: s.row(s.accs, id), heaps: s.heaps, stamp: stamp, op: dataflow.OpInsert,
	}
	if !w.changelog {
		if _, err := w.results.add(&r); err != nil {
			return err
		}
		if w.discarding {
			s.empty(id)
		}
		return w.full()
	}
	before := -1
	if x.marks&orderedShows != 0 {
		op := dataflow.OpDelete
		if s.shown[id].start == x.start && s.shown[id].end == x.end {
			op, r.op, before = dataflow.OpUpdateBefore, dataflow.OpUpdateAfter, len(w.results.ops)
		}
		if err := w.takeBack(id, op, stamp); err != nil {
			return err
		}
	}
	ok, err := w.results.add(&r)
	if err != nil {
		return err
	}
	if ok {
		s.show(id, timing)
	} else if before >= 0 {
		// The new row leaves by "bad", so the old one has no successor.
		w.results.ops[before] = uint8(dataflow.OpDelete)
	}
	return w.full()
}

// takeBack takes the result that a window has given out of the changelog.
func (w *windowOrdered) takeBack(id uint32, op dataflow.Op, stamp int64) error {
	s := w.store
	shown := &s.shown[id]
	_, err := w.results.add(&orderedResult{
		key: s.key(s.windows[id].key), start: shown.start, end: shown.end, timing: shown.timing,
		acc: s.row(s.shownAccs, id), heaps: s.heaps, stamp: stamp, op: op,
	})
	s.windows[id].marks &^= orderedShows
	return err
}

// full sends results on when there are many.
func (w *windowOrdered) full() error {
	if w.results.n < windowResultRows {
		return nil
	}
	return w.results.flush(w.ctx, w.out)
}

// drop forgets a window, and its key with the last one.
func (w *windowOrdered) drop(id uint32) error {
	s := w.store
	k := s.windows[id].key
	s.unlink(id)
	s.release(id)
	s.touch(k)
	if s.keys[k].first != 0 {
		return nil
	}
	switch stored := s.keys[k].marks&orderedKeyStored != 0; {
	case stored && w.ends:
		w.emptied[state.GroupOf(s.keys[k].hash)] = true
	case stored:
		if err := w.forgetKey(k); err != nil {
			return err
		}
	}
	s.forget(k)
	return nil
}

// forgetGroups removes the entries of the key groups that were emptied.
func (w *windowOrdered) forgetGroups() error {
	for g, emptied := range w.emptied {
		if !emptied {
			continue
		}
		w.emptied[g] = false
		if err := w.env.State.DeleteRange(g, []byte{orderedStatePrefix}, []byte{orderedStatePrefix + 1}); err != nil {
			return fmt.Errorf("remove the windows of key group %d: %w", g, err)
		}
	}
	return nil
}

// OnWatermark implements dataflow.WatermarkHandler. A drained source closes
// windows that its rows would have left open; Closed remembers it, so that rows
// which come for them in a later run are late.
func (w *windowOrdered) OnWatermark(ctx context.Context, wm dataflow.Time, out dataflow.Emitter) error {
	w.ctx, w.out = ctx, out
	if int64(wm) < w.now {
		return w.end()
	}
	w.ends = wm == dataflow.MaxTime
	w.drains = w.ends && w.kind != orderedCount && w.env.Closed != nil
	if err := w.advance(int64(wm), 0); err != nil {
		return err
	}
	if err := w.forgetGroups(); err != nil {
		return err
	}
	if err := w.shrink(); err != nil {
		return err
	}
	return w.end()
}

// OnBarrier implements dataflow.BarrierHandler.
func (w *windowOrdered) OnBarrier(ctx context.Context, _ dataflow.Epoch, out dataflow.Emitter) error {
	w.ctx, w.out = ctx, out
	if err := w.end(); err != nil {
		return err
	}
	if err := w.save(); err != nil {
		return fmt.Errorf("store windows: %w", err)
	}
	return nil
}

// Close implements dataflow.Operator.
func (w *windowOrdered) Close() error {
	w.results.release()
	if w.store.distinct != nil {
		w.store.distinct.sums.release()
	}
	return nil
}

var (
	_ dataflow.Operator         = (*windowOrdered)(nil)
	_ dataflow.WatermarkHandler = (*windowOrdered)(nil)
	_ dataflow.BarrierHandler   = (*windowOrdered)(nil)
)

package operators

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// stampOrder hands the rows of one input to an operator in stamp order (D19), so
// that its result does not depend on how splits interleave.
//
// A row waits until the watermark is greater than its stamp. Then rows are taken
// by stamp, source, split, position and element; rows that an operator created, which
// have no origin, by stamp, event time and content. The inner operator gets them
// through Process in batches of that order, before its OnWatermark of the
// watermark that released them: within Process the row's own stamp is the time
// that timers and expiries must go by. Rows of one split whose positions are
// equal keep the order in which they came.
//
// Waiting rows are part of the state: see stamporder_state.go. They are counted
// as held.
//
// Batches wait as they came, each sorted once; a heap of their next rows merges
// them.
//
// With inTimeOrder the event time stands in the place of the stamp: see there.
type stampOrder struct {
	env   *dataflow.Env
	inner dataflow.Operator
	cols  stampColumns
	runs  []*stampRun // a heap by the next row
	seq   uint64
	state stampState
}

// stampColumns are the columns by which rows are ordered; split and pos are -1
// for rows without an origin.
type stampColumns struct {
	stamp, time, split, pos, route int
	elements                       []int // see dataflow.SysElement
}

// stampRun is a batch whose rows are in order; those before next are gone.
type stampRun struct {
	batch  arrow.RecordBatch
	seq    uint64 // the order of arrival
	next   int
	stamps []int64
	times  []int64
	splits *array.Int32
	pos    []int64
	// elements tell rows of one position apart.
	elements [][]int32
	content  [][]byte    // only without an origin
	saved    *stampSaved // nil: not in the state yet
}

// stampBatch bounds the batches that the inner operator gets.
const stampBatch = 16 << 10

// inStampOrder wraps inner, whose input has schema and goes by the column route
// (a uint64 hash) to its task. It restores the rows that wait. It uses the keys
// of env.State that start with stampPrefix.
func inStampOrder(env *dataflow.Env, schema *arrow.Schema, route string, inner dataflow.Operator) (dataflow.Operator, error) {
	return inOrderOf(dataflow.SysStamp, env, schema, route, inner)
}

// inTimeOrder is inStampOrder by event time instead of the stamp: a row waits
// until the watermark is greater than its event time, and rows are taken by event
// time, source, split and position. No row may come whose event time is below its
// stamp.
func inTimeOrder(env *dataflow.Env, schema *arrow.Schema, route string, inner dataflow.Operator) (dataflow.Operator, error) {
	return inOrderOf(dataflow.SysTime, env, schema, route, inner)
}

func inOrderOf(column string, env *dataflow.Env, schema *arrow.Schema, route string, inner dataflow.Operator) (dataflow.Operator, error) {
	o := &stampOrder{env: env, inner: inner, cols: stampColumns{
		stamp: dataflow.Column(schema, column), time: dataflow.Column(schema, dataflow.SysTime),
		split: dataflow.Column(schema, dataflow.SysSplit), pos: dataflow.Column(schema, dataflow.SysPos),
		route: dataflow.Column(schema, route), elements: dataflow.ElementColumns(schema),
	}}
	if err := o.restore(schema); err != nil {
		return nil, fmt.Errorf("restore waiting rows: %w", err)
	}
	if x, ok := inner.(dataflow.Explainer); ok {
		return explainedStampOrder{o, x}, nil
	}
	return o, nil
}

// Process implements dataflow.Operator.
func (o *stampOrder) Process(_ context.Context, _ int, b arrow.RecordBatch, _ dataflow.Emitter) error {
	o.env.Fates.Held.Add(b.NumRows())
	r, err := o.add(b)
	if err != nil || r == nil {
		return err
	}
	if dataflow.Time(r.stamps[0]) < o.state.released {
		return fmt.Errorf("a row of %s came after the watermark %s", dataflow.Time(r.stamps[0]), o.state.released)
	}
	return nil
}

// add makes b a run. It borrows b.
func (o *stampOrder) add(b arrow.RecordBatch) (*stampRun, error) {
	if b.NumRows() == 0 {
		return nil, nil
	}
	r := o.newRun(b)
	order := make([]int32, b.NumRows())
	sorted := true
	for i := range order {
		order[i] = int32(i)
		sorted = sorted && (i == 0 || o.compare(r, i-1, r, i) <= 0)
	}
	if sorted {
		b.Retain()
	} else {
		slices.SortStableFunc(order, func(x, y int32) int { return o.compare(r, int(x), r, int(y)) })
		s, err := dataflow.TakeBatch(o.env.Alloc, b, order)
		if err != nil {
			return nil, err
		}
		r = o.newRun(s)
	}
	r.seq = o.seq
	o.seq++
	o.runs = append(o.runs, r)
	o.up(len(o.runs) - 1)
	return r, nil
}

func (o *stampOrder) newRun(b arrow.RecordBatch) *stampRun {
	r := &stampRun{
		batch:  b,
		stamps: b.Column(o.cols.stamp).(*array.Int64).Int64Values(),
		times:  b.Column(o.cols.time).(*array.Int64).Int64Values(),
	}
	if o.cols.split >= 0 && o.cols.pos >= 0 {
		r.splits = b.Column(o.cols.split).(*array.Int32)
		r.pos = b.Column(o.cols.pos).(*array.Int64).Int64Values()
		for _, c := range o.cols.elements {
			r.elements = append(r.elements, b.Column(c).(*array.Int32).Int32Values())
		}
		return r
	}
	r.content = make([][]byte, b.NumRows())
	for i := range r.content {
		r.content[i] = dataflow.RowJSON(b, i)
	}
	return r
}

// compare orders row i of a and row j of b.
func (o *stampOrder) compare(a *stampRun, i int, b *stampRun, j int) int {
	if x, y := a.stamps[i], b.stamps[j]; x != y {
		return order(x, y)
	}
	if a.splits == nil {
		if x, y := a.times[i], b.times[j]; x != y {
			return order(x, y)
		}
		return bytes.Compare(a.content[i], b.content[j])
	}
	if x, y := a.splits.Value(i), b.splits.Value(j); x != y {
		xSource, xSplit := o.env.Splits.Name(x)
		ySource, ySplit := o.env.Splits.Name(y)
		if c := strings.Compare(xSource, ySource); c != 0 {
			return c
		}
		if c := strings.Compare(string(xSplit), string(ySplit)); c != 0 {
			return c
		}
	}
	if x, y := a.pos[i], b.pos[j]; x != y {
		return order(x, y)
	}
	for n := range a.elements {
		if x, y := a.elements[n][i], b.elements[n][j]; x != y {
			return order(int64(x), int64(y))
		}
	}
	return 0
}

func order(x, y int64) int {
	if x < y {
		return -1
	}
	if x > y {
		return 1
	}
	return 0
}

// before orders the next rows of two runs.
func (o *stampOrder) before(a, b *stampRun) bool {
	c := o.compare(a, a.next, b, b.next)
	return c < 0 || c == 0 && a.seq < b.seq
}

func (o *stampOrder) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !o.before(o.runs[i], o.runs[parent]) {
			return
		}
		o.runs[i], o.runs[parent] = o.runs[parent], o.runs[i]
		i = parent
	}
}

func (o *stampOrder) down(i int) {
	for {
		least := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < len(o.runs) && o.before(o.runs[c], o.runs[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		o.runs[i], o.runs[least] = o.runs[least], o.runs[i]
		i = least
	}
}

// OnWatermark takes the rows that wm releases.
func (o *stampOrder) OnWatermark(ctx context.Context, wm dataflow.Time, out dataflow.Emitter) error {
	o.state.released = max(o.state.released, wm)
	for {
		b, err := o.take(int64(wm))
		if err != nil {
			return err
		}
		if b == nil {
			break
		}
		o.env.Fates.Held.Add(-b.NumRows())
		err = o.inner.Process(ctx, 0, b, out)
		b.Release()
		if err != nil {
			return err
		}
	}
	if h, ok := o.inner.(dataflow.WatermarkHandler); ok {
		return h.OnWatermark(ctx, wm, out)
	}
	return nil
}

// stampPart is a stretch of a run, taken in one go.
type stampPart struct {
	run      *stampRun
	from, to int
}

// take removes the next rows with a stamp below wm, in order, as one batch; nil
// when there are none.
func (o *stampOrder) take(wm int64) (arrow.RecordBatch, error) {
	var parts []stampPart
	var done []*stampRun
	for n := 0; n < stampBatch && len(o.runs) > 0; {
		r := o.runs[0]
		from, last := r.next, len(r.stamps)
		for r.next < last && r.stamps[r.next] < wm && r.next-from < stampBatch-n && (r.next == from || o.leads(r)) {
			r.next++
		}
		if r.next == from {
			break
		}
		parts = append(parts, stampPart{r, from, r.next})
		n += r.next - from
		if r.next == last {
			done = append(done, r)
			o.runs[0] = o.runs[len(o.runs)-1]
			o.runs = o.runs[:len(o.runs)-1]
		}
		o.down(0)
	}
	if len(parts) == 0 {
		return nil, nil
	}
	b, err := o.gather(parts)
	for _, r := range done {
		r.batch.Release()
		err = errors.Join(err, o.forget(r))
	}
	return b, err
}

// leads says whether r, the root of the heap, still has the first row of all.
func (o *stampOrder) leads(r *stampRun) bool {
	for c := 1; c <= 2 && c < len(o.runs); c++ {
		if !o.before(r, o.runs[c]) {
			return false
		}
	}
	return true
}

// gather joins parts into one batch. The rows of one run are a contiguous
// stretch of it: stretches are joined run by run and then put in order.
func (o *stampOrder) gather(parts []stampPart) (arrow.RecordBatch, error) {
	if len(parts) == 1 {
		p := parts[0]
		return p.run.batch.NewSlice(int64(p.from), int64(p.to)), nil
	}
	type stretch struct{ from, to, base int }
	stretches := map[*stampRun]*stretch{}
	var runs []*stampRun
	for _, p := range parts {
		if s := stretches[p.run]; s != nil {
			s.to = p.to
			continue
		}
		stretches[p.run] = &stretch{from: p.from, to: p.to}
		runs = append(runs, p.run)
	}
	slices := make([]arrow.RecordBatch, len(runs))
	base := 0
	for i, r := range runs {
		s := stretches[r]
		slices[i] = r.batch.NewSlice(int64(s.from), int64(s.to))
		defer slices[i].Release()
		s.base = base
		base += s.to - s.from
	}
	joined, err := joinBatches(o.env, slices)
	if err != nil || len(parts) == len(runs) {
		return joined, err
	}
	defer joined.Release()
	rows := make([]int32, 0, base)
	for _, p := range parts {
		s := stretches[p.run]
		for i := p.from; i < p.to; i++ {
			rows = append(rows, int32(s.base+i-s.from))
		}
	}
	return dataflow.TakeBatch(o.env.Alloc, joined, rows)
}

// joinBatches concatenates batches of one schema. It borrows them.
func joinBatches(env *dataflow.Env, batches []arrow.RecordBatch) (arrow.RecordBatch, error) {
	if len(batches) == 1 {
		batches[0].Retain()
		return batches[0], nil
	}
	cols := make([]arrow.Array, 0, batches[0].NumCols())
	defer func() {
		for _, c := range cols {
			c.Release()
		}
	}()
	rows := int64(0)
	for _, b := range batches {
		rows += b.NumRows()
	}
	pieces := make([]arrow.Array, len(batches))
	for c := range int(batches[0].NumCols()) {
		for i, b := range batches {
			pieces[i] = b.Column(c)
		}
		col, err := array.Concatenate(pieces, env.Alloc)
		if err != nil {
			return nil, fmt.Errorf("join column %q: %w", batches[0].ColumnName(c), err)
		}
		cols = append(cols, col)
	}
	return array.NewRecordBatch(batches[0].Schema(), cols, rows), nil
}

// OnBarrier writes the rows that wait into the state.
func (o *stampOrder) OnBarrier(ctx context.Context, e dataflow.Epoch, out dataflow.Emitter) error {
	if err := o.save(); err != nil {
		return fmt.Errorf("write waiting rows: %w", err)
	}
	if h, ok := o.inner.(dataflow.BarrierHandler); ok {
		return h.OnBarrier(ctx, e, out)
	}
	return nil
}

// Close implements dataflow.Operator.
func (o *stampOrder) Close() error {
	for _, r := range o.runs {
		r.batch.Release()
	}
	o.runs = nil
	return o.inner.Close()
}

var (
	_ dataflow.Operator         = (*stampOrder)(nil)
	_ dataflow.WatermarkHandler = (*stampOrder)(nil)
	_ dataflow.BarrierHandler   = (*stampOrder)(nil)
)

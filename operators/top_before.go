package operators

import (
	"bytes"
	"context"
	"slices"

	"frazil/dataflow"
	"frazil/operators/expr"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// topBefore is the half of a top in front of the exchange. It takes late and bad
// rows out and keeps the first rows of each group and batch, so that only those go
// through the exchange, as one row per group. It holds nothing between batches.
//
// Rows of a batch are taken together per group and cell. With windows a cell is a
// pane and the first of its windows that is still open; a row of the exchange has
// the pane's start and that window's end. Without, a cell is a stretch of event
// time of the length of expire_after, whose rows are in one part of the group for
// sure, as in groupBefore; a row of the exchange has the least and the greatest
// event time.
type topBefore struct {
	*topShape
	env    *dataflow.Env
	judge  topJudge
	keys   *byFeed
	evals  []*expr.Evaluator
	rows   rowEncoder
	order  *topOrder
	groups windowGroups

	group    []uint32
	prefix   []uint64
	from, to []int64   // per group
	lists    [][]int32 // per group: rows in order
	places   []topPlace
	buf      []byte // places
	row, enc []byte
	// itemBytes is about what the items of the batch before took.
	itemBytes int
}

// topPlace says where in topBefore.buf the place of a row stands; from and to are
// equal if it was not made yet.
type topPlace struct{ from, to, terms int32 }

// topJudge sorts the rows of batches into those that count, late and bad ones.
type topJudge interface {
	// bind looks at b, which it borrows until emit.
	bind(b arrow.RecordBatch)
	// verdicts and cells tell of each row.
	verdicts() []rowMark
	cells() []int64
	// bounds sets from and to of the groups, by their rows.
	bounds(group []uint32, from, to []int64)
	failed(row int, bad dataflow.Bad)
	// emit counts all rows of b and sends the late and the bad ones.
	emit(ctx context.Context, b arrow.RecordBatch, out dataflow.Emitter) error
	release()
}

func newTopBefore(env *dataflow.Env, s *topShape) (*topBefore, error) {
	keys, err := s.by.newFeed(env)
	if err != nil {
		return nil, err
	}
	o := &topBefore{topShape: s, env: env, keys: keys}
	o.order = newTopOrder(s.input, s.order, env, &o.rows)
	for _, t := range s.order {
		o.evals = append(o.evals, t.By.NewEvaluator(env.Alloc))
	}
	if s.windows != nil {
		o.judge = newTopWindowJudge(env, s)
		return o, nil
	}
	j := &topKeepJudge{rowJudge: newRowJudge(env, s.input, s.late, s.keep), whole: s.last}
	if s.last { // A row exactly that old is in time, as for the first row.
		j.grace = 1
	}
	o.judge = j
	return o, nil
}

// topKeepJudge judges by how long groups are kept.
type topKeepJudge struct {
	*rowJudge
	whole     bool // rows of a group belong together however far apart they are
	stretches []int64
}

func (j *topKeepJudge) bind(b arrow.RecordBatch) {
	j.rowJudge.bind(b)
	j.stretches = slices.Grow(j.stretches[:0], len(j.times))[:len(j.times)]
	if j.whole {
		clear(j.stretches)
		return
	}
	assignStretches(j.stretches, j.times, j.keep)
}

func (j *topKeepJudge) verdicts() []rowMark { return j.marks }
func (j *topKeepJudge) cells() []int64      { return j.stretches }

func (j *topKeepJudge) bounds(group []uint32, from, to []int64) {
	for i := range from {
		from[i], to[i] = int64(dataflow.MaxTime), int64(dataflow.MinTime)
	}
	for i, g := range group {
		from[g], to[g] = min(from[g], j.times[i]), max(to[g], j.times[i])
	}
}

// Process implements dataflow.Operator.
func (o *topBefore) Process(ctx context.Context, _ int, b arrow.RecordBatch, out dataflow.Emitter) error {
	o.judge.bind(b)
	defer o.keys.unbind()
	if err := o.keys.bind(b); err != nil {
		return err
	}
	args, err := evalAll(o.evals, b, func(i int, e expr.RowError) {
		o.judge.failed(e.Row, dataflow.Bad{Reason: e.Bad.Reason, Detail: "order_by " + o.topShape.order[i].By.String() + ": " + e.Bad.Detail})
	})
	if err != nil {
		return err
	}
	defer releaseAll(args)
	o.find(int(b.NumRows()))
	o.pick(args, b)
	if err := o.judge.emit(ctx, b, out); err != nil {
		return err
	}
	if o.groups.n == 0 {
		return nil
	}
	return out.Emit(ctx, groupOut, o.firsts())
}

// find numbers the groups of the batch.
func (o *topBefore) find(n int) {
	o.group = slices.Grow(o.group[:0], n)[:n]
	g, marks, cells := &o.groups, o.judge.verdicts(), o.judge.cells()
	g.reset()
	if ints, ok := o.keys.enc.int64s(); ok {
		g.findInts(o.group, cells, marks, ints)
	} else {
		for i, m := range marks {
			if m != rowCounts {
				o.group[i] = 0
				continue
			}
			g.buf = o.keys.enc.append(g.buf[:0], i)
			o.group[i] = g.byKey(keyHash(g.buf), cells[i], g.buf)
		}
	}
	k := g.n + 1
	o.from, o.to = slices.Grow(o.from[:0], k)[:k], slices.Grow(o.to[:0], k)[:k]
	o.judge.bounds(o.group, o.from, o.to)
}

// pick fills lists with the first rows of each group.
func (o *topBefore) pick(args []arrow.Array, b arrow.RecordBatch) {
	n := len(o.group)
	o.rows.bind(b, o.users)
	o.order.bindRows(args, b)
	o.prefix, o.places = slices.Grow(o.prefix[:0], n)[:n], slices.Grow(o.places[:0], n)[:n]
	o.order.prefixes(o.prefix)
	clear(o.places)
	o.buf = o.buf[:0]
	for len(o.lists) <= o.groups.n {
		o.lists = append(o.lists, nil)
	}
	for g := range o.groups.n + 1 {
		o.lists[g] = o.lists[g][:0]
	}
	for i, g := range o.group {
		if g == 0 {
			continue
		}
		l := o.lists[g]
		if len(l) >= o.limit && o.prefix[i] > o.prefix[l[o.limit-1]] {
			continue
		}
		o.lists[g] = o.offer(l, int32(i))
	}
}

// offer puts a row into a list if it is among the first.
func (o *topBefore) offer(l []int32, row int32) []int32 {
	if len(l) >= o.limit {
		last := l[o.limit-1]
		if o.ties {
			if o.compareTerms(row, last) > 0 {
				return l
			}
		} else if o.compare(row, last) >= 0 {
			return l
		}
	}
	at := len(l)
	for at > 0 && o.compare(row, l[at-1]) < 0 {
		at--
	}
	l = append(l, 0)
	copy(l[at+1:], l[at:])
	l[at] = row
	for len(l) > o.limit && !(o.ties && o.compareTerms(l[len(l)-1], l[o.limit-1]) == 0) {
		l = l[:len(l)-1]
	}
	return l
}

func (o *topBefore) compare(i, j int32) int {
	if x, y := o.prefix[i], o.prefix[j]; x != y {
		if x < y {
			return -1
		}
		return 1
	}
	a, b := o.place(i), o.place(j)
	return bytes.Compare(o.buf[a.from:a.to], o.buf[b.from:b.to])
}

func (o *topBefore) compareTerms(i, j int32) int {
	if o.prefix[i] != o.prefix[j] {
		return o.compare(i, j)
	}
	a, b := o.place(i), o.place(j)
	return bytes.Compare(o.buf[a.from:a.from+a.terms], o.buf[b.from:b.from+b.terms])
}

// place makes the place of a row if it is not there yet.
func (o *topBefore) place(row int32) topPlace {
	p := &o.places[row]
	if p.from == p.to {
		p.from = int32(len(o.buf))
		var terms int
		o.buf, terms = o.order.place(o.buf, int(row))
		p.to, p.terms = int32(len(o.buf)), int32(terms)
	}
	return *p
}

// firsts returns one row per group in the schema of the exchange.
func (o *topBefore) firsts() arrow.RecordBatch {
	g := &o.groups
	b := array.NewRecordBuilder(o.env.Alloc, topExchange)
	defer b.Release()
	b.Reserve(g.n)
	b.Field(0).(*array.Uint64Builder).AppendValues(g.hashes[1:], nil)
	b.Field(2).(*array.Int64Builder).AppendValues(o.from[1:], nil)
	b.Field(3).(*array.Int64Builder).AppendValues(o.to[1:], nil)
	key, items := b.Field(1).(*array.BinaryBuilder), b.Field(4).(*array.BinaryBuilder)
	items.ReserveData(o.itemBytes)
	for i := 1; i <= g.n; i++ {
		key.Append(g.key(i))
		o.enc = o.enc[:0]
		for _, row := range o.lists[i] {
			p := o.place(row)
			o.row = o.rows.append(o.row[:0], int(row))
			o.enc = appendTopWire(o.enc, topWire{o.prefix[row], int(p.terms), o.buf[p.from:p.to], o.row})
		}
		items.Append(o.enc)
	}
	o.itemBytes = items.DataLen() + items.DataLen()/8
	return b.NewRecordBatch()
}

// Close implements dataflow.Operator.
func (o *topBefore) Close() error {
	o.judge.release()
	return nil
}

var _ dataflow.Operator = (*topBefore)(nil)

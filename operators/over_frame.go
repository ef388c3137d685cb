package operators

import (
	"encoding/binary"
	"slices"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow/array"
)

// overFrame is what is kept of the rows of one partition.
//
// Rows enter at the end and leave at the front. To have the sum of all at any
// moment without subtracting, which most aggregates cannot, the rows are in two
// parts: of the first, sums has for each row the accumulators of that row and
// those behind it up to the end of the part; of the second, back has the
// accumulators of all. So a frame is the first of sums and back. When the first
// part is used up, all rows become the first part (turn): a row is merged once
// into back and once into sums.
//
// With unbounded only back is there.
type overFrame struct {
	last int64 // event time of the newest row
	some bool  // there was a row
	used bool  // since shrink came by
	open bool  // rows of it have no results yet
	// times and rows are of the kept rows, those before head are gone; split is
	// where the second part begins.
	times       []int64
	rows        []uint64
	head, split int
	sums, back  []uint64
	heaps       []accHeap
	// base is the number of the first of times; seen has, per distinct aggregate,
	// the values and the numbers of the last rows with them.
	base uint64
	seen []map[string]uint64

	// Since the last barrier:
	unsaved int    // rows at the end that are new
	dirty   bool   // back has changed (unbounded)
	anew    bool   // it began anew, or is new (unbounded)
	values  []byte // new values under distinct (unbounded), as stored
}

func (l *overLayout) newFrame() overFrame {
	f := overFrame{back: make([]uint64, l.sums.stride), heaps: l.rows.newHeaps(), anew: true}
	if len(l.distinct) > 0 {
		f.seen = make([]map[string]uint64, len(l.distinct))
		for i := range f.seen {
			f.seen[i] = map[string]uint64{}
		}
	}
	return f
}

// kept is how many rows the frame keeps.
func (f *overFrame) kept() int { return len(f.times) - f.head }

// add takes in the next row, whose accumulators are acc; it may change acc.
func (l *overLayout) add(f *overFrame, t int64, acc []uint64, heaps []accHeap) {
	if f.some && t-f.last > l.keep {
		l.empty(f)
	}
	f.last, f.some = t, true
	if l.kind == overAll {
		f.dirty = true
		l.onlyNew(f, acc, heaps)
		l.sums.mergeRow(f.back, f.heaps, acc, heaps)
		return
	}
	l.evict(f, t)
	at := len(f.times)
	f.times = append(f.times, t)
	f.rows = append(f.rows, acc...)
	row := f.rows[at*l.rows.stride:]
	for h, b := range l.rows.bytes {
		if w := acc[b.off]; w != 0 {
			row[b.off] = f.heaps[h].add(heaps[h].get(w))
		}
	}
	l.sums.mergeRow(f.back, f.heaps, acc, heaps)
	for i, d := range l.distinct {
		if w := acc[d.off]; w != 0 {
			f.seen[i][string(heaps[d.heap].get(w))] = f.base + uint64(at)
		}
	}
	f.unsaved++
}

// onlyNew takes out of acc what is distinct and was there before.
func (l *overLayout) onlyNew(f *overFrame, acc []uint64, heaps []accHeap) {
	for i, d := range l.distinct {
		w := acc[d.off]
		if w == 0 {
			continue
		}
		v := heaps[d.heap].get(w)
		if _, ok := f.seen[i][string(v)]; ok {
			off := l.rows.offs[d.agg]
			clear(acc[off : off+l.aggs.funcs[d.agg].words()])
			continue
		}
		f.seen[i][string(v)] = 0
		f.values = appendOverValue(f.values, i, string(v))
	}
}

// appendOverValue adds a value of a distinct aggregate as it is stored.
func appendOverValue(dst []byte, distinct int, v string) []byte {
	dst = binary.AppendUvarint(dst, uint64(distinct))
	dst = binary.AppendUvarint(dst, uint64(len(v)))
	return append(dst, v...)
}

// empty makes f a partition without rows.
func (l *overLayout) empty(f *overFrame) {
	f.times, f.rows, f.head, f.split, f.unsaved = f.times[:0], f.rows[:0], 0, 0, 0
	f.sums, f.values, f.base = f.sums[:0], f.values[:0], 0
	f.some, f.dirty, f.anew = false, false, true
	clear(f.back)
	for h := range f.heaps {
		f.heaps[h].reset()
	}
	for i := range f.seen {
		clear(f.seen[i])
	}
}

// evict takes out the rows that a row at t, which is to come in, does not see.
func (l *overLayout) evict(f *overFrame, t int64) {
	if l.kind == overRows {
		for int64(f.kept()) > l.reach {
			l.pop(f)
		}
		return
	}
	for f.head < len(f.times) && f.times[f.head] < t-l.reach {
		l.pop(f)
	}
}

// pop takes out the first row.
func (l *overLayout) pop(f *overFrame) {
	if f.head == f.split {
		l.turn(f)
	}
	row := f.rows[f.head*l.rows.stride:]
	for i, d := range l.distinct {
		if w := row[d.off]; w != 0 {
			if v := f.heaps[d.heap].get(w); f.seen[i][string(v)] == f.base+uint64(f.head) {
				delete(f.seen[i], string(v))
			}
		}
	}
	f.head++
	f.unsaved = min(f.unsaved, f.kept())
}

// turn makes all rows the first part.
func (l *overLayout) turn(f *overFrame) {
	stride, n := l.rows.stride, f.kept()
	copy(f.times, f.times[f.head:])
	copy(f.rows, f.rows[f.head*stride:])
	f.times, f.rows = f.times[:n], f.rows[:n*stride]
	f.base += uint64(f.head)
	f.head, f.split = 0, n
	l.pack(f)
	clear(f.back)
	w := l.sums.stride
	f.sums = slices.Grow(f.sums[:0], n*w)[:n*w]
	clear(f.sums)
	for i := n - 1; i >= 0; i-- {
		sum := f.sums[i*w : (i+1)*w]
		l.sums.mergeRow(sum, f.heaps, f.rows[i*stride:(i+1)*stride], f.heaps)
		if i+1 < n {
			l.sums.mergeRow(sum, f.heaps, f.sums[(i+1)*w:(i+2)*w], f.heaps)
		}
	}
}

// pack drops the bytes that belong to no row. Those of sums and back go as well.
// The rows took theirs one after the other, so that those which stay can move to
// the front; what they change places with is used again.
func (l *overLayout) pack(f *overFrame) {
	for h, b := range l.rows.bytes {
		values, n := f.heaps[h].values, 0
		for at := b.off; at < len(f.rows); at += l.rows.stride {
			if w := f.rows[at]; w != 0 {
				values[n], values[w-1] = values[w-1], values[n]
				n++
				f.rows[at] = uint64(n)
			}
		}
		f.heaps[h].values = values[:n]
	}
}

// result appends the values of the aggregates over f to b. It says of the first
// that does not fit why.
func (l *overLayout) result(f *overFrame, b *array.RecordBuilder) (bad *dataflow.Bad) {
	acc, heaps := f.back, f.heaps
	if l.kind != overAll {
		acc, heaps = l.frame(f), l.heaps
	}
	for col, i := range l.columns {
		if x := l.rows.result(i, b.Field(col), acc, heaps); x != nil && bad == nil {
			x.Detail = "aggregate " + l.aggs.aggs[i].name + ": " + x.Detail
			bad = x
		}
	}
	return bad
}

// frame merges the accumulators of the rows of f, into memory that is valid until
// the next call.
func (l *overLayout) frame(f *overFrame) []uint64 {
	clear(l.acc)
	for h := range l.heaps {
		l.heaps[h].reset()
	}
	if f.head < f.split {
		l.sums.mergeRow(l.acc, l.heaps, f.sums[f.head*l.sums.stride:], f.heaps)
	}
	l.sums.mergeRow(l.acc, l.heaps, f.back, f.heaps)
	for i := range l.grown {
		l.grow(f, &l.grown[i])
	}
	return l.acc
}

// grow merges those of an aggregate that looks at every row.
func (l *overLayout) grow(f *overFrame, g *overGrown) {
	dst := l.acc[g.off:]
	if g.counts {
		dst[0] = uint64(len(f.seen[g.distinct]))
		return
	}
	for i := f.head; i < len(f.times); i++ {
		row := f.rows[i*l.rows.stride:]
		if g.distinct >= 0 {
			d := l.distinct[g.distinct]
			w := row[d.off]
			if w == 0 || f.seen[g.distinct][string(f.heaps[d.heap].get(w))] != f.base+uint64(i) {
				continue // It does not count, or a later row has the same value.
			}
		}
		g.fn.merge(dst, row[g.off:])
		if g.bytes != nil && row[g.off] != 0 {
			g.bytes.mergeBytes(dst, &l.heaps[g.heap], f.heaps[g.heap].get(row[g.off]))
		}
	}
}

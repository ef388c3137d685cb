package engine

import (
	"fmt"
	"time"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// stamper turns a source's batches into batches with system columns: it checks
// event times, refuses rows from the future and stamps the others.
type stamper struct {
	src    *Source
	env    *dataflow.Env
	schema *arrow.Schema
	user   int // columns of the user
	time   int // index of the event time column, -1: none
	bad    *dataflow.BadRows
	split  constants
	keep   []int32
	// replaying: refusals are repeated, not decided.
	replaying bool
	// decisions made since the last barrier.
	decisions []dataflow.ClockDecision
}

func newStamper(src *Source, env *dataflow.Env) *stamper {
	s := &stamper{src: src, env: env, schema: src.Out().Schema, user: src.Schema.NumFields(), time: -1, bad: dataflow.NewBadRows(env)}
	if src.EventTime != nil && !src.EventTime.Processing {
		s.time = dataflow.Column(src.Schema, src.EventTime.Column)
	}
	return s
}

// apply returns the stamped rows of b (nil: none is left) and the refused ones.
// It borrows b; the caller owns what it returns.
func (s *stamper) apply(b arrow.RecordBatch, c *splitClock) (good, bad arrow.RecordBatch, err error) {
	if s.time >= 0 {
		ok := s.check(b, c)
		bad = s.bad.Flush()
		if !ok {
			if len(s.keep) == 0 {
				return nil, bad, nil
			}
			if b, err = dataflow.TakeBatch(s.env.Alloc, b, s.keep); err != nil {
				return nil, bad, fmt.Errorf("source %s: %w", s.src.Name, err)
			}
			defer b.Release()
		}
	}
	return s.assemble(b, c), bad, nil
}

func (s *stamper) assemble(b arrow.RecordBatch, c *splitClock) arrow.RecordBatch {
	n := int(b.NumRows())
	cols := append(make([]arrow.Array, 0, s.schema.NumFields()), b.Columns()[:s.user]...)
	pos := b.Column(s.user)
	if s.src.EventTime != nil {
		times := s.times(b, c)
		stamps := memory.NewResizableBuffer(s.env.Alloc)
		stamps.Resize(n * 8)
		c.stamp(times.(*array.Int64).Int64Values(), pos.(*array.Int64).Int64Values(), arrow.Int64Traits.CastFromBytes(stamps.Bytes()))
		d := array.NewData(dataflow.TypeInt64, n, []*memory.Buffer{nil, stamps}, nil, 0, 0)
		stamp := array.NewInt64Data(d)
		d.Release()
		stamps.Release()
		defer times.Release()
		defer stamp.Release()
		cols = append(cols, times, stamp)
	}
	split := s.split.int32s(c.id, n)
	defer split.Release()
	cols = append(cols, split, pos)
	return array.NewRecordBatch(s.schema, cols, int64(n))
}

// times are the event times of b's rows.
func (s *stamper) times(b arrow.RecordBatch, c *splitClock) arrow.Array {
	if s.time >= 0 {
		return asInt64(b.Column(s.time))
	}
	now := int64(c.read(s.env.Now()))
	n := int(b.NumRows())
	buf := memory.NewResizableBuffer(s.env.Alloc)
	defer buf.Release()
	buf.Resize(n * 8)
	for i, t := 0, arrow.Int64Traits.CastFromBytes(buf.Bytes()); i < n; i++ {
		t[i] = now
	}
	d := array.NewData(dataflow.TypeInt64, n, []*memory.Buffer{nil, buf}, nil, 0, 0)
	defer d.Release()
	return array.NewInt64Data(d)
}

// asInt64 views a timestamp column as int64 microseconds, sharing its memory.
func asInt64(a arrow.Array) arrow.Array {
	d := a.Data()
	v := array.NewData(dataflow.TypeInt64, d.Len(), []*memory.Buffer{nil, d.Buffers()[1]}, nil, 0, d.Offset())
	defer v.Release()
	return array.NewInt64Data(v)
}

// check fills keep with the rows whose event time is fine and says whether all
// are. The others are collected as bad.
func (s *stamper) check(b arrow.RecordBatch, c *splitClock) bool {
	col := b.Column(s.time).(*array.Timestamp)
	vals := col.Values()
	pos := b.Column(s.user).(*array.Int64)
	var arr *array.Int64
	if k := dataflow.Column(b.Schema(), dataflow.SysArrived); k >= 0 {
		arr = b.Column(k).(*array.Int64)
	}
	ahead := s.src.EventTime.MaxAhead
	if col.NullN() == 0 && ahead == 0 && inRange(vals) {
		return true
	}
	s.keep, s.split.origin = s.keep[:0], nil
	now := dataflow.MinTime
	for i := range vals {
		t := dataflow.Time(vals[i])
		var bad *dataflow.Bad
		switch {
		case col.IsNull(i):
			bad = &dataflow.Bad{Reason: "null_event_time", Detail: fmt.Sprintf("column %s: expected an event time, got null", s.src.EventTime.Column)}
		case t < dataflow.MinEventTime || t > dataflow.MaxEventTime:
			bad = &dataflow.Bad{Reason: "event_time_out_of_range", Detail: fmt.Sprintf("column %s: expected a year from 1 to 9999, got %d microseconds", s.src.EventTime.Column, vals[i])}
		case ahead > 0:
			at := dataflow.MinTime
			if arr != nil && arr.IsValid(i) {
				at = dataflow.Time(arr.Value(i))
			}
			bad = s.future(t, at, ahead, pos.Value(i), c, &now)
		}
		if bad == nil {
			s.keep = append(s.keep, int32(i))
			continue
		}
		s.bad.AddRow(bad, s.origin(b, c), i)
	}
	return len(s.keep) == len(vals)
}

// future judges one row by its arrival, or by the clock where that is unknown:
// then the refusal is a decision that a replay repeats.
func (s *stamper) future(t, arrived dataflow.Time, ahead time.Duration, pos int64, c *splitClock, now *dataflow.Time) *dataflow.Bad {
	if arrived == dataflow.MinTime {
		if s.replaying {
			for _, d := range c.replay {
				if d.Refused && d.Pos == pos {
					return s.refused(t, "the clock then", 0, ahead)
				}
			}
			return nil
		}
		if *now == dataflow.MinTime {
			*now = dataflow.TimeOf(s.env.Now())
		}
		if t <= now.Add(ahead) {
			return nil
		}
		s.decisions = append(s.decisions, dataflow.ClockDecision{Source: s.src.Name, Split: c.split, Pos: pos, Refused: true})
		return s.refused(t, "the clock", time.Duration(t-*now)*time.Microsecond, ahead)
	}
	if t <= arrived.Add(ahead) {
		return nil
	}
	return s.refused(t, "its arrival at "+arrived.String(), time.Duration(t-arrived)*time.Microsecond, ahead)
}

func (s *stamper) refused(t dataflow.Time, than string, skew, ahead time.Duration) *dataflow.Bad {
	return &dataflow.Bad{Reason: "future_timestamp", Detail: fmt.Sprintf("column %s: %s is %.0f s ahead of %s; max_ahead is %s", s.src.EventTime.Column, t, skew.Seconds(), than, ahead)}
}

// origin gives b the system columns that tell a bad row's origin.
func (s *stamper) origin(b arrow.RecordBatch, c *splitClock) arrow.RecordBatch {
	if s.split.origin == b {
		return s.split.stamped
	}
	split := s.split.int32s(c.id, int(b.NumRows()))
	defer split.Release()
	fields := append(append([]arrow.Field{}, s.src.Schema.Fields()...), dataflow.SystemFields(false)...)
	cols := append(append(make([]arrow.Array, 0, len(fields)), b.Columns()[:s.user]...), split, b.Column(s.user))
	if s.split.stamped != nil {
		s.split.stamped.Release()
	}
	s.split.origin, s.split.stamped = b, array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, b.NumRows())
	return s.split.stamped
}

func (s *stamper) release() {
	s.bad.Release()
	s.split.release()
}

func inRange(vals []arrow.Timestamp) bool {
	for _, v := range vals {
		if dataflow.Time(v) < dataflow.MinEventTime || dataflow.Time(v) > dataflow.MaxEventTime {
			return false
		}
	}
	return true
}

// constants makes columns of one repeated number from a shared buffer.
type constants struct {
	id   int32
	full *array.Int32
	// the last batch that got an origin, and the result.
	origin, stamped arrow.RecordBatch
}

func (k *constants) int32s(id int32, n int) arrow.Array {
	if k.full == nil || k.id != id || k.full.Len() < n {
		if k.full != nil {
			k.full.Release()
		}
		b := array.NewInt32Builder(memory.DefaultAllocator)
		defer b.Release()
		b.Reserve(max(n, 8192))
		for range max(n, 8192) {
			b.UnsafeAppend(id)
		}
		k.id, k.full = id, b.NewInt32Array()
	}
	return array.NewSlice(k.full, 0, int64(n))
}

func (k *constants) release() {
	if k.full != nil {
		k.full.Release()
	}
	if k.stamped != nil {
		k.stamped.Release()
	}
	*k = constants{}
}

package kafka

import (
	"frazil/dataflow"
	"frazil/dataflow/codec"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/twmb/franz-go/pkg/kgo"
)

// rows makes batches of records: the decoder's columns, those of keys, the metadata
// that is asked for, and the system columns.
type rows struct {
	cfg    Config
	alloc  memory.Allocator
	dec    dataflow.Decoder
	waits  dataflow.WaitingDecoder // dec, if it may need something from outside; see missing.go
	key    *keys                   // nil: keys are not decoded
	bad    *dataflow.BadRows
	schema *arrow.Schema
	meta   []metaColumn
	// The system columns are gathered here and built at once: most batches have
	// no arrival times at all.
	pos        []int64
	arrived    []int64
	hasArrived []bool // empty: none so far
	ints       *array.Int64Builder
}

// metaColumn appends one thing about a record.
type metaColumn struct {
	column
	b array.Builder
}

func newRows(env *dataflow.Env, cfg Config, dec dataflow.Decoder) (*rows, error) {
	alloc := env.Alloc
	if alloc == nil {
		alloc = memory.DefaultAllocator
	}
	r := &rows{cfg: cfg, alloc: alloc, dec: dec, bad: dataflow.NewBadRows(env), ints: array.NewInt64Builder(alloc)}
	r.waits, _ = dec.(dataflow.WaitingDecoder)
	fields := append([]arrow.Field{}, dec.Schema().Fields()...)
	if cfg.Key != nil {
		keyDec, err := cfg.Key.New(alloc)
		if err != nil {
			return nil, err
		}
		r.key = newKeys(keyDec)
		for _, f := range keyDec.Schema().Fields() {
			f.Nullable = true
			fields = append(fields, f)
		}
	}
	for _, c := range cfg.Metadata.columns() {
		fields = append(fields, arrow.Field{Name: c.name, Type: c.typ, Nullable: c.nullable})
		r.meta = append(r.meta, metaColumn{c, array.NewBuilder(alloc, c.typ)})
	}
	fields = append(fields,
		arrow.Field{Name: dataflow.SysPos, Type: dataflow.TypeInt64},
		arrow.Field{Name: dataflow.SysArrived, Type: dataflow.TypeInt64, Nullable: true})
	r.schema = arrow.NewSchema(fields, nil)
	return r, nil
}

// add makes a row of r, or a bad row.
func (w *rows) add(sp *split, r *kgo.Record) {
	pos := position{gen: sp.pos.gen, offset: r.Offset}.sys()
	e, bad := w.decode(r)
	if bad != nil {
		w.bad.AddRaw(bad, sp.name, locate(sp.name, pos), r.Value)
		return
	}
	for i := range w.meta {
		w.meta[i].append(w.meta[i].b, r, e)
	}
	w.pos = append(w.pos, pos)
	if r.Attrs.TimestampType() == 1 { // LogAppendTime
		n := len(w.pos) // the rows before it have none
		w.arrived = append(w.arrived, make([]int64, n-len(w.arrived))...)
		w.hasArrived = append(w.hasArrived, make([]bool, n-len(w.hasArrived))...)
		w.arrived[n-1], w.hasArrived[n-1] = int64(dataflow.TimeOf(r.Timestamp)), true
	}
}

// decode appends what the value and the key of r give, or nothing.
func (w *rows) decode(r *kgo.Record) (e *codec.CloudEvent, bad *dataflow.Bad) {
	value := r.Value
	if w.cfg.CloudEvents {
		if e, bad = event(r); bad != nil {
			return nil, bad
		}
		value = e.Data
	}
	if w.cfg.Metadata.Header != nil {
		if bad := w.cfg.Metadata.badHeader(r); bad != nil {
			return nil, bad
		}
	}
	if w.key != nil {
		if bad := w.key.decode(r.Key); bad != nil {
			return nil, bad
		}
	}
	if bad := w.dec.Append(value); bad != nil {
		return nil, bad
	}
	if w.key != nil {
		w.key.keep(r.Key)
	}
	return e, nil
}

// system builds the system columns.
func (w *rows) system() (pos, arrived arrow.Array) {
	n := len(w.pos)
	w.ints.AppendValues(w.pos, nil)
	pos = w.ints.NewArray()
	w.ints.AppendValues(w.arrived, w.hasArrived)
	w.ints.AppendNulls(n - len(w.arrived))
	arrived = w.ints.NewArray()
	w.pos, w.arrived, w.hasArrived = w.pos[:0], w.arrived[:0], w.hasArrived[:0]
	return pos, arrived
}

// flush returns the rows as a batch, or nil.
func (w *rows) flush() arrow.RecordBatch {
	n := w.dec.Rows()
	if n == 0 {
		return nil
	}
	cols := w.dec.Flush()
	if w.key != nil {
		cols = append(cols, w.key.flush(w.alloc)...)
	}
	for _, m := range w.meta {
		cols = append(cols, m.b.NewArray())
	}
	pos, arrived := w.system()
	cols = append(cols, pos, arrived)
	b := array.NewRecordBatch(w.schema, cols, int64(n))
	for _, c := range cols {
		c.Release()
	}
	return b
}

func (w *rows) release() {
	giveUp(w.dec)
	if w.key != nil {
		w.key.release()
	}
	for _, m := range w.meta {
		m.b.Release()
	}
	w.ints.Release()
	w.bad.Release()
}

// giveUp ends a decoder.
func giveUp(dec dataflow.Decoder) {
	for _, c := range dec.Flush() {
		c.Release()
	}
	if dec, ok := dec.(interface{ Release() }); ok {
		dec.Release()
	}
}

// decodedEvery is after how many rows the decoder is asked for its size: it
// may have to add up its columns.
const decodedEvery = 256

// batch makes a Polled of what waits in sp's queue, up to limit and Until.
func (s *source) batch(sp *split, limit dataflow.PollLimit) (dataflow.Polled, error) {
	w := s.poll.rows
	rows, size := 0, 0
	full := func() bool {
		return rows > 0 && (limit.Rows > 0 && rows >= limit.Rows || limit.Bytes > 0 && size >= limit.Bytes)
	}
	atUntil := false
	for len(sp.queue) > 0 && !full() && !atUntil {
		q := &sp.queue[0]
		for len(q.records) > 0 && !full() {
			r := q.records[0]
			if sp.until != nil && r.Offset >= sp.until.offset && sp.pos.gen >= sp.until.gen {
				atUntil = true
				break
			}
			if !r.Attrs.IsControl() && s.lacks(sp, r) {
				return s.polled(sp, false)
			}
			q.records = q.records[1:]
			sp.pos.offset = r.Offset + 1
			switch {
			case r.Attrs.IsControl():
			case r.Value == nil:
				sp.skip("tombstone", 1)
			default:
				w.add(sp, r)
				rows++
				size += len(r.Value)
				if rows%decodedEvery == 0 {
					size = max(size, w.dec.Bytes())
				}
			}
			r.Recycle()
		}
		if len(q.records) == 0 {
			s.poll.buffered -= q.bytes
			sp.queue[0] = fetched{}
			sp.queue = sp.queue[1:]
		}
	}
	if len(sp.queue) == 0 {
		sp.queue = nil
	}
	return s.polled(sp, atUntil)
}

// polled closes the batch and says where the split stands.
func (s *source) polled(sp *split, atUntil bool) (dataflow.Polled, error) {
	if u := sp.until; u != nil && (atUntil || !sp.pos.before(*u)) {
		if atUntil {
			sp.pos.offset = u.offset // what lay between is no record
		}
		s.stop(sp)
		sp.state, sp.trouble = standing, nil
		s.drop(sp)
	}
	if len(sp.queue) == 0 && sp.trouble != nil {
		s.lookAgain(sp)
	}
	sp.notice = false
	sp.caughtUp = len(sp.queue) == 0 && sp.state == reading && sp.end >= 0 && sp.pos.offset >= sp.end
	p := dataflow.Polled{
		Split:    sp.name,
		Batch:    s.poll.rows.flush(),
		Bad:      s.poll.rows.bad.Flush(),
		Skipped:  sp.skipped,
		Next:     sp.pos.encode(),
		CaughtUp: sp.caughtUp,
		AtUntil:  sp.state == standing,
	}
	sp.skipped = nil
	return p, nil
}

func (sp *split) skip(reason string, n int64) {
	if sp.skipped == nil {
		sp.skipped = map[string]int64{}
	}
	sp.skipped[reason] += n
}

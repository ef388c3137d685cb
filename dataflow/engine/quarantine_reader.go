package engine

import (
	"context"
	"fmt"
	"strconv"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
	"frazil/state/wal"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// goneSchema is what the edge carries by which rows leave the quarantine.
var goneSchema = arrow.NewSchema([]arrow.Field{{Name: "id", Type: dataflow.TypeString}}, nil)

// fixedDecoder makes rows of a source of records. One goroutine uses it.
type fixedDecoder struct {
	src  *Source
	dec  dataflow.Decoder // of the decode block
	rows dataflow.Decoder // of whole rows as JSON
}

func newFixedDecoder(src *Source) (*fixedDecoder, error) {
	d := &fixedDecoder{src: src}
	var err error
	if d.dec, err = src.NewDecoder(); err == nil {
		d.rows, err = src.NewRowDecoder()
	}
	if err != nil {
		return nil, fmt.Errorf("source %s: decode rows that are sent again: %w", src.Name, err)
	}
	return d, nil
}

// decode returns the columns of one row in the source's schema, owned by the
// caller, or why there is none.
func (d *fixedDecoder) decode(r *fixedRecord) ([]arrow.Array, *dataflow.Bad) {
	var cols []arrow.Array
	if r.Row != nil {
		if bad := d.rows.Append(r.Row); bad != nil {
			return nil, bad
		}
		cols = d.rows.Flush()
	} else {
		if bad := d.dec.Append(r.Raw); bad != nil {
			return nil, bad
		}
		cols = d.dec.Flush()
		if n := len(cols); n < d.src.Schema.NumFields() {
			more := []byte(r.Columns)
			if more == nil {
				more = []byte("{}")
			}
			if bad := d.rows.Append(more); bad != nil {
				releaseAll(cols)
				return nil, bad
			}
			for i, c := range d.rows.Flush() {
				if i < n {
					c.Release()
				} else {
					cols = append(cols, c)
				}
			}
		}
	}
	for i, f := range d.src.Schema.Fields() {
		if !f.Nullable && cols[i].NullN() > 0 && (i >= d.dec.Schema().NumFields() || r.Row != nil) {
			releaseAll(cols)
			return nil, &dataflow.Bad{Reason: "missing_column", Detail: fmt.Sprintf("column %q: expected %s, got nothing: it does not come from the payload, so it must be given beside it", f.Name, dataflow.TypeName(f.Type))}
		}
	}
	return cols, nil
}

func (d *fixedDecoder) release() {
	for _, dec := range []dataflow.Decoder{d.dec, d.rows} {
		releaseAll(dec.Flush())
		if dec, ok := dec.(interface{ Release() }); ok {
			dec.Release() // What it keeps between batches.
		}
	}
}

func releaseAll(cols []arrow.Array) {
	for _, c := range cols {
		c.Release()
	}
}

// fixedReader reads the records of a stream for a source task, which owns it.
type fixedReader struct {
	f      *fixedStream
	env    *dataflow.Env
	dec    *fixedDecoder
	schema *arrow.Schema
	bad    *dataflow.BadRows
	cursor *wal.Cursor
	held   *fixedRecord
	// pos is the next record; it is read below until. started: the split is known
	// to the state.
	pos, until uint64
	started    bool
}

func newFixedReader(f *fixedStream, env *dataflow.Env) *fixedReader {
	fields := append(append([]arrow.Field{}, f.src.Schema.Fields()...),
		arrow.Field{Name: dataflow.SysPos, Type: dataflow.TypeInt64}, arrow.Field{Name: dataflow.SysArrived, Type: dataflow.TypeInt64})
	return &fixedReader{f: f, env: env, schema: arrow.NewSchema(fields, nil), bad: dataflow.NewBadRows(env)}
}

// assign sets up to where the next stretch is read: 0: for ever.
func (r *fixedReader) assign(until uint64) error {
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	r.pos, r.until = r.f.mu.pos, until
	if until > r.f.mu.end {
		return dataflow.Permanentf("%w: rows of the quarantine that were sent again: a target holds records up to %d, %s ends with %d", dataflow.ErrGap, until-1, r.f.dir, r.f.mu.end-1)
	}
	if r.until == 0 {
		r.until = 1<<63 - 1
	}
	return nil
}

// ready says whether there is a record to read.
func (r *fixedReader) ready() bool {
	if r == nil || r.pos >= r.until {
		return false
	}
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	return r.f.mu.tracker != nil && r.pos < r.f.mu.end
}

// fixedBatch is what one read gives: records with one stamp.
type fixedBatch struct {
	batch, bad, gone arrow.RecordBatch
	stamp            dataflow.Time
	first            int64 // the first record
}

// next reads some records.
func (r *fixedReader) next() (out fixedBatch, err error) {
	var rows [][]arrow.Array
	var pos, arrived []int64
	ids := array.NewStringBuilder(memory.DefaultAllocator)
	defer ids.Release()
	defer func() {
		for _, c := range rows {
			releaseAll(c)
		}
	}()
	if r.dec == nil {
		if r.dec, err = newFixedDecoder(r.f.src); err != nil {
			return out, err
		}
	}
	for ids.Len() < pollRows && r.ready() {
		rec, err := r.peek()
		if err != nil {
			return out, err
		}
		if ids.Len() > 0 && rec.Stamp != out.stamp {
			break
		}
		if ids.Len() == 0 {
			out.stamp, out.first = rec.Stamp, int64(rec.seq)
		}
		r.held, r.pos = nil, rec.seq+1
		ids.Append(rec.ID)
		cols, bad := r.dec.decode(rec)
		if bad != nil {
			payload := rec.Raw
			if rec.Row != nil {
				payload = rec.Row
			}
			r.bad.AddRaw(bad, fixedSplit, strconv.FormatUint(rec.seq, 10), payload)
			continue
		}
		rows, pos, arrived = append(rows, cols), append(pos, int64(rec.seq)), append(arrived, int64(rec.at))
	}
	if out.batch, err = r.join(rows, pos, arrived); err != nil {
		return out, err
	}
	out.bad = r.bad.Flush()
	id := ids.NewArray()
	defer id.Release()
	out.gone = array.NewRecordBatch(goneSchema, []arrow.Array{id}, int64(id.Len()))
	return out, nil
}

func (r *fixedReader) peek() (*fixedRecord, error) {
	if r.held != nil {
		return r.held, nil
	}
	if r.cursor == nil {
		r.f.mu.Lock()
		log := r.f.mu.log
		r.f.mu.Unlock()
		var err error
		if r.cursor, err = log.Read(r.pos); err != nil {
			return nil, err
		}
	}
	rec, err := nextFixed(r.cursor)
	if err == nil && rec == nil {
		err = fmt.Errorf("record %d of rows that were sent again cannot be read", r.pos)
	}
	r.held = rec
	return rec, err
}

// join makes a batch of single rows; nil: there are none.
func (r *fixedReader) join(rows [][]arrow.Array, pos, arrived []int64) (arrow.RecordBatch, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	var cols []arrow.Array
	defer func() { releaseAll(cols) }()
	for i := range r.f.src.Schema.NumFields() {
		one := make([]arrow.Array, len(rows))
		for j, row := range rows {
			one[j] = row[i]
		}
		c, err := array.Concatenate(one, memory.DefaultAllocator)
		if err != nil {
			return nil, err
		}
		cols = append(cols, c)
	}
	for _, v := range [][]int64{pos, arrived} {
		b := array.NewInt64Builder(memory.DefaultAllocator)
		b.AppendValues(v, nil)
		cols = append(cols, b.NewArray())
		b.Release()
	}
	return array.NewRecordBatch(r.schema, cols, int64(len(rows))), nil
}

func (r *fixedReader) release() {
	if r == nil {
		return
	}
	if r.cursor != nil {
		r.cursor.Close() // Nothing was written by it.
	}
	if r.dec != nil {
		r.dec.release()
	}
	r.bad.Release()
}

// Locate implements dataflow.Locator.
func (r *fixedReader) Locate(_ dataflow.Split, pos int64) string { return strconv.FormatInt(pos, 10) }

// fixedReady says whether rows that were sent again are to be read now. After the
// end of time they wait for the next run.
func (t *sourceTask) fixedReady() bool {
	return t.fixed != nil && !t.open && t.wm != dataflow.MaxTime && t.fixed.ready()
}

// fixedClock is the clock of the split: it stands at the stamp of the last row.
func (t *sourceTask) fixedClock() *splitClock {
	c := t.splits[fixedSplit]
	if c == nil {
		c = &splitClock{
			split: fixedSplit, id: t.env.Splits.ID(t.src.Name, fixedSplit), pos: fixedPosition(t.fixed.pos),
			maxTime: dataflow.MinTime, floor: dataflow.MinTime, status: checkpoint.Idle, fixed: true, atUntil: true,
		}
		t.splits[fixedSplit] = c
		t.env.Splits.SetSplitLocator(c.id, t.fixed)
	}
	return c
}

// pollFixed reads rows that were sent again, and takes them out of the quarantine.
func (t *sourceTask) pollFixed(ctx context.Context) error {
	c := t.fixedClock()
	b, err := t.fixed.next()
	if err != nil {
		return err
	}
	p := dataflow.Polled{Split: fixedSplit, Batch: b.batch, Bad: b.bad, Next: fixedPosition(t.fixed.pos)}
	defer p.Release()
	t.stampFixed(c, b)
	if err := t.outs[portGone].emit(ctx, b.gone); err != nil {
		return err
	}
	if b.bad != nil {
		t.count(b.bad.NumRows(), true)
		b.bad.Retain()
		if err := t.outs[1].emit(ctx, b.bad); err != nil {
			return err
		}
	}
	if b.batch != nil {
		if err := t.rowsOf(ctx, &p, c); err != nil {
			return err
		}
	}
	c.pos = p.Next
	t.moves.Add(1)
	t.fixed.f.read(t.fixed.pos)
	t.parked.Store(false)
	return t.advance(ctx)
}

// stampFixed brings the clock to the stamp of a batch. It is never behind the
// watermark that was sent: where the record is (it was appended beside an older
// state, which a replay has brought forward), that is a decision which a replay
// repeats.
func (t *sourceTask) stampFixed(c *splitClock, b fixedBatch) {
	c.floor = max(c.floor, b.stamp)
	for len(c.replay) > 0 && c.replay[0].Pos <= b.first {
		c.floor = max(c.floor, c.replay[0].Floor)
		c.replay = c.replay[1:]
	}
	if t.src.EventTime != nil && !t.stamper.replaying && t.wm > c.floor {
		c.floor = t.wm
		t.decisions = append(t.decisions, dataflow.ClockDecision{Source: t.src.Name, Split: fixedSplit, Pos: b.first, Floor: c.floor})
	}
}

// portGone is the port of a source's first task by which rows leave the
// quarantine, behind those of the step.
const portGone = 2

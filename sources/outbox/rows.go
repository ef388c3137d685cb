package outbox

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// value is a column of a row as the server writes it: text.
type value struct {
	text  []byte
	valid bool
	// json: the server has checked that it is JSON; bytes: it is bytea, \x and
	// hexadecimal digits.
	json, bytes bool
}

// origin is what is known of a row beside its columns.
type origin struct {
	seq  uint64
	lsn  uint64 // 0: not known, as xid and at
	xid  uint32
	at   time.Time
	have bool
}

// rows builds batches of outbox rows. One goroutine uses it.
type rows struct {
	shape *shape
	dec   dataflow.Decoder // nil without one
	bad   *dataflow.BadRows

	cols     []array.Builder // of shape.fields; nil where the decoder has them
	meta     []array.Builder
	pos      *array.Int64Builder
	arrived  *array.Int64Builder
	schema   *arrow.Schema
	size     int
	scratch  []byte
	badCount int
}

func newRows(env *dataflow.Env, s *shape, dec dataflow.Decoder) *rows {
	r := &rows{shape: s, dec: dec, bad: dataflow.NewBadRows(env), pos: array.NewInt64Builder(env.Alloc), arrived: array.NewInt64Builder(env.Alloc)}
	for _, f := range s.fields {
		if f.field.Name == "payload" && dec != nil {
			r.cols = append(r.cols, nil)
			continue
		}
		r.cols = append(r.cols, array.NewBuilder(env.Alloc, f.field.Type))
	}
	for _, m := range s.meta {
		r.meta = append(r.meta, array.NewBuilder(env.Alloc, m.field.Type))
	}
	fields := append(append([]arrow.Field{}, s.schema().Fields()...),
		arrow.Field{Name: dataflow.SysPos, Type: dataflow.TypeInt64}, arrow.Field{Name: dataflow.SysArrived, Type: dataflow.TypeInt64, Nullable: true})
	r.schema = arrow.NewSchema(fields, nil)
	return r
}

func (r *rows) release() {
	r.bad.Release()
	for _, b := range append(append([]array.Builder{r.pos, r.arrived}, r.cols...), r.meta...) {
		if b != nil {
			b.Release()
		}
	}
	if r.dec != nil {
		for _, a := range r.dec.Flush() {
			a.Release()
		}
		if dec, ok := r.dec.(interface{ Release() }); ok {
			dec.Release()
		}
	}
}

func (r *rows) count() int { return r.pos.Len() }

// bytes is about what the rows take.
func (r *rows) bytes() int { return r.size }

// add appends a row; vals are in the order of shape.fields.
func (r *rows) add(vals []value, o origin) {
	if bad, raw := r.check(vals); bad != nil {
		r.bad.AddRaw(bad, logSplit, locate(int64(o.seq)), raw)
		r.badCount++
		return
	}
	for i, v := range vals {
		r.size += len(v.text) + 8
		if r.cols[i] != nil {
			r.column(r.cols[i], v)
		}
	}
	for i, m := range r.shape.meta {
		b := r.meta[i]
		switch {
		case !o.have:
			b.AppendNull()
		case m.kind == "lsn":
			b.(*array.Int64Builder).Append(int64(o.lsn))
		case m.kind == "transaction":
			b.(*array.Int64Builder).Append(int64(o.xid))
		default:
			b.(*array.TimestampBuilder).Append(arrow.Timestamp(o.at.UnixMicro()))
		}
	}
	r.pos.Append(int64(o.seq))
	if o.have {
		r.arrived.Append(o.at.UnixMicro())
	} else {
		r.arrived.AppendNull()
	}
}

// check says why vals are no row, with what is kept of it. What the decoder takes is
// decoded here: it comes last, since then the row is one.
func (r *rows) check(vals []value) (*dataflow.Bad, []byte) {
	payload := -1
	for i, f := range r.shape.fields {
		v := vals[i]
		switch {
		case f.field.Name == "payload":
			payload = i
		case !v.valid && !f.field.Nullable:
			return &dataflow.Bad{Reason: "null_id", Detail: fmt.Sprintf("column %q of the outbox is null", f.column)}, r.whole(vals)
		}
		if bad := r.fits(f, v); bad != nil {
			return bad, r.whole(vals)
		}
	}
	if r.dec == nil || payload < 0 {
		return nil, nil
	}
	text := vals[payload].text
	if vals[payload].bytes {
		text = r.unhex(text)
	}
	if !vals[payload].valid {
		return &dataflow.Bad{Reason: "null_payload", Detail: "the payload is null, and the decode block reads it"}, r.whole(vals)
	}
	if bad := r.dec.Append(text); bad != nil {
		return bad, text
	}
	return nil, nil
}

// fits says why a value cannot be what its column is.
func (r *rows) fits(f tableField, v value) *dataflow.Bad {
	if !v.valid || f.field.Name == "payload" && r.dec != nil {
		return nil
	}
	switch {
	case arrow.TypeEqual(f.field.Type, dataflow.TypeJSON):
		if !v.json && !json.Valid(v.text) {
			return &dataflow.Bad{Reason: "invalid_json", Detail: fmt.Sprintf("column %q of the outbox is no JSON: write payload: text or bytes if that is meant", f.column)}
		}
	case f.field.Type.ID() == arrow.TIMESTAMP:
		if _, err := parseTime(v.text); err != nil {
			return &dataflow.Bad{Reason: "invalid_time", Detail: fmt.Sprintf("column %q of the outbox: expected a timestamp, got %q", f.column, v.text)}
		}
	}
	return nil
}

// whole is a row as JSON, for the quarantine.
func (r *rows) whole(vals []value) []byte {
	out := map[string]any{}
	for i, f := range r.shape.fields {
		if vals[i].valid {
			out[f.column] = string(vals[i].text)
		} else {
			out[f.column] = nil
		}
	}
	b, _ := json.Marshal(out) // Strings.
	return b
}

func (r *rows) column(b array.Builder, v value) {
	if !v.valid {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.StringBuilder:
		b.BinaryBuilder.Append(v.text)
	case *array.BinaryBuilder:
		if v.bytes {
			b.Append(r.unhex(v.text))
		} else {
			b.Append(v.text)
		}
	case *array.TimestampBuilder:
		t, _ := parseTime(v.text) // Checked.
		b.Append(arrow.Timestamp(t.UnixMicro()))
	case *array.ExtensionBuilder:
		b.StorageBuilder().(*array.StringBuilder).BinaryBuilder.Append(v.text)
	}
}

// unhex reads \x0a1b; what is not of this form stays as it is.
func (r *rows) unhex(text []byte) []byte {
	if len(text) < 2 || text[0] != '\\' || text[1] != 'x' {
		return text
	}
	n := hex.DecodedLen(len(text) - 2)
	if cap(r.scratch) < n {
		r.scratch = make([]byte, n)
	}
	if _, err := hex.Decode(r.scratch[:n], text[2:]); err != nil {
		return text
	}
	return r.scratch[:n]
}

// layouts are the forms in which servers write times, with and without a zone.
var layouts = []string{"2006-01-02 15:04:05.999999-07", "2006-01-02 15:04:05.999999-07:00", "2006-01-02 15:04:05.999999", time.RFC3339Nano}

func parseTime(text []byte) (t time.Time, err error) {
	for _, l := range layouts {
		if t, err = time.Parse(l, string(text)); err == nil {
			return t, nil
		}
	}
	return t, err
}

// flush returns the batch, nil if there are no rows, and the bad rows.
func (r *rows) flush() (batch, bad arrow.RecordBatch) {
	bad, r.badCount, r.size = r.bad.Flush(), 0, 0
	n := r.pos.Len()
	if n == 0 {
		return nil, bad
	}
	var cols []arrow.Array
	for _, b := range r.cols {
		if b == nil {
			cols = append(cols, r.dec.Flush()...)
			continue
		}
		cols = append(cols, b.NewArray())
	}
	for _, b := range r.meta {
		cols = append(cols, b.NewArray())
	}
	cols = append(cols, r.pos.NewArray(), r.arrived.NewArray())
	batch = array.NewRecordBatch(r.schema, cols, int64(n))
	for _, c := range cols {
		c.Release()
	}
	return batch, bad
}

func locate(seq int64) string { return fmt.Sprintf("row %d", seq) }

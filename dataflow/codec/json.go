package codec

import (
	"fmt"

	"slices"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/valyala/fastjson"
)

// JSON decodes JSON documents into rows of one schema. One goroutine uses it.
// It keeps memory for the next batch; what Flush returns is the allocator's.
//
// A batch must be flushed before one column of it holds 2 GiB: see Bytes.
type JSON struct {
	schema   *arrow.Schema
	cfg      JSONConfig
	root     *object
	whole    *column // nil without one
	depth    int
	extraBad bool

	n        int // rows since the last Flush
	cap      int // rows that fit
	small    int // batches in a row that filled little of that
	rowBytes int
	bytes    int
	gen      uint64
	scratch  []byte
	// extraSeen are the extra fields of the record at hand, counted when it is a
	// row.
	extraSeen []*extraField
	parser    fastjson.Parser
	// viaReference turns the fast pass off; only tests do.
	viaReference bool
	fastRows     int64 // rows that the fast pass took
}

// NewJSON makes a decoder. Problems with c are those of Check.
func NewJSON(c JSONConfig, alloc memory.Allocator) (dataflow.Decoder, error) {
	schema, err := c.ArrowSchema()
	if err != nil {
		return nil, err
	}
	c = c.withDefaults()
	if alloc == nil {
		alloc = memory.DefaultAllocator
	}
	lo, hi, err := c.times()
	if err != nil {
		return nil, err
	}
	d := &JSON{schema: schema, cfg: c, depth: c.Depth, extraBad: c.Extra == ExtraBad}
	var cols []*column
	for _, f := range c.Schema {
		spec, err := dataflow.ParseType(f.Type)
		if err != nil {
			return nil, err
		}
		col, err := newColumn(dataflow.FieldSpec{Name: f.Name, Spec: spec}, lo, hi, alloc)
		if err != nil {
			return nil, err
		}
		col.required = slices.Contains(c.Required, f.Name)
		cols = append(cols, col)
		d.rowBytes += col.rowBytes()
	}
	d.root = newObject(cols)
	if c.Whole != "" {
		spec := dataflow.FieldSpec{Name: c.Whole, Spec: dataflow.TypeSpec{Type: dataflow.TypeJSON}}
		if d.whole, err = newColumn(spec, lo, hi, alloc); err != nil {
			return nil, err
		}
		d.rowBytes += d.whole.rowBytes()
	}
	return d, nil
}

// Schema returns the columns.
func (d *JSON) Schema() *arrow.Schema { return d.schema }

// Config is what the decoder was made of, with its defaults.
func (d *JSON) Config() JSONConfig { return d.cfg }

// MaxRecord is the size in bytes above which a payload is bad (too_large). A
// caller need not collect more than one byte beyond it.
func (d *JSON) MaxRecord() int { return int(d.cfg.MaxRecord) }

// Append decodes one document and appends its row; see dataflow.Decoder.
func (d *JSON) Append(payload []byte) *dataflow.Bad {
	if len(payload) > int(d.cfg.MaxRecord) {
		return &dataflow.Bad{Reason: ReasonTooLarge, Detail: fmt.Sprintf("record of %d bytes, expected at most max_record = %s", len(payload), d.cfg.MaxRecord)}
	}
	if n := d.cfg.MaxFields; len(payload) >= minMember*n && tooManyMembers(payload, n) {
		return &dataflow.Bad{Reason: ReasonTooManyFields, Detail: fmt.Sprintf("objects with more members than max_fields = %d", n)}
	}
	if d.n == d.cap {
		d.grow()
	}
	d.extraSeen = d.extraSeen[:0]
	if d.viaReference || !d.document(payload, d.n) {
		if bad := d.reference(payload, d.n); bad != nil {
			return bad
		}
	} else {
		d.fastRows++
	}
	if d.whole != nil {
		d.whole.setRoom(d.n, appendCompact(d.whole.room(d.n, len(payload)), payload))
		d.bytes += len(payload)
	}
	for _, x := range d.extraSeen {
		x.n++
	}
	d.n++
	d.bytes += len(payload) + d.rowBytes
	return nil
}

func (d *JSON) grow() {
	d.cap = max(2*d.cap, 16)
	for _, c := range d.root.cols {
		c.ensure(d.cap)
	}
	if d.whole != nil {
		d.whole.ensure(d.cap)
	}
}

// Rows counts the rows since the last Flush.
func (d *JSON) Rows() int { return d.n }

// Bytes estimates the memory of these rows, from above for most of them: the
// payloads and the fixed part of each row.
func (d *JSON) Bytes() int { return d.bytes }

// Flush returns the columns and starts anew; the caller owns them.
func (d *JSON) Flush() []arrow.Array {
	out := make([]arrow.Array, 0, len(d.root.cols)+1)
	for _, c := range d.root.cols {
		out = append(out, c.flush(d.n))
	}
	if d.whole != nil {
		out = append(out, d.whole.flush(d.n))
	}
	if d.n >= d.cap/8 {
		d.small = 0
	} else if d.small++; d.small == maxSmall {
		d.Release()
	}
	d.n, d.bytes = 0, 0
	return out
}

// maxSmall is after how many batches in a row that fill less than an eighth of
// the memory kept it is given back.
const maxSmall = 32

// Release gives up what is kept, and with it the rows since the last Flush. The
// decoder may be used again.
func (d *JSON) Release() {
	for _, c := range d.root.cols {
		c.release()
	}
	if d.whole != nil {
		d.whole.release()
	}
	d.n, d.cap, d.bytes, d.small = 0, 0, 0, 0
}

// Extra counts the fields outside the schema of all rows so far, by name, those
// of structs as "outer.inner". At most about a thousand names of each object are
// told apart.
func (d *JSON) Extra() map[string]int64 {
	out := map[string]int64{}
	addExtra(out, "", d.root)
	return out
}

func addExtra(out map[string]int64, prefix string, o *object) {
	for name, x := range o.extras.byName {
		if x.n > 0 {
			out[prefix+name] += x.n
		}
	}
	for _, c := range o.cols {
		at := prefix + c.name
		for c.elem != nil {
			c = c.elem
		}
		if c.obj != nil {
			addExtra(out, at+".", c.obj)
		}
	}
}

var _ dataflow.Decoder = (*JSON)(nil)

package dataflow

import (
	"encoding/json"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// BadSchema is the schema of every port "bad". raw holds a record that could
// not be decoded, row the JSON text of a row that an operator or sink refused.
var BadSchema = arrow.NewSchema([]arrow.Field{
	{Name: "reason", Type: TypeString},
	{Name: "detail", Type: TypeString},
	{Name: "step", Type: TypeString},
	{Name: "source", Type: TypeString, Nullable: true},
	{Name: "split", Type: TypeString, Nullable: true},
	{Name: "position", Type: TypeString, Nullable: true},
	{Name: "raw", Type: TypeBinary, Nullable: true},
	{Name: "row", Type: TypeString, Nullable: true},
}, nil)

// BadPort is the port that components with bad rows declare.
func BadPort() Port { return Port{Name: PortBad, Stream: Stream{Schema: BadSchema}} }

// BadRows collects bad rows of one component. One goroutine uses it.
type BadRows struct {
	env *Env
	b   *array.RecordBuilder
	n   int
}

// NewBadRows collects for env's step.
func NewBadRows(env *Env) *BadRows { return &BadRows{env: env} }

// Len counts the rows since the last Flush.
func (r *BadRows) Len() int { return r.n }

func (r *BadRows) start(reason, detail string) {
	if r.b == nil {
		alloc := r.env.Alloc
		if alloc == nil {
			alloc = memory.DefaultAllocator
		}
		r.b = array.NewRecordBuilder(alloc, BadSchema)
	}
	r.n++
	r.str(0, reason)
	r.str(1, detail)
	r.str(2, r.env.Step)
}

func (r *BadRows) str(col int, s string) { r.b.Field(col).(*array.StringBuilder).Append(s) }

// AddRaw adds a record of this source step that could not be decoded; where is
// its place as people read it. It copies raw.
func (r *BadRows) AddRaw(bad *Bad, split Split, where string, raw []byte) {
	r.start(bad.Reason, bad.Detail)
	r.str(3, r.env.Step)
	r.str(4, string(split))
	r.str(5, where)
	r.b.Field(6).(*array.BinaryBuilder).Append(raw)
	r.b.Field(7).AppendNull()
}

// AddRow adds row i of b, with the origin that its system columns tell.
func (r *BadRows) AddRow(bad *Bad, b arrow.RecordBatch, i int) {
	r.start(bad.Reason, bad.Detail)
	if source, split, where, ok := r.env.Splits.Origin(b, i); ok {
		r.str(3, source)
		r.str(4, string(split))
		r.str(5, where)
	} else {
		for c := 3; c <= 5; c++ {
			r.b.Field(c).AppendNull()
		}
	}
	r.b.Field(6).AppendNull()
	r.str(7, string(RowJSON(b, i)))
}

// Flush returns the rows as one batch owned by the caller, or nil.
func (r *BadRows) Flush() arrow.RecordBatch {
	if r.n == 0 {
		return nil
	}
	r.n = 0
	return r.b.NewRecordBatch()
}

// Release frees the builder.
func (r *BadRows) Release() {
	if r.b != nil {
		r.b.Release()
		r.b = nil
	}
}

// RowJSON writes the user's columns of row i as a JSON object, keys in the
// order of the schema. It is for people and programs that look at single rows,
// not for the hot path.
func RowJSON(b arrow.RecordBatch, i int) []byte {
	out := []byte{'{'}
	for c, f := range UserFields(b.Schema()) {
		if c > 0 {
			out = append(out, ',')
		}
		k, _ := json.Marshal(f.Name)
		out = append(out, k...)
		out = append(out, ':')
		out = AppendJSON(out, b.Column(c), i)
	}
	return append(out, '}')
}

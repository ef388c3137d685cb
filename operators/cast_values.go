package operators

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"frazil/dataflow"
	"frazil/dataflow/codec"
	"frazil/dataflow/component"
	"frazil/operators/expr"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// values makes what runs the conversion.
func (c *castColumn) values(env *dataflow.Env) (castValues, error) {
	switch {
	case c.units != nil:
		return &castNumbers{column: c, alloc: env.Alloc}, nil
	case c.write:
		return &castDocuments{column: c, alloc: env.Alloc}, nil
	case c.parse != "":
		d, err := newJSONValues(c.field.Name, c.parse, env.Alloc)
		return &castTexts{column: c, values: d}, err
	}
	return &castExpr{column: c, eval: c.expr.NewEvaluator(env.Alloc)}, nil
}

// castExpr casts as expressions do.
type castExpr struct {
	column *castColumn
	eval   *expr.Evaluator
}

func (x *castExpr) convert(b arrow.RecordBatch) (arrow.Array, []expr.RowError, error) {
	return x.eval.Eval(b)
}

// castUnit is how many microseconds a unit has: mul, or one in div.
type castUnit struct{ mul, div int64 }

func newCastUnit(unit string) *castUnit {
	switch unit {
	case "s":
		return &castUnit{1_000_000, 1}
	case "ms":
		return &castUnit{1_000, 1}
	case "ns":
		return &castUnit{1, 1_000}
	}
	return &castUnit{1, 1}
}

// micros converts n; ok is false outside of the years 1 to 9999.
func (u *castUnit) micros(n int64) (micros int64, ok bool) {
	if u.div > 1 {
		q := n / u.div
		if n%u.div < 0 {
			q--
		}
		n = q
	}
	if n > math.MaxInt64/u.mul || n < math.MinInt64/u.mul {
		return 0, false
	}
	n *= u.mul
	return n, dataflow.Time(n) >= dataflow.MinEventTime && dataflow.Time(n) <= dataflow.MaxEventTime
}

// castNumbers makes times of numbers in a unit. Digits below the microsecond are cut
// off, as in decode.
type castNumbers struct {
	column *castColumn
	alloc  memory.Allocator
	errs   []expr.RowError
}

func (x *castNumbers) convert(b arrow.RecordBatch) (arrow.Array, []expr.RowError, error) {
	a := b.Column(x.column.index)
	x.errs = x.errs[:0]
	made := array.NewTimestampBuilder(x.alloc, x.column.field.Type.(*arrow.TimestampType))
	defer made.Release()
	made.Reserve(a.Len())
	for i := range a.Len() {
		if a.IsNull(i) {
			made.AppendNull()
			continue
		}
		n := int64(0)
		switch a := a.(type) {
		case *array.Int32:
			n = int64(a.Value(i))
		case *array.Int64:
			n = a.Value(i)
		}
		micros, ok := x.column.units.micros(n)
		if !ok {
			x.errs = append(x.errs, expr.RowError{Row: i, Bad: dataflow.Bad{Reason: "out_of_range",
				Detail: fmt.Sprintf("column %q: expected a time in the years 1 to 9999, got %d", x.column.field.Name, n)}})
			made.AppendNull()
			continue
		}
		made.Append(arrow.Timestamp(micros))
	}
	return made.NewArray(), x.errs, nil
}

// castDocuments makes JSON documents, as text or as json.
type castDocuments struct {
	column *castColumn
	alloc  memory.Allocator
	doc    []byte
}

func (x *castDocuments) convert(b arrow.RecordBatch) (arrow.Array, []expr.RowError, error) {
	a := b.Column(x.column.index)
	made := array.NewStringBuilder(x.alloc)
	defer made.Release()
	made.Reserve(a.Len())
	for i := range a.Len() {
		if a.IsNull(i) {
			made.AppendNull()
			continue
		}
		x.doc = dataflow.AppendJSON(x.doc[:0], a, i)
		made.BinaryBuilder.Append(x.doc)
	}
	text := made.NewArray()
	if x.column.field.Type.ID() == arrow.STRING {
		return text, nil, nil
	}
	defer text.Release()
	doc := array.NewExtensionArrayWithStorage(x.column.field.Type.(arrow.ExtensionType), text)
	return doc, nil, nil
}

// castTexts reads JSON documents, or texts as strings of one.
type castTexts struct {
	column *castColumn
	values *jsonValues
	errs   []expr.RowError
}

func (x *castTexts) convert(b arrow.RecordBatch) (arrow.Array, []expr.RowError, error) {
	a := b.Column(x.column.index)
	text, checked := textsOf(a)
	x.errs = x.errs[:0]
	for i := range a.Len() {
		if a.IsNull(i) {
			x.values.null()
			continue
		}
		if bad := x.append(text.Value(i), checked); bad != nil {
			x.errs = append(x.errs, expr.RowError{Row: i, Bad: *bad})
			x.values.null()
		}
	}
	return x.values.flush(), x.errs, nil
}

func (x *castTexts) append(text string, checked bool) *dataflow.Bad {
	if x.column.quoted {
		return x.values.quoted(text)
	}
	return x.values.document(text, checked)
}

func (x *castTexts) release() { x.values.release() }

// textsOf returns the texts of a string or json column, and whether they are known to
// be documents.
func textsOf(a arrow.Array) (texts *array.String, documents bool) {
	if j, ok := a.(*extensions.JSONArray); ok {
		return j.Storage().(*array.String), true
	}
	return a.(*array.String), false
}

// jsonValues reads values of one type out of JSON, by the rules of decode: each as the
// only field of a document.
type jsonValues struct {
	decoder dataflow.Decoder
	head    []byte
	payload []byte
}

// maxJSONValue bounds one value; what the source let through is not measured again.
const maxJSONValue = 64 << 20

// newJSONValues is for the column name, as messages call it; text is the type.
func newJSONValues(name, text string, alloc memory.Allocator) (*jsonValues, error) {
	cfg := codec.DefaultJSONConfig()
	cfg.Schema = component.NamedTypes{{Name: name, Type: text}}
	cfg.MaxRecord, cfg.MaxFields, cfg.Depth = maxJSONValue, math.MaxInt32, 256
	d, err := codec.NewJSON(cfg, alloc)
	if err != nil {
		return nil, err
	}
	key, err := json.Marshal(name)
	if err != nil {
		return nil, fmt.Errorf("write the name %q: %w", name, err)
	}
	return &jsonValues{decoder: d, head: append(append([]byte{'{'}, key...), ':')}, nil
}

func (v *jsonValues) append() *dataflow.Bad {
	v.payload = append(v.payload, '}')
	bad := v.decoder.Append(v.payload)
	if bad == nil {
		return nil
	}
	// The place is one in the document that holds the value, which nobody has seen.
	if what, at, ok := strings.Cut(bad.Detail, " at byte "); ok {
		if n, err := strconv.Atoi(at); err == nil && n > len(v.head) {
			return &dataflow.Bad{Reason: bad.Reason, Detail: fmt.Sprintf("%s at byte %d", what, n-len(v.head))}
		}
		return &dataflow.Bad{Reason: bad.Reason, Detail: what}
	}
	return bad
}

// null appends a null.
func (v *jsonValues) null() {
	v.payload = append(append(v.payload[:0], v.head...), "null"...)
	if bad := v.append(); bad != nil {
		panic("a null is refused: " + bad.Error())
	}
}

// quoted appends the value that a JSON string with this text has; after an error
// nothing is appended.
func (v *jsonValues) quoted(text string) *dataflow.Bad {
	v.payload = append(v.payload[:0], v.head...)
	v.payload = appendQuoted(v.payload, text)
	return v.append()
}

// document appends the value of a JSON document; checked: it is known to be one.
func (v *jsonValues) document(text string, checked bool) *dataflow.Bad {
	v.payload = append(append(v.payload[:0], v.head...), text...)
	if !checked && !json.Valid(v.payload[len(v.head):]) {
		return &dataflow.Bad{Reason: "invalid_json", Detail: fmt.Sprintf("column %s the text is no JSON document: %q", v.head[1:], shortText(text))}
	}
	return v.append()
}

// flush returns the values since the last one; the caller owns them.
func (v *jsonValues) flush() arrow.Array { return v.decoder.Flush()[0] }

func (v *jsonValues) release() {
	if r, ok := v.decoder.(interface{ Release() }); ok {
		r.Release()
	}
}

// appendQuoted writes text as a JSON string.
func appendQuoted(dst []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			quoted, err := json.Marshal(text)
			if err != nil {
				return append(dst, `""`...)
			}
			return append(dst, quoted...)
		}
	}
	return append(append(append(dst, '"'), text...), '"')
}

// shortText cuts a text for a message.
func shortText(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:57]) + "..."
	}
	return s
}

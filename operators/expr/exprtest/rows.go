package exprtest

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"frazil/dataflow"
	"frazil/operators/expr"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Column is a column of random rows.
type Column struct {
	Name string
	// Type is the registry's name of the type, SQL PostgreSQL's.
	Type, SQL string
}

// Rows are random rows, as texts; a null is nil.
type Rows struct {
	Columns []Column
	Values  [][]*string // by row
}

var columnNames = map[string][]string{
	"bool": {"b", "c"}, "int32": {"i4", "j4"}, "int64": {"i8", "j8"}, "decimal": {"n", "m"},
	"float32": {"f4", "g4"}, "float64": {"f8", "g8"}, "string": {"s", "t"}, "binary": {"y", "z"}, "date": {"dt", "du"},
	"time": {"tm", "tn"}, "timestamp": {"ts", "tu"}, "timestamptz": {"tz", "tv"}, "interval": {"iv", "iw"},
	"uuid": {"u", "v"}, "json": {"js", "jt"},
	"int32[]": {"ai", "aj"}, "string[]": {"at", "au"}, "float64[]": {"af", "ag"},
}

// NewRows makes n rows with two columns of each type that expressions know. A tenth
// of the values are null, and values repeat.
func NewRows(rng *rand.Rand, n int) *Rows {
	r := &Rows{}
	for _, t := range types {
		if !known(t.sql) {
			continue
		}
		for _, name := range columnNames[t.name] {
			r.Columns = append(r.Columns, Column{Name: name, Type: t.name, SQL: t.column})
		}
	}
	for range n {
		row := make([]*string, len(r.Columns))
		for i, c := range r.Columns {
			if rng.IntN(10) > 0 {
				v := typeNamed(c.Type).value(rng)
				row[i] = &v
			}
		}
		r.Values = append(r.Values, row)
	}
	return r
}

// known says whether expressions have a type of PostgreSQL's.
func known(sql string) bool {
	_, err := expr.Compile("null::"+sql, arrow.NewSchema(nil, nil))
	return err == nil
}

// Batch returns the rows as the values that the texts are when they are cast. The
// caller releases it.
func (r *Rows) Batch(alloc memory.Allocator) (arrow.RecordBatch, error) {
	var fields []arrow.Field
	var cols []arrow.Array
	defer func() {
		for _, c := range cols {
			c.Release()
		}
	}()
	for i, c := range r.Columns {
		a, err := r.column(i, alloc)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.Name, err)
		}
		cols = append(cols, a)
		fields = append(fields, arrow.Field{Name: c.Name, Type: a.DataType(), Nullable: true})
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, int64(len(r.Values))), nil
}

func (r *Rows) column(i int, alloc memory.Allocator) (arrow.Array, error) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: dataflow.TypeString, Nullable: true}}, nil)
	b := array.NewRecordBuilder(alloc, schema)
	defer b.Release()
	for _, row := range r.Values {
		if row[i] == nil {
			b.Field(0).AppendNull()
		} else {
			b.Field(0).(*array.StringBuilder).Append(*row[i])
		}
	}
	texts := b.NewRecordBatch()
	defer texts.Release()
	e, err := expr.Compile("x::"+r.Columns[i].SQL, schema)
	if err != nil {
		return nil, err
	}
	a, bad, err := e.NewEvaluator(alloc).Eval(texts)
	if err != nil {
		return nil, err
	}
	if len(bad) > 0 {
		a.Release()
		return nil, fmt.Errorf("row %d: %v", bad[0].Row, bad[0].Bad)
	}
	return a, nil
}

// Create returns the statements that make table with a column id, from 0, and the
// rows.
func (r *Rows) Create(table string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "create table %s (id int primary key", table)
	for _, c := range r.Columns {
		fmt.Fprintf(&b, ", %s %s", c.Name, c.SQL)
	}
	b.WriteString(");\n")
	for i, row := range r.Values {
		fmt.Fprintf(&b, "insert into %s values (%d", table, i)
		for _, v := range row {
			b.WriteString(", " + quote(v))
		}
		b.WriteString(");\n")
	}
	return b.String()
}

func quote(v *string) string {
	if v == nil {
		return "null"
	}
	return "'" + strings.ReplaceAll(*v, "'", "''") + "'"
}

// Text writes row i for messages, only the columns that stand in text.
func (r *Rows) Text(i int, text string) string {
	var out []string
	for k, c := range r.Columns {
		if mentions(text, c.Name) {
			out = append(out, c.Name+" = "+quote(r.Values[i][k]))
		}
	}
	return strings.Join(out, ", ")
}

func mentions(text, name string) bool {
	for at := 0; ; {
		k := strings.Index(text[at:], name)
		if k < 0 {
			return false
		}
		at += k
		if (at == 0 || !wordByte(text[at-1])) && (at+len(name) == len(text) || !wordByte(text[at+len(name)])) {
			return true
		}
		at++
	}
}

func wordByte(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
}

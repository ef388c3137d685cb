package iceberg

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	icebergo "github.com/apache/iceberg-go"
	"github.com/google/uuid"
	"github.com/twmb/murmur3"
)

// partitioner tells rows of one partition spec apart. Keys are typed, so that
// null, "null" and "" are three partitions.
type partitioner struct {
	fields []keyField
}

// keyField is one field of the spec.
type keyField struct {
	id        int
	name      string
	col       int // in the row's schema; -1: always null
	typ       icebergo.Type
	transform icebergo.Transform
}

// newPartitioner binds spec to the columns that files will have.
func newPartitioner(spec icebergo.PartitionSpec, schema *icebergo.Schema, cols []icebergo.NestedField) (partitioner, error) {
	var p partitioner
	for _, f := range spec.Fields() {
		k := keyField{id: f.FieldID, name: f.Name, col: -1, transform: f.Transform}
		switch f.Transform.(type) {
		case icebergo.VoidTransform:
			p.fields = append(p.fields, k)
			continue
		case icebergo.IdentityTransform, icebergo.BucketTransform, icebergo.TruncateTransform,
			icebergo.YearTransform, icebergo.MonthTransform, icebergo.DayTransform, icebergo.HourTransform:
		default:
			return p, dataflow.Permanentf("partition field %q: the table uses transform %s, which this sink does not know", f.Name, f.Transform)
		}
		src, ok := topFieldByID(schema, f.SourceID())
		if !ok {
			return p, dataflow.Permanentf("partition field %q: its source (field id %d) is no top-level column, which this sink does not support", f.Name, f.SourceID())
		}
		k.typ = src.Type
		for i, c := range cols {
			if c.ID == src.ID {
				k.col = i
			}
		}
		p.fields = append(p.fields, k)
	}
	return p, nil
}

func topFieldByID(s *icebergo.Schema, id int) (icebergo.NestedField, bool) {
	for _, f := range s.Fields() {
		if f.ID == id {
			return f, true
		}
	}
	return icebergo.NestedField{}, false
}

// rowKey appends the key of a row to dst.
type rowKey func(dst []byte, row int) []byte

// bind prepares the keys of b's rows.
func (p partitioner) bind(b arrow.RecordBatch) []rowKey {
	keys := make([]rowKey, len(p.fields))
	for i, f := range p.fields {
		if f.col < 0 {
			keys[i] = func(dst []byte, _ int) []byte { return append(dst, 0) }
			continue
		}
		a, inner := b.Column(f.col), f.bind(b.Column(f.col))
		keys[i] = func(dst []byte, row int) []byte {
			if a.IsNull(row) {
				return append(dst, 0)
			}
			return inner(append(dst, 1), row)
		}
	}
	return keys
}

func (f keyField) bind(col arrow.Array) rowKey {
	switch a := col.(type) {
	case *array.Boolean:
		return func(dst []byte, row int) []byte {
			if a.Value(row) {
				return append(dst, 1)
			}
			return append(dst, 0)
		}
	case *array.Int32:
		return numberKey(f.transform, 0, func(row int) int64 { return int64(a.Value(row)) })
	case *array.Date32:
		return numberKey(f.transform, microsPerDay, func(row int) int64 { return int64(a.Value(row)) })
	case *array.Int64:
		return numberKey(f.transform, 0, a.Value)
	case *array.Time64:
		return numberKey(f.transform, 0, func(row int) int64 { return int64(a.Value(row)) })
	case *array.Timestamp:
		return numberKey(f.transform, 1, func(row int) int64 { return int64(a.Value(row)) })
	case *array.Float32:
		return numberKey(f.transform, 0, func(row int) int64 { return int64(math.Float32bits(a.Value(row))) })
	case *array.Float64:
		return numberKey(f.transform, 0, func(row int) int64 { return int64(math.Float64bits(a.Value(row))) })
	case *array.String:
		return textKey(f.transform, func(row int) []byte { return unsafeBytes(a.Value(row)) }, true)
	case *array.Binary:
		return textKey(f.transform, a.Value, false)
	case *array.FixedSizeBinary:
		return textKey(f.transform, a.Value, false)
	}
	// Decimals: by way of the library's literals.
	return func(dst []byte, row int) []byte {
		v := f.value(col, row)
		return append(fmt.Appendf(dst, "%v", v), 0)
	}
}

const microsPerDay = 24 * 60 * 60 * 1000000

// numberKey is the key of values that are integers. unit is how many
// microseconds one step of a time is.
func numberKey(t icebergo.Transform, unit int64, value func(row int) int64) rowKey {
	var f func(v int64) int64
	switch t := t.(type) {
	case icebergo.BucketTransform:
		f = func(v int64) int64 {
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], uint64(v))
			return bucket(b[:], t.NumBuckets)
		}
	case icebergo.TruncateTransform:
		f = func(v int64) int64 { return v - floorMod(v, int64(t.Width)) }
	case icebergo.HourTransform:
		f = func(v int64) int64 { return floorDiv(v*unit, microsPerDay/24) }
	case icebergo.DayTransform:
		f = func(v int64) int64 { return floorDiv(v*unit, microsPerDay) }
	case icebergo.MonthTransform:
		f = func(v int64) int64 {
			at := time.UnixMicro(v * unit).UTC()
			return int64(at.Year()*12 + int(at.Month()))
		}
	case icebergo.YearTransform:
		f = func(v int64) int64 { return int64(time.UnixMicro(v * unit).UTC().Year()) }
	default:
		f = func(v int64) int64 { return v }
	}
	return func(dst []byte, row int) []byte {
		return binary.LittleEndian.AppendUint64(dst, uint64(f(value(row))))
	}
}

func textKey(t icebergo.Transform, value func(row int) []byte, runes bool) rowKey {
	switch t := t.(type) {
	case icebergo.BucketTransform:
		return func(dst []byte, row int) []byte {
			return binary.LittleEndian.AppendUint64(dst, uint64(bucket(value(row), t.NumBuckets)))
		}
	case icebergo.TruncateTransform:
		inner := value
		value = func(row int) []byte { return prefix(inner(row), t.Width, runes) }
	}
	return func(dst []byte, row int) []byte {
		v := value(row)
		return append(binary.AppendUvarint(dst, uint64(len(v))), v...)
	}
}

func prefix(v []byte, width int, runes bool) []byte {
	if !runes {
		return v[:min(width, len(v))]
	}
	n := 0
	for range width {
		if n >= len(v) {
			return v
		}
		_, size := utf8.DecodeRune(v[n:])
		n += size
	}
	return v[:n]
}

// bucket is Iceberg's bucket transform of the bytes that stand for a value.
func bucket(b []byte, n int) int64 {
	return int64(murmur3.Sum32(b)&math.MaxInt32) % int64(n)
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func floorMod(a, b int64) int64 { return a - floorDiv(a, b)*b }

// values computes the partition of a row as the library's values by field id.
// A missing entry is null.
func (p partitioner) values(b arrow.RecordBatch, row int) map[int]any {
	out := make(map[int]any, len(p.fields))
	for _, f := range p.fields {
		if f.col < 0 {
			continue
		}
		if v := f.value(b.Column(f.col), row); v != nil {
			out[f.id] = v
		}
	}
	return out
}

func (f keyField) value(a arrow.Array, row int) any {
	lit := literal(a, row)
	if lit == nil {
		return nil
	}
	out := f.transform.Apply(icebergo.Optional[icebergo.Literal]{Val: lit, Valid: true})
	if !out.Valid {
		return nil
	}
	return out.Val.Any()
}

func literal(a arrow.Array, row int) icebergo.Literal {
	if a.IsNull(row) {
		return nil
	}
	switch a := a.(type) {
	case *array.Boolean:
		return icebergo.NewLiteral(a.Value(row))
	case *array.Int32:
		return icebergo.NewLiteral(a.Value(row))
	case *array.Int64:
		return icebergo.NewLiteral(a.Value(row))
	case *array.Float32:
		return icebergo.NewLiteral(a.Value(row))
	case *array.Float64:
		return icebergo.NewLiteral(a.Value(row))
	case *array.Date32:
		return icebergo.NewLiteral(icebergo.Date(a.Value(row)))
	case *array.Time64:
		return icebergo.NewLiteral(icebergo.Time(a.Value(row)))
	case *array.Timestamp:
		return icebergo.NewLiteral(icebergo.Timestamp(a.Value(row)))
	case *array.String:
		return icebergo.NewLiteral(strings.Clone(a.Value(row)))
	case *array.Binary:
		return icebergo.NewLiteral(append([]byte{}, a.Value(row)...))
	case *array.FixedSizeBinary:
		return icebergo.NewLiteral(uuid.UUID(a.Value(row)))
	case *array.Decimal128:
		return icebergo.NewLiteral(icebergo.Decimal{Val: a.Value(row), Scale: int(a.DataType().(*arrow.Decimal128Type).Scale)})
	}
	return nil
}

// dir is the folder of a partition's files: for people only, so it holds
// nothing that any reader or store would escape. What it cannot tell apart the
// file's own name does.
func (p partitioner) dir(values map[int]any) string {
	if len(p.fields) == 0 {
		return ""
	}
	parts := make([]string, len(p.fields))
	for i, f := range p.fields {
		text := "null"
		if v, ok := values[f.id]; ok {
			text = f.transform.ToHumanStr(v)
			if f.typ != nil {
				text = f.transform.ToHumanStrType(f.transform.ResultType(f.typ), v)
			}
		}
		parts[i] = plain(f.name) + "=" + plain(text)
	}
	return strings.Join(parts, "/") + "/"
}

// plain keeps letters, digits, dots, dashes and underscores of s, at most 60.
func plain(s string) string {
	var out strings.Builder
	for _, r := range s {
		switch {
		case out.Len() >= 60:
			return out.String()
		case r >= '0' && r <= '9', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r == '-', r == '_', r == '.' && out.Len() > 0:
			out.WriteRune(r)
		default:
			out.WriteByte('_')
		}
	}
	return out.String()
}

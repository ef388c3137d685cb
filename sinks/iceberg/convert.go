package iceberg

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// workType is t without extension types: what rows are kept as between Write
// and the file, since kernels know only storage types.
func workType(t arrow.DataType) arrow.DataType {
	switch t := t.(type) {
	case arrow.ExtensionType:
		return t.StorageType()
	case *arrow.ListType:
		f := t.ElemField()
		f.Type = workType(f.Type)
		return arrow.ListOfField(f)
	case *arrow.StructType:
		fields := t.Fields()
		out := make([]arrow.Field, len(fields))
		for i, f := range fields {
			f.Type = workType(f.Type)
			out[i] = f
		}
		return arrow.StructOf(out...)
	}
	return t
}

// workSchema is s with workType of each column.
func workSchema(s *arrow.Schema) *arrow.Schema {
	fields := make([]arrow.Field, s.NumFields())
	for i, f := range s.Fields() {
		f.Type = workType(f.Type)
		fields[i] = f
	}
	return arrow.NewSchema(fields, nil)
}

// convert returns a as type to: the same buffers where the layout is the same,
// widened numbers otherwise. The caller owns the result.
func convert(mem memory.Allocator, a arrow.Array, to arrow.DataType) (arrow.Array, error) {
	from := a.DataType()
	if arrow.TypeEqual(from, to) {
		a.Retain()
		return a, nil
	}
	switch {
	case from.ID() == arrow.INT32 && to.ID() == arrow.INT64:
		return widen(mem, a.(*array.Int32).Int32Values(), a, func(v int32) int64 { return int64(v) }, to)
	case from.ID() == arrow.FLOAT32 && to.ID() == arrow.FLOAT64:
		return widen(mem, a.(*array.Float32).Float32Values(), a, func(v float32) float64 { return float64(v) }, to)
	}
	switch to := to.(type) {
	case *arrow.ListType:
		if from, ok := from.(*arrow.ListType); ok {
			return convertList(mem, a, from, to)
		}
	case *arrow.StructType:
		if from, ok := from.(*arrow.StructType); ok {
			return convertStruct(mem, a, from, to)
		}
	}
	if storageOf(from).ID() != storageOf(to).ID() {
		return nil, fmt.Errorf("convert %s to %s: not possible", from, to)
	}
	return relabel(a, to, nil), nil
}

func storageOf(t arrow.DataType) arrow.DataType {
	if e, ok := t.(arrow.ExtensionType); ok {
		return e.StorageType()
	}
	return t
}

// relabel makes an array of type to over a's buffers.
func relabel(a arrow.Array, to arrow.DataType, children []arrow.ArrayData) arrow.Array {
	d := a.Data()
	n := array.NewData(to, d.Len(), d.Buffers(), children, d.NullN(), d.Offset())
	defer n.Release()
	return array.MakeFromData(n)
}

func widen[F, T any](mem memory.Allocator, in []F, a arrow.Array, f func(F) T, to arrow.DataType) (arrow.Array, error) {
	b := array.NewBuilder(mem, to)
	defer b.Release()
	b.Reserve(len(in))
	add := func(v T) {
		switch b := b.(type) {
		case *array.Int64Builder:
			b.UnsafeAppend(any(v).(int64))
		case *array.Float64Builder:
			b.UnsafeAppend(any(v).(float64))
		}
	}
	for i, v := range in {
		if a.IsNull(i) {
			b.AppendNull()
			continue
		}
		add(f(v))
	}
	return b.NewArray(), nil
}

func convertList(mem memory.Allocator, a arrow.Array, from, to *arrow.ListType) (arrow.Array, error) {
	raw := array.MakeFromData(a.Data().Children()[0])
	defer raw.Release()
	inner, err := convert(mem, raw, to.Elem())
	if err != nil {
		return nil, fmt.Errorf("list of %s: %w", from.Elem(), err)
	}
	defer inner.Release()
	return relabel(a, to, []arrow.ArrayData{inner.Data()}), nil
}

// convertStruct matches fields by name; a field that from does not have is null.
func convertStruct(mem memory.Allocator, a arrow.Array, from, to *arrow.StructType) (arrow.Array, error) {
	children := make([]arrow.ArrayData, to.NumFields())
	defer func() {
		for _, c := range children {
			if c != nil {
				c.Release()
			}
		}
	}()
	for i, f := range to.Fields() {
		j, ok := from.FieldIdx(f.Name)
		if !ok {
			nulls := array.MakeArrayOfNull(mem, f.Type, a.Data().Offset()+a.Len())
			children[i] = nulls.Data()
			children[i].Retain()
			nulls.Release()
			continue
		}
		raw := array.MakeFromData(a.Data().Children()[j])
		c, err := convert(mem, raw, f.Type)
		raw.Release()
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", f.Name, err)
		}
		children[i] = c.Data()
		children[i].Retain()
		c.Release()
	}
	return relabel(a, to, children), nil
}

// convertRecord returns b with the types of schema, columns taken in order. The
// caller owns the result.
func convertRecord(mem memory.Allocator, b arrow.RecordBatch, schema *arrow.Schema) (arrow.RecordBatch, error) {
	cols := make([]arrow.Array, schema.NumFields())
	defer func() {
		for _, c := range cols {
			if c != nil {
				c.Release()
			}
		}
	}()
	for i, f := range schema.Fields() {
		c, err := convert(mem, b.Column(i), f.Type)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", f.Name, err)
		}
		cols[i] = c
	}
	return array.NewRecordBatch(schema, cols, b.NumRows()), nil
}

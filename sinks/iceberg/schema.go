package iceberg

import (
	"fmt"
	"sort"
	"strings"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/extensions"
	icebergo "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// newSchema makes the schema of a new table. Every column is optional: a
// column that is null one day must not need a change of the table.
func newSchema(fields []arrow.Field) (*icebergo.Schema, error) {
	next := len(fields)
	id := func() int { next++; return next }
	out := make([]icebergo.NestedField, len(fields))
	for i, f := range fields {
		t, err := icebergType(f.Type, id)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", f.Name, err)
		}
		out[i] = icebergo.NestedField{ID: i + 1, Name: f.Name, Type: t}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the input has no columns")
	}
	return icebergo.NewSchema(0, out...), nil
}

// icebergType is the table's type for a type of the language.
func icebergType(t arrow.DataType, id func() int) (icebergo.Type, error) {
	switch t := t.(type) {
	case *arrow.BooleanType:
		return icebergo.PrimitiveTypes.Bool, nil
	case *arrow.Int32Type:
		return icebergo.PrimitiveTypes.Int32, nil
	case *arrow.Int64Type:
		return icebergo.PrimitiveTypes.Int64, nil
	case *arrow.Float32Type:
		return icebergo.PrimitiveTypes.Float32, nil
	case *arrow.Float64Type:
		return icebergo.PrimitiveTypes.Float64, nil
	case *arrow.StringType, *extensions.JSONType:
		return icebergo.PrimitiveTypes.String, nil
	case *arrow.BinaryType:
		return icebergo.PrimitiveTypes.Binary, nil
	case *arrow.Date32Type:
		return icebergo.PrimitiveTypes.Date, nil
	case *arrow.Time64Type:
		if t.Unit == arrow.Microsecond {
			return icebergo.PrimitiveTypes.Time, nil
		}
	case *arrow.TimestampType:
		if t.Unit == arrow.Microsecond {
			if t.TimeZone == "" {
				return icebergo.PrimitiveTypes.Timestamp, nil
			}
			return icebergo.PrimitiveTypes.TimestampTz, nil
		}
	case *extensions.UUIDType:
		return icebergo.PrimitiveTypes.UUID, nil
	case *arrow.Decimal128Type:
		return icebergo.DecimalTypeOf(int(t.Precision), int(t.Scale)), nil
	case *arrow.ListType:
		el := id()
		inner, err := icebergType(t.Elem(), id)
		if err != nil {
			return nil, err
		}
		return &icebergo.ListType{ElementID: el, Element: inner}, nil
	case *arrow.StructType:
		fields := make([]icebergo.NestedField, t.NumFields())
		for i, f := range t.Fields() {
			fid := id()
			inner, err := icebergType(f.Type, id)
			if err != nil {
				return nil, fmt.Errorf("field %q: %w", f.Name, err)
			}
			fields[i] = icebergo.NestedField{ID: fid, Name: f.Name, Type: inner}
		}
		return &icebergo.StructType{FieldList: fields}, nil
	}
	return nil, fmt.Errorf("type %s has no form in Iceberg: convert it with a cast in a project step", dataflow.TypeName(t))
}

// matchColumns compares the input's columns with a table that exists, by name.
// It returns the table's fields that the input fills, in the table's order.
func matchColumns(tbl string, input []arrow.Field, schema *icebergo.Schema) ([]icebergo.NestedField, error) {
	var problems []string
	byName := make(map[string]arrow.Field, len(input))
	var names []string
	for _, f := range schema.Fields() {
		names = append(names, f.Name)
	}
	for _, f := range input {
		byName[f.Name] = f
		have, ok := topField(schema, f.Name)
		if !ok {
			problems = append(problems, fmt.Sprintf("column %q (%s) is not in the table%s", f.Name, dataflow.TypeName(f.Type), component.DidYouMean(f.Name, names)))
			continue
		}
		if why := misfit(f.Type, have.Type); why != "" {
			problems = append(problems, fmt.Sprintf("column %q: %s", f.Name, why))
		}
	}
	var out []icebergo.NestedField
	for _, f := range schema.Fields() {
		if _, ok := byName[f.Name]; ok {
			out = append(out, f)
		} else if f.Required {
			problems = append(problems, fmt.Sprintf("column %q (%s) of the table is required, but the input has no such column", f.Name, f.Type))
		}
	}
	if len(problems) > 0 {
		sort.Strings(problems)
		return nil, dataflow.Permanentf("table %s does not fit the input: %s; change the pipeline with a project step, or the table", tbl, strings.Join(problems, "; "))
	}
	return out, nil
}

func topField(s *icebergo.Schema, name string) (icebergo.NestedField, bool) {
	for _, f := range s.Fields() {
		if f.Name == name {
			return f, true
		}
	}
	return icebergo.NestedField{}, false
}

// misfit says why values of type in cannot go into a column of type have, or "".
// Widening that loses nothing is allowed.
func misfit(in arrow.DataType, have icebergo.Type) string {
	no := fmt.Sprintf("the table has %s, the input gives %s", have, dataflow.TypeName(in))
	switch t := in.(type) {
	case *arrow.Int32Type:
		if have.Equals(icebergo.PrimitiveTypes.Int64) {
			return ""
		}
	case *arrow.Float32Type:
		if have.Equals(icebergo.PrimitiveTypes.Float64) {
			return ""
		}
	case *arrow.Decimal128Type:
		if d, ok := have.(icebergo.DecimalType); ok && d.Scale() == int(t.Scale) && d.Precision() >= int(t.Precision) {
			return ""
		}
		return no
	case *arrow.ListType:
		l, ok := have.(*icebergo.ListType)
		if !ok {
			return no
		}
		if l.ElementRequired {
			return no + "; required elements of lists are not supported"
		}
		return misfit(t.Elem(), l.Element)
	case *arrow.StructType:
		s, ok := have.(*icebergo.StructType)
		if !ok {
			return no
		}
		return structMisfit(t, s)
	}
	want, err := icebergType(in, func() int { return 0 })
	if err != nil || !want.Equals(have) {
		return no
	}
	return ""
}

func structMisfit(in *arrow.StructType, have *icebergo.StructType) string {
	known := map[string]bool{}
	for _, f := range have.FieldList {
		known[f.Name] = true
		i, ok := in.FieldIdx(f.Name)
		if f.Required {
			return fmt.Sprintf("field %q is required; required fields inside structs are not supported", f.Name)
		}
		if ok {
			if why := misfit(in.Field(i).Type, f.Type); why != "" {
				return fmt.Sprintf("field %q: %s", f.Name, why)
			}
		}
	}
	for _, f := range in.Fields() {
		if !known[f.Name] {
			return fmt.Sprintf("field %q is not in the table", f.Name)
		}
	}
	return ""
}

// fileSchema is the Arrow schema of a data file with the given columns, field
// ids included.
func fileSchema(cols []icebergo.NestedField) (*arrow.Schema, error) {
	return table.SchemaToArrowSchema(icebergo.NewSchema(0, cols...), nil, true, false)
}

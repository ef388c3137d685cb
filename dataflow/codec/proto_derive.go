package codec

import (
	"fmt"
	"strings"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
)

// DeriveProtobuf writes the schema of rows with these columns; name is the full name of
// the message. Fields are numbered in the order of the columns: a column that is added
// must come last.
func DeriveProtobuf(name string, fields []arrow.Field) (string, error) {
	if err := checkFullName(name); err != nil {
		return "", err
	}
	pkg, message := "", name
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		pkg, message = name[:i], name[i+1:]
	}
	d := protoDeriver{}
	body, err := d.message(message, fields, "")
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString("syntax = \"proto3\";\n")
	if pkg != "" {
		fmt.Fprintf(&out, "package %s;\n", pkg)
	}
	if d.stamps {
		out.WriteString("import \"google/protobuf/timestamp.proto\";\n")
	}
	out.WriteString(body)
	return out.String(), nil
}

type protoDeriver struct{ stamps bool }

func (d *protoDeriver) message(name string, fields []arrow.Field, indent string) (string, error) {
	var out strings.Builder
	fmt.Fprintf(&out, "%smessage %s {\n", indent, name)
	for i, f := range fields {
		if !avroNameRule.MatchString(f.Name) {
			return "", fmt.Errorf("column %q: names of Protobuf have letters, digits and _ alone: rename it (project)", f.Name)
		}
		t, label := f.Type, ""
		if l, ok := t.(*arrow.ListType); ok {
			t, label = l.Elem(), "repeated "
		} else if f.Nullable && t.ID() != arrow.STRUCT {
			label = "optional "
		}
		// The name of a message inside must not be that of a field.
		inner := fmt.Sprintf("Of_%s", f.Name)
		typ, err := d.typeOf(t, f.Name, inner)
		if err != nil {
			return "", err
		}
		if st, ok := t.(*arrow.StructType); ok {
			body, err := d.message(inner, st.Fields(), indent+"  ")
			if err != nil {
				return "", err
			}
			out.WriteString(body)
		}
		fmt.Fprintf(&out, "%s  %s%s %s = %d;\n", indent, label, typ, f.Name, protoNumber(i))
	}
	fmt.Fprintf(&out, "%s}\n", indent)
	return out.String(), nil
}

// protoNumber is the number of a field: 19000 to 19999 are not to be used.
func protoNumber(i int) int {
	if i+1 >= 19000 {
		return i + 1 + 1000
	}
	return i + 1
}

func (d *protoDeriver) typeOf(t arrow.DataType, column, inner string) (string, error) {
	k, ok := kindOfType(t)
	if !ok || k == kList {
		return "", fmt.Errorf("column %q: %s has no type in Protobuf", column, dataflow.TypeName(t))
	}
	switch k {
	case kBool:
		return "bool", nil
	case kInt32:
		return "int32", nil
	case kInt64:
		return "int64", nil
	case kFloat32:
		return "float", nil
	case kFloat64:
		return "double", nil
	case kBinary:
		return "bytes", nil
	case kStruct:
		return inner, nil
	case kTimestamp:
		if t.(*arrow.TimestampType).TimeZone != "" {
			d.stamps = true
			return "google.protobuf.Timestamp", nil
		}
	}
	return "string", nil
}

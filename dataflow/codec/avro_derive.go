package codec

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
)

var avroNameRule = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// checkFullName says whether name is a full name by the rules of Avro, which those of
// Protobuf are too.
func checkFullName(name string) error {
	for part := range strings.SplitSeq(name, ".") {
		if !avroNameRule.MatchString(part) {
			return fmt.Errorf("%q: expected names of letters, digits and _, with dots between them", name)
		}
	}
	return nil
}

// DeriveAvro writes the schema of rows with these columns; name is the full name of the
// record. What may be null is a union of null and its type, with null as default.
func DeriveAvro(name string, fields []arrow.Field) (string, error) {
	if err := checkFullName(name); err != nil {
		return "", err
	}
	record, err := avroRecordOf(name, fields)
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(record)
	return string(b), err
}

type avroJSONRecord struct {
	Type   string          `json:"type"`
	Name   string          `json:"name"`
	Fields []avroJSONField `json:"fields"`
}

type avroJSONField struct {
	Name    string           `json:"name"`
	Type    any              `json:"type"`
	Default *json.RawMessage `json:"default,omitempty"`
}

var jsonNull = json.RawMessage("null")

func avroRecordOf(name string, fields []arrow.Field) (avroJSONRecord, error) {
	out := avroJSONRecord{Type: "record", Name: name, Fields: []avroJSONField{}}
	for _, f := range fields {
		if !avroNameRule.MatchString(f.Name) {
			return out, fmt.Errorf("column %q: Avro's names have letters, digits and _ alone: rename it (project)", f.Name)
		}
		t, err := avroTypeOf(name+"_"+f.Name, f.Type)
		if err != nil {
			return out, err
		}
		x := avroJSONField{Name: f.Name, Type: t}
		if f.Nullable {
			x.Type, x.Default = []any{"null", t}, &jsonNull
		}
		out.Fields = append(out.Fields, x)
	}
	return out, nil
}

// avroTypeOf is the schema of a column; name is that of a record it may need.
func avroTypeOf(name string, t arrow.DataType) (any, error) {
	logical := func(of, logical string) (any, error) {
		return map[string]any{"type": of, "logicalType": logical}, nil
	}
	k, ok := kindOfType(t)
	if !ok {
		return nil, fmt.Errorf("%s has no type in Avro", dataflow.TypeName(t))
	}
	switch k {
	case kBool:
		return "boolean", nil
	case kInt32:
		return "int", nil
	case kInt64:
		return "long", nil
	case kFloat32:
		return "float", nil
	case kFloat64:
		return "double", nil
	case kString, kJSON:
		return "string", nil
	case kBinary:
		return "bytes", nil
	case kUUID:
		return logical("string", "uuid")
	case kDate:
		return logical("int", "date")
	case kTime:
		return logical("long", "time-micros")
	case kTimestamp:
		if t.(*arrow.TimestampType).TimeZone == "" {
			return logical("long", "local-timestamp-micros")
		}
		return logical("long", "timestamp-micros")
	case kDecimal:
		d := t.(*arrow.Decimal128Type)
		return map[string]any{"type": "bytes", "logicalType": "decimal", "precision": d.Precision, "scale": d.Scale}, nil
	case kList:
		elem := t.(*arrow.ListType).ElemField()
		of, err := avroTypeOf(name, elem.Type)
		if elem.Nullable {
			of = []any{"null", of}
		}
		return map[string]any{"type": "array", "items": of}, err
	}
	return avroRecordOf(name, t.(*arrow.StructType).Fields())
}

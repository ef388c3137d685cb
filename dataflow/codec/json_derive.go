package codec

import (
	"encoding/json"
	"fmt"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
)

// DeriveJSONSchema writes the schema of rows with these columns as JSON objects; title
// is the name of the row.
func DeriveJSONSchema(title string, fields []arrow.Field) (string, error) {
	node, err := jsonObjectOf(fields)
	if err != nil {
		return "", err
	}
	node["$schema"], node["title"] = "http://json-schema.org/draft-07/schema#", title
	b, err := json.Marshal(node)
	return string(b), err
}

func jsonObjectOf(fields []arrow.Field) (map[string]any, error) {
	props, required := map[string]any{}, []string{}
	for _, f := range fields {
		t, err := jsonTypeOf(f.Type)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", f.Name, err)
		}
		if !f.Nullable {
			required = append(required, f.Name)
		} else if len(t) > 0 {
			t = map[string]any{"oneOf": []any{map[string]any{"type": "null"}, t}}
		}
		props[f.Name] = t
	}
	out := map[string]any{"type": "object", "properties": props}
	if len(required) > 0 {
		out["required"] = required
	}
	return out, nil
}

func jsonTypeOf(t arrow.DataType) (map[string]any, error) {
	k, ok := kindOfType(t)
	if !ok {
		return nil, fmt.Errorf("%s has no type in JSON", dataflow.TypeName(t))
	}
	of := func(typ string) (map[string]any, error) { return map[string]any{"type": typ}, nil }
	text := func(format string) (map[string]any, error) {
		return map[string]any{"type": "string", "format": format}, nil
	}
	switch k {
	case kBool:
		return of("boolean")
	case kInt32, kInt64:
		return of("integer")
	case kFloat32, kFloat64:
		return of("number")
	case kDate:
		return text("date")
	case kUUID:
		return text("uuid")
	case kTimestamp:
		if t.(*arrow.TimestampType).TimeZone != "" {
			return text("date-time")
		}
		return of("string")
	case kJSON:
		return map[string]any{}, nil
	case kList:
		elem := t.(*arrow.ListType).ElemField()
		in, err := jsonTypeOf(elem.Type)
		if err == nil && elem.Nullable && len(in) > 0 {
			in = map[string]any{"oneOf": []any{map[string]any{"type": "null"}, in}}
		}
		return map[string]any{"type": "array", "items": in}, err
	case kStruct:
		return jsonObjectOf(t.(*arrow.StructType).Fields())
	}
	return of("string")
}

// CheckJSONSchema says whether rows with these columns can be values of a schema, as
// far as that is known without them: what it requires must be there.
func CheckJSONSchema(s *dataflow.RegisteredSchema, fields []arrow.Field) error {
	if _, err := compileJSONSchema(s); err != nil {
		return err
	}
	var root struct {
		Required []string `json:"required"`
	}
	if err := json.Unmarshal([]byte(s.Text), &root); err != nil {
		return err
	}
	have := arrow.NewSchema(fields, nil)
	for _, name := range root.Required {
		if !have.HasField(name) {
			return fmt.Errorf("the schema requires %q, and there is no such column", name)
		}
	}
	return nil
}

package component

import (
	"reflect"
	"strings"

	"frazil/dataflow"
)

// Object is a JSON Schema or a part of one (draft 7, which editors know best).
type Object = map[string]any

// Schemer is a config type that decodes itself and says what it looks like in
// the file, as JSON Schema. Without it such a type is taken for a block of its
// fields, or, if they have no tags, for anything.
type Schemer interface {
	JSONSchema() Object
}

// hasVariable is the pattern of text whose value is known only when the file is
// run.
const hasVariable = `\$\{`

// SchemaDefinitions are the types that SchemaOf refers to, for "definitions".
// Where text is not allowed otherwise, text with a variable in it is.
func SchemaDefinitions() Object {
	variable := Object{"type": "string", "pattern": hasVariable}
	or := func(description string, s ...any) Object {
		return Object{"description": description, "anyOf": append(s, Object{"$ref": "#/definitions/variable"})}
	}
	number := `([0-9]+(\.[0-9]*)?|\.[0-9]+)`
	return Object{
		"variable":     variable,
		"whole_number": or("A whole number.", Object{"type": "integer"}),
		"number":       or("A number.", Object{"type": "number"}),
		"true_false":   or("true or false.", Object{"type": "boolean"}),
		"duration": or("A length of time with its unit: 500ms, 10s, 5m, 1h, 7d; off where that is allowed.",
			Object{"type": "string", "pattern": `^(off|0|[0-9]+d|\+?(` + number + `(ns|us|µs|μs|ms|s|m|h))+)$`},
			// YAML readers of another version take off for false.
			Object{"enum": []any{0, false}}),
		"size": or("A size with its unit: 64KiB, 256MiB, 1GiB, 10MB.",
			Object{"type": "string", "pattern": `^[-+0-9.eE_]+ *(B|KiB|MiB|GiB|TiB|kB|KB|MB|GB|TB)$`}),
		"secret": Object{"description": "A secret: write ${env:NAME} or ${file:PATH}.", "type": []any{"string", "number", "boolean"}},
		"type": or("The type of a column.", Object{"type": "string", "enum": typeWords()},
			Object{"type": "string", "pattern": `^\s*(decimal\s*\(|list\s*<|struct\s*\{|timestamp(tz)?\s*\(\s*(s|ms|us|ns)\s*\))`}),
		"types": Object{"type": "object", "additionalProperties": Object{"$ref": "#/definitions/type"}},
		"expressions": Object{"type": "object", "additionalProperties": Object{
			"description": "An expression, as PostgreSQL writes it.", "type": []any{"string", "number", "boolean"}}},
	}
}

// typeWords are the types that an editor offers.
func typeWords() []any {
	var out []any
	for _, n := range dataflow.TypeNames() {
		out = append(out, n)
	}
	for _, n := range []string{"timestamp", "timestamptz"} {
		for _, u := range []string{"s", "ms", "us", "ns"} {
			out = append(out, n+"("+u+")")
		}
	}
	return out
}

// SchemaOf is the JSON Schema of a component's config block, from the struct
// that the decoder fills: whatever Decode takes, it takes.
func SchemaOf(i Info) Object {
	v := reflect.ValueOf(i.NewConfig()).Elem()
	s := blockSchema(v)
	s["description"] = i.Summary
	return s
}

// ref refers to a definition; beside it, in draft 7, nothing else would count.
func ref(name string) Object { return Object{"$ref": "#/definitions/" + name} }

// valueSchema is the schema of values of t; v holds the default.
func valueSchema(t reflect.Type, v reflect.Value, oneOf []string) Object {
	if s, ok := reflect.New(t).Interface().(Schemer); ok {
		return s.JSONSchema()
	}
	if reflect.PointerTo(t).Implements(unmarshalerType) && !isBlock(t) {
		return Object{}
	}
	switch t {
	case reflect.TypeFor[Duration]():
		return ref("duration")
	case reflect.TypeFor[Bytes]():
		return ref("size")
	case reflect.TypeFor[Secret]():
		return ref("secret")
	case reflect.TypeFor[NamedExprs]():
		return ref("expressions")
	case reflect.TypeFor[NamedTypes]():
		return ref("types")
	}
	switch t.Kind() {
	case reflect.Pointer:
		if s, ok := reflect.New(t.Elem()).Interface().(Schemer); ok {
			return s.JSONSchema()
		}
		if isBlock(t.Elem()) {
			return blockSchema(filled(v, t.Elem()))
		}
		return valueSchema(t.Elem(), reflect.Zero(t.Elem()), oneOf)
	case reflect.Slice:
		return Object{"type": "array", "items": elementSchema(t.Elem(), oneOf)}
	case reflect.Map:
		return Object{"type": "object", "additionalProperties": elementSchema(t.Elem(), nil)}
	case reflect.String:
		return textSchema(oneOf)
	case reflect.Bool:
		return ref("true_false")
	case reflect.Float32, reflect.Float64:
		return ref("number")
	case reflect.Struct:
		if isBlock(t) {
			return blockSchema(filled(v, t))
		}
		return Object{}
	case reflect.Interface:
		return Object{}
	}
	return ref("whole_number")
}

func elementSchema(t reflect.Type, oneOf []string) Object {
	v := reflect.New(t)
	setDefaults(v)
	return valueSchema(t, v.Elem(), oneOf)
}

func textSchema(oneOf []string) Object {
	if len(oneOf) == 0 {
		return Object{"type": "string"}
	}
	return Object{"anyOf": []any{Object{"type": "string", "enum": texts(oneOf)}, ref("variable")}}
}

func texts(s []string) []any {
	out := make([]any, len(s))
	for i, x := range s {
		out[i] = x
	}
	return out
}

// blockSchema is the schema of a struct that is a block of keys.
func blockSchema(v reflect.Value) Object {
	properties, required := Object{}, []string{}
	var choice []string
	must := false
	for _, f := range FieldsOf(v.Type()) {
		fv := v.FieldByIndex(f.Index)
		s := valueSchema(f.Type, fv, f.OneOf)
		if _, isRef := s["$ref"]; isRef {
			s = Object{"allOf": []any{s}}
		}
		if doc := FieldDoc(f.Owner, f.GoName); doc != "" {
			s["description"] = doc
		}
		if d, ok := defaultOf(f, fv); ok {
			s["default"] = d
		}
		properties[f.Name] = s
		if f.Required {
			required = append(required, f.Name)
		}
		if f.Choice != "" {
			choice = append(choice, f.Name)
		}
		must = must || f.Required || f.Choice == ChooseOne
	}
	out := Object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		out["required"] = texts(required)
	}
	if len(choice) > 0 {
		out["oneOf"] = exactlyOne(choice, chooseRule(FieldsOf(v.Type())))
	}
	if !must {
		// A block that needs nothing may be left empty.
		out["type"] = []any{"object", "null"}
	}
	return out
}

// exactlyOne demands one of the keys, and with ChooseUpToOne also takes none.
func exactlyOne(keys []string, rule string) []any {
	var out []any
	for _, k := range keys {
		out = append(out, Object{"required": []any{k}})
	}
	if rule == ChooseUpToOne {
		none := append([]any{}, out...)
		out = append(out, Object{"not": Object{"anyOf": none}})
	}
	return out
}

// defaultOf is a scalar's default as the file would write it.
func defaultOf(f Field, v reflect.Value) (any, bool) {
	if f.Required || v.IsZero() {
		return nil, false
	}
	switch v.Kind() {
	case reflect.String, reflect.Bool, reflect.Float32, reflect.Float64:
		return v.Interface(), !strings.Contains(f.Type.String(), "Secret")
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if _, unit := v.Interface().(interface{ String() string }); unit {
			return valueText(v), true
		}
		return v.Int(), true
	}
	return nil, false
}

package component

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Field is one key of a config struct, as its tags tell: yaml:"name,required"
// or yaml:",inline" for a struct whose fields stand among the outer ones,
// oneof:"a,b" for text that is one of a few words, and choose:"one" or
// choose:"up_to_one" for keys of which only one may stand in a block.
type Field struct {
	Name     string
	GoName   string
	Index    []int
	Type     reflect.Type
	Owner    reflect.Type
	Required bool
	OneOf    []string
	// Choice is "", ChooseOne or ChooseUpToOne. All keys of a block that have one
	// exclude one another, and if any says ChooseOne, one must be there. The decoder
	// does not check it: the component does, with words of its own.
	Choice string
}

// Rules for keys that exclude one another.
const (
	ChooseOne     = "one"
	ChooseUpToOne = "up_to_one"
)

// FieldsOf lists the keys of a config struct in the order of the struct. It
// panics where an exported field has no yaml tag: a developer's mistake.
func FieldsOf(t reflect.Type) []Field {
	var out []Field
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		tag, ok := f.Tag.Lookup("yaml")
		if tag == "-" {
			continue
		}
		name, opts, _ := strings.Cut(tag, ",")
		if opts == "inline" {
			for _, in := range FieldsOf(f.Type) {
				in.Index = append([]int{i}, in.Index...)
				out = append(out, in)
			}
			continue
		}
		if !ok || !nameRule.MatchString(name) {
			panic(fmt.Sprintf("config %s, field %s: its yaml tag is no lower_snake_case name", t, f.Name))
		}
		x := Field{Name: name, GoName: f.Name, Index: []int{i}, Type: f.Type, Owner: t, Required: opts == "required"}
		if of := f.Tag.Get("oneof"); of != "" {
			x.OneOf = strings.Split(of, ",")
		}
		if x.Choice = f.Tag.Get("choose"); x.Choice != "" && x.Choice != ChooseOne && x.Choice != ChooseUpToOne {
			panic(fmt.Sprintf("config %s, field %s: choose:%q is no rule", t, f.Name, x.Choice))
		}
		out = append(out, x)
	}
	return out
}

// chooseRule is the rule for the keys of a block that exclude one another, "" if
// there are none.
func chooseRule(fields []Field) string {
	rule := ""
	for _, f := range fields {
		if f.Choice != "" && rule != ChooseOne {
			rule = f.Choice
		}
	}
	return rule
}

func fieldNames(fields []Field) []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	return names
}

// Keys lists the keys that the config (a struct or a pointer to one) has at its
// top, each with the place it belongs to; see UnknownKey.
func Keys(cfg any, place string) map[string]string {
	out := map[string]string{}
	t := reflect.TypeOf(cfg)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Struct {
		for _, f := range FieldsOf(t) {
			out[f.Name] = place
		}
	}
	return out
}

// isBlock says whether t is a struct that is a block of keys in the file. One
// that decodes itself is a block if its fields carry tags.
func isBlock(t reflect.Type) bool {
	switch {
	case t.Kind() != reflect.Struct, t == reflect.TypeFor[NamedExpr](), t == reflect.TypeFor[NamedType]():
		return false
	case reflect.PointerTo(t).Implements(unmarshalerType):
		return t.NumField() > 0 && t.Field(0).Tag.Get("yaml") != ""
	}
	return true
}

// checkConfig panics if t or a struct inside it breaks a rule of FieldsOf.
func checkConfig(t reflect.Type, seen []reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if !isBlock(t) || slices.Contains(seen, t) {
		return
	}
	seen = append(seen, t)
	for _, f := range FieldsOf(t) {
		checkConfig(f.Type, seen)
	}
}

// nestedKeys tells of the keys of blocks below fields where they belong.
func nestedKeys(fields []Field, path string, into map[string]string) {
	for _, f := range fields {
		t := f.Type
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if !isBlock(t) {
			continue
		}
		in := FieldsOf(t)
		at := Join(path, f.Name)
		for _, g := range in {
			if _, ok := into[g.Name]; !ok {
				into[g.Name] = at
			}
		}
		nestedKeys(in, at, into)
	}
}

// TypeTexter is a config type that names itself on the reference page. It is
// called on the zero value.
type TypeTexter interface {
	TypeText() string
}

// TypeText names a field's type for the reference page.
func TypeText(t reflect.Type) string {
	if x, ok := reflect.Zero(t).Interface().(TypeTexter); ok && t.Kind() != reflect.Pointer {
		return x.TypeText()
	}
	switch t {
	case reflect.TypeFor[Duration]():
		return "duration"
	case reflect.TypeFor[Bytes]():
		return "size"
	case reflect.TypeFor[Secret]():
		return "secret"
	case reflect.TypeFor[NamedExprs]():
		return "map of names to expressions"
	case reflect.TypeFor[NamedTypes]():
		return "map of names to types"
	}
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "whole number"
	case reflect.Slice:
		return "list of " + TypeText(t.Elem())
	case reflect.Map:
		return "map of names to " + TypeText(t.Elem())
	case reflect.Pointer:
		return TypeText(t.Elem())
	}
	return "block"
}

package component

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Reference writes the page of a component as Markdown: what it does and every
// option with its type, default and effect, all of it from the registration and
// the config struct.
func Reference(i Info) string {
	w := &strings.Builder{}
	fmt.Fprintf(w, "# %s (%s)\n\n%s\n", i.Name, i.Kind, i.Summary)
	if i.Doc != "" {
		fmt.Fprintf(w, "\n%s\n", strings.TrimSpace(i.Doc))
	}
	v := reflect.ValueOf(i.NewConfig()).Elem()
	fmt.Fprint(w, "\n## Options\n")
	if v.Kind() != reflect.Struct || len(FieldsOf(v.Type())) == 0 {
		fmt.Fprint(w, "\nNone.\n")
		return w.String()
	}
	writeFields(w, "", v)
	return w.String()
}

func writeFields(w *strings.Builder, path string, v reflect.Value) {
	fields := FieldsOf(v.Type())
	for _, f := range fields {
		at := Join(path, f.Name)
		fv := v.FieldByIndex(f.Index)
		fmt.Fprintf(w, "\n### `%s`\n\n", at)
		fmt.Fprintf(w, "%s\n", strings.Join(facts(f, fields, fv), ", "))
		if doc := FieldDoc(f.Owner, f.GoName); doc != "" {
			fmt.Fprintf(w, "\n%s\n", doc)
		}
		t, list := f.Type, false
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			list = list || t.Kind() != reflect.Pointer
			t = t.Elem()
		}
		if !isBlock(t) {
			continue
		}
		if list {
			at += "[]"
		}
		writeFields(w, at, filled(fv, t))
	}
}

// filled is a block's value with its defaults, also where it is left out.
func filled(v reflect.Value, t reflect.Type) reflect.Value {
	if v.Kind() == reflect.Struct {
		return v
	}
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		return v.Elem()
	}
	p := reflect.New(t)
	setDefaults(p)
	if u, ok := p.Interface().(Unmarshaler); ok {
		_ = u.UnmarshalNode(&Node{Kind: Map, src: &source{}}) // For its defaults; required keys are missing.
	}
	return p.Elem()
}

// facts are type, default and whether a field is required.
func facts(f Field, among []Field, v reflect.Value) []string {
	out := []string{TypeText(f.Type)}
	if len(f.OneOf) > 0 {
		out[0] = "one of `" + strings.Join(f.OneOf, "`, `") + "`"
	}
	switch {
	case f.Required:
		return append(out, "required")
	case f.Choice != "" && chooseRule(among) == ChooseOne:
		out = append(out, "exactly one of `"+strings.Join(chosenFrom(among), "`, `")+"`")
	case f.Choice != "":
		out = append(out, "at most one of `"+strings.Join(chosenFrom(among), "`, `")+"`")
	}
	if !v.IsZero() && v.Kind() != reflect.Struct && v.Kind() != reflect.Pointer {
		out = append(out, "default `"+valueText(v)+"`")
	}
	return out
}

// chosenFrom lists the keys of a block that exclude one another.
func chosenFrom(fields []Field) []string {
	var out []string
	for _, f := range fields {
		if f.Choice != "" {
			out = append(out, f.Name)
		}
	}
	return out
}

func valueText(v reflect.Value) string {
	if s, ok := v.Interface().(fmt.Stringer); ok {
		return s.String()
	}
	if v.Kind() == reflect.String {
		return v.String()
	}
	b, err := json.Marshal(v.Interface())
	if err != nil {
		return fmt.Sprint(v.Interface())
	}
	return string(b)
}

// FieldDoc returns the comment of a config struct's field, "" if the reference
// does not have it (a component from outside).
func FieldDoc(owner reflect.Type, field string) string {
	return fieldDocs[owner.PkgPath()+"."+owner.Name()+"."+field]
}

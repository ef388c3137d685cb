package component

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Unmarshaler is a config type that decodes itself. Problems it returns have
// paths relative to n.
type Unmarshaler interface {
	UnmarshalNode(n *Node) error
}

// Defaulter is a block that may be left out and has defaults of its own: they
// are set before the block is decoded.
type Defaulter interface {
	SetDefaults()
}

// setDefaults fills a new block that p points to.
func setDefaults(p reflect.Value) {
	if d, ok := p.Interface().(Defaulter); ok {
		d.SetDefaults()
	}
}

var unmarshalerType = reflect.TypeFor[Unmarshaler]()

// Decode fills into, a pointer to a struct that holds the defaults, from n. It
// is strict: an unknown key, a wrong type, a missing unit, a missing required
// key and a word that is none of those allowed are problems, and all of them
// are returned, with their places. After problems the content of into is
// unspecified.
func Decode(n *Node, into any) Problems { return DecodeAmong(n, into, nil) }

// DecodeAmong is Decode that knows where keys belong that n does not have:
// elsewhere maps a key to its place in words.
func DecodeAmong(n *Node, into any, elsewhere map[string]string) Problems {
	d := &decoder{elsewhere: maps.Clone(elsewhere)}
	if d.elsewhere == nil {
		d.elsewhere = map[string]string{}
	}
	v := reflect.ValueOf(into).Elem()
	if v.Kind() == reflect.Struct {
		nestedKeys(FieldsOf(v.Type()), n.Path, d.elsewhere)
	}
	d.value(n, v, nil)
	return d.problems
}

type decoder struct {
	problems  Problems
	elsewhere map[string]string
}

func (d *decoder) add(n *Node, format string, args ...any) {
	if n.src == nil {
		return // Its variable is wrong, which was said already.
	}
	d.problems = append(d.problems, n.problem(fmt.Sprintf(format, args...)))
}

// wrong reports a value of another type than expected.
func (d *decoder) wrong(n *Node, expected string) {
	d.add(n, "expected %s, got %s", expected, n.describe())
}

// describe says what n is, with its text where that is no secret.
func (n *Node) describe() string {
	switch n.Kind {
	case Text:
		if n.raw != "" {
			return "a secret"
		}
		return fmt.Sprintf("the text %q", shorten(n.Text))
	case Number:
		return "the number " + shorten(n.Text)
	case Bool:
		return n.Text
	}
	return n.Kind.String()
}

func shorten(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:37]) + "..."
	}
	return s
}

func (d *decoder) value(n *Node, v reflect.Value, f *Field) {
	if n.src == nil {
		return
	}
	if u, ok := v.Addr().Interface().(Unmarshaler); ok {
		d.problems = append(d.problems, n.LocateAll(u.UnmarshalNode(n))...)
		return
	}
	switch into := v.Addr().Interface().(type) {
	case *Duration:
		d.duration(n, into)
		return
	case *Bytes:
		d.bytes(n, into)
		return
	case *Secret:
		d.secret(n, into)
		return
	case *NamedExprs:
		*into = (*into)[:0]
		d.named(n, "an expression", func(name, text string) { *into = append(*into, NamedExpr{name, text}) })
		return
	case *NamedTypes:
		*into = (*into)[:0]
		d.named(n, "a type", func(name, text string) { *into = append(*into, NamedType{name, text}) })
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		if !v.IsNil() {
			p.Elem().Set(v.Elem())
		} else {
			setDefaults(p)
		}
		d.value(n, p.Elem(), f)
		v.Set(p)
	case reflect.Struct:
		d.structure(n, v)
	case reflect.Slice:
		d.list(n, v, f)
	case reflect.Map:
		d.mapping(n, v)
	default:
		d.scalar(n, v, f)
	}
}

func (d *decoder) scalar(n *Node, v reflect.Value, f *Field) {
	if n.raw != "" {
		d.add(n, "a secret is not allowed here, since this value may be printed: write ${NAME}")
		return
	}
	switch v.Kind() {
	case reflect.String:
		d.text(n, v, f)
	case reflect.Bool:
		b := n.Text == "true" || n.Text == "True" || n.Text == "TRUE"
		if n.Kind != Bool && !(n.expanded && (b || n.Text == "false")) {
			d.wrong(n, "true or false")
			return
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		d.integer(n, v)
	case reflect.Float32, reflect.Float64:
		x, err := strconv.ParseFloat(strings.ReplaceAll(n.Text, "_", ""), 64)
		if err != nil || n.Kind != Number && !n.expanded {
			d.wrong(n, "a number")
			return
		}
		v.SetFloat(x)
	default:
		panic(fmt.Sprintf("config field of type %s: the decoder does not know it", v.Type()))
	}
}

func (d *decoder) text(n *Node, v reflect.Value, f *Field) {
	if n.Kind == Number || n.Kind == Bool {
		d.add(n, "expected text, got %s: write it in quotes, %q", n.describe(), n.Text)
		return
	}
	if n.Kind != Text {
		d.wrong(n, "text")
		return
	}
	if f != nil && len(f.OneOf) > 0 && !slices.Contains(f.OneOf, n.Text) {
		d.add(n, "expected one of %s, got %q%s", strings.Join(f.OneOf, ", "), n.Text, DidYouMean(n.Text, f.OneOf))
		return
	}
	v.SetString(n.Text)
}

func (d *decoder) integer(n *Node, v reflect.Value) {
	if n.Kind != Number && !n.expanded {
		if _, err := strconv.ParseInt(n.Text, 10, 64); err == nil && n.Kind == Text {
			d.add(n, "expected a whole number, got the text %q: leave out the quotes", n.Text)
			return
		}
		d.wrong(n, "a whole number")
		return
	}
	text := strings.TrimPrefix(strings.ReplaceAll(n.Text, "_", ""), "+")
	i, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		if x, ferr := strconv.ParseFloat(text, 64); ferr == nil && x == math.Trunc(x) && math.Abs(x) < 1<<53 {
			d.add(n, "expected a whole number, got the number %s: write %d", n.Text, int64(x))
			return
		}
		d.wrong(n, "a whole number")
		return
	}
	if v.OverflowInt(i) {
		d.add(n, "expected a whole number of at most %d bits, got the number %s", v.Type().Bits(), n.Text)
		return
	}
	v.SetInt(i)
}

// unitText returns the text of a duration or a size.
func (d *decoder) unitText(n *Node, expected string) (string, bool) {
	if n.raw != "" || n.Kind == Null || n.Kind == List || n.Kind == Map || n.Kind == Bool && n.Text != "off" {
		d.wrong(n, expected)
		return "", false
	}
	return n.Text, true
}

func (d *decoder) duration(n *Node, into *Duration) {
	text, ok := d.unitText(n, "a duration with a unit, as 10s or 5m")
	if !ok {
		return
	}
	x, err := ParseDuration(text)
	if err != nil {
		d.add(n, "%s", err)
		return
	}
	*into = x
}

func (d *decoder) bytes(n *Node, into *Bytes) {
	text, ok := d.unitText(n, "a size with a unit, as 64KiB or 256MiB")
	if !ok {
		return
	}
	x, err := ParseBytes(text)
	if err != nil {
		d.add(n, "%s", err)
		return
	}
	*into = x
}

func (d *decoder) secret(n *Node, into *Secret) {
	if n.Kind == Null || n.Kind == List || n.Kind == Map {
		d.add(n, "expected a secret, got %s: write ${env:NAME} or ${file:PATH}", n.Kind)
		return
	}
	if n.raw == "" {
		*into = Secret(n.Text)
		return
	}
	x := n.src.expand(n.raw, n.src.secret)
	if x.err != nil {
		d.add(n, "%s", x.err)
		return
	}
	*into = Secret(x.text)
}

func (d *decoder) named(n *Node, what string, add func(name, text string)) {
	if n.Kind != Map {
		d.wrong(n, "a block of names, each with "+what)
		return
	}
	for _, e := range n.Entries {
		v := e.Value
		switch {
		case v.src == nil:
		case v.raw != "":
			d.add(v, "a secret is not allowed here, since this value may be printed: write ${NAME}")
		case v.Kind == List || v.Kind == Map:
			d.add(v, "expected %s as text, got %s: write it in quotes", what, v.Kind)
		case strings.Count(v.Text, "(") > strings.Count(v.Text, ")") || strings.Count(v.Text, "<") > strings.Count(v.Text, ">") && what == "a type":
			d.add(v, "the text %q stops in the middle: inside { } a comma ends it, so write it in quotes", v.Text)
		case v.Kind == Null && v.Text == "" && strings.ContainsAny(e.Key, "()<>"):
			d.add(v, "the text %q is the rest of the value before it: inside { } a comma ends a value, so write that one in quotes", e.Key)
		case v.Kind == Null:
			d.add(v, "expected %s, got nothing", what)
		default:
			add(e.Key, v.Text)
		}
	}
}

func (d *decoder) list(n *Node, v reflect.Value, f *Field) {
	if n.Kind != List {
		if n.Kind == Text || n.Kind == Number {
			d.add(n, "expected %s, got %s: write [%s]", TypeText(v.Type()), n.describe(), shorten(n.Text))
			return
		}
		d.wrong(n, TypeText(v.Type()))
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.Items), len(n.Items))
	for i, item := range n.Items {
		setDefaults(out.Index(i).Addr())
		d.value(item, out.Index(i), f)
	}
	v.Set(out)
}

func (d *decoder) mapping(n *Node, v reflect.Value) {
	if n.Kind != Map {
		d.wrong(n, "a block of names")
		return
	}
	out := reflect.MakeMapWithSize(v.Type(), len(n.Entries))
	for _, e := range n.Entries {
		p := reflect.New(v.Type().Elem())
		setDefaults(p)
		x := p.Elem()
		d.value(e.Value, x, nil)
		out.SetMapIndex(reflect.ValueOf(e.Key).Convert(v.Type().Key()), x)
	}
	v.Set(out)
}

func (d *decoder) structure(n *Node, v reflect.Value) {
	fields := FieldsOf(v.Type())
	if n.Kind != Map && n.Kind != Null {
		msg := "expected a block of keys, got " + n.describe()
		if names := fieldNames(fields); len(names) > 0 {
			msg += "; known keys: " + Names(names)
		}
		d.add(n, "%s", msg)
		return
	}
	meant := map[string]bool{}
	for _, e := range n.Entries {
		f := fieldNamed(fields, e.Key)
		if f == nil {
			meant[Nearest(e.Key, fieldNames(fields))] = true
			d.problems = append(d.problems, Problem{File: n.File, Line: e.Line, Col: e.Col, Path: Join(n.Path, e.Key),
				Msg: UnknownKey(e.Key, fieldNames(fields), d.elsewhereOf(n.Path))})
			continue
		}
		d.value(e.Value, v.FieldByIndex(f.Index), f)
	}
	for _, f := range fields {
		if f.Required && n.Get(f.Name) == nil && !meant[f.Name] {
			p := n.problem(fmt.Sprintf("required key %q is missing", f.Name))
			p.Path = Join(n.Path, f.Name)
			d.problems = append(d.problems, p)
		}
	}
}

// elsewhereOf leaves out the places that are the block itself.
func (d *decoder) elsewhereOf(path string) map[string]string {
	out := map[string]string{}
	for k, at := range d.elsewhere {
		if at != path {
			out[k] = at
		}
	}
	return out
}

func fieldNamed(fields []Field, name string) *Field {
	for i := range fields {
		if fields[i].Name == name {
			return &fields[i]
		}
	}
	return nil
}

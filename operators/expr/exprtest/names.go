package exprtest

import "strings"

// TypeName is the registry's name of a type that expr writes as text: without
// modifiers.
func TypeName(text string) string {
	name, _, _ := strings.Cut(text, "(")
	if name == "varchar" {
		return "string"
	}
	return name
}

// SQLType is PostgreSQL's name of a type that expr writes as text, with precision and
// scale of decimals.
func SQLType(text string) string {
	name := TypeName(text)
	t := typeNamed(name)
	if t == nil {
		return text
	}
	if _, rest, ok := strings.Cut(text, "("); ok && name == "decimal" {
		return t.sql + "(" + rest
	}
	return t.sql
}

// IsTypeOf says whether name is what pg_typeof says of values that here have the
// registry's type typ.
func IsTypeOf(typ, name string) bool {
	if e, ok := strings.CutSuffix(typ, "[]"); ok && strings.HasSuffix(name, "[]") {
		return IsTypeOf(e, strings.TrimSuffix(name, "[]"))
	}
	switch name {
	case "character varying":
		name = "text"
	case "time without time zone":
		name = "time"
	case "timestamp without time zone":
		name = "timestamp"
	case "timestamp with time zone":
		name = "timestamptz"
	}
	if t := typeNamed(typ); t != nil {
		return name == t.sql
	}
	return name == typ
}

// Literal writes a value as a constant of a type of PostgreSQL's; nil is null.
func Literal(v *string, sql string) *Tree {
	return &Tree{Parts: []string{"(" + quote(v) + "::" + sql + ")"}}
}

// Replace returns t with part old replaced by part new.
func (t *Tree) Replace(old, new *Tree) *Tree {
	if t == old {
		return new
	}
	if len(t.Args) == 0 {
		return t
	}
	out := *t
	out.Args = make([]*Tree, len(t.Args))
	for i, a := range t.Args {
		out.Args[i] = a.Replace(old, new)
	}
	return &out
}

// Column says whether t is a column.
func (t *Tree) Column() bool { return len(t.Args) == 0 && t.Name == "" && !t.literal() }

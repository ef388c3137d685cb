package exprtest

import (
	"strings"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
)

// TypeName is the registry's name of a type: that of the language, without modifiers.
func TypeName(dt arrow.DataType) string {
	name, _, _ := strings.Cut(typeText(dt), "(")
	return name
}

func typeText(dt arrow.DataType) string {
	if arrow.TypeEqual(dt, arrow.FixedWidthTypes.MonthDayNanoInterval) {
		return "interval"
	}
	return dataflow.TypeName(dt)
}

// SQLType is PostgreSQL's name of a type, with precision and scale of decimals.
func SQLType(dt arrow.DataType) string {
	text := typeText(dt)
	name, rest, modified := strings.Cut(text, "(")
	if t := typeNamed(name); t != nil {
		name = t.sql
	}
	if modified {
		return name + "(" + rest
	}
	return name
}

// IsTypeOf says whether name is what pg_typeof says of values that here have the
// registry's type typ.
func IsTypeOf(typ, name string) bool {
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

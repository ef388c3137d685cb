package expr

import (
	"strings"
)

type astOp uint8

const (
	opNumber    astOp = iota // text
	opString                 // text
	opNull                   //
	opBool                   // text "true" or "false"
	opTyped                  // type name and string: date '2024-01-01'
	opColumn                 // text
	opField                  // args[0], text
	opCall                   // text, args; star
	opUnary                  // text, args[0]
	opBinary                 // text, args
	opAnd                    // args
	opOr                     // args
	opNot                    // args[0]
	opIs                     // text: "null", "true", "false", "unknown"; not
	opDistinct               // args; not: "is not distinct from"
	opBetween                // args[0..2]; not, text "symmetric"
	opIn                     // args[0], then the list; not
	opCase                   // operand (may be nil), pairs, else (may be nil)
	opCast                   // args[0], typ
	opArray                  // args
	opSubscript              // args[0], number; text ":" for a slice: args[0..2]
	opAny                    // text, args: a operator any(list); all set for all
	opRow                    // args
)

// ast is one part of a parsed expression.
type ast struct {
	op        astOp
	pos, end  int // place in the text
	text      string
	not       bool
	star      bool
	all       bool // opAny
	distinct  bool
	args      []*ast
	names     []string // opCall: those of operands given by name, or nil
	operand   *ast     // opCase
	otherwise *ast     // opCase
	filter    *ast     // an aggregate's
	order     []orderAst
	within    bool // order is that of "within group"
	typ       typ  // opTyped, opCast
}

// orderAst is one term of an aggregate's order by.
type orderAst struct {
	by         *ast
	desc       bool
	nullsFirst bool
}

// canonical writes a with explicit parentheses, names in the form that reads
// back the same.
func (a *ast) canonical(b *strings.Builder) {
	switch a.op {
	case opNumber, opBool:
		b.WriteString(a.text)
	case opString:
		b.WriteString(quoteText(a.text))
	case opNull:
		b.WriteString("null")
	case opTyped:
		b.WriteString(a.typ.String() + " " + quoteText(a.text))
	case opColumn:
		b.WriteString(quoteName(a.text))
	case opField:
		b.WriteString("(")
		a.args[0].canonical(b)
		b.WriteString(")." + quoteName(a.text))
	case opCall:
		a.canonicalCall(b)
	case opUnary:
		b.WriteString("(" + a.text + " ")
		a.args[0].canonical(b)
		b.WriteString(")")
	case opBinary:
		a.infix(b, " "+a.text+" ")
	case opAnd:
		a.infix(b, " and ")
	case opOr:
		a.infix(b, " or ")
	case opNot:
		b.WriteString("(not ")
		a.args[0].canonical(b)
		b.WriteString(")")
	case opIs:
		a.infix(b, "")
		b.WriteString(" is " + a.notWord() + a.text)
	case opDistinct:
		a.infix(b, " is "+a.notWord()+"distinct from ")
	case opBetween:
		b.WriteString("(")
		a.args[0].canonical(b)
		b.WriteString(" " + a.notWord() + "between " + a.text)
		if a.text != "" {
			b.WriteString(" ")
		}
		a.args[1].canonical(b)
		b.WriteString(" and ")
		a.args[2].canonical(b)
		b.WriteString(")")
	case opIn:
		b.WriteString("(")
		a.args[0].canonical(b)
		b.WriteString(" " + a.notWord() + "in (")
		list(b, a.args[1:])
		b.WriteString("))")
	case opCase:
		a.canonicalCase(b)
	case opCast:
		b.WriteString("cast(")
		a.args[0].canonical(b)
		b.WriteString(" as " + a.typ.String() + ")")
	case opArray:
		b.WriteString("array[")
		list(b, a.args)
		b.WriteString("]")
	case opSubscript:
		a.canonicalSubscript(b)
	case opAny:
		b.WriteString("(")
		a.args[0].canonical(b)
		word := "any"
		if a.all {
			word = "all"
		}
		b.WriteString(" " + a.text + " " + word + "(")
		a.args[1].canonical(b)
		b.WriteString("))")
	case opRow:
		b.WriteString("row(")
		list(b, a.args)
		b.WriteString(")")
	}
}

func (a *ast) notWord() string {
	if a.not {
		return "not "
	}
	return ""
}

func (a *ast) infix(b *strings.Builder, sep string) {
	b.WriteString("(")
	for i, x := range a.args {
		if i > 0 {
			b.WriteString(sep)
		}
		x.canonical(b)
	}
	b.WriteString(")")
}

func list(b *strings.Builder, args []*ast) {
	for i, x := range args {
		if i > 0 {
			b.WriteString(", ")
		}
		x.canonical(b)
	}
}

func (a *ast) canonicalCall(b *strings.Builder) {
	b.WriteString(quoteName(a.text) + "(")
	if a.distinct {
		b.WriteString("distinct ")
	}
	switch {
	case a.star:
		b.WriteString("*")
	case a.text == "extract" && len(a.args) == 2:
		a.args[0].canonical(b)
		b.WriteString(" from ")
		a.args[1].canonical(b)
	case a.names != nil:
		for i, x := range a.args {
			if i > 0 {
				b.WriteString(", ")
			}
			if a.names[i] != "" {
				b.WriteString(quoteName(a.names[i]) + " => ")
			}
			x.canonical(b)
		}
	default:
		list(b, a.args)
	}
	if a.within {
		b.WriteString(") within group (")
	}
	for i, o := range a.order {
		switch {
		case i > 0:
			b.WriteString(", ")
		case a.within:
			b.WriteString("order by ")
		default:
			b.WriteString(" order by ")
		}
		o.by.canonical(b)
		b.WriteString(orderSuffix(o.desc, o.nullsFirst))
	}
	b.WriteString(")")
	if a.filter != nil {
		b.WriteString(" filter (where ")
		a.filter.canonical(b)
		b.WriteString(")")
	}
}

func (a *ast) canonicalSubscript(b *strings.Builder) {
	b.WriteString("(")
	a.args[0].canonical(b)
	b.WriteString(")[")
	for i, x := range a.args[1:] {
		if i > 0 {
			b.WriteString(":")
		}
		if a.text == "" || x.op != opNull || x.pos != a.pos {
			x.canonical(b)
		}
	}
	b.WriteString("]")
}

func (a *ast) canonicalCase(b *strings.Builder) {
	b.WriteString("case")
	if a.operand != nil {
		b.WriteString(" ")
		a.operand.canonical(b)
	}
	for i := 0; i < len(a.args); i += 2 {
		b.WriteString(" when ")
		a.args[i].canonical(b)
		b.WriteString(" then ")
		a.args[i+1].canonical(b)
	}
	if a.otherwise != nil {
		b.WriteString(" else ")
		a.otherwise.canonical(b)
	}
	b.WriteString(" end")
}

func quoteText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// quoteName quotes a name unless it reads back as it is.
func quoteName(s string) string {
	plain := s != "" && identStart(s[0]) && !reserved[s]
	for i := 0; i < len(s) && plain; i++ {
		c := s[i]
		plain = c == '_' || c >= 'a' && c <= 'z' || digit(c)
	}
	if plain {
		return s
	}
	return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
}

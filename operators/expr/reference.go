package expr

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Function says what one function, operator or form of the syntax does.
type Function struct {
	// Name is how it is called: a word, or the sign of an operator. A unary
	// operator has its name in front of the operand's: "- a".
	Name string
	// Group is one of [Groups].
	Group string
	// Signatures are the overloads with the type of their result, as
	// "abs(int32) -> int32"; a form of the syntax shows how it is written.
	Signatures []string
	// Text says in a sentence or a few what it gives.
	Text string
	// Examples are never empty; a test runs them.
	Examples []Example
}

// Example is an expression without columns and its value as a text; the text of
// null is "null".
type Example struct{ Expr, Value string }

type example = Example

// Groups are those of functions, in the order of the reference; the chapters of
// PostgreSQL's manual.
var Groups = []string{
	"logic", "comparison", "conditional", "mathematics", "string", "pattern", "binary", "hash",
	"date/time", "cast", "uuid", "json", "array", "struct",
}

// description is what describe was told.
type description struct {
	group, name, syntax, text string
	examples                  []example
}

var descriptions []description

// describe documents all overloads of a registered name (unary operators as
// they are registered: "unary -") in a sentence. The files that register call it
// from init, once for each group that the name belongs to.
func describe(group, name, text string, examples ...example) {
	describeForm(group, name, "", text, examples...)
}

// describeForm documents what is written in a way of its own: syntax says how.
func describeForm(group, name, syntax, text string, examples ...example) {
	if !slices.Contains(Groups, group) || text == "" || len(examples) == 0 {
		panic(fmt.Sprintf("expr: %s is described without a group, a text or an example", name))
	}
	for _, d := range descriptions {
		if d.group == group && d.name == name {
			panic(fmt.Sprintf("expr: %s is described twice in %s", name, group))
		}
	}
	descriptions = append(descriptions, description{group, name, syntax, text, examples})
}

// Functions returns everything that expressions can call, by group and name. A
// name may stand in several groups. Aggregates are not among them: they belong
// to the steps that group rows.
func Functions() []Function {
	out := make([]Function, 0, len(descriptions))
	for _, d := range descriptions {
		f := Function{Name: strings.TrimPrefix(d.name, "unary "), Group: d.group, Text: d.text, Examples: d.examples}
		if d.syntax != "" {
			f.Signatures = []string{d.syntax}
		} else {
			f.Signatures = signatures(d.name)
		}
		out = append(out, f)
	}
	sort.SliceStable(out, func(i, j int) bool {
		a, b := &out[i], &out[j]
		if a.Group != b.Group {
			return slices.Index(Groups, a.Group) < slices.Index(Groups, b.Group)
		}
		return a.Name < b.Name
	})
	return out
}

// signatures writes the overloads of a name with their results.
func signatures(name string) []string {
	var out []string
	for _, f := range functions[name] {
		s := f.written() + " -> " + f.resultName()
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// written is how f is called, with the kinds of its operands.
func (f *function) written() string {
	kinds := make([]string, len(f.args))
	for i, k := range f.args {
		kinds[i] = k.name()
	}
	if f.variadic {
		kinds[len(kinds)-1] += ", ..."
	}
	op, unary := strings.CutPrefix(f.name, "unary ")
	switch {
	case unary:
		return op + " " + kinds[0]
	case !identStart(op[0]) && len(kinds) == 2:
		return kinds[0] + " " + op + " " + kinds[1]
	}
	return op + "(" + strings.Join(kinds, ", ") + ")"
}

// resultName is the kind of the result: what depends on the operands is asked
// for with usual ones.
func (f *function) resultName() (name string) {
	if f.result == nil {
		return f.ret.name()
	}
	args := make([]*node, len(f.args))
	for i := range f.args {
		k := f.arg(f.as, i)
		args[i] = &node{typ: typ{k: k}}
		switch k {
		case kDecimal:
			args[i].typ = decimalType(10, 2)
		case kString: // a unit, where the result depends on one
			args[i].konst = textConst("second")
		}
	}
	t, err := f.result(args)
	if err != nil {
		return "its operands'"
	}
	return t.k.name()
}

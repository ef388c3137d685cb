package expr

import (
	"slices"
	"strings"
)

// Overload is one form of a function or operator, as the checker knows it.
type Overload struct {
	// Name is that of the function, or the sign of the operator; unary operators
	// have "unary " in front.
	Name string
	// Args are the names of the operands' types without modifiers, "any" for any.
	Args []string
	// Variadic: the last of Args may stand any number of times, also none.
	Variadic bool
	// Result is the name of the result's type for usual operands of these types.
	Result string
}

// Overloads returns all forms of functions and operators, by name. What is written
// in a way of its own, as case or between, is not among them.
func Overloads() []Overload {
	var out []Overload
	for name, fs := range functions {
		for _, f := range fs {
			o := Overload{Name: name, Variadic: f.variadic, Result: f.resultName()}
			for _, k := range f.args {
				o.Args = append(o.Args, k.name())
			}
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b Overload) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		return slices.Compare(a.Args, b.Args)
	})
	return out
}

// Casts returns the pairs of types of which the first can be cast to the second.
func Casts() [][2]string {
	var out [][2]string
	for k := range casts {
		out = append(out, [2]string{k.from.name(), k.to.name()})
	}
	slices.SortFunc(out, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	return out
}

package expr

import (
	"errors"
	"sort"
	"strings"

	"frazil/dataflow/component"
)

// function is one overload of a function or operator.
type function struct {
	name string
	args []kind
	// as are the kinds that operands are converted to; nil: args.
	as []kind
	// variadic: the last of args may stand any number of times, also none.
	variadic bool
	// ret is the result's kind, or result its type where that depends on the
	// operands.
	ret    kind
	result func(args []*node) (typ, error)
	// loose kernels see nulls; for the others a null operand makes a null.
	loose bool
	// fails: the kernel may call call.fail.
	fails  bool
	kernel kernel
}

// functions holds all overloads by name. Operators stand under their sign, the
// unary ones with "unary " before it.
var functions = map[string][]*function{}

// register adds overloads; the files with kernels call it from init.
func register(fs ...function) {
	for i := range fs {
		f := &fs[i]
		if f.kernel == nil || f.ret == kUnknown && f.result == nil {
			panic("expr: function " + f.name + " without kernel or result")
		}
		if f.as == nil {
			f.as = f.args
		}
		functions[f.name] = append(functions[f.name], f)
	}
}

func functionNames() []string {
	var out []string
	for n := range functions {
		if identStart(n[0]) && !strings.HasPrefix(n, "unary ") {
			out = append(out, n)
		}
	}
	for n := range specialForms {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}

// arg returns the kind that operand i of n must have, by list.
func (f *function) arg(list []kind, i int) kind {
	if f.variadic && i >= len(list)-1 {
		return list[len(list)-1]
	}
	return list[i]
}

func (f *function) takes(n int) bool {
	if f.variadic {
		return n >= len(f.args)-1
	}
	return n == len(f.args)
}

// near says whether an operand has the kind that f takes in its place.
func (f *function) near(args []*node) bool {
	for i, a := range args {
		if i < len(f.args) && f.args[i] == a.typ.k {
			return true
		}
	}
	return false
}

// castContext says where a conversion happens by itself.
type castContext uint8

const (
	explicitCast castContext = iota
	implicitCast
)

type castKey struct{ from, to kind }

type castDef struct {
	context castContext
	fails   bool
	kernel  kernel
}

var casts = map[castKey]castDef{}

func registerCast(from, to kind, context castContext, fails bool, k kernel) {
	casts[castKey{from, to}] = castDef{context, fails, k}
}

// implicit says whether a value of kind from becomes one of kind to by itself.
func implicit(from, to kind) bool {
	return from == to || to == kAny || from == kUnknown || from == kList && to == kTexts || casts[castKey{from, to}].context == implicitCast
}

// resolve chooses the overload for operands, by PostgreSQL's rules for
// functions and operators (its chapter "Type Conversion").
func resolve(name string, args []*node) (*function, error) {
	kinds := make([]kind, len(args))
	for i, a := range args {
		kinds[i] = a.typ.k
	}
	var fits []*function
	for _, f := range functions[name] {
		if !f.takes(len(args)) {
			continue
		}
		ok, exact := true, true
		for i, k := range kinds {
			want := f.arg(f.args, i)
			ok = ok && implicit(k, want)
			exact = exact && k == want
		}
		if exact {
			return f, nil
		}
		if ok {
			fits = append(fits, f)
		}
	}
	if f := assumeSame(fits, kinds); f != nil {
		return f, nil
	}
	return choose(fits, kinds)
}

var errAmbiguous = errors.New("ambiguous")

// assumeSame takes an unknown operand of a pair for the type of the other one.
func assumeSame(fits []*function, kinds []kind) *function {
	if len(kinds) != 2 || (kinds[0] == kUnknown) == (kinds[1] == kUnknown) {
		return nil
	}
	k := max(kinds[0], kinds[1])
	for _, f := range fits {
		if f.arg(f.args, 0) == k && f.arg(f.args, 1) == k {
			return f
		}
	}
	return nil
}

// choose narrows candidates that all fit down to one. It returns nil, nil if
// there is none.
func choose(fits []*function, kinds []kind) (*function, error) {
	if len(fits) <= 1 {
		if len(fits) == 1 {
			return fits[0], nil
		}
		return nil, nil
	}
	fits = best(fits, kinds, func(want, have kind) bool { return want == have })
	fits = best(fits, kinds, func(want, have kind) bool {
		return want == have || want.preferred() && want.category() == have.category()
	})
	if len(fits) == 1 {
		return fits[0], nil
	}
	for i, k := range kinds {
		if k == kUnknown {
			fits = byCategory(fits, i)
		}
	}
	if len(fits) == 1 {
		return fits[0], nil
	}
	known := kUnknown
	for _, k := range kinds {
		if k != kUnknown {
			if known != kUnknown && known != k {
				return nil, errAmbiguous
			}
			known = k
		}
	}
	var last *function
	if known != kUnknown {
		for _, f := range fits {
			ok := true
			for i, k := range kinds {
				ok = ok && (k != kUnknown || implicit(known, f.arg(f.args, i)))
			}
			if ok && last != nil {
				return nil, errAmbiguous
			}
			if ok {
				last = f
			}
		}
	}
	if last == nil {
		return nil, errAmbiguous
	}
	return last, nil
}

// best keeps the candidates with the most known operands for which good holds.
func best(fits []*function, kinds []kind, good func(want, have kind) bool) []*function {
	top := -1
	var out []*function
	for _, f := range fits {
		n := 0
		for i, k := range kinds {
			if k != kUnknown && good(f.arg(f.args, i), k) {
				n++
			}
		}
		switch {
		case n > top:
			top, out = n, append(out[:0:0], f)
		case n == top:
			out = append(out, f)
		}
	}
	return out
}

// byCategory keeps the candidates that an unknown operand i may choose: those
// that take text if there is one, else those of the one common category.
func byCategory(fits []*function, i int) []*function {
	cat := fits[0].arg(fits[0].args, i).category()
	for _, f := range fits {
		switch c := f.arg(f.args, i).category(); {
		case c == 'S':
			cat = 'S'
		case cat != c && cat != 'S':
			cat = 0
		}
	}
	if cat == 0 {
		return fits
	}
	preferred := false
	var out []*function
	for _, f := range fits {
		k := f.arg(f.args, i)
		if k.category() != cat {
			continue
		}
		if k.preferred() && !preferred {
			preferred, out = true, nil
		}
		if k.preferred() || !preferred {
			out = append(out, f)
		}
	}
	return out
}

// noFunction says that nothing fits, and what would.
func noFunction(pos int, name string, args []*node, err error) error {
	kinds := make([]string, len(args))
	for i, a := range args {
		kinds[i] = a.typ.String()
	}
	what := name + "(" + strings.Join(kinds, ", ") + ")"
	word := "function"
	op, unary := strings.CutPrefix(name, "unary ")
	if !identStart(op[0]) {
		word = "operator"
		what = strings.Join(kinds, " "+op+" ")
		if unary {
			what = op + " " + kinds[0]
		}
	}
	if err != nil {
		return errAt(pos, "%s %s is ambiguous: cast the literals, as in '...'::string", word, what)
	}
	if len(functions[name]) == 0 {
		if word == "operator" {
			return errAt(pos, "operator %s is not supported", op)
		}
		return errAt(pos, "unknown function %q%s", name, component.DidYouMean(name, functionNames()))
	}
	known := overloads(name, op, word, args)
	if known == "" {
		return errAt(pos, "%s %s does not exist: add a cast", word, what)
	}
	return errAt(pos, "%s %s does not exist: known are %s; add a cast", word, what, known)
}

// overloads lists what there is: of an operator, what takes one of the operands
// as it is.
func overloads(name, op, word string, args []*node) string {
	var out []string
	for _, f := range functions[name] {
		if word == "operator" && !f.near(args) {
			continue
		}
		kinds := make([]string, len(f.args))
		for i, k := range f.args {
			kinds[i] = k.name()
		}
		if f.variadic {
			kinds[len(kinds)-1] += "..."
		}
		s := op + "(" + strings.Join(kinds, ", ") + ")"
		if word == "operator" {
			s = strings.Join(kinds, " "+op+" ")
			if len(kinds) == 1 {
				s = op + " " + kinds[0]
			}
		}
		out = append(out, s)
	}
	if len(out) > 6 {
		out = append(out[:6], "...")
	}
	return strings.Join(out, ", ")
}

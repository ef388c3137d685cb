package exprtest

import (
	"math/rand/v2"
	"slices"
	"strings"

	"frazil/operators/expr"
)

// Tree is an expression: Parts[0] Args[0] Parts[1] ... Parts[n].
type Tree struct {
	// Name is the function, operator or form at the root; "" for a column or literal.
	Name string
	// Type is the registry's name of the type, "" if it is not known.
	Type  string
	Parts []string
	Args  []*Tree
}

// String is the text of the expression.
func (t *Tree) String() string {
	var b strings.Builder
	t.write(&b)
	return b.String()
}

func (t *Tree) write(b *strings.Builder) {
	for i, a := range t.Args {
		b.WriteString(t.Parts[i])
		a.write(b)
	}
	b.WriteString(t.Parts[len(t.Args)])
}

// All returns the parts of t and t itself, operands before what uses them.
func (t *Tree) All() []*Tree {
	var out []*Tree
	for _, a := range t.Args {
		out = append(out, a.All()...)
	}
	return append(out, t)
}

// Constant says whether no column stands in t.
func (t *Tree) Constant() bool {
	if len(t.Args) == 0 {
		return t.Name == "" && t.literal()
	}
	for _, a := range t.Args {
		if !a.Constant() {
			return false
		}
	}
	return true
}

// literal says whether the leaf t is no column.
func (t *Tree) literal() bool {
	c := t.Parts[0][0]
	return c == '\'' || c == '(' || c >= '0' && c <= '9'
}

// Generator makes random expressions over the columns of rows.
type Generator struct {
	rng     *rand.Rand
	columns map[string][]string
	// makers are the ways to make a value of a type, by the name of what they use.
	makers map[string][]maker
	types  []string
	// Skipped are overloads that are not generated: they have operands of types
	// that have no values here, or no syntax of PostgreSQL's.
	Skipped []string
	// made are the parts of the expression so far, by type.
	made map[string][]*Tree
}

// maker makes an expression with operands of a given depth.
type maker struct {
	name string
	make []func(g *Generator, depth int) *Tree
}

// NewGenerator returns a generator of expressions over the columns of rows, its
// choices by rng. One goroutine uses it.
func NewGenerator(rng *rand.Rand, rows *Rows) *Generator {
	g := &Generator{rng: rng, columns: map[string][]string{}, makers: map[string][]maker{}}
	for _, c := range rows.Columns {
		if g.columns[c.Type] == nil {
			g.types = append(g.types, c.Type)
		}
		g.columns[c.Type] = append(g.columns[c.Type], c.Name)
	}
	if known("smallint") { // which no column has
		g.types = append(g.types, "int16")
		for _, name := range []string{"(i4 % 200)::smallint", "(j4 % 32768)::smallint", "b::int::smallint"} {
			g.columns["int16"] = append(g.columns["int16"], "("+name+")")
		}
	}
	for _, o := range expr.Overloads() {
		if !slices.Contains(o.Args, "list") {
			if o.Result == "list" {
				o.Result = "string[]"
			}
			g.overload(o)
			continue
		}
		for _, typ := range listTypes {
			of := o
			of.Args = slices.Clone(o.Args)
			for i, a := range of.Args {
				if a == "list" {
					of.Args[i] = typ
				}
			}
			if of.Result == "list" {
				of.Result = typ
			}
			g.overload(of)
		}
	}
	for _, c := range expr.Casts() {
		if g.columns[c[0]] != nil && g.columns[c[1]] != nil {
			g.add(c[1], "cast", func(g *Generator, depth int) *Tree { return g.cast(c[0], c[1], depth) })
		}
	}
	g.forms()
	return g
}

// add offers a way to make values of a type under a name; the ways of one name
// share its chance.
func (g *Generator) add(typ, name string, f func(*Generator, int) *Tree) {
	ms := g.makers[typ]
	i := slices.IndexFunc(ms, func(m maker) bool { return m.name == name })
	if i < 0 {
		g.makers[typ] = append(ms, maker{name, []func(*Generator, int) *Tree{f}})
		return
	}
	ms[i].make = append(ms[i].make, f)
}

func (g *Generator) overload(o expr.Overload) {
	usable := g.columns[o.Result] != nil && notPostgres(o) == ""
	for _, a := range o.Args {
		usable = usable && (a == "any" || g.columns[a] != nil)
	}
	op, unary := strings.CutPrefix(o.Name, "unary ")
	sign := op[0] != '_' && (op[0] < 'a' || op[0] > 'z')
	if usable && sign && !unary && len(o.Args) != 2 {
		usable = false
	}
	if !usable {
		g.Skipped = append(g.Skipped, o.Name+"("+strings.Join(o.Args, ", ")+")")
		return
	}
	g.add(o.Result, o.Name, func(g *Generator, depth int) *Tree {
		args := make([]*Tree, 0, len(o.Args))
		for i, a := range o.Args {
			n := 1
			if o.Variadic && i == len(o.Args)-1 {
				n = 1 + g.rng.IntN(3)
			}
			for range n {
				args = append(args, g.operand(o.Name, i, a, depth))
			}
		}
		switch {
		case unary:
			return &Tree{o.Name, o.Result, []string{"(" + op + " ", ")"}, args}
		case sign:
			return &Tree{o.Name, o.Result, []string{"(", " " + op + " ", ")"}, args}
		}
		return &Tree{o.Name, o.Result, callParts(o.Name, len(args)), args}
	})
}

// callParts are what stands around the operands of a function.
func callParts(name string, n int) []string {
	switch {
	case name == "extract":
		return []string{"extract(", " from ", ")"}
	case name == "like" || name == "ilike":
		if n == 3 {
			return []string{"(", " " + name + " ", " escape ", ")"}
		}
		return []string{"(", " " + name + " ", ")"}
	}
	parts := []string{name + "("}
	for i := 1; i < n; i++ {
		parts = append(parts, ", ")
	}
	return append(parts, ")")
}

// operand makes operand i of a function.
func (g *Generator) operand(name string, i int, typ string, depth int) *Tree {
	if name == "normalize" && i == 1 { // a word, not a text
		return &Tree{Name: "word", Parts: []string{hints[name][1][g.rng.IntN(4)]}}
	}
	if limit[name] == i+1 {
		return g.small(typ, depth)
	}
	if h := hints[name]; i < len(h) && h[i] != nil && g.rng.IntN(12) > 0 {
		v := h[i][g.rng.IntN(len(h[i]))]
		if typ == "string" && name != "extract" && g.rng.IntN(3) > 0 {
			return &Tree{Type: typ, Parts: []string{quote(&v) + "::text"}}
		}
		return &Tree{Type: typ, Parts: []string{quote(&v)}}
	}
	if name == "extract" && i == 0 {
		return &Tree{Type: typ, Parts: []string{"'nonsense'"}}
	}
	if typ == "any" {
		typ = g.types[g.rng.IntN(len(g.types))]
	}
	return g.value(typ, depth-1)
}

// small makes a number that is not so large that texts of that size would fill the
// memory: a third of a percent of them are huge.
func (g *Generator) small(typ string, depth int) *Tree {
	x := g.value(typ, depth-1)
	if g.rng.IntN(300) == 0 {
		return &Tree{Type: typ, Parts: []string{"2147483647"}}
	}
	return &Tree{"%", typ, []string{"(", " % ", ")"}, []*Tree{x, {Type: typ, Parts: []string{"40"}}}}
}

// Any makes an expression of any type, up to depth levels of operators deep.
func (g *Generator) Any(depth int) *Tree {
	g.made = map[string][]*Tree{}
	return g.value(g.types[g.rng.IntN(len(g.types))], depth)
}

// value makes an expression of a type, now and then one that stands there already.
func (g *Generator) value(typ string, depth int) *Tree {
	if made := g.made[typ]; len(made) > 0 && g.rng.IntN(10) == 0 {
		again := *made[g.rng.IntN(len(made))]
		return &again
	}
	t := g.fresh(typ, depth)
	if len(t.Args) > 0 {
		g.made[typ] = append(g.made[typ], t)
	}
	return t
}

func (g *Generator) fresh(typ string, depth int) *Tree {
	ms := g.makers[typ]
	if depth <= 0 || len(ms) == 0 || g.rng.IntN(8) == 0 {
		return g.leaf(typ)
	}
	m := ms[g.rng.IntN(len(ms))]
	return m.make[g.rng.IntN(len(m.make))](g, depth)
}

func (g *Generator) leaf(typ string) *Tree {
	switch k := g.rng.IntN(20); {
	case k < 14:
		names := g.columns[typ]
		t := &Tree{Type: typ, Parts: []string{names[g.rng.IntN(len(names))]}}
		if typ == "int16" {
			t.Name = "column"
		}
		return t
	case k == 14:
		return &Tree{Type: typ, Parts: []string{"(null::" + typeNamed(typ).sql + ")"}}
	case k == 15 && typ != "bool":
		v := typeNamed(typ).value(g.rng)
		return &Tree{Type: typ, Parts: []string{g.bare(typ, v)}}
	}
	v := typeNamed(typ).value(g.rng)
	return &Tree{Type: typ, Parts: []string{"(" + quote(&v) + "::" + typeNamed(typ).sql + ")"}}
}

// bare is a literal without a type: a number, or a text whose type the context
// decides.
func (g *Generator) bare(typ, v string) string {
	switch typ {
	case "int16", "int32", "int64", "decimal":
		if !strings.HasPrefix(v, "-") {
			return v
		}
		return "(" + v + ")"
	}
	return quote(&v)
}

func (g *Generator) cast(from, to string, depth int) *Tree {
	x := g.value(from, depth-1)
	sql := typeNamed(to).sql
	if from == "string" && g.rng.IntN(3) > 0 { // a text that may be one of the type
		v := typeNamed(to).value(g.rng)
		x = &Tree{Type: from, Parts: []string{"(" + quote(&v) + "::text)"}}
	}
	switch g.rng.IntN(6) {
	case 0:
		sql = g.modified(to, sql)
	case 1:
		return &Tree{"cast", to, []string{"cast(", " as " + sql + ")"}, []*Tree{x}}
	}
	return &Tree{"cast", to, []string{"(", "::" + sql + ")"}, []*Tree{x}}
}

// modified is a type with a precision or a length.
func (g *Generator) modified(typ, sql string) string {
	switch typ {
	case "decimal":
		return []string{"numeric(10,2)", "numeric(20,6)", "numeric(5)", "numeric(38,10)", "numeric(3,3)"}[g.rng.IntN(5)]
	case "string":
		return []string{"varchar(3)", "varchar(10)", "varchar"}[g.rng.IntN(3)]
	case "time", "timestamp", "timestamptz":
		return sql + []string{"(0)", "(3)", "(6)"}[g.rng.IntN(3)]
	}
	return sql
}

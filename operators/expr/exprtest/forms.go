package exprtest

import "strings"

// forms adds what has a syntax of its own.
func (g *Generator) forms() {
	for _, typ := range g.types {
		g.add(typ, "case", func(g *Generator, depth int) *Tree { return g.caseWhen(typ, depth) })
		g.add(typ, "case of", func(g *Generator, depth int) *Tree { return g.caseOf(typ, depth) })
		g.add(typ, "coalesce", func(g *Generator, depth int) *Tree { return g.call("coalesce", typ, 1+g.rng.IntN(3), depth) })
		g.add(typ, "nullif", func(g *Generator, depth int) *Tree { return g.call("nullif", typ, 2, depth) })
		for _, name := range []string{"greatest", "least"} {
			g.add(typ, name, func(g *Generator, depth int) *Tree { return g.call(name, typ, 1+g.rng.IntN(4), depth) })
		}
	}
	g.conditions()
	g.lists()
	g.add("string", "substring from", func(g *Generator, depth int) *Tree {
		return &Tree{"substring", "string", []string{"substring(", " from ", " for ", ")"},
			[]*Tree{g.value("string", depth-1), g.value("int32", depth-1), g.value("int32", depth-1)}}
	})
	for _, side := range []string{"", "both ", "leading ", "trailing "} {
		g.add("string", "trim", func(g *Generator, depth int) *Tree {
			return &Tree{"trim", "string", []string{"trim(" + side, " from ", ")"}, []*Tree{g.value("string", depth-1), g.value("string", depth-1)}}
		})
	}
	g.add("int32", "position", func(g *Generator, depth int) *Tree {
		return &Tree{"position", "int32", []string{"position(", " in ", ")"}, []*Tree{g.value("string", depth-1), g.value("string", depth-1)}}
	})
	for from, to := range map[string]string{"timestamp": "timestamptz", "timestamptz": "timestamp"} {
		g.add(to, "at time zone", func(g *Generator, depth int) *Tree {
			zone := zones[g.rng.IntN(len(zones))]
			return &Tree{"at time zone", to, []string{"(", " at time zone " + quote(&zone) + ")"}, []*Tree{g.value(from, depth-1)}}
		})
	}
	for _, typ := range []string{"bool", "int32", "int64", "decimal", "float64"} {
		g.add(typ, "chain", func(g *Generator, _ int) *Tree { return g.chain(typ) })
	}
}

// comparable are the types that can be compared.
func (g *Generator) comparable() string {
	for {
		if t := g.types[g.rng.IntN(len(g.types))]; t != "json" {
			return t
		}
	}
}

func (g *Generator) conditions() {
	value := func(g *Generator, depth int) *Tree { return g.value("bool", depth-1) }
	for _, word := range []string{"and", "or"} {
		g.add("bool", word, func(g *Generator, depth int) *Tree {
			t := &Tree{word, "bool", []string{"("}, nil}
			for i := range 2 + g.rng.IntN(2) {
				if i > 0 {
					t.Parts = append(t.Parts, " "+word+" ")
				}
				t.Args = append(t.Args, value(g, depth))
			}
			t.Parts = append(t.Parts, ")")
			return t
		})
	}
	g.add("bool", "not", func(g *Generator, depth int) *Tree {
		return &Tree{"not", "bool", []string{"(not ", ")"}, []*Tree{value(g, depth)}}
	})
	for _, what := range []string{"true", "not true", "false", "not false", "unknown", "not unknown"} {
		g.add("bool", "is", func(g *Generator, depth int) *Tree {
			return &Tree{"is", "bool", []string{"(", " is " + what + ")"}, []*Tree{value(g, depth)}}
		})
	}
	for _, what := range []string{"is null", "is not null"} {
		g.add("bool", "is null", func(g *Generator, depth int) *Tree {
			return &Tree{what, "bool", []string{"(", " " + what + ")"}, []*Tree{g.value(g.types[g.rng.IntN(len(g.types))], depth-1)}}
		})
	}
	pair := func(name string, parts ...string) {
		g.add("bool", name, func(g *Generator, depth int) *Tree {
			typ := g.comparable()
			t := &Tree{name, "bool", parts, nil}
			for range len(parts) - 1 {
				t.Args = append(t.Args, g.value(typ, depth-1))
			}
			return t
		})
	}
	pair("is distinct from", "(", " is distinct from ", ")")
	pair("is not distinct from", "(", " is not distinct from ", ")")
	pair("between", "(", " between ", " and ", ")")
	pair("not between", "(", " not between ", " and ", ")")
	pair("between symmetric", "(", " between symmetric ", " and ", ")")
	pair("in", "(", " in (", ", ", ", ", "))")
	pair("not in", "(", " not in (", ", ", "))")
}

func (g *Generator) call(name, typ string, n, depth int) *Tree {
	t := &Tree{name, typ, callParts(name, n), nil}
	for range n {
		t.Args = append(t.Args, g.value(typ, depth-1))
	}
	return t
}

func (g *Generator) caseWhen(typ string, depth int) *Tree {
	t := &Tree{"case", typ, []string{"(case when "}, nil}
	for i := range 1 + g.rng.IntN(2) {
		if i > 0 {
			t.Parts = append(t.Parts, " when ")
		}
		t.Args = append(t.Args, g.value("bool", depth-1), g.value(typ, depth-1))
		t.Parts = append(t.Parts, " then ")
	}
	return g.otherwise(t, typ, depth)
}

func (g *Generator) caseOf(typ string, depth int) *Tree {
	of := g.comparable()
	t := &Tree{"case of", typ, []string{"(case "}, []*Tree{g.value(of, depth-1)}}
	for range 1 + g.rng.IntN(2) {
		t.Parts = append(t.Parts, " when ", " then ")
		t.Args = append(t.Args, g.value(of, depth-1), g.value(typ, depth-1))
	}
	return g.otherwise(t, typ, depth)
}

func (g *Generator) otherwise(t *Tree, typ string, depth int) *Tree {
	if g.rng.IntN(3) > 0 {
		t.Parts = append(t.Parts, " else ")
		t.Args = append(t.Args, g.value(typ, depth-1))
	}
	t.Parts = append(t.Parts, " end)")
	return t
}

// chain writes operators in a row without parentheses, so that their precedence
// shows. It is one part, without parts of its own.
func (g *Generator) chain(typ string) *Tree {
	var b strings.Builder
	b.WriteString("(")
	g.operators(&b, typ)
	b.WriteString(")")
	return &Tree{"chain", typ, []string{b.String()}, nil}
}

func (g *Generator) operators(b *strings.Builder, typ string) {
	ops := []string{" + ", " - ", " * ", " / ", " % "}
	if typ == "float64" || typ == "decimal" { // quotients of decimals differ in places
		ops = ops[:3]
	}
	n := 2 + g.rng.IntN(3)
	for i := range n {
		if typ == "bool" {
			if i > 0 {
				b.WriteString([]string{" and ", " or "}[g.rng.IntN(2)])
			}
			g.test(b)
			continue
		}
		if i > 0 {
			b.WriteString(ops[g.rng.IntN(len(ops))])
		}
		if g.rng.IntN(5) == 0 {
			b.WriteString("- ")
		}
		names := g.columns[typ]
		if typ != "float64" && g.rng.IntN(3) == 0 {
			b.WriteString(smallInts[g.rng.IntN(len(smallInts))])
			continue
		}
		b.WriteString(names[g.rng.IntN(len(names))])
	}
}

// test writes a condition of a chain.
func (g *Generator) test(b *strings.Builder) {
	if g.rng.IntN(3) == 0 {
		b.WriteString("not ")
	}
	column := func(typ string) string { return g.columns[typ][g.rng.IntN(len(g.columns[typ]))] }
	switch g.rng.IntN(6) {
	case 0:
		b.WriteString(column("bool"))
	case 1:
		b.WriteString(column("bool") + " is not true")
	case 2:
		b.WriteString(column("string") + " || 'a' like '%a' || '_%'")
	case 3:
		b.WriteString(column("int32") + " between 0 and 10 * 2")
	case 4:
		b.WriteString(column("int32") + " in (0, 1, 2) is null")
	case 5:
		g.operators(b, "int64")
		b.WriteString([]string{" < ", " >= ", " <> ", " = "}[g.rng.IntN(4)])
		g.operators(b, "int32")
	}
}

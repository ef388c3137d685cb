package exprtest

// listTypes are those of lists, with the types of their elements.
var (
	listTypes = []string{"int32[]", "string[]", "float64[]"}
	elements  = map[string]string{"int32[]": "int32", "string[]": "string", "float64[]": "float64"}
)

// lists adds what makes lists and takes them apart.
func (g *Generator) lists() {
	for _, typ := range listTypes {
		if g.columns[typ] == nil {
			continue
		}
		elem := elements[typ]
		of := func(result, name string, parts []string, args ...string) {
			g.add(result, name, func(g *Generator, depth int) *Tree {
				t := &Tree{Name: name, Type: result, Parts: parts}
				for _, a := range args {
					t.Args = append(t.Args, g.value(a, depth-1))
				}
				return t
			})
		}
		call := func(result, name string, args ...string) { of(result, name, callParts(name, len(args)), args...) }
		of(typ, "array", []string{"array[", "]"}, elem)
		of(typ, "array", []string{"array[", ", ", ", ", "]"}, elem, elem, elem)
		of(elem, "subscript", []string{"(", ")[", "]"}, typ, "int32")
		of(elem, "subscript", []string{"(", ")[1]"}, typ)
		of(elem, "subscript", []string{"(", ")[2]"}, typ)
		for _, op := range []string{" = any(", " <> all(", " < any(", " >= all("} {
			of("bool", "any", []string{"(", op, "))"}, elem, typ)
		}
		call(typ, "array_append", typ, elem)
		call(typ, "array_prepend", elem, typ)
		call(typ, "array_cat", typ, typ)
		call(typ, "array_remove", typ, elem)
		call(typ, "array_replace", typ, elem, elem)
		call("int32", "array_position", typ, elem)
		call("int32[]", "array_positions", typ, elem)
		of(typ, "||", []string{"(", " || ", ")"}, typ, typ)
		of(typ, "||", []string{"(", " || ", ")"}, typ, elem)
		of(typ, "||", []string{"(", " || ", ")"}, elem, typ)
		for _, op := range []string{"@>", "<@", "&&"} {
			of("bool", op, []string{"(", " " + op + " ", ")"}, typ, typ)
		}
	}
}

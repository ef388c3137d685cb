package operators

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/operators/expr"

	"github.com/apache/arrow-go/v18/arrow"
)

// everyVersion is the version of checks that hold for all rows.
const everyVersion = -1

// contractCheck is one thing that rows must keep: expr, or, if that is nil, a column that is
// not null.
type contractCheck struct {
	// rule is its place in the file, for metrics.
	rule string
	// what it is about, and what is expected, for people.
	what, expected string
	// column whose value a message shows, or that is looked at; -1: none.
	column int
	// expr is true for rows that break it.
	expr    *expr.Expr
	version int
}

// contractPlan is what a contract checks, in the order in which messages tell it.
type contractPlan struct {
	checks []contractCheck
	// version gives the index of a row's version, -1 for one that is not listed.
	version *expr.Expr
}

// contractCompiler turns a config into checks.
type contractCompiler struct {
	schema   *arrow.Schema
	names    []string
	plan     contractPlan
	version  int    // of the rules that are compiled
	path     string // before their paths
	problems component.Problems
}

func compileContract(schema *arrow.Schema, cfg ContractConfig) (*contractPlan, component.Problems) {
	c := &contractCompiler{schema: schema, names: windowUserNames(schema), version: everyVersion}
	c.envelope(cfg.Envelope)
	c.versions(cfg)
	c.rules(cfg.ContractRules)
	if len(c.problems) == 0 && len(c.plan.checks) == 0 && len(cfg.Types) == 0 {
		c.add("", "the contract asks for nothing: give envelope, required, allowed, ranges, patterns or rules")
	}
	return &c.plan, c.problems
}

func (c *contractCompiler) add(path, format string, args ...any) {
	c.problems = append(c.problems, component.Problem{Path: component.Join(c.path, path), Msg: fmt.Sprintf(format, args...)})
}

// check adds a check, which stands at path.
func (c *contractCompiler) check(path string, x contractCheck) {
	x.rule, x.version = component.Join(c.path, path), c.version
	c.plan.checks = append(c.plan.checks, x)
}

// column finds a column, or says that there is none.
func (c *contractCompiler) column(path, name string) (int, bool) {
	i := slices.Index(c.names, name)
	if i < 0 {
		c.add(path, "%s", projectUnknown(name, c.names))
	}
	return i, i >= 0
}

func columnText(name string) string { return fmt.Sprintf("column %q", name) }

// breaks compiles a condition that is true for rows that break the contract. It is
// made of values of the file: what is wrong is said of them, and not of the text.
func (c *contractCompiler) breaks(path string, x contractCheck, format string, args ...any) {
	e, err := expr.Compile(fmt.Sprintf(format, args...), c.schema)
	if err != nil {
		c.add(path, "the value does not fit column %q of type %s: %v", c.names[x.column], c.typeOf(x.column), err)
		return
	}
	x.expr = e
	c.check(path, x)
}

func (c *contractCompiler) typeOf(column int) string {
	return dataflow.TypeName(c.schema.Field(column).Type)
}

func (c *contractCompiler) envelope(e ContractEnvelope) {
	for _, part := range []struct{ key, column string }{{"id", e.ID}, {"type", e.Type}, {"source", e.Source}, {"time", e.Time}, {"version", e.Version}} {
		path := "envelope." + part.key
		if part.column == "" {
			continue
		}
		i, ok := c.column(path, part.column)
		if !ok {
			continue
		}
		t := c.schema.Field(i).Type
		switch {
		case (part.key == "type" || part.key == "source") && t.ID() != arrow.STRING:
			c.add(path, "column %q has type %s: expected string", part.column, c.typeOf(i))
			continue
		case part.key == "time" && t.ID() != arrow.TIMESTAMP && t.ID() != arrow.DATE32:
			c.add(path, "column %q has type %s: expected timestamptz, timestamp or date", part.column, c.typeOf(i))
			continue
		case arrow.IsNested(t.ID()) || arrow.TypeEqual(t, dataflow.TypeJSON):
			c.add(path, "column %q has type %s: expected a single value", part.column, c.typeOf(i))
			continue
		}
		x := contractCheck{what: columnText(part.column), expected: "the envelope needs its " + part.key, column: i}
		c.check(path, x)
		if t.ID() == arrow.STRING {
			c.breaks(path, x, "%s = ''", quoteColumn(part.column))
		}
	}
}

// versions checks version and versions.
func (c *contractCompiler) versions(cfg ContractConfig) {
	column := cfg.Envelope.Version
	if cfg.Version == "" && len(cfg.Versions) == 0 {
		return
	}
	key := "versions"
	if cfg.Version != "" {
		key = "version"
	}
	i := slices.Index(c.names, column)
	switch {
	case cfg.Version != "" && len(cfg.Versions) > 0:
		c.add("version", "version and versions do not go together: list the version under versions")
		return
	case column == "":
		c.add(key, "which column holds the version of a row? Write envelope: {version: COLUMN}")
		return
	case i < 0:
		return // Said already.
	}
	if cfg.Version != "" {
		c.breaks("version", contractCheck{what: columnText(column), expected: "expected version " + string(cfg.Version), column: i},
			"%s <> %s", quoteColumn(column), c.literal(i, cfg.Version))
		return
	}
	c.sideBySide(column, i, cfg.Versions)
}

// sideBySide compiles the rules of several versions.
func (c *contractCompiler) sideBySide(column string, i int, versions map[string]ContractRules) {
	names := slices.Sorted(maps.Keys(versions))
	text := "case " + quoteColumn(column)
	literals := make([]string, len(names))
	for v, name := range names {
		literals[v] = c.literal(i, Scalar(name))
		text += fmt.Sprintf(" when %s then %d", literals[v], v)
		if _, err := expr.Compile(fmt.Sprintf("%s = %s", quoteColumn(column), literals[v]), c.schema); err != nil {
			c.add("versions."+name, "the version does not fit column %q of type %s: %v", column, c.typeOf(i), err)
			return
		}
	}
	e, err := expr.Compile(text+fmt.Sprintf(" else %d end", everyVersion), c.schema)
	if err != nil {
		c.add("versions", "%v", err)
		return
	}
	c.plan.version = e
	c.breaks("versions", contractCheck{what: columnText(column), expected: "expected one of the versions " + strings.Join(names, ", "), column: i},
		"%s not in (%s)", quoteColumn(column), strings.Join(literals, ", "))
	for v, name := range names {
		c.version, c.path = v, "versions."+name
		c.rules(versions[name])
	}
	c.version, c.path = everyVersion, ""
}

// literal writes a value of the file for a column: as a number where that is one, and
// otherwise as a text that gets the type of the column.
func (c *contractCompiler) literal(column int, s Scalar) string {
	switch c.schema.Field(column).Type.ID() {
	case arrow.INT32, arrow.INT64, arrow.FLOAT32, arrow.FLOAT64, arrow.DECIMAL128:
		text := strings.ReplaceAll(string(s), "_", "")
		if f, err := strconv.ParseFloat(text, 64); err == nil && f-f == 0 && !strings.ContainsAny(text, "xXpP") {
			return "(" + text + ")"
		}
	}
	return "'" + strings.ReplaceAll(string(s), "'", "''") + "'"
}

// rules compiles one set of rules.
func (c *contractCompiler) rules(r ContractRules) {
	c.types(r.Types)
	for n, name := range r.Required {
		path := fmt.Sprintf("required[%d]", n)
		if slices.Contains(r.Required[:n], name) {
			c.add(path, "column %q stands twice", name)
		} else if i, ok := c.column(path, name); ok {
			c.check("required."+name, contractCheck{what: columnText(name), expected: "required", column: i})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Allowed)) {
		c.allowed(name, r.Allowed[name])
	}
	for _, name := range slices.Sorted(maps.Keys(r.Ranges)) {
		c.bounds(name, r.Ranges[name])
	}
	for _, name := range slices.Sorted(maps.Keys(r.Patterns)) {
		c.matches(name, r.Patterns[name])
	}
	for _, rule := range r.Rules {
		c.rule(rule)
	}
}

func (c *contractCompiler) types(types component.NamedTypes) {
	for _, t := range types {
		path := "types." + t.Name
		spec, err := dataflow.ParseType(t.Type)
		if err != nil {
			c.add(path, "%v", err)
			continue
		}
		if i, ok := c.column(path, t.Name); ok && !arrow.TypeEqual(spec.Type, c.schema.Field(i).Type) {
			c.add(path, "the contract asks for %s, and column %q has type %s: declare it so in decode, or put a cast step before this one", dataflow.TypeName(spec.Type), t.Name, c.typeOf(i))
		}
	}
}

func (c *contractCompiler) allowed(name string, values []Scalar) {
	path := "allowed." + name
	i, ok := c.column(path, name)
	if !ok {
		return
	}
	if len(values) == 0 {
		c.add(path, "the list is empty: no value would be allowed")
		return
	}
	var literals, shown []string
	for n, v := range values {
		literal := c.literal(i, v)
		if _, err := expr.Compile(fmt.Sprintf("%s = %s", quoteColumn(name), literal), c.schema); err != nil {
			c.add(fmt.Sprintf("%s[%d]", path, n), "the value does not fit column %q of type %s: %v", name, c.typeOf(i), err)
			return
		}
		literals, shown = append(literals, literal), append(shown, string(v))
	}
	c.breaks(path, contractCheck{what: columnText(name), expected: "expected one of " + strings.Join(shown, ", "), column: i},
		"%s not in (%s)", quoteColumn(name), strings.Join(literals, ", "))
}

func (c *contractCompiler) bounds(name string, r ContractRange) {
	path := "ranges." + name
	i, ok := c.column(path, name)
	if !ok {
		return
	}
	if r.Min == "" && r.Max == "" {
		c.add(path, "the range has no end: give min, max or both")
	}
	if r.Min != "" {
		c.breaks(path+".min", contractCheck{what: columnText(name), expected: "expected at least " + string(r.Min), column: i},
			"%s < %s", quoteColumn(name), c.literal(i, r.Min))
	}
	if r.Max != "" {
		c.breaks(path+".max", contractCheck{what: columnText(name), expected: "expected at most " + string(r.Max), column: i},
			"%s > %s", quoteColumn(name), c.literal(i, r.Max))
	}
}

func (c *contractCompiler) matches(name, pattern string) {
	path := "patterns." + name
	i, ok := c.column(path, name)
	if !ok {
		return
	}
	if c.schema.Field(i).Type.ID() != arrow.STRING {
		c.add(path, "column %q has type %s: a pattern is for texts", name, c.typeOf(i))
		return
	}
	e, err := expr.Compile(fmt.Sprintf("%s !~ '%s'", quoteColumn(name), strings.ReplaceAll(pattern, "'", "''")), c.schema)
	if err != nil {
		msg := err.Error()
		var at *expr.Error
		if errors.As(err, &at) { // its place is in a text that is not the user's
			msg = at.Msg
		}
		c.add(path, "%s", msg)
		return
	}
	c.check(path, contractCheck{what: columnText(name), expected: "expected a match of " + pattern, column: i, expr: e})
}

func (c *contractCompiler) rule(r component.NamedExpr) {
	path := component.Join(c.path, "rules."+r.Name)
	e, err := expr.Compile(r.Expr, c.schema)
	switch {
	case err != nil:
		c.problems = append(c.problems, expr.Problem(path, err))
		return
	case e.Type().ID() != arrow.BOOL:
		c.problems = append(c.problems, component.Problem{Path: path, Msg: fmt.Sprintf("expected a condition (bool), this expression gives %s", dataflow.TypeName(e.Type()))})
		return
	}
	broken, err := expr.Compile("not ("+r.Expr+"\n)", c.schema)
	if err != nil {
		c.problems = append(c.problems, component.Problem{Path: path, Msg: err.Error()})
		return
	}
	c.check("rules."+r.Name, contractCheck{what: "rule " + r.Name, expected: e.String() + " is false", column: -1, expr: broken})
}

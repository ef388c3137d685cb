package pipelines

import (
	"encoding/json"
	"reflect"
	"strings"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/pipelines/rehearsal"

	"github.com/apache/arrow-go/v18/arrow"
)

// Expectation is what an "expect" says.
type Expectation struct {
	// Node is its value in the file.
	Node *component.Node
	// Outputs that are named; all others must be empty.
	Outputs []ExpectedRows
}

// ExpectedRows are the rows of one output.
type ExpectedRows struct {
	Output string
	// Schema has the columns that rows may name.
	Schema []arrow.Field
	Rows   []ExpectedRow
	// Ordered: the rows come in this order.
	Ordered bool
	// Some: columns that a row does not name may hold anything; otherwise they
	// must be null.
	Some bool
}

// ExpectedRow is one row, with the columns that it names.
type ExpectedRow struct {
	Node *component.Node
}

// outputConfig is the long form of the rows of an output.
type outputConfig struct {
	// Rows that come out.
	Rows testNode `yaml:"rows,required"`
	// Columns: all: columns that a row leaves out must be null; some: they may hold anything.
	// Default: all.
	Columns string `yaml:"columns" oneof:"all,some"`
	// Ordered: the rows come in this order, when the test is played straight, with
	// one task. Default: false.
	Ordered bool `yaml:"ordered"`
}

func (t *testLoader) expectation(n *component.Node) *Expectation {
	out := &Expectation{Node: n}
	if n.Kind != component.Map {
		if n.Kind != component.Null {
			t.add(n, "", "expected rows by output, as {%s: [...]}; got %s", t.outputs[0].Name, n.Kind)
		}
		return out
	}
	for _, e := range n.Entries {
		if o := t.output(n, e); o != nil {
			out.Outputs = append(out.Outputs, t.expectedRows(e.Value, o))
		}
	}
	return out
}

func (t *testLoader) output(n *component.Node, e component.Entry) *TestOutput {
	var names []string
	for i := range t.outputs {
		if t.outputs[i].Name == e.Key {
			return &t.outputs[i]
		}
		names = append(names, t.outputs[i].Name)
	}
	if why := t.whereRead(e.Key); why != "" {
		t.addAt(n, e, "%s", why)
		return nil
	}
	t.addAt(n, e, "there is no output %q%s; outputs are sinks and ports that nobody reads: %s", e.Key, component.DidYouMean(e.Key, names), strings.Join(names, ", "))
	return nil
}

func (t *testLoader) expectedRows(n *component.Node, o *TestOutput) ExpectedRows {
	out := ExpectedRows{Output: o.Name, Schema: dataflow.UserFields(o.Stream.Schema)}
	rows := n
	if n.Kind == component.Map {
		cfg := outputConfig{}
		if ps := component.Decode(n, &cfg); len(ps) > 0 {
			t.problems = append(t.problems, ps...)
			return out
		}
		rows, out.Ordered, out.Some = cfg.Rows.node, cfg.Ordered, cfg.Columns == "some"
	}
	switch rows.Kind {
	case component.Null:
		return out
	case component.List:
	default:
		t.add(rows, "", "expected a list of rows, as [{n: 1}], or {rows: [...], columns: some, ordered: true}; got %s", rows.Kind)
		return out
	}
	for _, r := range rows.Items {
		if r.Kind != component.Map {
			t.add(r, "", "expected a row, as {n: 1}; got %s", r.Kind)
			continue
		}
		for _, e := range r.Entries {
			t.expectedValue(r, e, o, out.Schema)
		}
		out.Rows = append(out.Rows, ExpectedRow{Node: r})
	}
	return out
}

func (t *testLoader) expectedValue(row *component.Node, e component.Entry, o *TestOutput, schema []arrow.Field) {
	var names []string
	for _, f := range schema {
		if f.Name == e.Key {
			if msg := CheckValue(f.Type, e.Value); msg != "" {
				t.add(e.Value, "", "column %q is %s: %s", f.Name, dataflow.TypeName(f.Type), msg)
			}
			return
		}
		names = append(names, f.Name)
	}
	if o.Stream.Changelog && e.Key == dataflow.OpColumn {
		t.addAt(row, e, "%q gives changes; how many there are is free, so the table is expected that they make: leave out %q", o.Name, e.Key)
		return
	}
	t.addAt(row, e, "%q has no column %q%s; columns: %s", o.Name, e.Key, component.DidYouMean(e.Key, names), strings.Join(names, ", "))
}

// counterNames are the counters of the ledger, as it spells them.
func counterNames() []string {
	var out []string
	c := reflect.TypeFor[dataflow.Counts]()
	for i := range c.NumField() {
		name, _, _ := strings.Cut(c.Field(i).Tag.Get("json"), ",")
		out = append(out, name)
	}
	return out
}

// CounterOf returns a counter by its name in the ledger.
func CounterOf(c dataflow.Counts, name string) int64 {
	v := reflect.ValueOf(c)
	for i, n := range counterNames() {
		if n == name {
			return v.Field(i).Int()
		}
	}
	return 0
}

func (t *testLoader) ledger(n *component.Node) []LedgerCount {
	if n.Kind != component.Map {
		t.add(n, "", "expected counters by step, as {once: {duplicate: 2}}; got %s", n.Kind)
		return nil
	}
	makers, readers := rehearsal.Changes(t.graph)
	var out []LedgerCount
	for _, e := range n.Entries {
		if t.steps[e.Key] == nil {
			var names []string
			for s := range t.steps {
				names = append(names, s)
			}
			t.addAt(n, e, "there is no step %q%s; steps: %s", e.Key, component.DidYouMean(e.Key, names), component.Names(names))
			continue
		}
		if e.Value.Kind != component.Map {
			t.addAt(n, e, "expected counters, as {duplicate: 2}; got %s", e.Value.Kind)
			continue
		}
		for _, c := range e.Value.Entries {
			known := counterNames()
			var want int64
			switch {
			case !contains(known, c.Key):
				t.addAt(e.Value, c, "%s", component.UnknownKey(c.Key, known, nil))
				continue
			case readers[e.Key] || makers[e.Key] && c.Key == "created":
				t.addAt(e.Value, c, "step %q counts changes here, and how many there are is free: only the table they make is the same in every run", e.Key)
				continue
			case c.Value.Kind != component.Number || json.Unmarshal([]byte(strings.ReplaceAll(c.Value.Text, "_", "")), &want) != nil:
				t.add(c.Value, "", "expected a whole number, got %q", c.Value.Text)
				continue
			}
			out = append(out, LedgerCount{Step: e.Key, Counter: c.Key, Want: want, Node: c.Value})
		}
	}
	return out
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

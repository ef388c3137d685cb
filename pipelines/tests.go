package pipelines

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/engine"
	"frazil/pipelines/rehearsal"
)

// Test is one entry under "tests", checked against the plan. How it is played
// and compared is told by package filetest.
type Test struct {
	Name string
	// Node is where it stands in the file.
	Node *component.Node
	// Start is what the clock shows in the beginning.
	Start time.Time
	Steps []TestStep
	// Expect holds all rows at the end; nil: those that the steps expect are all,
	// and none if no step expects any.
	Expect *Expectation
	Ledger []LedgerCount
}

// TestStep is one step of a test.
type TestStep struct {
	rehearsal.Step
	// Records of a Read.
	Records []rehearsal.Record
	// Expect of a Show: the rows since the one before, or of a changelog the
	// table as it stands.
	Expect *Expectation
}

// LedgerCount is what a counter of a step must show at the end.
type LedgerCount struct {
	Step, Counter string
	Want          int64
	Node          *component.Node
}

// testConfig is one entry under "tests".
type testConfig struct {
	// Name says what the test proves; each test has another.
	Name string `yaml:"name,required"`
	// Start is what the clock shows in the beginning, an RFC 3339 time. Nothing but
	// idle_after depends on it. Default: 2026-01-01T00:00:00Z.
	Start string `yaml:"start"`
	// Steps happen one after the other; at the end the sources end and everything
	// is flushed.
	Steps []stepConfig `yaml:"steps,required"`
	// Expect holds all rows of every output at the end, by sink or unread port: {minutes:
	// [{n: 1}], minute.late: []}. Outputs that are not named must be empty. Default: the
	// rows that the steps have expected are all.
	Expect testNode `yaml:"expect"`
	// Ledger holds counters of steps at the end: {once: {duplicate: 2}}. What is
	// not named may be anything.
	Ledger testNode `yaml:"ledger"`
}

// stepConfig is one step: a block with exactly one of its keys, or one of the
// words checkpoint, kill, stop, end.
type stepConfig struct {
	// Rows come in: a list of payloads, or a block that says more. Default: none.
	Rows *rowsConfig `yaml:"rows"`
	// Watermark moves the clock of a split on without a row, as a heartbeat does. Default: none.
	Watermark *watermarkConfig `yaml:"watermark"`
	// Idle lets a split be caught up for its idle_after: the watermark goes on
	// without it. Default: none.
	Idle *idleConfig `yaml:"idle"`
	// Clock lets time pass: 5s. Default: none.
	Clock *component.Duration `yaml:"clock"`
	// Expect holds the rows that are new since the last such step, after a
	// checkpoint; of an output of changes, the whole table. Default: none.
	Expect testNode `yaml:"expect"`

	node *component.Node
	word string
}

// rowsConfig is a step of rows.
type rowsConfig struct {
	// Source that gives the rows. Default: the only one.
	Source string `yaml:"source"`
	// Split of the source, any name: a partition, a lane of files. Default: p0.
	Split string `yaml:"split"`
	// Rows are payloads, each an object: [{device: a, temp: 20.5}]. They go through
	// the source's decode block. A time may be written as RFC 3339 also where the
	// payload holds a number.
	Rows testNode `yaml:"rows"`
	// Raw are payloads as they are: ["{broken"]. Text that begins with \x is bytes
	// in hex. Default: none.
	Raw testNode `yaml:"raw"`
	// At is when the rows arrive, an RFC 3339 time: what max_ahead compares with.
	// Default: at their event time.
	At string `yaml:"at"`
	// Metadata holds columns that the source gives beside the payload, the same for
	// all rows of the step: {topic: orders, offset: 7}. Default: null.
	Metadata testNode `yaml:"metadata"`
}

// watermarkConfig is a step that moves a clock.
type watermarkConfig struct {
	// Source whose clock moves. Default: the only one.
	Source string `yaml:"source"`
	// Split of the source. Default: p0.
	Split string `yaml:"split"`
	// To is the watermark that the split has then, an RFC 3339 time.
	To string `yaml:"to,required"`
}

// idleConfig is a step that makes a split idle.
type idleConfig struct {
	// Source of the split. Default: the only one.
	Source string `yaml:"source"`
	// Split that is idle. Default: p0.
	Split string `yaml:"split"`
}

// testNode keeps a part of a test for later, when the columns are known.
type testNode struct{ node *component.Node }

// UnmarshalNode keeps n.
func (t *testNode) UnmarshalNode(n *component.Node) error {
	t.node = n
	return nil
}

// UnmarshalNode reads a list as the rows of the only source.
func (c *rowsConfig) UnmarshalNode(n *component.Node) error {
	if n.Kind == component.List {
		c.Rows.node = n
		return nil
	}
	return asError(component.Decode(n, (*plainRows)(c)))
}

// plainRows is a rowsConfig that does not decode itself.
type plainRows rowsConfig

// plainStep is a stepConfig that does not decode itself.
type plainStep stepConfig

// stepWords are the steps without anything to say.
var stepWords = map[string]rehearsal.Kind{
	"checkpoint": rehearsal.Checkpoint, "kill": rehearsal.Kill, "stop": rehearsal.Restart, "end": rehearsal.Drain,
}

func stepNames() []string {
	out := []string{"rows", "watermark", "idle", "clock", "expect"}
	for w := range stepWords {
		out = append(out, w)
	}
	return out
}

// UnmarshalNode reads a word or a block.
func (c *stepConfig) UnmarshalNode(n *component.Node) error {
	c.node = n
	switch n.Kind {
	case component.Text:
		if _, ok := stepWords[n.Text]; !ok {
			return component.Badf("", "%q is no step%s; steps: %s", n.Text, component.DidYouMean(n.Text, stepNames()), component.Names(stepNames()))
		}
		c.word = n.Text
		return nil
	case component.Map:
		for _, e := range n.Entries {
			if _, ok := stepWords[e.Key]; ok {
				return component.Badf(e.Key, "%s stands alone: write - %s", e.Key, e.Key)
			}
		}
		if ps := component.Decode(n, (*plainStep)(c)); len(ps) > 0 {
			return ps
		}
		if len(n.Entries) != 1 {
			return component.Badf("", "a step does one thing, this one names %d: put each under a \"-\" of its own", len(n.Entries))
		}
		return nil
	}
	return component.Badf("", "expected a step, got %s; steps: %s", n.Kind, component.Names(stepNames()))
}

// JSONSchema implements component.Schemer.
func (stepConfig) JSONSchema() component.Object {
	words := []any{}
	for _, w := range []string{"checkpoint", "kill", "stop", "end"} {
		words = append(words, w)
	}
	block := component.SchemaOf(component.Info{Summary: "One step.", NewConfig: func() any { return &plainStep{} }})
	block["minProperties"], block["maxProperties"] = 1, 1
	return component.Object{"anyOf": []any{component.Object{"enum": words}, block}}
}

// JSONSchema implements component.Schemer.
func (rowsConfig) JSONSchema() component.Object {
	block := component.SchemaOf(component.Info{Summary: "Rows that come in.", NewConfig: func() any { return &plainRows{} }})
	return component.Object{"anyOf": []any{component.Object{"type": "array", "items": component.Object{"type": "object"}}, block}}
}

func asError(ps component.Problems) error {
	if len(ps) == 0 {
		return nil
	}
	return ps
}

// defaultStart is what the clock of a test shows.
var defaultStart = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// testLoader checks the tests of one file against its plan.
type testLoader struct {
	*loader
	graph   *engine.Graph
	outputs []TestOutput
}

// readTests decodes and checks "tests". Without a whole plan only the form is
// checked.
func (l *loader) readTests(g *engine.Graph, planned bool) []Test {
	n := l.file.Tests.node
	if n == nil {
		return nil
	}
	if n.Kind != component.List {
		if n.Kind != component.Null {
			l.add(n, "", "expected a list of tests, as - name: what it proves; got %s", n.Kind)
		}
		return nil
	}
	t := &testLoader{loader: l, graph: g}
	if planned {
		t.outputs = TestOutputs(g)
	}
	names := map[string]int{}
	var out []Test
	for _, item := range n.Items {
		cfg := testConfig{}
		if ps := component.Decode(item, &cfg); len(ps) > 0 {
			l.problems = append(l.problems, ps...)
			continue
		}
		if line := names[cfg.Name]; line > 0 {
			l.add(item, "name", "test %q stands on line %d already: give each its own name", cfg.Name, line)
		}
		names[cfg.Name] = item.Line
		if planned {
			out = append(out, t.test(item, cfg))
		}
	}
	return out
}

func (t *testLoader) test(n *component.Node, cfg testConfig) Test {
	out := Test{Name: cfg.Name, Node: n, Start: defaultStart}
	if cfg.Start != "" {
		out.Start = t.time(n.Get("start"), cfg.Start).UTC()
	}
	for i := range cfg.Steps {
		out.Steps = append(out.Steps, t.step(&cfg.Steps[i]))
	}
	if cfg.Expect.node != nil {
		out.Expect = t.expectation(cfg.Expect.node)
	}
	if cfg.Ledger.node != nil {
		out.Ledger = t.ledger(cfg.Ledger.node)
	}
	return out
}

// time reads an RFC 3339 time.
func (t *testLoader) time(n *component.Node, text string) time.Time {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.add(n, "", "%q is no time: expected RFC 3339, as 2026-03-01T10:05:00Z", text)
		return defaultStart
	}
	return at
}

// source finds the source of a step and makes the lane of its split.
func (t *testLoader) source(n *component.Node, name, split string) (*engine.Source, rehearsal.Lane) {
	if split == "" {
		split = "p0"
	}
	var names []string
	for _, s := range t.graph.Sources {
		if s.Name == name || name == "" && len(t.graph.Sources) == 1 {
			return s, rehearsal.Lane{Source: s.Name, Split: dataflow.Split(split)}
		}
		names = append(names, s.Name)
	}
	if name == "" {
		t.add(n, "", "the pipeline has several sources: write {source: NAME, ...}; sources: %s", component.Names(names))
	} else {
		t.add(n, "source", "there is no source %q%s; sources: %s", name, component.DidYouMean(name, names), component.Names(names))
	}
	return nil, rehearsal.Lane{}
}

func (t *testLoader) step(c *stepConfig) TestStep {
	out := TestStep{}
	switch {
	case c.word != "":
		out.Kind = stepWords[c.word]
	case c.Rows != nil:
		n := c.node.Get("rows")
		var src *engine.Source
		out.Kind = rehearsal.Read
		if src, out.Lane = t.source(n, c.Rows.Source, c.Rows.Split); src != nil {
			out.Records = t.records(n, src, c.Rows)
			out.N = len(out.Records)
		}
	case c.Watermark != nil:
		n := c.node.Get("watermark")
		var src *engine.Source
		out.Kind, out.N = rehearsal.Read, 1
		if src, out.Lane = t.source(n, c.Watermark.Source, c.Watermark.Split); src == nil {
			break
		}
		if src.EventTime == nil {
			t.add(n, "", "source %q has no event_time, so it has no watermark", src.Name)
			break
		}
		to := dataflow.TimeOf(t.time(n.Get("to"), c.Watermark.To)).Add(src.EventTime.OutOfOrderness)
		out.Records = []rehearsal.Record{{Reached: &to}}
	case c.Idle != nil:
		n := c.node.Get("idle")
		var src *engine.Source
		out.Kind = rehearsal.Idle
		if src, out.Lane = t.source(n, c.Idle.Source, c.Idle.Split); src == nil {
			break
		}
		if src.EventTime == nil || src.EventTime.IdleAfter == 0 {
			t.add(n, "", "source %q has no idle_after, so no split of it is ever idle: write event_time: {idle_after: 1m, ...}", src.Name)
			break
		}
		out.D = src.EventTime.IdleAfter
	case c.Clock != nil:
		out.Kind, out.D = rehearsal.Clock, c.Clock.D()
	case c.Expect.node != nil:
		out.Kind, out.Expect = rehearsal.Show, t.expectation(c.Expect.node)
	default:
		t.add(c.node, "", "the step says nothing; steps: %s", component.Names(stepNames()))
	}
	return out
}

// TestOutput is where rows of a pipeline can be seen in a test: a sink, or a
// port that nobody reads, whose rows go to the quarantine.
type TestOutput struct {
	// Name of the sink, or STEP.PORT.
	Name string
	// Ref is the port that is seen; Sink says that a sink reads it.
	Ref  engine.PortRef
	Sink bool
	// Stream is what is seen. Of a changelog that is the table it makes.
	Stream dataflow.Stream
}

// TestOutputs lists the outputs of a graph: sinks, then ports.
func TestOutputs(g *engine.Graph) []TestOutput {
	var out []TestOutput
	read := map[engine.PortRef]bool{}
	for _, op := range g.Operators {
		for _, in := range op.Inputs {
			read[in] = true
		}
	}
	for _, k := range g.Sinks {
		read[k.Input] = true
		out = append(out, TestOutput{Name: k.Name, Ref: k.Input, Sink: true, Stream: rehearsal.StreamOf(g, k.Input)})
	}
	add := func(step string, ports []dataflow.Port) {
		for i, p := range ports {
			if ref := (engine.PortRef{Step: step, Port: i}); i > 0 && !read[ref] {
				out = append(out, TestOutput{Name: step + "." + p.Name, Ref: ref, Stream: p.Stream})
			}
		}
	}
	for _, s := range g.Sources {
		add(s.Name, s.Ports())
	}
	for _, op := range g.Operators {
		add(op.Name, op.Plan.Ports)
	}
	return out
}

// whereRead says where the rows of a port that is no output are seen.
func (t *testLoader) whereRead(name string) string {
	step, port, _ := strings.Cut(name, ".")
	i := slices.IndexFunc(t.outputs, func(o TestOutput) bool {
		return o.Sink && o.Ref.Step == step && t.portName(o.Ref) == port
	})
	if i >= 0 {
		return fmt.Sprintf("sink %q reads %s: expect its rows there", t.outputs[i].Name, name)
	}
	if l := t.steps[step]; l != nil && l.kind != kindSink && slices.ContainsFunc(l.planned.ports, func(p dataflow.Port) bool { return p.Name == port }) {
		return fmt.Sprintf("the rows of %s go on to other steps: expect what comes out behind them", name)
	}
	return ""
}

func (t *testLoader) portName(ref engine.PortRef) string {
	for _, s := range t.graph.Sources {
		if s.Name == ref.Step {
			return s.Ports()[ref.Port].Name
		}
	}
	for _, op := range t.graph.Operators {
		if op.Name == ref.Step {
			return op.Plan.Ports[ref.Port].Name
		}
	}
	return ""
}

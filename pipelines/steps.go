package pipelines

import (
	"fmt"
	"maps"
	"strings"

	"frazil/dataflow/component"

	"frazil/dataflow"
	"frazil/dataflow/codec"
)

// The kinds of steps, as the registry and the sections name them.
const (
	kindSource   = "source"
	kindOperator = "operator"
	kindSink     = "sink"
)

// connection is one entry under "connections", decoded.
type connection struct {
	name, kind string
	node       *component.Node
	cfg        any
}

// step is one entry under sources, operators or sinks while it is read.
type step struct {
	name, kind string
	node       *component.Node
	// info is the component's, nil if it is not known.
	info *component.Info
	// block is the component's config in the file, cfg what it decodes to.
	block *component.Node
	cfg   any
	// from as written, in order.
	from []ref
	// decode and eventTime are a source's, nil without them.
	decode    *codec.Config
	eventTime *eventTimeConfig
	// broken: a problem was found, so that the step is not planned.
	broken bool
	// readers counts who reads the main output, or any where there is none.
	readers int
	planned *planned
}

// ref is one name in a "from".
type ref struct {
	node *component.Node
	// text as written; step is found by its name, port is the rest.
	text, port string
	step       *step
	index      int
}

func (l *loader) readConnections() {
	n := l.file.Connections.node
	for _, e := range l.entries(n, "connections", "NAME: {iceberg_catalog: {...}}") {
		c := &connection{name: e.Key, node: e.Value}
		if !stepName.MatchString(e.Key) {
			l.addAt(n, e, "connection name %q: expected a lower case letter, then lower case letters, digits and \"_\", as %q", e.Key, asName(e.Key, '_'))
		}
		known := namesOf("connection")
		if e.Value.Kind != component.Map {
			l.addAt(n, e, "expected a block with one of %s, got %s", component.Names(known), e.Value.Kind)
			continue
		}
		for _, k := range e.Value.Entries {
			spec := component.ConnectionNamed(k.Key)
			switch {
			case spec == nil:
				l.addAt(e.Value, k, "%s", component.UnknownKey(k.Key, known, nil))
			case c.kind != "":
				l.addAt(e.Value, k, "second kind of connection beside %q: one connection has exactly one", c.kind)
			default:
				c.kind, c.cfg = k.Key, spec.NewConfig()
				if ps := component.Decode(k.Value, c.cfg); l.placeheld(k.Value) {
					continue
				} else if len(ps) > 0 {
					l.problems = append(l.problems, ps...)
				} else if spec.Check != nil && !l.unreadable(k.Value) {
					l.problems = append(l.problems, k.Value.LocateAll(spec.Check(l.planEnv(c.name), c.cfg))...)
				}
			}
		}
		if len(e.Value.Entries) == 0 {
			l.addAt(n, e, "the connection has no kind: expected one of %s", component.Names(known))
		}
		l.connections = append(l.connections, c)
	}
}

// entries returns those of a section, which is a block of names.
func (l *loader) entries(n *component.Node, what, form string) []component.Entry {
	if n == nil {
		return nil
	}
	if n.Kind != component.Map && n.Kind != component.Null {
		l.add(n, "", "expected a block of %s by name, as %s; got %s", what, form, n.Kind)
	}
	return n.Entries
}

func namesOf(kind string) []string {
	var out []string
	for _, i := range component.All() {
		if i.Kind == kind {
			out = append(out, i.Name)
		}
	}
	return out
}

func (l *loader) readSteps() {
	for _, s := range []struct {
		kind string
		node *component.Node
		into *[]*step
	}{
		{kindSource, l.file.Sources.node, &l.sources},
		{kindOperator, l.file.Operators.node, &l.operators},
		{kindSink, l.file.Sinks.node, &l.sinks},
	} {
		for _, e := range l.entries(s.node, s.kind+"s", "NAME: {...}") {
			if st := l.readStep(s.node, e, s.kind); st != nil {
				*s.into = append(*s.into, st)
			}
		}
		if s.node != nil && len(s.node.Entries) == 0 && s.kind != kindOperator && (s.node.Kind == component.Map || s.node.Kind == component.Null) {
			l.add(s.node, "", "a pipeline needs at least one %s", s.kind)
		}
	}
}

func (l *loader) readStep(parent *component.Node, e component.Entry, kind string) *step {
	s := &step{name: e.Key, kind: kind, node: e.Value}
	before := len(l.problems)
	defer func() { s.broken = s.broken || len(l.problems) > before || l.unreadable(s.node) }()
	if !stepName.MatchString(e.Key) {
		l.addAt(parent, e, "step name %q: expected a lower case letter, then lower case letters, digits and \"_\", as %q", e.Key, asName(e.Key, '_'))
	}
	if old := l.steps[e.Key]; old != nil {
		l.misnamed = true
		l.addAt(parent, e, "step %q exists under %ss already (line %d): sources, operators and sinks share one name space", e.Key, old.kind, old.node.Line)
		return nil
	}
	l.steps[e.Key] = s
	if e.Value.Kind != component.Map {
		l.misnamed = true
		l.addAt(parent, e, "expected a block with one component, got %s; components: %s", e.Value.Kind, component.Names(namesOf(kind)))
		return s
	}
	l.findComponent(parent, e, s)
	if kind == kindSource {
		l.readDecode(s)
		l.readEventTime(s)
	} else {
		l.readFrom(parent, e, s)
	}
	if s.info != nil {
		s.cfg = s.info.NewConfig()
		ps := component.DecodeAmong(s.block, s.cfg, l.blockElsewhere(s))
		if kind != kindSink || !l.placeheld(s.block) {
			l.problems = append(l.problems, ps...)
		}
	}
	return s
}

// placeheld says whether a value at or below n stands in the place of one that
// is not known.
func (l *loader) placeheld(n *component.Node) bool {
	for _, at := range l.placeholders {
		if at == n.Path || strings.HasPrefix(at, n.Path+".") || strings.HasPrefix(at, n.Path+"[") {
			return true
		}
	}
	return false
}

// unreadable says whether a value at or below n could not be read (a variable
// that is not set), so that what is made of it means nothing.
func (l *loader) unreadable(n *component.Node) bool {
	for _, p := range l.syntax {
		if p.Path == n.Path || strings.HasPrefix(p.Path, n.Path+".") || strings.HasPrefix(p.Path, n.Path+"[") {
			return true
		}
	}
	return false
}

// fixedKeys are the keys of a step beside its component.
func fixedKeys(kind string) []string {
	if kind == kindSource {
		return []string{"decode", "event_time"}
	}
	return []string{"from"}
}

// findComponent finds the one key that names a component.
func (l *loader) findComponent(parent *component.Node, e component.Entry, s *step) {
	known := namesOf(s.kind)
	elsewhere := map[string]string{}
	var unknown []component.Entry
	for _, k := range s.node.Entries {
		info := infoOf(s.kind, k.Key)
		switch {
		case isFixed(s.kind, k.Key):
		case info == nil:
			unknown = append(unknown, k)
		case s.info != nil:
			l.addAt(s.node, k, "second component beside %q: a step has exactly one, so make two steps", s.info.Name)
		default:
			s.info, s.block = info, k.Value
			maps.Copy(elsewhere, component.Keys(info.NewConfig(), component.Join(s.node.Path, info.Name)))
		}
	}
	for _, k := range unknown {
		l.addAt(s.node, k, "%s", component.UnknownKey(k.Key, append(known, fixedKeys(s.kind)...), l.stepElsewhere(s.kind, elsewhere)))
	}
	if s.info == nil && len(unknown) == 0 {
		l.addAt(parent, e, "the step has no component: expected one of %s", component.Names(known))
	}
	s.broken = s.broken || s.info == nil
}

func isFixed(kind, key string) bool {
	for _, f := range fixedKeys(kind) {
		if f == key {
			return true
		}
	}
	return false
}

func infoOf(kind, name string) *component.Info {
	switch kind {
	case kindSource:
		if s := component.SourceNamed(name); s != nil {
			return &s.Info
		}
	case kindOperator:
		if s := component.OperatorNamed(name); s != nil {
			return &s.Info
		}
	case kindSink:
		if s := component.SinkNamed(name); s != nil {
			return &s.Info
		}
	}
	return nil
}

// stepElsewhere says where keys belong that stand wrongly beside a component.
func (l *loader) stepElsewhere(kind string, own map[string]string) map[string]string {
	out := component.Keys(&l.file, "the top of the file")
	for _, c := range component.All() {
		if c.Kind != kind && c.Kind != "connection" {
			out[c.Name] = "a step under " + c.Kind + "s"
		}
	}
	if kind == kindSource {
		out["from"] = "operators and sinks"
	} else {
		out["decode"], out["event_time"] = "a source", "a source"
	}
	maps.Copy(out, own)
	return out
}

// blockElsewhere says where keys belong that stand wrongly inside a component.
func (l *loader) blockElsewhere(s *step) map[string]string {
	out := component.Keys(&l.file, "the top of the file")
	for _, k := range fixedKeys(s.kind) {
		out[k] = fmt.Sprintf("%s, beside %q", s.node.Path, s.info.Name)
	}
	if s.kind == kindSource {
		maps.Copy(out, component.Keys(&eventTimeConfig{}, component.Join(s.node.Path, "event_time")))
		maps.Copy(out, component.Keys(&codec.JSONConfig{}, component.Join(s.node.Path, "decode.json")))
	}
	return out
}

func (l *loader) readDecode(s *step) {
	n := s.node.Get("decode")
	if n == nil {
		return
	}
	s.decode = &codec.Config{}
	ps := component.DecodeAmong(n, s.decode, component.Keys(&codec.JSONConfig{}, component.Join(n.Path, "json")))
	if len(ps) == 0 {
		ps = n.LocateAll(s.decode.Check())
	}
	l.problems = append(l.problems, ps...)
}

func (l *loader) readFrom(parent *component.Node, e component.Entry, s *step) {
	n := s.node.Get("from")
	switch {
	case n == nil:
		l.misnamed = true
		l.addAt(parent, e, "the step has no input: write from: STEP")
	case n.Kind == component.List:
		if len(n.Items) == 0 {
			l.add(n, "", "the list is empty: name the steps whose rows come in")
		}
		for _, item := range n.Items {
			l.addRef(s, item)
		}
		if s.info != nil && !takesSeveral(s) {
			l.add(n, "", "%s takes one input, got a list: put a union step before it, {from: [...], union: {}}", s.info.Name)
		}
	default:
		l.addRef(s, n)
	}
}

func takesSeveral(s *step) bool {
	spec := component.OperatorNamed(s.info.Name)
	return s.kind == kindOperator && spec != nil && spec.MultiInput
}

func (l *loader) addRef(s *step, n *component.Node) {
	if n.Kind != component.Text || n.Text == "" {
		l.add(n, "", "expected the name of a step or of its port, as STEP or STEP.%s; got %s", dataflow.PortLate, n.Kind)
		l.misnamed = true
		return
	}
	for _, r := range s.from {
		if r.text == n.Text {
			l.add(n, "", "%q is named twice: its rows would come in twice", n.Text)
			return
		}
	}
	r := ref{node: n, text: strings.TrimSuffix(n.Text, ".")}
	_, r.port, _ = strings.Cut(r.text, ".")
	s.from = append(s.from, r)
}

package pipelines

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/engine"
	"frazil/dataflow/registry"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// planned is what planning found out about a source or an operator.
type planned struct {
	ports []dataflow.Port
	// sources are the source steps upstream, the step itself included.
	sources map[string]*engine.Source
	// mixed: rows of several tasks, or that went several ways, come together
	// somewhere upstream, in an order that nothing fixes.
	mixed bool
	// reasons why rows cannot be made again, upstream ones first.
	reasons []reason
	// fingerprint covers the step and everything upstream.
	fingerprint string
}

// reason is why the rows of a step cannot be made again.
type reason struct{ step, why string }

func (l *loader) planEnv(name string) component.PlanEnv {
	env := component.PlanEnv{Pipeline: l.file.Name, Step: name, Dir: l.dir, Parallelism: l.file.Parallelism}
	for _, c := range l.connections {
		env.Connections = append(env.Connections, c.name)
	}
	env.Resolve = func(name string) (string, any, bool) {
		for _, c := range l.connections {
			if c.name == name {
				return c.kind, c.cfg, c.cfg != nil
			}
		}
		return "", nil, false
	}
	env.Schemas = l.schemas
	return env
}

// schemas opens a schema registry by the name of its connection, once for all steps.
func (l *loader) schemas(name string) (dataflow.SchemaRegistry, error) {
	if r := l.registries[name]; r != nil {
		return r, nil
	}
	var known []string
	for _, c := range l.connections {
		if c.name == name && c.kind != "" && c.kind != registry.Kind {
			return nil, fmt.Errorf("connection %q is no schema registry but %s", name, c.kind)
		}
		if c.kind != registry.Kind {
			continue
		}
		known = append(known, c.name)
		if cfg, ok := c.cfg.(*registry.Config); ok && c.name == name {
			r, err := registry.New(*cfg, l.dir)
			if err != nil {
				return nil, err
			}
			if l.registries == nil {
				l.registries = map[string]*registry.Registry{}
			}
			l.registries[name] = r
			return r, nil
		}
	}
	if len(known) == 0 {
		return nil, fmt.Errorf("there is no connection %q: write connections: {%s: {%s: {url: ...}}}", name, name, registry.Kind)
	}
	meant := component.DidYouMean(name, known)
	if meant == "" {
		meant = ";"
	}
	return nil, fmt.Errorf("there is no schema registry %q%s known: %s", name, meant, component.Names(known))
}

// planProblem places what a component's plan says: paths are relative to its
// block, but those of the step's own keys (decode, from, ...) to the step.
func (l *loader) planProblem(s *step, err error) {
	for _, p := range component.AsProblems(err) {
		base := s.block
		first, _, _ := strings.Cut(p.Path, ".")
		if isFixed(s.kind, first) && s.block.Get(first) == nil {
			base = s.node
		}
		l.problems = append(l.problems, base.Locate(p))
	}
	s.broken = true
}

// plan plans all steps, inputs first. The graph is whole if no problem is left.
func (l *loader) plan(operators []*step) *engine.Graph {
	g := &engine.Graph{Name: l.file.Name, Dir: l.dir, Parallelism: l.file.Parallelism}
	for _, s := range l.sources {
		if !s.broken {
			g.Sources = append(g.Sources, l.planSource(s))
		}
	}
	for _, s := range operators {
		if l.inputs(s) {
			g.Operators = append(g.Operators, l.planOperator(s))
		}
	}
	for _, s := range l.sinks {
		if l.inputs(s) {
			g.Sinks = append(g.Sinks, l.planSink(s))
		}
	}
	l.sameTarget(g)
	return g
}

// inputs finds the ports that s reads, and says whether s can be planned.
func (l *loader) inputs(s *step) bool {
	for i := range s.from {
		r := &s.from[i]
		if r.step == nil || r.step.planned == nil {
			s.broken = true
			continue
		}
		r.index = -1
		var names []string
		for j, p := range r.step.planned.ports {
			if p.Name == r.port {
				r.index = j
			}
			if p.Name != dataflow.PortOut {
				names = append(names, r.step.name+"."+p.Name)
			}
		}
		if r.index < 0 && r.port == dataflow.PortOut {
			l.add(r.node, "", "step %q has no main output: name one of its ports: %s", r.step.name, strings.Join(names, ", "))
			s.broken = true
			continue
		}
		if r.index < 0 && branches(r.step) {
			l.add(r.node, "", "step %q has no port %q%s; ports: %s", r.step.name, r.port, component.DidYouMean(r.text, names), strings.Join(names, ", "))
			s.broken = true
			continue
		}
		if r.index < 0 {
			l.add(r.node, "", "step %q has no port %q%s; ports: %s", r.step.name, r.port,
				component.DidYouMean(r.text, names), strings.Join(append([]string{r.step.name}, names...), ", "))
			s.broken = true
			continue
		}
		if msg := refuseChangelog(s, r); msg != "" {
			l.add(r.node, "", "%s", msg)
			s.broken = true
		}
	}
	return !s.broken && len(s.from) > 0
}

// refuseChangelog says why s cannot read a stream of changes, or "".
func refuseChangelog(s *step, r *ref) string {
	p := r.step.planned.ports[r.index]
	if !p.Stream.Changelog {
		return ""
	}
	if op := component.OperatorNamed(s.info.Name); op != nil && op.Changes {
		return ""
	}
	if k := component.SinkNamed(s.info.Name); s.info.Kind == "sink" && k.Changes != component.ChangesRefused {
		if k.Changes == component.ChangesAsRows && dataflow.Column(p.Stream.Schema, dataflow.OpColumn) >= 0 {
			return fmt.Sprintf("%q gives changes, which %s writes with a column %q in front, and it has a column of that name: rename it first (project: {rename: ...})", r.text, s.info.Name, dataflow.OpColumn)
		}
		return ""
	}
	by := "of its one row"
	if len(p.Stream.Key) > 0 {
		by = "by " + strings.Join(p.Stream.Key, ", ")
	}
	return fmt.Sprintf("%q gives changes (inserts, updates and deletes %s), and %s takes rows that only come in addition: ask step %q for final results only (a window's emit: final), or write the changes to a sink that takes them (files, console)",
		r.text, by, s.info.Name, r.step.name)
}

func (l *loader) planSource(s *step) *engine.Source {
	spec := component.SourceNamed(s.info.Name)
	in := component.SourceIn{PlanEnv: l.planEnv(s.name)}
	out := &engine.Source{Name: s.name, Component: s.info.Name}
	if s.decode != nil {
		var schema *arrow.Schema
		err := s.decode.Bind(l.dir, l.schemas)
		if err == nil {
			schema, err = s.decode.ArrowSchema()
		}
		if err != nil {
			l.problems = append(l.problems, s.node.Get("decode").LocateAll(err)...)
			return out
		}
		in.Decoded, in.ByTopic, in.Binary = schema, s.decode.NeedsTopic(), s.decode.Binary()
		cfg := *s.decode
		out.NewDecoder = func() (dataflow.Decoder, error) { return cfg.New(memory.DefaultAllocator) }
		if cfg.BySchema() {
			byHand := rowConfig(schema)
			out.NewTestDecoder = func() (dataflow.Decoder, error) { return byHand.New(memory.DefaultAllocator) }
		}
	}
	plan, err := spec.Plan(in, s.cfg)
	if err != nil {
		l.planProblem(s, err)
		return out
	}
	if in.ByTopic && !plan.Topics {
		l.problems = append(l.problems, s.node.Get("decode").LocateAll(component.Badf("", "this format reads payloads together with their topics, and %s has none: it is for mqtt", s.info.Name))...)
		return out
	}
	if s.decode != nil && s.decode.Waits() && !plan.Waits {
		l.problems = append(l.problems, s.node.Get("decode").LocateAll(component.Badf("", "payloads with the head of a registry's format can be read from kafka, and not from %s: leave registry out, and write schema_file", s.info.Name))...)
		return out
	}
	l.claim(s, plan)
	out.Schema, out.Tasks, out.Bounded, out.Arrived, out.NotReplayable = plan.Schema, plan.Tasks, plan.Bounded, plan.Arrived, plan.NotReplayable
	if s.decode != nil {
		rows := rowConfig(plan.Schema)
		out.NewRowDecoder = func() (dataflow.Decoder, error) { return rows.New(memory.DefaultAllocator) }
	}
	cfg := s.cfg
	out.New = func(ctx context.Context, env *dataflow.Env) (dataflow.Source, error) { return spec.New(ctx, env, cfg) }
	if spec.Serve != nil {
		out.Serve = func(ctx context.Context, env *dataflow.Env) (io.Closer, error) { return spec.Serve(ctx, env, cfg) }
	}
	if !plan.Bounded {
		out.DiscoverEvery = defaultDiscovery
	}
	if s.eventTime != nil {
		if out.EventTime, err = planEventTime(s.eventTime, s.info.Name, plan); err != nil {
			l.problems = append(l.problems, s.node.Get("event_time").LocateAll(err)...)
			return out
		}
		if !plan.Bounded {
			out.DiscoverEvery = s.eventTime.DiscoverEvery.D()
		}
	}
	s.planned = &planned{ports: out.Ports(), sources: map[string]*engine.Source{s.name: out},
		fingerprint: fingerprint(s.info, s.cfg, append([]any{s.decode, s.eventTime.printed()}, s.columnsElsewhere(in.Decoded)...)...)}
	if out.NotReplayable == "" && s.eventTime != nil && s.eventTime.ProcessingTime {
		out.NotReplayable = "its rows get the time of the clock (processing_time)"
	}
	if out.NotReplayable != "" {
		s.planned.reasons = []reason{{step: s.name, why: out.NotReplayable}}
	}
	return out
}

// columnsElsewhere are the columns that no text of the file names: what depends on them
// depends on the schema that gave them.
func (s *step) columnsElsewhere(decoded *arrow.Schema) []any {
	if s.decode == nil || !s.decode.BySchema() {
		return nil
	}
	return []any{decoded.String()}
}

func (l *loader) planOperator(s *step) *engine.Operator {
	spec := component.OperatorNamed(s.info.Name)
	out := &engine.Operator{Name: s.name, Component: s.info.Name, In: component.OperatorIn{PlanEnv: l.planEnv(s.name)}}
	up := upstream(s)
	for _, r := range s.from {
		out.Inputs = append(out.Inputs, engine.PortRef{Step: r.step.name, Port: r.index})
		out.In.Inputs = append(out.In.Inputs, r.step.planned.ports[r.index].Stream)
		out.In.Names = append(out.In.Names, r.text)
	}
	out.In.Sources = up.sourceNames()
	plan, err := spec.Plan(out.In, s.cfg)
	if err != nil {
		l.planProblem(s, err)
		return out
	}
	if plan.ByOrder && up.ordered() {
		plan.NotReplayable = ""
	}
	out.Plan = plan
	cfg, in := s.cfg, out.In
	out.New = func(ctx context.Context, env *dataflow.Env) (dataflow.Operator, error) {
		return spec.New(ctx, env, in, cfg)
	}
	if plan.Keyed {
		if spec.NewBefore == nil {
			l.planProblem(s, fmt.Errorf("operator %s says it is keyed and has no first half: a mistake in the component", s.info.Name))
			return out
		}
		out.NewBefore = func(ctx context.Context, env *dataflow.Env) (dataflow.Operator, error) {
			return spec.NewBefore(ctx, env, in, cfg)
		}
	}
	if plan.NotReplayable != "" {
		up.reasons = append(up.reasons, reason{step: s.name, why: plan.NotReplayable})
	}
	s.planned = &planned{ports: plan.Ports, sources: up.sources, mixed: up.mixed || plan.Keyed, reasons: up.reasons,
		fingerprint: fingerprint(s.info, s.cfg, plan.Fingerprint, up.fingerprint)}
	return out
}

func (l *loader) planSink(s *step) *engine.Sink {
	spec := component.SinkNamed(s.info.Name)
	r, up := s.from[0], upstream(s)
	out := &engine.Sink{Name: s.name, Component: s.info.Name, Input: engine.PortRef{Step: r.step.name, Port: r.index}}
	out.In = component.SinkIn{PlanEnv: l.planEnv(s.name), Input: r.step.planned.ports[r.index].Stream, From: r.text}
	shown := out.In.Input.Changelog && spec.Changes == component.ChangesAsRows
	if shown {
		out.In.Input = dataflow.ShownChanges(out.In.Input)
	}
	plan, err := spec.Plan(out.In, s.cfg)
	if err != nil && l.placeheld(s.block) {
		plan, err = component.SinkPlan{Target: s.name}, nil
	}
	if err != nil {
		l.planProblem(s, err)
		return out
	}
	out.Plan = plan
	out.Fingerprint = hash(up.fingerprint, r.port)
	out.NotReplayable = up.notReplayable()
	cfg, in := s.cfg, out.In
	out.NewWriter = func(ctx context.Context, env *dataflow.Env) (dataflow.Writer, error) {
		w, err := spec.NewWriter(ctx, env, in, cfg)
		if err != nil || !shown {
			return w, err
		}
		return dataflow.ShowChanges(w, in.Input, env.Alloc), nil
	}
	if spec.NewCommitter != nil && !plan.WritesThrough {
		out.NewCommitter = func(ctx context.Context, env *dataflow.Env) (dataflow.Committer, error) {
			return spec.NewCommitter(ctx, env, in, cfg)
		}
	}
	return out
}

// upstream joins what is known of the steps that s reads.
func upstream(s *step) *planned {
	out := &planned{sources: map[string]*engine.Source{}, mixed: len(s.from) > 1}
	var prints []string
	for _, r := range s.from {
		for n, src := range r.step.planned.sources {
			out.sources[n] = src
		}
		out.mixed = out.mixed || r.step.planned.mixed
		for _, why := range r.step.planned.reasons {
			if !slices.Contains(out.reasons, why) {
				out.reasons = append(out.reasons, why)
			}
		}
		prints = append(prints, r.step.planned.fingerprint, r.port)
	}
	out.fingerprint = hash(prints...)
	return out
}

func (p *planned) sourceNames() []string {
	out := make([]string, 0, len(p.sources))
	for n := range p.sources {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}

// notReplayable joins the reasons, "" if there is none.
func (p *planned) notReplayable() string {
	var out []string
	for _, r := range p.reasons {
		out = append(out, fmt.Sprintf("step %q: %s", r.step, r.why))
	}
	return strings.Join(out, "; ")
}

// notReplayableAt is notReplayable as it is said at a step: its own reason needs
// no name.
func (p *planned) notReplayableAt(step string) string {
	if len(p.reasons) == 1 && p.reasons[0].step == step {
		return p.reasons[0].why
	}
	return p.notReplayable()
}

// ordered says whether rows come in one order that every run repeats: from one
// source with a single task, with nothing on the way that mixes them.
func (p *planned) ordered() bool {
	if p.mixed || len(p.sources) != 1 {
		return false
	}
	for _, s := range p.sources {
		return s.Tasks == 1
	}
	return false
}

// sameTarget reports sinks that write where another one writes.
func (l *loader) sameTarget(g *engine.Graph) {
	first := map[string]string{}
	for _, s := range g.Sinks {
		if s.Plan.Target == "" {
			continue
		}
		other := first[s.Component+"\x00"+s.Plan.Target]
		if other == "" {
			first[s.Component+"\x00"+s.Plan.Target] = s.Name
			continue
		}
		l.add(l.steps[s.Name].block, "", "sink %q writes to %s already, which sink %q names as well: two sinks of one pipeline may not share a target; give each its own, or join the streams with union before one sink",
			other, s.Plan.Target, s.Name)
	}
}

// columnsOf lists the user's columns, for descriptions.
func columnsOf(s *arrow.Schema) []Column {
	var out []Column
	for _, f := range dataflow.UserFields(s) {
		out = append(out, Column{Name: f.Name, Type: dataflow.TypeName(f.Type), Nullable: f.Nullable})
	}
	return out
}

package pipelines

import (
	"fmt"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/engine"
)

// Description is what `frazil plan` shows: the graph, the columns of every edge,
// what is kept and what can be made again. Its JSON form is for programs.
type Description struct {
	Pipeline    string         `json:"pipeline"`
	File        string         `json:"file"`
	Parallelism int            `json:"parallelism"`
	Every       string         `json:"checkpoint_every"`
	StateDir    string         `json:"state_dir"`
	StateMemory string         `json:"state_memory"`
	Memory      string         `json:"memory"`
	HTTP        string         `json:"http"`
	Sources     []SourceInfo   `json:"sources"`
	Operators   []OperatorInfo `json:"operators"`
	Sinks       []SinkInfo     `json:"sinks"`
}

// Column is one column of a stream.
type Column struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Nullable bool   `json:"nullable"`
}

// PortInfo is one output of a step.
type PortInfo struct {
	// Name as a "from" writes it.
	Name    string   `json:"name"`
	Columns []Column `json:"columns"`
	// Changelog: rows are also changed and taken away, by Key. Otherwise they are
	// only added. A changelog without a key is that of a table of one row.
	Changelog bool     `json:"changelog"`
	Key       []string `json:"key,omitempty"`
	// Readers are the steps that get every row; none means the quarantine.
	Readers []string `json:"readers"`
}

// SourceInfo describes a source.
type SourceInfo struct {
	Name          string         `json:"name"`
	Component     string         `json:"component"`
	EventTime     *EventTimeInfo `json:"event_time,omitempty"`
	Bounded       bool           `json:"bounded"`
	Tasks         int            `json:"tasks,omitempty"`
	DiscoverEvery string         `json:"discover_every,omitempty"`
	NotReplayable string         `json:"not_replayable,omitempty"`
	Ports         []PortInfo     `json:"ports"`
}

// EventTimeInfo describes the event_time block.
type EventTimeInfo struct {
	Column         string `json:"column"`
	OutOfOrderness string `json:"out_of_orderness"`
	IdleAfter      string `json:"idle_after"`
	MaxAhead       string `json:"max_ahead"`
	MaxDrift       string `json:"max_drift,omitempty"`
}

// OperatorInfo describes an operator.
type OperatorInfo struct {
	Name      string   `json:"name"`
	Component string   `json:"component"`
	From      []string `json:"from"`
	// Keyed: rows go by Key to Tasks tasks.
	Keyed bool   `json:"keyed"`
	Key   string `json:"key,omitempty"`
	Tasks int    `json:"tasks,omitempty"`
	// Delay is how far it holds the watermark back.
	Delay string `json:"delay,omitempty"`
	// State says what it keeps and until when; "" if it keeps nothing.
	State string `json:"state,omitempty"`
	// Spills says what of it leaves the memory, and from which size on.
	Spills      string `json:"spills,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
	// Replayable: reading the sources again gives the same rows here; if not,
	// NotReplayable names the step upstream, or this one, and says why.
	Replayable    bool       `json:"replayable"`
	NotReplayable string     `json:"not_replayable,omitempty"`
	Ports         []PortInfo `json:"ports"`
}

// SinkInfo describes a sink.
type SinkInfo struct {
	Name      string   `json:"name"`
	Component string   `json:"component"`
	From      string   `json:"from"`
	Columns   []Column `json:"columns"`
	Target    string   `json:"target,omitempty"`
	// Commits: rows become visible at checkpoints, exactly once. Otherwise they
	// are written through, at least once.
	Commits bool `json:"commits"`
	// Changelog: the rows that come in are changes.
	Changelog     bool   `json:"changelog"`
	Replayable    bool   `json:"replayable"`
	NotReplayable string `json:"not_replayable,omitempty"`
	Fingerprint   string `json:"fingerprint"`
}

// Describe says what p will do.
func (p *Pipeline) Describe() Description {
	g := p.Graph
	d := Description{
		Pipeline: p.Name, File: p.File, Parallelism: g.Parallelism, Every: component.Duration(p.CheckpointEvery).String(),
		StateDir: p.StateDir, StateMemory: component.Bytes(p.StateMemory).String(), Memory: component.Bytes(p.Memory).String(), HTTP: p.HTTP,
		Sources: []SourceInfo{}, Operators: []OperatorInfo{}, Sinks: []SinkInfo{},
	}
	if d.HTTP == "" {
		d.HTTP = "off"
	}
	ports := map[string][]dataflow.Port{}
	for _, s := range g.Sources {
		ports[s.Name] = s.Ports()
		d.Sources = append(d.Sources, describeSource(g, s))
	}
	for _, o := range g.Operators {
		ports[o.Name] = o.Plan.Ports
		d.Operators = append(d.Operators, describeOperator(g, o, p.notReplayable[o.Name], p.StateMemory))
	}
	for _, s := range g.Sinks {
		d.Sinks = append(d.Sinks, SinkInfo{
			Name: s.Name, Component: s.Component, From: s.In.From, Columns: columnsOf(s.In.Input.Schema), Target: s.Plan.Target,
			Commits: s.NewCommitter != nil, Changelog: p.changes[s.Name], Replayable: s.NotReplayable == "", NotReplayable: s.NotReplayable, Fingerprint: s.Fingerprint[:16],
		})
	}
	return d
}

func describeSource(g *engine.Graph, s *engine.Source) SourceInfo {
	out := SourceInfo{Name: s.Name, Component: s.Component, Bounded: s.Bounded, Tasks: s.Tasks,
		NotReplayable: s.NotReplayable, Ports: portsOf(g, s.Name, s.Ports())}
	if s.DiscoverEvery > 0 {
		out.DiscoverEvery = component.Duration(s.DiscoverEvery).String()
	}
	if e := s.EventTime; e != nil {
		out.EventTime = &EventTimeInfo{Column: e.Column, OutOfOrderness: component.Duration(e.OutOfOrderness).String(),
			IdleAfter: orOff(e.IdleAfter), MaxAhead: orOff(e.MaxAhead)}
		if e.MaxDrift > 0 {
			out.EventTime.MaxDrift = component.Duration(e.MaxDrift).String()
		}
	}
	return out
}

func orOff(d time.Duration) string {
	if d == 0 {
		return "off"
	}
	return component.Duration(d).String()
}

func describeOperator(g *engine.Graph, o *engine.Operator, notReplayable string, stateMemory int64) OperatorInfo {
	out := OperatorInfo{Name: o.Name, Component: o.Component, From: o.In.Names, Keyed: o.Plan.Keyed, State: o.Plan.State,
		Fingerprint: o.Plan.Fingerprint, Replayable: notReplayable == "", NotReplayable: notReplayable,
		Ports: portsOf(g, o.Name, o.Plan.Ports)}
	if o.Plan.Keyed {
		out.Key, out.Tasks = o.Plan.KeyText, g.Parallelism
		out.Spills = "nothing, all of it stays in memory"
		if o.Plan.Spills != "" {
			out.Spills = fmt.Sprintf("%s that do not fit into %s per task wait in the state store", o.Plan.Spills, roughBytes(g.StateShare(stateMemory)))
		}
	}
	if o.Plan.Delay > 0 {
		out.Delay = component.Duration(o.Plan.Delay).String()
	}
	return out
}

// roughBytes writes a size with no more digits than people want.
func roughBytes(n int64) string {
	unit := int64(1 << 10)
	for n >= 10*unit<<10 {
		unit <<= 10
	}
	return component.Bytes(max(n/unit, 1) * unit).String()
}

func portsOf(g *engine.Graph, step string, ports []dataflow.Port) []PortInfo {
	out := make([]PortInfo, len(ports))
	for i, p := range ports {
		out[i] = PortInfo{Name: step, Columns: columnsOf(p.Stream.Schema), Changelog: p.Stream.Changelog, Readers: readersOf(g, step, i)}
		if p.Stream.Changelog {
			out[i].Key = p.Stream.Key
		}
		if p.Name != dataflow.PortOut {
			out[i].Name += "." + p.Name
		}
	}
	return out
}

func readersOf(g *engine.Graph, step string, port int) []string {
	out := []string{}
	at := engine.PortRef{Step: step, Port: port}
	for _, o := range g.Operators {
		for _, in := range o.Inputs {
			if in == at {
				out = append(out, o.Name)
			}
		}
	}
	for _, s := range g.Sinks {
		if s.Input == at {
			out = append(out, s.Name)
		}
	}
	return out
}

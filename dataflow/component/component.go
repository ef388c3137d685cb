package component

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"sort"
	"strings"
	"time"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
)

// PlanEnv is what planning may know. Planning is pure: no network, no clock;
// files of the pipeline's own folder may be read.
type PlanEnv struct {
	Pipeline, Step string
	// Dir is the folder of the pipeline file.
	Dir string
	// Parallelism is the number of tasks of a keyed step.
	Parallelism int
	// Resolve returns the decoded config of a named connection and the name of
	// its component; ok is false for an unknown name.
	Resolve func(name string) (kind string, cfg any, ok bool)
	// Connections lists the names, for error messages.
	Connections []string
	// Schemas opens schema registries. That asks nobody; a plan asks only where its
	// columns are those of a schema in one.
	Schemas dataflow.SchemaRegistries
}

// SourceIn is what a source plans on.
type SourceIn struct {
	PlanEnv
	// Decoded is the schema of the decode block, nil without one.
	Decoded *arrow.Schema
	// ByTopic: the decode block reads payloads together with their topics.
	ByTopic bool
	// Binary: it reads payloads that may hold any byte, so that they are no lines.
	Binary bool
}

// SourcePlan says what a source will give.
type SourcePlan struct {
	// Schema: the user's columns (decoded ones, then metadata).
	Schema *arrow.Schema
	// Tasks bounds how many tasks may share the splits; 0 means any number.
	Tasks int
	// Bounded: the source ends by itself.
	Bounded bool
	// NotReplayable says why the same records cannot be read again; "" if they
	// can.
	NotReplayable string
	// Arrived: batches carry SysArrived.
	Arrived bool
	// Pauses: the source is a dataflow.Pauser, so that event_time may bound how
	// far its splits drift apart.
	Pauses bool
	// Waits: the source heeds a dataflow.WaitingDecoder.
	Waits bool
	// Topics: payloads come with topics, so that the decode block may need them.
	Topics bool
	// Target is where others send what the source takes, as people know it; two
	// sources of one pipeline may not have the same. "" for sources that are not
	// pushed to.
	Target string
	// Shares are things that several sources may use together, by their name as
	// people know it (an address to listen on), if they say the same of them.
	Shares map[string]Shared
}

// Shared is what a source says of a thing that it shares with others: by the path
// in its config, for people.
type Shared map[string]string

// OperatorIn is what an operator plans on.
type OperatorIn struct {
	PlanEnv
	// Inputs in the order of "from".
	Inputs []dataflow.Stream
	// Names of the inputs, as written in "from".
	Names []string
	// Sources are the names of the source steps that the inputs come from, sorted.
	Sources []string
}

// OperatorPlan says what an operator takes and gives.
type OperatorPlan struct {
	// Ports: index 0 is the main output, its name PortOut; of an operator that
	// Branches none is. A port "bad" must have the schema BadSchema.
	Ports []dataflow.Port
	// Keyed: rows go by key to N tasks. The operator then comes in two halves:
	// NewBefore makes the stateless one that runs in front of the exchange, in
	// the tasks of the input; its port 0 goes through the exchange with the
	// schema Exchange, its other ports are the step's ports of the same index.
	Keyed bool
	// Exchange is the schema between the halves. RouteBy names its uint64 column
	// with the hash of the key: its top 8 bits are the key group.
	Exchange *arrow.Schema
	RouteBy  string
	// Delay is how far the step holds its output watermark back.
	Delay time.Duration
	// State describes what the step keeps and its bound, for people; "" for a
	// stateless step.
	State string
	// Spills names what of it waits in the state store alone where Env.Memory has no
	// room for it, for people ("groups"); "" for a step that keeps all in memory.
	Spills string
	// NotReplayable says why the same input may give another result; "" if not.
	NotReplayable string
	// ByOrder: NotReplayable holds only where rows of several splits meet; with a
	// single split the same input gives the same result.
	ByOrder bool
	// KeyText says what rows go by to the step's tasks, for people; "" for a step
	// that is not keyed.
	KeyText string
	// Fingerprint covers everything in the config that the state depends on.
	Fingerprint string
}

// SinkIn is what a sink plans on.
type SinkIn struct {
	PlanEnv
	Input dataflow.Stream
	From  string
}

// SinkPlan says what a sink will do.
type SinkPlan struct {
	// Target as people know it (the table's name); two sinks of one pipeline may
	// not share one. "" for sinks without a lasting target.
	Target string
	// Tasks is how many writers the sink wants; 0 means one.
	Tasks int
	// WritesThrough: as configured it has no Committer; rows are out as soon as they
	// are written, or when Prepare returns.
	WritesThrough bool
	// Spools: it stages rows in Env.SpoolDir.
	Spools bool
}

// Problem is one thing wrong with a pipeline file. Who plans sets Path, Msg and
// maybe Offset; Node.Locate sets the rest.
type Problem struct {
	// Path is the YAML path, relative to the config that was checked; "" for the
	// whole of it.
	Path string
	// Msg says what is wrong, what was expected and what to write instead.
	Msg string
	// Offset points into a scalar's text (a column of an expression), from 0; -1
	// or 0 without one.
	Offset int
	// File, Line and Col say where it stands, counted from 1; "" until located.
	File      string
	Line, Col int
	// Excerpt shows the text with a mark below it, in two lines; "" without one.
	Excerpt string
}

// String writes file:line:col: path: message, and the excerpt below.
func (p Problem) String() string {
	s := p.Msg
	if p.Path != "" {
		s = p.Path + ": " + s
	}
	if p.File != "" {
		s = fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Col, s)
	}
	if p.Excerpt != "" {
		s += "\n    " + strings.ReplaceAll(p.Excerpt, "\n", "\n    ")
	}
	return s
}

// Problems is an error made of several.
type Problems []Problem

// Error joins them, one a line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, x := range p {
		lines[i] = x.String()
	}
	return strings.Join(lines, "\n")
}

// AsProblems returns the Problems in err; any other error becomes one Problem.
func AsProblems(err error) Problems {
	if err == nil {
		return nil
	}
	var ps Problems
	if errors.As(err, &ps) {
		return ps
	}
	return Problems{{Msg: err.Error()}}
}

// Badf is a single Problem as an error.
func Badf(path, format string, args ...any) error {
	return Problems{{Path: path, Msg: fmt.Sprintf(format, args...)}}
}

// Source describes a source component. C is its config: an exported struct
// whose fields carry yaml tags and doc comments.
type Source[C any] struct {
	// Name is the component key in YAML.
	Name string
	// Summary is one sentence, Doc some paragraphs on delivery, ordering, memory.
	Summary, Doc string
	Default      func() C
	// Plan is pure.
	Plan func(in SourceIn, cfg C) (SourcePlan, error)
	New  func(ctx context.Context, env *dataflow.Env, cfg C) (dataflow.Source, error)
	// Serve is for sources that others push to: it opens what takes their records,
	// once a run and before anything else is connected, so that they are accepted
	// also while a sink cannot be reached or the pipeline starts again. New finds
	// the result in Env.Served; it is closed at the end of the run. If it has a
	// method Ready(), that is called once those of all sources are open. nil: the
	// source has no such thing.
	Serve func(ctx context.Context, env *dataflow.Env, cfg C) (io.Closer, error)
}

// Operator describes an operator component.
type Operator[C any] struct {
	Name         string
	Summary, Doc string
	Default      func() C
	// MultiInput: "from" may be a list.
	MultiInput bool
	// Changes: an input may be a changelog. Others are refused such an input
	// before they are planned.
	Changes bool
	// Branches: the step has no main output, only ports with names. It is not keyed.
	Branches bool
	// Plan is pure.
	Plan func(in OperatorIn, cfg C) (OperatorPlan, error)
	// New makes the operator (the second half of a keyed one), its state
	// restored.
	New func(ctx context.Context, env *dataflow.Env, in OperatorIn, cfg C) (dataflow.Operator, error)
	// NewBefore makes the first half of a keyed operator.
	NewBefore func(ctx context.Context, env *dataflow.Env, in OperatorIn, cfg C) (dataflow.Operator, error)
}

// Sink describes a sink component.
type Sink[C any] struct {
	Name         string
	Summary, Doc string
	Default      func() C
	// Changes says what the sink does with a changelog.
	Changes Changes
	// Plan is pure.
	Plan      func(in SinkIn, cfg C) (SinkPlan, error)
	NewWriter func(ctx context.Context, env *dataflow.Env, in SinkIn, cfg C) (dataflow.Writer, error)
	// NewCommitter is nil for a sink that writes through (console).
	NewCommitter func(ctx context.Context, env *dataflow.Env, in SinkIn, cfg C) (dataflow.Committer, error)
}

// Changes says what a sink does with a changelog.
type Changes int

const (
	// ChangesRefused: it takes rows only.
	ChangesRefused Changes = iota
	// ChangesAsRows: it writes each change as a row, with the column
	// dataflow.OpColumn in front. The sink itself sees such rows only.
	ChangesAsRows
	// ChangesApplied: it gets the changelog as it is and keeps a table by its
	// key.
	ChangesApplied
)

// Connection describes something declared once under "connections".
type Connection[C any] struct {
	Name         string
	Summary, Doc string
	Default      func() C
	Check        func(env PlanEnv, cfg C) error
}

// The registered forms, with configs as any. Only this package converts.
type (
	// SourceSpec is a registered source.
	SourceSpec struct {
		Info
		Plan func(in SourceIn, cfg any) (SourcePlan, error)
		New  func(ctx context.Context, env *dataflow.Env, cfg any) (dataflow.Source, error)
		// Serve is nil for a source that is not pushed to.
		Serve func(ctx context.Context, env *dataflow.Env, cfg any) (io.Closer, error)
	}
	// OperatorSpec is a registered operator.
	OperatorSpec struct {
		Info
		MultiInput bool
		Changes    bool
		Branches   bool
		Plan       func(in OperatorIn, cfg any) (OperatorPlan, error)
		New        func(ctx context.Context, env *dataflow.Env, in OperatorIn, cfg any) (dataflow.Operator, error)
		NewBefore  func(ctx context.Context, env *dataflow.Env, in OperatorIn, cfg any) (dataflow.Operator, error)
	}
	// SinkSpec is a registered sink.
	SinkSpec struct {
		Info
		Changes      Changes
		Plan         func(in SinkIn, cfg any) (SinkPlan, error)
		NewWriter    func(ctx context.Context, env *dataflow.Env, in SinkIn, cfg any) (dataflow.Writer, error)
		NewCommitter func(ctx context.Context, env *dataflow.Env, in SinkIn, cfg any) (dataflow.Committer, error)
	}
	// ConnectionSpec is a registered connection.
	ConnectionSpec struct {
		Info
		Check func(env PlanEnv, cfg any) error
	}
	// Info is what all have in common.
	Info struct {
		Kind, Name, Summary, Doc string
		// NewConfig returns a pointer to a config holding the defaults.
		NewConfig func() any
	}
)

var registry = struct {
	sources     map[string]*SourceSpec
	operators   map[string]*OperatorSpec
	sinks       map[string]*SinkSpec
	connections map[string]*ConnectionSpec
}{map[string]*SourceSpec{}, map[string]*OperatorSpec{}, map[string]*SinkSpec{}, map[string]*ConnectionSpec{}}

var nameRule = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

func info[C any](kind, name, summary, doc string, def func() C) Info {
	if !nameRule.MatchString(name) || def == nil || summary == "" {
		panic("component " + kind + " " + name + ": needs a lower_snake_case name, a summary and defaults")
	}
	checkConfig(reflect.TypeFor[C](), nil)
	return Info{Kind: kind, Name: name, Summary: summary, Doc: doc, NewConfig: func() any { c := def(); return &c }}
}

func add[S any](m map[string]*S, name string, s *S) {
	if m[name] != nil {
		panic("component " + name + " is registered twice")
	}
	m[name] = s
}

// RegisterSource makes a source known. Call it from init; a mistake panics.
func RegisterSource[C any](s Source[C]) {
	spec := &SourceSpec{
		Info: info("source", s.Name, s.Summary, s.Doc, s.Default),
		Plan: func(in SourceIn, cfg any) (SourcePlan, error) { return s.Plan(in, *cfg.(*C)) },
		New: func(ctx context.Context, env *dataflow.Env, cfg any) (dataflow.Source, error) {
			return s.New(ctx, env, *cfg.(*C))
		},
	}
	if s.Serve != nil {
		spec.Serve = func(ctx context.Context, env *dataflow.Env, cfg any) (io.Closer, error) {
			return s.Serve(ctx, env, *cfg.(*C))
		}
	}
	add(registry.sources, s.Name, spec)
}

// RegisterOperator makes an operator known. Call it from init.
func RegisterOperator[C any](o Operator[C]) {
	spec := &OperatorSpec{
		Info:       info("operator", o.Name, o.Summary, o.Doc, o.Default),
		MultiInput: o.MultiInput,
		Changes:    o.Changes,
		Branches:   o.Branches,
		Plan:       func(in OperatorIn, cfg any) (OperatorPlan, error) { return o.Plan(in, *cfg.(*C)) },
		New: func(ctx context.Context, env *dataflow.Env, in OperatorIn, cfg any) (dataflow.Operator, error) {
			return o.New(ctx, env, in, *cfg.(*C))
		},
	}
	if o.NewBefore != nil {
		spec.NewBefore = func(ctx context.Context, env *dataflow.Env, in OperatorIn, cfg any) (dataflow.Operator, error) {
			return o.NewBefore(ctx, env, in, *cfg.(*C))
		}
	}
	add(registry.operators, o.Name, spec)
}

// RegisterSink makes a sink known. Call it from init.
func RegisterSink[C any](s Sink[C]) {
	spec := &SinkSpec{
		Info:    info("sink", s.Name, s.Summary, s.Doc, s.Default),
		Changes: s.Changes,
		Plan:    func(in SinkIn, cfg any) (SinkPlan, error) { return s.Plan(in, *cfg.(*C)) },
		NewWriter: func(ctx context.Context, env *dataflow.Env, in SinkIn, cfg any) (dataflow.Writer, error) {
			return s.NewWriter(ctx, env, in, *cfg.(*C))
		},
	}
	if s.NewCommitter != nil {
		spec.NewCommitter = func(ctx context.Context, env *dataflow.Env, in SinkIn, cfg any) (dataflow.Committer, error) {
			return s.NewCommitter(ctx, env, in, *cfg.(*C))
		}
	}
	add(registry.sinks, s.Name, spec)
}

// RegisterConnection makes a kind of connection known. Call it from init.
func RegisterConnection[C any](c Connection[C]) {
	add(registry.connections, c.Name, &ConnectionSpec{
		Info: info("connection", c.Name, c.Summary, c.Doc, c.Default),
		Check: func(env PlanEnv, cfg any) error {
			if c.Check == nil {
				return nil
			}
			return c.Check(env, *cfg.(*C))
		},
	})
}

// SourceNamed returns a registered source, or nil.
func SourceNamed(name string) *SourceSpec { return registry.sources[name] }

// OperatorNamed returns a registered operator, or nil.
func OperatorNamed(name string) *OperatorSpec { return registry.operators[name] }

// SinkNamed returns a registered sink, or nil.
func SinkNamed(name string) *SinkSpec { return registry.sinks[name] }

// ConnectionNamed returns a registered kind of connection, or nil.
func ConnectionNamed(name string) *ConnectionSpec { return registry.connections[name] }

// All lists every registered component, by kind and name.
func All() []Info {
	var out []Info
	for _, s := range registry.sources {
		out = append(out, s.Info)
	}
	for _, s := range registry.operators {
		out = append(out, s.Info)
	}
	for _, s := range registry.sinks {
		out = append(out, s.Info)
	}
	for _, s := range registry.connections {
		out = append(out, s.Info)
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].Kind != out[j].Kind {
			return out[i].Kind < out[j].Kind
		}
		return out[i].Name < out[j].Name
	})
	return out
}

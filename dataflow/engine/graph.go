package engine

import (
	"context"
	"io"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
)

// Graph is a planned pipeline: what package pipelines makes of a file.
type Graph struct {
	Name string
	// Dir is the folder of the pipeline file.
	Dir string
	// Parallelism is the number of tasks of a keyed step.
	Parallelism int
	Sources     []*Source
	// Operators in an order in which inputs come first.
	Operators []*Operator
	Sinks     []*Sink
}

// PortRef names one output of a step by its index: for a source 0 is the rows
// and 1 is "bad", for an operator the index in Plan.Ports.
type PortRef struct {
	Step string
	Port int
}

// Source is a planned source step.
type Source struct {
	Name, Component string
	// Schema has the user's columns; the engine adds the system columns.
	Schema    *arrow.Schema
	EventTime *EventTime // nil: rows have no event time
	// DiscoverEvery is how often new splits are looked for; 0: only at the start.
	DiscoverEvery time.Duration
	// Tasks bounds the number of tasks; 0: as many as Parallelism.
	Tasks         int
	Bounded       bool
	Arrived       bool
	NotReplayable string
	New           func(ctx context.Context, env *dataflow.Env) (dataflow.Source, error)
	// Serve is nil for a source that is not pushed to; see component.Source.
	Serve func(ctx context.Context, env *dataflow.Env) (io.Closer, error)
	// NewDecoder is nil for a source without a decode block.
	NewDecoder func() (dataflow.Decoder, error)
	// NewRowDecoder decodes JSON objects with all columns of Schema, each in the form
	// that the language gives its type; nil where NewDecoder is.
	NewRowDecoder func() (dataflow.Decoder, error)
	// NewTestDecoder decodes the payloads of tests in the file where those of the source
	// are of a form that nobody writes by hand: JSON objects with their columns. nil:
	// NewDecoder does.
	NewTestDecoder func() (dataflow.Decoder, error)
}

// EventTime is the event_time block of a source.
type EventTime struct {
	Column         string
	OutOfOrderness time.Duration
	IdleAfter      time.Duration // 0: off
	MaxAhead       time.Duration // 0: off
	// Processing: a row's event time is the clock's when it was read, and the
	// watermark follows the clock; the fields above are unset.
	Processing bool
	// MaxDrift: a split further ahead of the slowest one that has more to read
	// waits for it; 0: off. The source must be a dataflow.Pauser.
	MaxDrift time.Duration
}

// Out is the stream that leaves port 0 of a source.
func (s *Source) Out() dataflow.Stream {
	fields := append(append([]arrow.Field{}, s.Schema.Fields()...), dataflow.SystemFields(s.EventTime != nil)...)
	return dataflow.Stream{Schema: arrow.NewSchema(fields, nil)}
}

// Ports of a source: the rows, and what could not be decoded or refused.
func (s *Source) Ports() []dataflow.Port {
	return []dataflow.Port{{Name: dataflow.PortOut, Stream: s.Out()}, dataflow.BadPort()}
}

// Operator is a planned operator step.
type Operator struct {
	Name, Component string
	Inputs          []PortRef
	In              component.OperatorIn
	Plan            component.OperatorPlan
	New             func(ctx context.Context, env *dataflow.Env) (dataflow.Operator, error)
	// NewBefore is set for keyed steps.
	NewBefore func(ctx context.Context, env *dataflow.Env) (dataflow.Operator, error)
}

// Sink is a planned sink step.
type Sink struct {
	Name, Component string
	Input           PortRef
	In              component.SinkIn
	Plan            component.SinkPlan
	// Fingerprint covers everything upstream that the rows depend on.
	Fingerprint string
	// NotReplayable says why the rows cannot be made again, "" if they can.
	NotReplayable string
	NewWriter     func(ctx context.Context, env *dataflow.Env) (dataflow.Writer, error)
	// NewCommitter is nil for a sink that writes through.
	NewCommitter func(ctx context.Context, env *dataflow.Env) (dataflow.Committer, error)
}

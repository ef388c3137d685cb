// Package drop is the sink "drop": it takes rows and forgets them. The engine
// counts them as staged, as it does for every sink. Start to read at [Config].
package drop

import (
	"context"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
)

// Config of the sink: it has no options.
type Config struct{}

func init() {
	component.RegisterSink(component.Sink[Config]{
		Name:    "drop",
		Summary: "Counts rows and forgets them.",
		Doc: `For benchmarks, and to say that the rows of a port are not wanted: they stay in the ledger. Nothing is kept, so
there is no delivery, order or memory to speak of.`,
		Changes: component.ChangesAsRows,
		Default: func() Config { return Config{} },
		Plan:    func(component.SinkIn, Config) (component.SinkPlan, error) { return component.SinkPlan{}, nil },
		NewWriter: func(context.Context, *dataflow.Env, component.SinkIn, Config) (dataflow.Writer, error) {
			return writer{}, nil
		},
	})
}

type writer struct{}

func (writer) Write(context.Context, arrow.RecordBatch) (arrow.RecordBatch, error) { return nil, nil }
func (writer) Prepare(context.Context, dataflow.Epoch) (dataflow.Pending, error)   { return nil, nil }
func (writer) Close() error                                                        { return nil }

var _ dataflow.Writer = writer{}

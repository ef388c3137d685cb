package flowtest

import (
	"context"

	"frazil/dataflow"
	"frazil/dataflow/component"
)

// SinkConfig is the empty block of the sink "script".
type SinkConfig struct{}

func init() {
	component.RegisterSink(component.Sink[SinkConfig]{
		Name: "script", Summary: "Keeps rows for a test script.", Default: func() SinkConfig { return SinkConfig{} },
		Changes: component.ChangesAsRows,
		Plan: func(in component.SinkIn, _ SinkConfig) (component.SinkPlan, error) {
			return component.SinkPlan{Target: in.Step}, nil
		},
		NewWriter: func(context.Context, *dataflow.Env, component.SinkIn, SinkConfig) (dataflow.Writer, error) {
			return nil, errTestsOnly
		},
		NewCommitter: func(context.Context, *dataflow.Env, component.SinkIn, SinkConfig) (dataflow.Committer, error) {
			return nil, errTestsOnly
		},
	})
}

package flowtest

import (
	"context"
	"strconv"

	"frazil/dataflow"
	"frazil/dataflow/component"
)

// SourceConfig is the block of the source "script".
type SourceConfig struct {
	// splits of the source. Those that no record names are empty.
	splits []dataflow.Split
	// tasks bounds the tasks; with 1 the records of all splits have one order,
	// which every run repeats. 0: any number.
	tasks int
	// arrived: records carry the time of their arrival where the script has one.
	arrived bool
}

// UnmarshalNode reads {splits: [...], tasks: N, arrived: true}.
func (c *SourceConfig) UnmarshalNode(n *component.Node) error {
	for _, e := range n.Entries {
		switch e.Key {
		case "splits":
			for _, sp := range e.Value.Items {
				c.splits = append(c.splits, dataflow.Split(sp.Text))
			}
		case "tasks":
			c.tasks, _ = strconv.Atoi(e.Value.Text)
		case "arrived":
			c.arrived = e.Value.Text == "true"
		default:
			return component.Badf(e.Key, "unknown key; known: splits, tasks, arrived")
		}
	}
	return nil
}

func init() {
	component.RegisterSource(component.Source[SourceConfig]{
		Name: "script", Summary: "The records of a test script.", Default: func() SourceConfig { return SourceConfig{} },
		Plan: func(in component.SourceIn, cfg SourceConfig) (component.SourcePlan, error) {
			if in.Decoded == nil || len(cfg.splits) == 0 {
				return component.SourcePlan{}, component.Badf("", "a script needs splits and a decode block")
			}
			return component.SourcePlan{Schema: in.Decoded, Tasks: cfg.tasks, Bounded: true, Arrived: cfg.arrived}, nil
		},
		New: func(context.Context, *dataflow.Env, SourceConfig) (dataflow.Source, error) {
			return nil, errTestsOnly
		},
	})
}

// errTestsOnly: Run puts its own sources and sinks in the place of these.
var errTestsOnly = dataflow.Permanentf("the component script runs in tests only")

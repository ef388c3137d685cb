package rehearsal

import (
	"context"

	"frazil/dataflow"
	"frazil/dataflow/engine"
)

// bound makes the operators of g see the memory of a variant.
func (v Variant) bound(g *engine.Graph) {
	if v.memory == 0 {
		return
	}
	for _, op := range g.Operators {
		create := op.New
		op.New = func(ctx context.Context, env *dataflow.Env) (dataflow.Operator, error) {
			env.Memory = v.memory
			return create(ctx, env)
		}
	}
}

// replace puts w's sources and sinks in the place of the graph's own.
func (w *world) replace(g *engine.Graph) {
	for _, s := range g.Sources {
		s.Bounded, s.DiscoverEvery = true, 0
		s.Serve = nil
		s.New = func(_ context.Context, env *dataflow.Env) (dataflow.Source, error) { return newSource(env, w, s) }
	}
	for i, k := range g.Sinks {
		out := w.piece.Sinks[i]
		k.NewWriter = func(_ context.Context, env *dataflow.Env) (dataflow.Writer, error) {
			if out.Stream.Changelog {
				return dataflow.ShowChanges(&writer{}, dataflow.ShownChanges(out.Stream), env.Alloc), nil
			}
			return &writer{}, nil
		}
		k.NewCommitter = func(context.Context, *dataflow.Env) (dataflow.Committer, error) { return w.targets[out.Name], nil }
	}
}

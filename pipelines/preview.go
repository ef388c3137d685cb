package pipelines

import (
	"context"
	"fmt"
	"sync/atomic"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/engine"

	"github.com/apache/arrow-go/v18/arrow"
)

// Preview is a pipeline that shows its rows and keeps nothing: every sink is
// replaced by the console, and so are the ports late and bad that nobody reads.
type Preview struct {
	// Graph to run instead of the pipeline's. It connects to the sources only.
	Graph *engine.Graph
	// Outputs in the order of the graph, sinks first.
	Outputs []*PreviewOutput
	rows    int64
	left    atomic.Int64
	full    func()
}

// PreviewOutput is one output of a preview.
type PreviewOutput struct {
	// Name of the sink, or of the port as a "from" writes it; it stands before
	// each row. From is what a sink reads, "" for a port.
	Name, From string
	// Shown of Rows that came; any goroutine may read.
	Shown, Rows atomic.Int64
}

// Preview makes a preview of p that shows at most so many rows of each output; 0:
// all. full is called once, from any goroutine, when every sink has shown that
// many; further rows are counted.
func (p *Pipeline) Preview(rows int64, full func()) (*Preview, error) {
	g := *p.Graph
	v := &Preview{Graph: &g, rows: rows, full: full}
	v.left.Store(int64(len(g.Sinks)))
	g.Sinks = nil
	for _, s := range p.Graph.Sinks {
		if err := v.add(s.Name, s.In.From, s.Input); err != nil {
			return nil, err
		}
	}
	for _, ref := range unreadPorts(p.Graph) {
		if err := v.add(portText(p.Graph, ref), "", ref); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// add makes an output of a port.
func (v *Preview) add(name, from string, ref engine.PortRef) error {
	spec := component.SinkNamed("console")
	if spec == nil {
		return fmt.Errorf("preview: the component console is not linked in")
	}
	cfg := spec.NewConfig()
	node, problems := component.Parse("preview", fmt.Appendf(nil, "{prefix: %q}", name+"  "), func(string) (string, bool) { return "", false })
	if len(problems) == 0 {
		problems = component.Decode(node, cfg)
	}
	if len(problems) > 0 {
		return fmt.Errorf("preview of %s: %w", name, problems)
	}
	out := &PreviewOutput{Name: name, From: from}
	v.Outputs = append(v.Outputs, out)
	in := component.SinkIn{Input: portAt(v.Graph, ref).Stream, From: portText(v.Graph, ref)}
	changes := in.Input.Changelog
	if changes {
		in.Input = dataflow.ShownChanges(in.Input)
	}
	v.Graph.Sinks = append(v.Graph.Sinks, &engine.Sink{
		Name: name, Component: "console", Input: ref, In: in,
		NewWriter: func(ctx context.Context, env *dataflow.Env) (dataflow.Writer, error) {
			w, err := spec.NewWriter(ctx, env, in, cfg)
			if err != nil {
				return nil, err
			}
			if changes {
				w = dataflow.ShowChanges(w, in.Input, env.Alloc)
			}
			return &previewWriter{Writer: w, preview: v, out: out}, nil
		},
	})
	return nil
}

// previewWriter lets the first rows of an output through.
type previewWriter struct {
	dataflow.Writer
	preview *Preview
	out     *PreviewOutput
}

// Write implements dataflow.Writer.
func (w *previewWriter) Write(ctx context.Context, b arrow.RecordBatch) (arrow.RecordBatch, error) {
	most, shown := w.preview.rows, w.out.Shown.Load()
	w.out.Rows.Add(b.NumRows())
	n := b.NumRows()
	if most > 0 {
		n = min(n, most-shown)
	}
	if n == 0 {
		return nil, nil
	}
	part := b.NewSlice(0, n)
	defer part.Release()
	bad, err := w.Writer.Write(ctx, part)
	if err != nil {
		return bad, err
	}
	w.out.Shown.Add(n)
	if shown+n == most && w.out.From != "" && w.preview.left.Add(-1) == 0 {
		w.preview.full()
	}
	return bad, nil
}

// unreadPorts lists the ports late and bad that nobody reads.
func unreadPorts(g *engine.Graph) []engine.PortRef {
	read := map[engine.PortRef]bool{}
	for _, o := range g.Operators {
		for _, in := range o.Inputs {
			read[in] = true
		}
	}
	for _, s := range g.Sinks {
		read[s.Input] = true
	}
	var out []engine.PortRef
	each := func(step string, ports []dataflow.Port) {
		for i, p := range ports {
			if ref := (engine.PortRef{Step: step, Port: i}); p.Name != dataflow.PortOut && !read[ref] {
				out = append(out, ref)
			}
		}
	}
	for _, s := range g.Sources {
		each(s.Name, s.Ports())
	}
	for _, o := range g.Operators {
		each(o.Name, o.Plan.Ports)
	}
	return out
}

// portAt returns the port that ref means.
func portAt(g *engine.Graph, ref engine.PortRef) dataflow.Port {
	for _, s := range g.Sources {
		if s.Name == ref.Step {
			return s.Ports()[ref.Port]
		}
	}
	for _, o := range g.Operators {
		if o.Name == ref.Step {
			return o.Plan.Ports[ref.Port]
		}
	}
	return dataflow.Port{}
}

// portText writes a port as a "from" does.
func portText(g *engine.Graph, ref engine.PortRef) string {
	if p := portAt(g, ref); p.Name != dataflow.PortOut {
		return ref.Step + "." + p.Name
	}
	return ref.Step
}

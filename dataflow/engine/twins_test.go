package engine

import (
	"context"
	"errors"
	"io"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
)

// A replay would take the records of another process for those that producers have
// sent to this one: who was refused, or was overtaken on its way to a claim, makes none.
func TestNoReplayOfALogThatWasCopied(t *testing.T) {
	serve := func(context.Context, *dataflow.Env) (io.Closer, error) { return nil, nil }
	for name, x := range map[string]struct {
		pushed, refused, moved, ahead bool
		want                          error
	}{
		"an older state":                  {pushed: true, ahead: true},
		"one that was refused":            {pushed: true, ahead: true, refused: true, want: errRefused},
		"and its targets are where it is": {pushed: true, refused: true},
		"overtaken":                       {pushed: true, ahead: true, moved: true, want: dataflow.ErrFenced},
		"a source that all can read":      {ahead: true, refused: true, moved: true},
	} {
		g := &Graph{Sources: []*Source{{Name: "in"}}, Sinks: []*Sink{{Name: "out", Input: PortRef{Step: "in"}}}}
		if x.pushed {
			g.Sources[0].Serve = serve
		}
		c := &coordinator{j: &Job{g: g, moved: x.moved}, manifest: &checkpoint.Manifest{Refused: x.refused}, committer: map[string]*committer{"out": {}}}
		var rec checkpoint.Recovery
		if x.ahead {
			rec.Muted = []string{"out"}
		}
		if err := c.checkTwin(rec, nil); !errors.Is(err, x.want) || (err == nil) != (x.want == nil) {
			t.Errorf("%s: got %v, want %v", name, err, x.want)
		}
		if id := g.commitID(g.Sinks[0]); (id != "") != x.pushed {
			t.Errorf("%s: the commits have the ID %q", name, id)
		}
	}
}

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
	"frazil/state"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// lookingCommitter calls look before each commit.
type lookingCommitter struct {
	memCommitter
	look func(dataflow.Commit) error
}

func (c lookingCommitter) Commit(ctx context.Context, k dataflow.Commit) error {
	if err := c.look(k); err != nil {
		return err
	}
	return c.memCommitter.Commit(ctx, k)
}

// I3: whenever a commit begins, a power loss at that moment leaves the manifest that
// has it.
func TestNoCommitIsAheadOfItsManifest(t *testing.T) {
	mem := vfs.NewCrashableMem()
	// A disk that is slow enough for a commit that does not wait for it.
	began := make(chan struct{}, 1)
	slow := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData {
			select {
			case <-began:
			case <-time.After(2 * time.Millisecond):
			}
		}
		return nil
	}))
	s, err := state.Open("state", state.Options{FS: slow})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var commits atomic.Int64
	look := func(k dataflow.Commit) error {
		commits.Add(1)
		select {
		case began <- struct{}{}:
		default:
		}
		if err := hasPending(mem.CrashClone(vfs.CrashCloneCfg{}), "out", k.Epoch); err != nil {
			t.Error(err)
			return dataflow.Permanent(err)
		}
		return nil
	}
	target := &memTarget{}
	sink := target.sink("out", PortRef{"src", 0})
	sink.NewCommitter = func(context.Context, *dataflow.Env) (dataflow.Committer, error) {
		return lookingCommitter{memCommitter{target}, look}, nil
	}
	g := &Graph{Name: "p", Parallelism: 1, Sources: []*Source{seqStep(2, 3000, 1, nil)}, Sinks: []*Sink{sink}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := NewJob(g, Options{Store: s, Every: time.Millisecond, Log: testLog(t), Budget: 20 * time.Second}).Run(ctx); err != nil {
		t.Fatal(err)
	}
	want, _ := wantRows(2, 3000)
	if d := diff(target.sorted(), want); d != "" {
		t.Fatal(d)
	}
	if commits.Load() == 0 {
		t.Fatal("nothing was committed")
	}
}

// hasPending says whether the state in fs knows of a sink's commit that is to be made.
func hasPending(fs vfs.FS, sink string, e dataflow.Epoch) error {
	s, err := state.Open("state", state.Options{FS: fs})
	if err != nil {
		return err
	}
	raw, err := s.Manifest()
	if err := errors.Join(err, s.Close()); err != nil {
		return err
	}
	if raw == nil {
		return fmt.Errorf("commit of %s before any manifest is durable", e)
	}
	m, err := checkpoint.Decode(raw)
	if err != nil {
		return err
	}
	if t := m.Targets[sink]; t == nil || !slices.ContainsFunc(t.Pending, func(k dataflow.Commit) bool { return k.Epoch == e }) {
		return fmt.Errorf("commit of %s, and the manifest that is durable is of %s and does not have it", e, m.Epoch)
	}
	return nil
}

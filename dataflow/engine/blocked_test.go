package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
)

// stuckWriter blocks in its first Write until it is let go.
type stuckWriter struct {
	entered chan struct{}
	let     chan struct{}
}

func (w *stuckWriter) Write(ctx context.Context, _ arrow.RecordBatch) (arrow.RecordBatch, error) {
	select {
	case w.entered <- struct{}{}:
	default:
	}
	select {
	case <-w.let:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (w *stuckWriter) Prepare(context.Context, dataflow.Epoch) (dataflow.Pending, error) {
	return nil, nil
}
func (w *stuckWriter) Close() error { return nil }

// TestABlockedSinkStopsTheSources: while a sink takes nothing, the queues fill up
// to their share of the memory, and then nothing more is read.
func TestABlockedSinkStopsTheSources(t *testing.T) {
	const rows, memory = 10_000_000, 8 << 20
	w := &stuckWriter{entered: make(chan struct{}, 1), let: make(chan struct{})}
	g := &Graph{
		Name: "p", Parallelism: 2, Sources: []*Source{seqStep(3, rows, 1, nil)},
		Sinks: []*Sink{{
			Name: "out", Component: "stuck", Input: PortRef{"src", 0},
			NewWriter: func(context.Context, *dataflow.Env) (dataflow.Writer, error) { return w, nil },
		}},
	}
	s := openStore(t, t.TempDir())
	defer s.Close()
	job := NewJob(g, Options{Store: s, Every: 10 * time.Millisecond, Memory: memory, StateMemory: 1 << 20, Log: testLog(t)})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, err := job.Run(ctx)
		ended <- err
	}()
	<-w.entered
	// It has stopped when many turns of the status bring nothing new.
	var read int64
	limit := time.After(30 * time.Second)
	for same := 0; same < 10; same++ {
		select {
		case <-limit:
			t.Fatal("the sources are read on and on")
		case <-time.After(100 * time.Millisecond):
		}
		if st := job.Status(); st.Read != read || st.Read == 0 {
			read, same = st.Read, 0
		}
	}
	st := job.Status()
	if st.QueueBytes == 0 || st.QueueBytes > memory/4+4<<20 {
		t.Errorf("%d bytes wait in queues, want some and at most a quarter of %d and a batch a split", st.QueueBytes, memory)
	}
	if read >= rows {
		t.Errorf("all %d rows were read", read)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the run ended with %v", err)
	}
}

package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// A held inbox answers questions and gives nothing else until it is released; one
// that need not be held is not.
func TestAHeldInboxGivesQuestionsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newInbox(1<<30, 1<<30)
		a := in.addEdge()
		in.hold(func() bool { return true })
		batch := batchOf(memory.DefaultAllocator, 3)
		mustPut(t, in, a, batch)
		mustPut(t, in, a, message{kind: msgWatermark, wm: 5})
		must := in.ask(func() {})
		if must != nil {
			t.Fatal(must)
		}
		if _, m := mustTake(t, in); m.kind != msgAsk {
			t.Fatalf("got %v, want the question", m.kind)
		}
		took := false
		go func() {
			if _, m := mustTake(t, in); m.kind == msgBatch {
				m.batch.Release()
			}
			took = true
		}()
		synctest.Wait()
		if took {
			t.Fatal("the batch was taken")
		}
		in.release()
		synctest.Wait()
		if !took {
			t.Fatal("the batch was not taken")
		}
		in.hold(func() bool { return false })
		if _, m := mustTake(t, in); m.kind != msgWatermark {
			t.Fatalf("got %v, want the watermark", m.kind)
		}
		in.hold(func() bool { return true })
		var err error
		go func() { _, _, err = in.take() }()
		synctest.Wait()
		in.stop()
		synctest.Wait()
		if err != errStopped {
			t.Fatalf("got %v, want %v", err, errStopped)
		}
	})
}

// fatCount writes much for every row, and notes the most that waited for an epoch.
type fatCount struct {
	*countOp
	env  *dataflow.Env
	most *atomic.Int64
	n    int
}

const fatBytes = 256

func (o *fatCount) Process(ctx context.Context, port int, b arrow.RecordBatch, out dataflow.Emitter) error {
	for range b.NumRows() {
		o.n++
		if err := o.env.State.Set(o.env.Groups.Lo, fmt.Appendf(nil, "fat%d", o.n), make([]byte, fatBytes)); err != nil {
			return err
		}
	}
	if kv, ok := o.env.State.(interface{ DirtyBytes() int64 }); ok {
		o.most.Store(max(o.most.Load(), kv.DirtyBytes()))
	}
	return o.countOp.Process(ctx, port, b, out)
}

// TestChangesStayWithinTheMemoryForState: a step that changes eight times as much
// as may wait, between two checkpoints, has epochs in between and never holds much
// more than its half.
func TestChangesStayWithinTheMemoryForState(t *testing.T) {
	const limit = 32 << 20
	rows := int64(8 * limit / fatBytes)
	var most atomic.Int64
	count := countStep(PortRef{"src", 0})
	count.New = func(ctx context.Context, env *dataflow.Env) (dataflow.Operator, error) {
		inner, err := newCountOp(ctx, env)
		if err != nil {
			return nil, err
		}
		return &fatCount{countOp: inner.(*countOp), env: env, most: &most}, nil
	}
	target := &memTarget{}
	g := &Graph{Name: "p", Parallelism: 1, Sources: []*Source{seqStep(1, rows, 1, nil)}, Operators: []*Operator{count}, Sinks: []*Sink{target.sink("out", PortRef{"count", 0})}}
	s := openStore(t, t.TempDir())
	defer s.Close()
	job := NewJob(g, Options{Store: s, Every: 1 << 40, StateMemory: limit, Log: testLog(t)})
	if _, err := job.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("at most %d KiB of %d waited for an epoch", most.Load()>>10, limit>>10)
	if most.Load() > limit/2*3 || most.Load() == 0 {
		t.Errorf("%d bytes waited for an epoch, want at most %d", most.Load(), limit/2*3)
	}
}

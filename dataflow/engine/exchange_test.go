package engine

import (
	"context"
	"slices"
	"testing"

	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Every row goes to the task that owns its key group, in its order, with any
// number of tasks; watermarks, barriers and ends go to all. I7: nothing leaks.
func TestTheExchangeSendsEachGroupToItsOwner(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 256} {
		alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
		var tasks []*edgeStage
		for range n {
			in := newInbox(1<<30, 1<<30)
			tasks = append(tasks, &edgeStage{in: in, edge: in.addEdge(), port: 3})
		}
		var vals []int64
		for i := range int64(1000) {
			vals = append(vals, i%256)
		}
		b := numbers(alloc, vals...)
		x, err := newExchange("x", b.Schema(), "h", tasks, alloc)
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		for _, err := range []error{x.process(ctx, b), x.watermark(ctx, 5), x.barrier(ctx, barrier{epoch: 1}), x.end(ctx)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		one := b.NewSlice(0, 1) // all rows to one task: passed on as it is
		if err := x.process(ctx, one); err != nil {
			t.Fatal(err)
		}
		one.Release()
		b.Release()
		rows := 0
		for task, e := range tasks {
			owner := func(v int64) bool { return state.GroupsOf(task, n).Contains(int(v)) }
			want := slices.DeleteFunc(slices.Clone(vals), func(v int64) bool { return !owner(v) })
			var got []int64
			var kinds []messageKind
			for len(e.in.edges[0].q) > e.in.edges[0].head {
				_, m := mustTake(t, e.in)
				kinds = append(kinds, m.kind)
				if m.batch != nil {
					if m.port != 3 {
						t.Fatalf("port %d", m.port)
					}
					got = append(got, m.batch.Column(0).(*array.Int64).Int64Values()...)
					m.batch.Release()
				}
			}
			if task == 0 {
				want = append(want, 0)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("task %d of %d got %v, want %v", task, n, got, want)
			}
			if i := slices.Index(kinds, msgWatermark); i < 0 || kinds[i+1] != msgBarrier || kinds[i+2] != msgEnd {
				t.Fatalf("task %d of %d: %v", task, n, kinds)
			}
			rows += len(got)
		}
		if rows != len(vals)+1 {
			t.Fatalf("%d rows of %d arrived", rows, len(vals)+1)
		}
		alloc.AssertSize(t, 0)
	}
}

func TestAnExchangeWithoutItsColumnIsRefused(t *testing.T) {
	if _, err := newExchange("x", arrow.NewSchema(nil, nil), "h", nil, nil); err == nil {
		t.Fatal("accepted")
	}
}

// I7: Emit takes over a reference, every reader gets one of its own.
func TestEmitGivesEachReaderAReference(t *testing.T) {
	alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer alloc.AssertSize(t, 0)
	in := newInbox(1<<20, 1<<20)
	p := &outPort{readers: []stage{&edgeStage{in: in, edge: in.addEdge()}, &edgeStage{in: in, edge: in.addEdge()}}}
	ctx := context.Background()
	for _, b := range []arrow.RecordBatch{numbers(alloc, 1, 2), numbers(alloc)} {
		if err := p.emit(ctx, b); err != nil {
			t.Fatal(err)
		}
	}
	if p.sent.Load() != 2 {
		t.Fatalf("%d rows sent", p.sent.Load())
	}
	for range 2 {
		_, m := mustTake(t, in)
		if m.batch.Column(0).(*array.Int64).Value(1) != 2 {
			t.Fatal("not the batch")
		}
		m.batch.Release()
	}
	s := &opStage{outs: outPorts{p}}
	if err := s.Emit(ctx, 1, numbers(alloc, 3)); err == nil {
		t.Fatal("a port that is not there")
	}
	in.stop()
	if err := p.emit(ctx, numbers(alloc, 4)); err != errStopped {
		t.Fatalf("emit to a run that is over: %v", err)
	}
}

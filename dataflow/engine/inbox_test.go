package engine

import (
	"errors"
	"testing"
	"testing/synctest"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// numbers makes a batch of one int64 column and a hash.
func numbers(alloc memory.Allocator, vals ...int64) arrow.RecordBatch {
	schema := arrow.NewSchema([]arrow.Field{{Name: "n", Type: dataflow.TypeInt64}, {Name: "h", Type: arrow.PrimitiveTypes.Uint64}}, nil)
	b := array.NewRecordBuilder(alloc, schema)
	defer b.Release()
	for _, v := range vals {
		b.Field(0).(*array.Int64Builder).Append(v)
		b.Field(1).(*array.Uint64Builder).Append(uint64(v) << 56)
	}
	return b.NewRecordBatch()
}

func batchOf(alloc memory.Allocator, rows int) message {
	return message{kind: msgBatch, batch: numbers(alloc, make([]int64, rows)...)}
}

func mustPut(t *testing.T, in *inbox, edge int, m message) {
	t.Helper()
	if err := in.put(edge, m); err != nil {
		t.Fatal(err)
	}
}

func mustTake(t *testing.T, in *inbox) (int, message) {
	t.Helper()
	edge, m, err := in.take()
	if err != nil {
		t.Fatal(err)
	}
	return edge, m
}

// A full edge holds its sender back, by rows and by bytes, and no other edge.
func TestAFullEdgeBlocksItsSenderOnly(t *testing.T) {
	for name, bounds := range map[string][2]int64{"rows": {1 << 30, 10}, "bytes": {160, 1 << 30}} {
		synctest.Test(t, func(t *testing.T) {
			alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
			defer alloc.AssertSize(t, 0)
			in := newInbox(bounds[0], bounds[1])
			a, b := in.addEdge(), in.addEdge()
			mustPut(t, in, a, batchOf(alloc, 8))
			done := false
			go func() {
				mustPut(t, in, a, batchOf(alloc, 8))
				done = true
			}()
			synctest.Wait()
			if done {
				t.Fatalf("%s: the edge took more than it may", name)
			}
			mustPut(t, in, b, batchOf(alloc, 8))
			mustPut(t, in, a, message{kind: msgWatermark, wm: 1}) // control always goes in
			for n := 3; n > 0; {
				_, m := mustTake(t, in)
				if m.batch != nil {
					m.batch.Release()
					n--
				}
				synctest.Wait()
			}
			if !done {
				t.Fatalf("%s: the sender was not let go", name)
			}
		})
	}
}

// A batch larger than the bound goes into an empty edge: nothing stands still.
func TestAnEmptyEdgeTakesAnyBatch(t *testing.T) {
	alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer alloc.AssertSize(t, 0)
	in := newInbox(1, 1)
	e := in.addEdge()
	mustPut(t, in, e, batchOf(alloc, 100))
	if bytes, rows := in.size(); rows != 100 || bytes < 1600 {
		t.Fatalf("%d bytes, %d rows", bytes, rows)
	}
	_, m := mustTake(t, in)
	m.batch.Release()
	if bytes, rows := in.size(); rows != 0 || bytes != 0 {
		t.Fatalf("%d bytes, %d rows are left", bytes, rows)
	}
}

// I2: an edge that has brought its barrier is not read until all have.
func TestAnAlignedEdgeIsNotReadUntilAllAre(t *testing.T) {
	alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer alloc.AssertSize(t, 0)
	in := newInbox(1<<20, 1<<20)
	a, b := in.addEdge(), in.addEdge()
	m := newMerger(2)
	mustPut(t, in, a, message{kind: msgBarrier, bar: barrier{epoch: 1}})
	mustPut(t, in, a, message{kind: msgWatermark, wm: 9})
	mustPut(t, in, b, batchOf(alloc, 1))
	mustPut(t, in, b, message{kind: msgBarrier, bar: barrier{epoch: 1}})
	mustPut(t, in, b, message{kind: msgWatermark, wm: 9})
	if edge, msg := mustTake(t, in); edge != a || msg.kind != msgBarrier {
		t.Fatalf("edge %d: %+v", edge, msg)
	}
	in.block(a)
	if m.barrier(a) {
		t.Fatal("aligned with one barrier of two")
	}
	for _, want := range []messageKind{msgBatch, msgBarrier} {
		edge, msg := mustTake(t, in)
		if edge != b || msg.kind != want {
			t.Fatalf("edge %d is read past its barrier: %+v (I2)", edge, msg)
		}
		if msg.batch != nil {
			msg.batch.Release()
		}
	}
	in.block(b)
	if !m.barrier(b) {
		t.Fatal("not aligned with both barriers")
	}
	in.unblock()
	for range 2 {
		if _, msg := mustTake(t, in); msg.kind != msgWatermark {
			t.Fatalf("got %+v", msg)
		}
	}
	if m.barrier(a) {
		t.Fatal("the next barrier starts anew")
	}
}

func TestOnlyNeighbouringWatermarksAreJoined(t *testing.T) {
	alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer alloc.AssertSize(t, 0)
	in := newInbox(1<<20, 1<<20)
	e := in.addEdge()
	for _, m := range []message{{kind: msgWatermark, wm: 1}, {kind: msgWatermark, wm: 2}, batchOf(alloc, 1), {kind: msgWatermark, wm: 3}, {kind: msgBarrier}, {kind: msgWatermark, wm: 4}} {
		mustPut(t, in, e, m)
	}
	var got []messageKind
	var wms []dataflow.Time
	for range 5 {
		_, m := mustTake(t, in)
		got = append(got, m.kind)
		if m.kind == msgWatermark {
			wms = append(wms, m.wm)
		}
		if m.batch != nil {
			m.batch.Release()
		}
	}
	if len(wms) != 3 || wms[0] != 2 || wms[1] != 3 || wms[2] != 4 || got[1] != msgBatch || got[3] != msgBarrier {
		t.Fatalf("kinds %v, watermarks %v", got, wms)
	}
}

// I7: what nobody takes is released.
func TestStopFreesSendersReceiversAndBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
		defer alloc.AssertSize(t, 0)
		in, empty := newInbox(1<<20, 1), newInbox(1, 1)
		e := in.addEdge()
		empty.addEdge()
		mustPut(t, in, e, batchOf(alloc, 1))
		errs := make(chan error, 2)
		go func() { errs <- in.put(e, batchOf(alloc, 1)) }()
		go func() { _, _, err := empty.take(); errs <- err }()
		synctest.Wait()
		in.stop()
		empty.stop()
		for range 2 {
			if err := <-errs; !errors.Is(err, errStopped) {
				t.Errorf("got %v", err)
			}
		}
		if err := in.put(e, batchOf(alloc, 1)); !errors.Is(err, errStopped) {
			t.Errorf("put after stop: %v", err)
		}
	})
}

// I5: a task's watermark is the least of its edges and never falls.
func TestTheWatermarkIsTheLeastAndNeverFalls(t *testing.T) {
	m := newMerger(3)
	for i, c := range []struct {
		edge int
		wm   dataflow.Time
		want dataflow.Time
		rose bool
	}{
		{0, 10, dataflow.MinTime, false}, {1, 20, dataflow.MinTime, false}, {2, 5, 5, true}, {2, 3, 5, false}, {2, 15, 10, true},
		{0, dataflow.MaxTime, 15, true}, {1, dataflow.MaxTime, 15, false}, {2, 16, 16, true}, {2, dataflow.MaxTime, dataflow.MaxTime, true},
	} {
		if wm, rose := m.watermark(c.edge, c.wm); wm != c.want || rose != c.rose {
			t.Fatalf("%d: %s, rose %v; want %s, %v", i, wm, rose, c.want, c.rose)
		}
	}
}

func TestEdgesThatHaveEndedAreNotWaitedFor(t *testing.T) {
	m := newMerger(2)
	if m.end(0) {
		t.Fatal("one edge of two has ended")
	}
	if wm, rose := m.watermark(1, 7); wm != 7 || !rose {
		t.Fatalf("%s, %v", wm, rose)
	}
	if !m.barrier(1) || !m.end(1) {
		t.Fatal("waits for the edge that has ended")
	}
}

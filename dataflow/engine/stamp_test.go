package engine

import (
	"reflect"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// stampRow is a row of seqSchema; null times and unknown arrivals are none.
type stampRow struct {
	time    int64
	null    bool
	arrived int64 // -1: unknown
}

type stampRig struct {
	t     *testing.T
	alloc *memory.CheckedAllocator
	s     *stamper
	c     *splitClock
	now   time.Time
	pos   int64
}

func newStampRig(t *testing.T, et EventTime) *stampRig {
	r := &stampRig{t: t, alloc: memory.NewCheckedAllocator(memory.DefaultAllocator), now: time.UnixMicro(0)}
	et.Column = "ts"
	src := &Source{Name: "src", Schema: seqSchema, EventTime: &et}
	env := &dataflow.Env{Step: "src", Alloc: r.alloc, Splits: &dataflow.SplitTable{}, Now: func() time.Time { return r.now }}
	r.s = newStamper(src, env)
	r.c = &splitClock{split: "0", id: env.Splits.ID("src", "0"), maxTime: dataflow.MinTime, floor: dataflow.MinTime, bound: et.OutOfOrderness}
	t.Cleanup(func() { r.s.release(); r.alloc.AssertSize(t, 0) })
	return r
}

// apply stamps rows and returns the stamps of those that are left and the
// reasons of the others, by position.
func (r *stampRig) apply(rows ...stampRow) (stamps map[int64]dataflow.Time, bad map[string]string) {
	r.t.Helper()
	fields := append(seqSchema.Fields(), arrow.Field{Name: dataflow.SysPos, Type: dataflow.TypeInt64}, arrow.Field{Name: dataflow.SysArrived, Type: dataflow.TypeInt64, Nullable: true})
	b := array.NewRecordBuilder(r.alloc, arrow.NewSchema(fields, nil))
	defer b.Release()
	for _, row := range rows {
		b.Field(0).(*array.Int64Builder).Append(1)
		if row.null {
			b.Field(1).AppendNull()
		} else {
			b.Field(1).(*array.TimestampBuilder).Append(arrow.Timestamp(row.time))
		}
		b.Field(2).(*array.Int64Builder).Append(row.time)
		b.Field(3).(*array.Int64Builder).Append(r.pos)
		if row.arrived < 0 {
			b.Field(4).AppendNull()
		} else {
			b.Field(4).(*array.Int64Builder).Append(row.arrived)
		}
		r.pos++
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	good, refused, err := r.s.apply(rec, r.c)
	if err != nil {
		r.t.Fatal(err)
	}
	stamps, bad = map[int64]dataflow.Time{}, map[string]string{}
	if good != nil {
		col := func(name string) *array.Int64 {
			return good.Column(dataflow.Column(good.Schema(), name)).(*array.Int64)
		}
		for i := range int(good.NumRows()) {
			if col(dataflow.SysTime).Value(i) != col("n").Value(i) {
				r.t.Errorf("row %d has the time of another", i)
			}
			stamps[col(dataflow.SysPos).Value(i)] = dataflow.Time(col(dataflow.SysStamp).Value(i))
		}
		good.Release()
	}
	if refused != nil {
		for i := range int(refused.NumRows()) {
			bad[refused.Column(5).(*array.String).Value(i)] = refused.Column(0).(*array.String).Value(i)
		}
		refused.Release()
	}
	return stamps, bad
}

func (r *stampRig) want(what string, got, want any) {
	r.t.Helper()
	if !reflect.DeepEqual(got, want) {
		r.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

type (
	stamps  = map[int64]dataflow.Time
	reasons = map[string]string
)

// Each row has the watermark that its split had just before it, also within a
// batch.
func TestEachRowIsStampedWithTheWatermarkBeforeIt(t *testing.T) {
	r := newStampRig(t, EventTime{OutOfOrderness: 10 * time.Microsecond})
	got, bad := r.apply(stampRow{time: 100}, stampRow{time: 95}, stampRow{time: 120}, stampRow{time: 50}, stampRow{time: 121})
	r.want("first batch", got, stamps{0: dataflow.MinTime, 1: 90, 2: 90, 3: 110, 4: 110})
	r.want("bad", bad, reasons{})
	got, _ = r.apply(stampRow{time: 1})
	r.want("second batch", got, stamps{5: 111})
}

func TestRowsWithoutAProperTimeAreRefusedAndMoveNoWatermark(t *testing.T) {
	r := newStampRig(t, EventTime{})
	got, bad := r.apply(stampRow{time: 5}, stampRow{null: true}, stampRow{time: int64(dataflow.MaxEventTime) + 1}, stampRow{time: int64(dataflow.MinEventTime) - 1}, stampRow{time: 4})
	r.want("stamps", got, stamps{0: dataflow.MinTime, 4: 5})
	r.want("bad", bad, reasons{"1": "null_event_time", "2": "event_time_out_of_range", "3": "event_time_out_of_range"})
	got, bad = r.apply(stampRow{null: true})
	r.want("all bad", []any{got, bad}, []any{stamps{}, reasons{"5": "null_event_time"}})
}

// With an arrival the row decides for itself; nothing needs to be remembered.
func TestMaxAheadGoesByTheArrival(t *testing.T) {
	r := newStampRig(t, EventTime{MaxAhead: 10 * time.Microsecond})
	r.now = time.UnixMicro(1 << 50)
	got, bad := r.apply(stampRow{time: 110, arrived: 100}, stampRow{time: 111, arrived: 100}, stampRow{time: 111, arrived: 101})
	r.want("stamps", got, stamps{0: dataflow.MinTime, 2: 110})
	r.want("bad", bad, reasons{"1": "future_timestamp"})
	r.want("decisions", len(r.s.decisions), 0)
}

// Without one the clock does, once; a replay repeats it whatever the clock says.
func TestMaxAheadByTheClockIsRecordedAndRepeated(t *testing.T) {
	et := EventTime{MaxAhead: 10 * time.Microsecond}
	r := newStampRig(t, et)
	r.now = time.UnixMicro(100)
	rows := []stampRow{{time: 110, arrived: -1}, {time: 111, arrived: -1}, {time: 112, arrived: 102}}
	got, bad := r.apply(rows...)
	r.want("stamps", got, stamps{0: dataflow.MinTime, 2: 110})
	r.want("bad", bad, reasons{"1": "future_timestamp"})
	r.want("decisions", r.s.decisions, []dataflow.ClockDecision{{Source: "src", Split: "0", Pos: 1, Refused: true}})
	for _, now := range []int64{0, 1 << 50} {
		again := newStampRig(t, et)
		again.now, again.s.replaying, again.c.replay = time.UnixMicro(now), true, r.s.decisions
		got2, bad2 := again.apply(rows...)
		again.want("replayed", []any{got2, bad2, len(again.s.decisions)}, []any{got, bad, 0})
	}
}

// A floor that was recorded applies from exactly its row on.
func TestARecordedFloorAppliesFromItsRowOn(t *testing.T) {
	r := newStampRig(t, EventTime{})
	r.c.replay = []dataflow.ClockDecision{{Pos: 1, Floor: 50}, {Pos: 3, Floor: 40}}
	got, _ := r.apply(stampRow{time: 10}, stampRow{time: 11}, stampRow{time: 12}, stampRow{time: 60}, stampRow{time: 1})
	r.want("stamps", got, stamps{0: dataflow.MinTime, 1: 50, 2: 50, 3: 50, 4: 60})
	r.want("floor", r.c.floor, dataflow.Time(50))
}

func TestTheTrackerIsTheLeastOverLiveSplitsAndNeverFalls(t *testing.T) {
	tr := newTracker(dataflow.MinTime)
	rises := 0
	tr.rise = func() { rises++ }
	tr.register("0", 10, true)
	tr.register("1", 20, true)
	step := func(what string, want dataflow.Time) {
		t.Helper()
		if got := tr.get(); got != want {
			t.Fatalf("%s: %s, want %s", what, got, want)
		}
	}
	step("registered", dataflow.MinTime)
	tr.set("0", trackedSplit{own: 30, live: true, more: true})
	step("one moves", 20)
	tr.set("1", trackedSplit{own: 20, live: false, more: true})
	step("the slow one is idle", 30)
	tr.set("0", trackedSplit{own: 30, live: false, more: true})
	step("nobody is live", 30)
	// It wakes up: it goes on from the watermark and holds it.
	if floor := tr.join("1", 20); floor != 30 {
		t.Fatalf("floor %s", floor)
	}
	tr.set("0", trackedSplit{own: 90, live: true, more: true})
	step("the one that woke up holds it", 30)
	tr.set("1", trackedSplit{own: 25, live: true, more: true})
	step("a lower one does not lower it", 30)
	// A split that is found later joins in the same way.
	if floor := tr.join("2", dataflow.MinTime); floor != 30 {
		t.Fatalf("floor %s", floor)
	}
	tr.set("1", trackedSplit{own: 95, live: true, more: true})
	step("the new one holds it", 30)
	tr.raise(50)
	step("raised at the end of a replay", 50)
	tr.raise(40)
	step("never lowered", 50)
	if top := tr.greatest(); top != 95 {
		t.Fatalf("the greatest of all splits is %s, want 95", top)
	}
	if rises != 2 {
		t.Fatalf("%d rises were told, want 2", rises)
	}
	for i, s := range []dataflow.Split{"0", "1", "2"} {
		if all := tr.finish(s); all != (i == 2) || all != tr.allFinished() {
			t.Fatalf("finished after %d of 3: %v", i+1, all)
		}
	}
	if tr.join("1", 0); tr.allFinished() {
		t.Fatal("one that gives rows again has not finished")
	}
}

func TestNoSplitIsIdleInAReplay(t *testing.T) {
	tr := newTracker(dataflow.MinTime)
	tr.setReplaying(true)
	tr.register("0", 10, true)
	tr.register("1", 5, false)
	if tr.set("0", trackedSplit{own: 90, live: true, more: true}); tr.get() != 5 {
		t.Fatalf("%s: the idle split's rows are still to be read", tr.get())
	}
	tr.setReplaying(false)
	if tr.set("0", trackedSplit{own: 90, live: true, more: true}); tr.get() != 90 {
		t.Fatalf("%s", tr.get())
	}
}

// A split that was found while others had gone on records its floor with its
// first row: a replay from the start has no other way to know (I8).
func TestASplitFoundLaterRecordsItsFloor(t *testing.T) {
	r := newStampRig(t, EventTime{})
	task := &sourceTask{src: r.s.src, env: r.s.env, stamper: r.s, tracker: newTracker(40)}
	b := numbersWithPos(r.alloc, 7)
	defer b.Release()
	c := &splitClock{split: "new", maxTime: dataflow.MinTime, floor: 40, status: checkpoint.Live}
	task.wake(c, b)
	r.want("decisions", task.decisions, []dataflow.ClockDecision{{Source: "src", Split: "new", Pos: 7, Floor: 40}})
	c.maxTime = 50
	task.wake(c, b)
	task.wake(&splitClock{split: "old", maxTime: dataflow.MinTime, floor: dataflow.MinTime, status: checkpoint.Live}, b)
	r.want("no more", len(task.decisions), 1)
	// Idle before its first row, and the watermark stood still: the floor is recorded too.
	task.wake(&splitClock{split: "idle", maxTime: dataflow.MinTime, floor: 40, status: checkpoint.Idle}, b)
	r.want("idle", task.decisions[1:], []dataflow.ClockDecision{{Source: "src", Split: "idle", Pos: 7, Floor: 40}})
	r.s.replaying = true
	task.wake(&splitClock{split: "new", maxTime: dataflow.MinTime, floor: 40, status: checkpoint.Live}, b)
	r.want("none in a replay", len(task.decisions), 2)
}

func numbersWithPos(alloc memory.Allocator, pos int64) arrow.RecordBatch {
	b := array.NewRecordBuilder(alloc, arrow.NewSchema(append(seqSchema.Fields(), arrow.Field{Name: dataflow.SysPos, Type: dataflow.TypeInt64}), nil))
	defer b.Release()
	b.Field(0).(*array.Int64Builder).Append(0)
	b.Field(1).(*array.TimestampBuilder).Append(0)
	b.Field(2).(*array.Int64Builder).Append(0)
	b.Field(3).(*array.Int64Builder).Append(pos)
	return b.NewRecordBatch()
}

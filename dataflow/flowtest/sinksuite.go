package flowtest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// SinkSchema is the input of the sinks that [SinkSuite] checks.
var SinkSchema = arrow.NewSchema([]arrow.Field{
	{Name: "id", Type: dataflow.TypeInt64, Nullable: true}, {Name: "v", Type: dataflow.TypeString, Nullable: true},
	{Name: dataflow.SysSplit, Type: dataflow.TypeInt32}, {Name: dataflow.SysPos, Type: dataflow.TypeInt64},
}, nil)

// SinkUnderTest is a sink with a Committer as [SinkSuite] uses it, on one target
// that is empty at first. The functions may be called any number of times, each
// call standing for another process; the suite closes what they return.
type SinkUnderTest struct {
	NewWriter    func(t *testing.T) dataflow.Writer
	NewCommitter func(t *testing.T) dataflow.Committer
	// Visible returns the rows that a reader of the target sees, as JSON of the
	// user's columns, in any order.
	Visible func(t *testing.T) []string
}

// SinkSuite checks what dataflow.Writer and dataflow.Committer promise. open
// makes a new, empty target each time.
func SinkSuite(t *testing.T, open func(t *testing.T) SinkUnderTest) {
	for _, c := range []struct {
		name string
		f    func(*sinkRig)
	}{
		{"staged rows are invisible until they are committed", (*sinkRig).staged},
		{"a commit is published once (I9)", (*sinkRig).once},
		{"commits at the same positions go by their watermarks", (*sinkRig).watermarks},
		{"another writer is fenced (I9)", (*sinkRig).fenced},
		{"a claim fences whoever has another", (*sinkRig).claims},
		{"commits of other rows at the same positions are told by their IDs", (*sinkRig).identities},
		{"the part alone is enough", (*sinkRig).partAlone},
		{"what was committed is told", (*sinkRig).told},
		{"an epoch without rows has no part", (*sinkRig).empty},
		{"splits come and stay", (*sinkRig).splits},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &sinkRig{t: t, u: open(t), wms: map[string]dataflow.Time{}}
			r.look()
			c.f(r)
		})
	}
}

type sinkRig struct {
	t     *testing.T
	u     SinkUnderTest
	epoch dataflow.Epoch
	// held and wms are those of the newest commit made by commit.
	held dataflow.Positions
	wms  map[string]dataflow.Time
	rows []string // that must be visible
}

// look asks the target what it holds, as every run does before it makes writers.
func (r *sinkRig) look() dataflow.Committed {
	r.t.Helper()
	k := r.u.NewCommitter(r.t)
	defer func() { must(r.t, k.Close()) }()
	held, err := k.Committed(context.Background())
	must(r.t, err)
	return held
}

// stage writes rows lo to hi in two batches with a writer of its own.
func (r *sinkRig) stage(lo, hi int) dataflow.Part {
	r.t.Helper()
	w := r.u.NewWriter(r.t)
	defer func() { must(r.t, w.Close()) }()
	mid := (lo + hi) / 2
	r.write(w, lo, mid)
	r.write(w, mid, hi)
	return r.cut(w)
}

func (r *sinkRig) write(w dataflow.Writer, lo, hi int) {
	r.t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, SinkSchema)
	defer b.Release()
	for i := lo; i < hi; i++ {
		b.Field(0).(*array.Int64Builder).Append(int64(i))
		b.Field(1).(*array.StringBuilder).Append("v" + strconv.Itoa(i))
		b.Field(2).(*array.Int32Builder).Append(0)
		b.Field(3).(*array.Int64Builder).Append(int64(i))
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	bad, err := w.Write(context.Background(), rec)
	must(r.t, err)
	if bad != nil {
		r.t.Fatalf("%d rows were refused", bad.NumRows())
	}
}

func (r *sinkRig) cut(w dataflow.Writer) dataflow.Part {
	r.t.Helper()
	r.epoch++
	p, err := w.Prepare(context.Background(), r.epoch)
	must(r.t, err)
	if p == nil {
		r.t.Fatal("rows were staged and there is nothing to commit")
	}
	part, err := p.Part(context.Background())
	must(r.t, err)
	return part
}

func at(n int) dataflow.Positions {
	return dataflow.Positions{"in": {"0": dataflow.Position(fmt.Sprintf("%010d", n))}}
}

// next is the commit that goes on from the newest one to rows lo to hi.
func (r *sinkRig) next(lo, hi int) dataflow.Commit {
	r.t.Helper()
	c := dataflow.Commit{
		Epoch: r.epoch + 1, From: r.held, At: at(hi), FromWatermarks: r.wms, Start: at(0), Plan: "plan",
		Watermarks: map[string]dataflow.Time{"in": dataflow.Time(hi)}, Watermark: dataflow.Time(hi),
	}
	c.Parts = []dataflow.Part{r.stage(lo, hi)}
	if c.Rows() != int64(hi-lo) {
		r.t.Fatalf("the part says %d rows, want %d", c.Rows(), hi-lo)
	}
	return c
}

func (r *sinkRig) made(c dataflow.Commit, lo, hi int) {
	r.held, r.wms = c.At, c.Watermarks
	for i := lo; i < hi; i++ {
		r.rows = append(r.rows, fmt.Sprintf(`{"id":%d,"v":"v%d"}`, i, i))
	}
}

// commit commits with a process of its own.
func (r *sinkRig) commit(c dataflow.Commit) error {
	r.t.Helper()
	k := r.u.NewCommitter(r.t)
	defer func() { must(r.t, k.Close()) }()
	c.Target = k.Target()
	return k.Commit(context.Background(), c)
}

func (r *sinkRig) check(what string) {
	r.t.Helper()
	got, want := r.u.Visible(r.t), slices.Clone(r.rows)
	sort.Strings(got)
	sort.Strings(want)
	if !slices.Equal(got, want) {
		r.t.Fatalf("%s: a reader sees\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	k := r.u.NewCommitter(r.t)
	defer func() { must(r.t, k.Close()) }()
	held, err := k.Committed(context.Background())
	must(r.t, err)
	if !equalPositions(held.Positions, r.held) {
		r.t.Fatalf("%s: the target holds %v, want %v", what, held.Positions, r.held)
	}
	if reader, ok := k.(dataflow.TableReader); ok {
		r.checkReader(what, reader, want)
	}
}

func (r *sinkRig) checkReader(what string, reader dataflow.TableReader, want []string) {
	r.t.Helper()
	got := []string{}
	must(r.t, reader.Rows(context.Background(), func(b arrow.RecordBatch) error {
		for i := range int(b.NumRows()) {
			got = append(got, string(dataflow.RowJSON(b, i)))
		}
		return nil
	}))
	sort.Strings(got)
	if len(got) != len(want) || len(want) > 0 && !slices.Equal(got, want) {
		r.t.Fatalf("%s: Rows gives %v, want %v", what, got, want)
	}
	info, found, err := reader.Describe(context.Background())
	must(r.t, err)
	if found && info.Rows != int64(len(want)) || !found && len(want) > 0 {
		r.t.Fatalf("%s: Describe says %d rows (found %v), want %d", what, info.Rows, found, len(want))
	}
}

func equalPositions(a, b dataflow.Positions) bool {
	if len(a) == 0 && len(b) == 0 {
		return true
	}
	return reflect.DeepEqual(a, b)
}

func (r *sinkRig) staged() {
	r.check("before anything")
	w := r.u.NewWriter(r.t)
	r.write(w, 0, 5)
	r.check("written")
	part := r.cut(w)
	r.check("cut")
	r.write(w, 5, 7) // of the next epoch
	c := dataflow.Commit{Epoch: 1, At: at(5), Start: at(0), Plan: "plan", Watermarks: map[string]dataflow.Time{"in": 5}, Parts: []dataflow.Part{part}}
	must(r.t, r.commit(c))
	r.made(c, 0, 5)
	r.check("committed")
	// What was never cut is gone with its writer.
	must(r.t, w.Close())
	r.check("closed")
}

func (r *sinkRig) once() {
	first := r.next(0, 3)
	must(r.t, r.commit(first))
	r.made(first, 0, 3)
	r.check("first")
	second := r.next(3, 5)
	for i, c := range []dataflow.Commit{first, second, first, second} {
		must(r.t, r.commit(c))
		if i == 1 {
			r.made(second, 3, 5)
		}
		if i > 0 {
			r.check(fmt.Sprintf("commit %d", i))
		}
	}
	// One process commits twice as well.
	third := r.next(5, 6)
	k := r.u.NewCommitter(r.t)
	defer func() { must(r.t, k.Close()) }()
	third.Target = k.Target()
	for range 2 {
		must(r.t, k.Commit(context.Background(), third))
	}
	r.made(third, 5, 6)
	r.check("third, twice by one process")
}

func (r *sinkRig) watermarks() {
	first := r.next(0, 3)
	must(r.t, r.commit(first))
	r.made(first, 0, 3)
	// Time alone made rows: the positions have not moved.
	second := r.next(3, 4)
	second.At, second.Watermarks = first.At, map[string]dataflow.Time{"in": 100}
	must(r.t, r.commit(second))
	r.made(second, 3, 4)
	r.check("same positions, later watermark")
	must(r.t, r.commit(second))
	must(r.t, r.commit(first))
	r.check("both again")
	// A copy of the state that had not seen the second one.
	other := r.next(4, 5)
	other.At, other.FromWatermarks, other.Watermarks = first.At, first.Watermarks, map[string]dataflow.Time{"in": 200}
	if err := r.commit(other); !errors.Is(err, dataflow.ErrFenced) {
		r.t.Fatalf("from an older watermark: %v, want fenced", err)
	}
	drained := r.next(5, 6)
	drained.At, drained.Watermarks = first.At, map[string]dataflow.Time{"in": dataflow.MaxTime}
	must(r.t, r.commit(drained))
	r.made(drained, 5, 6)
	r.check("drained")
}

// claims: a commit that was prepared under a claim is refused once another one
// stands, and a claim that is not higher than the one that stands is.
func (r *sinkRig) claims() {
	r.t.Helper()
	old, ok := r.u.NewCommitter(r.t).(dataflow.Claimer)
	if !ok {
		r.t.Skip("this sink takes no claims")
	}
	defer func() { must(r.t, old.Close()) }()
	young := r.u.NewCommitter(r.t).(dataflow.Claimer)
	defer func() { must(r.t, young.Close()) }()
	ctx := context.Background()
	mine, other, same := dataflow.Claim{Token: 1, By: "a"}, dataflow.Claim{Token: 2, By: "b"}, dataflow.Claim{Token: 2, By: "c"}
	must(r.t, old.Claim(ctx, mine))
	c := r.next(0, 10)
	c.Claim = mine
	must(r.t, old.Commit(ctx, c))
	r.made(c, 0, 10)
	must(r.t, old.Claim(ctx, mine))
	next := r.next(10, 20)
	must(r.t, young.Claim(ctx, other))
	for _, no := range []dataflow.Claim{mine, same} {
		if err := old.Claim(ctx, no); !errors.Is(err, dataflow.ErrFenced) {
			r.t.Fatalf("claim %v over %v: %v, want fenced", no, other, err)
		}
	}
	if next.Claim = mine; !errors.Is(old.Commit(ctx, next), dataflow.ErrFenced) {
		r.t.Fatal("a commit under a claim that was taken over was published")
	}
	r.check("fenced by the claim")
	held, err := young.Committed(ctx)
	must(r.t, err)
	if held.Claim != other || held.Positions.String() != c.At.String() || held.Plan != c.Plan {
		r.t.Fatalf("after a claim the target holds %+v", held)
	}
	// What was published before stays done, under whatever claim.
	must(r.t, old.Commit(ctx, c))
	next.Claim = other
	must(r.t, young.Commit(ctx, next))
	r.made(next, 10, 20)
	r.check("under the new claim")
}

// identities: two processes on copies of a log that producers write to have other
// rows at the same positions.
func (r *sinkRig) identities() {
	r.t.Helper()
	first := r.next(0, 3)
	first.ID = "a"
	must(r.t, r.commit(first))
	r.made(first, 0, 3)
	mine, other := r.next(3, 6), r.next(3, 6)
	mine.ID, other.ID = "b", "c"
	must(r.t, r.commit(mine))
	r.made(mine, 3, 6)
	for range 2 {
		if err := r.commit(other); !errors.Is(err, dataflow.ErrFenced) {
			r.t.Fatalf("other rows at the same positions: %v, want fenced", err)
		}
	}
	r.check("other rows at the same positions")
	k := r.u.NewCommitter(r.t)
	if claimer, ok := k.(dataflow.Claimer); ok { // A claim forgets none of them.
		must(r.t, claimer.Claim(context.Background(), dataflow.Claim{Token: 1, By: "x"}))
	}
	must(r.t, k.Close())
	must(r.t, r.commit(mine))
	must(r.t, r.commit(first))
	r.check("both again")
	if held := r.look().Commits; !slices.Equal(held, []string{"a", "b"}) {
		r.t.Fatalf("the target remembers the commits %v", held)
	}
	next := r.next(6, 8)
	next.ID = "d"
	must(r.t, r.commit(next))
	r.made(next, 6, 8)
	r.check("the next one")
}

func (r *sinkRig) fenced() {
	first := r.next(0, 3)
	must(r.t, r.commit(first))
	r.made(first, 0, 3)
	for _, from := range []dataflow.Positions{nil, at(2), at(4)} {
		c := r.next(3, 6)
		c.From = from
		if err := r.commit(c); !errors.Is(err, dataflow.ErrFenced) {
			r.t.Fatalf("from %v: %v, want fenced", from, err)
		}
		r.check(fmt.Sprintf("from %v", from))
	}
	// Two copies of one state: the second one's range overlaps.
	a, b := r.next(3, 6), r.next(3, 8)
	must(r.t, r.commit(a))
	r.made(a, 3, 6)
	if err := r.commit(b); !errors.Is(err, dataflow.ErrFenced) {
		r.t.Fatalf("an overlapping range: %v, want fenced", err)
	}
	r.check("overlapping")
}

func (r *sinkRig) partAlone() {
	c := r.next(0, 4) // its writer is closed
	must(r.t, r.commit(c))
	r.made(c, 0, 4)
	// Two parts staged by two processes, committed by a third.
	one, two := r.stage(4, 6), r.stage(6, 7)
	both := dataflow.Commit{Epoch: 5, From: r.held, FromWatermarks: r.wms, At: at(7), Start: at(0), Plan: "plan",
		Watermarks: map[string]dataflow.Time{"in": 7}, Parts: []dataflow.Part{one, two}}
	r.check("staged by processes that ended")
	must(r.t, r.commit(both))
	r.made(both, 4, 7)
	r.check("committed from the parts")
}

func (r *sinkRig) told() {
	empty := r.look()
	if empty.Positions != nil || !empty.ClockComplete || len(empty.Clock) > 0 {
		r.t.Fatalf("an empty target holds %+v", empty)
	}
	var clock []dataflow.ClockDecision
	for i := range 4 {
		c := r.next(i, i+1)
		c.Plan = "plan " + strconv.Itoa(i)
		if i != 2 { // one commit without any
			c.Clock = []dataflow.ClockDecision{
				{Source: "in", Split: "0", Pos: int64(i), Floor: dataflow.Time(i + 1)}, {Source: "in", Split: "0", Pos: int64(i), Refused: true},
			}
			clock = append(clock, c.Clock...)
		}
		must(r.t, r.commit(c))
		r.made(c, i, i+1)
	}
	held := r.look()
	if held.ID == "" || empty.ID != "" && held.ID != empty.ID {
		r.t.Errorf("the target was %q and is %q", empty.ID, held.ID)
	}
	want := dataflow.Committed{Positions: at(4), Start: at(0), Plan: "plan 3", Watermarks: map[string]dataflow.Time{"in": 4},
		Clock: clock, ClockComplete: true, ID: held.ID}
	if !reflect.DeepEqual(held, want) {
		r.t.Errorf("the target tells\n%+v, want\n%+v", held, want)
	}
}

func (r *sinkRig) empty() {
	w := r.u.NewWriter(r.t)
	defer func() { must(r.t, w.Close()) }()
	for e := dataflow.Epoch(1); e < 3; e++ {
		if p, err := w.Prepare(context.Background(), e); err != nil || p != nil {
			r.t.Fatalf("%s without rows: %v, %v; want no part", e, p, err)
		}
	}
	r.epoch = 2
	r.write(w, 0, 1)
	part := r.cut(w)
	if p, err := w.Prepare(context.Background(), 4); err != nil || p != nil {
		r.t.Fatalf("rows of one epoch are in the next: %v, %v", p, err)
	}
	c := dataflow.Commit{Epoch: 3, At: at(9), Start: at(0), Plan: "plan", Watermarks: map[string]dataflow.Time{"in": 9}, Parts: []dataflow.Part{part}}
	must(r.t, r.commit(c))
	r.made(c, 0, 1)
	r.check("after epochs without rows")
}

func (r *sinkRig) splits() {
	first := r.next(0, 2)
	must(r.t, r.commit(first))
	r.made(first, 0, 2)
	// A split that the target does not know starts with this commit.
	second := r.next(2, 3)
	second.At = dataflow.MergePositions(at(3), dataflow.Positions{"in": {"1": dataflow.Position("0000000007")}})
	must(r.t, r.commit(second))
	r.made(second, 2, 3)
	r.check("a new split")
	// Splits that a commit does not name are left as they are.
	third := r.next(3, 4)
	third.From, third.At = at(3), at(4)
	must(r.t, r.commit(third))
	r.made(third, 3, 4)
	r.held = dataflow.MergePositions(second.At, third.At)
	r.check("one of two splits")
	must(r.t, r.commit(second))
	r.check("an older commit again")
	behind := r.next(4, 5)
	behind.From = second.At
	behind.At = dataflow.Positions{"in": {"0": third.At["in"]["0"], "1": dataflow.Position("0000000009")}}
	if err := r.commit(behind); !errors.Is(err, dataflow.ErrFenced) {
		r.t.Fatalf("a commit that is ahead in one split and behind in another: %v, want fenced", err)
	}
	r.check("fenced")
}

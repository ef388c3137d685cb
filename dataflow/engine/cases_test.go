package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// placing is a source whose tasks know the places of their own splits only.
type placing struct{ *seqSource }

func (p placing) Locate(split dataflow.Split, pos int64) string {
	if p.at[split] == nil {
		return "?"
	}
	return fmt.Sprintf("%s, row %d", split, pos)
}

func TestThePlaceOfABadRowIsAskedOfTheTaskThatReadIt(t *testing.T) {
	target := &memTarget{}
	src := seqStep(4, 200, 1, nil)
	open := src.New
	src.New = func(ctx context.Context, env *dataflow.Env) (dataflow.Source, error) {
		s, err := open(ctx, env)
		return placing{s.(*seqSource)}, err
	}
	g := &Graph{Name: "p", Parallelism: 2, Sources: []*Source{src}, Sinks: []*Sink{target.sink("out", PortRef{"src", 0})}}
	dir := t.TempDir()
	if _, err := runJob(t, g, dir, nil); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, dir)
	defer s.Close()
	var got []string
	if err := ReadQuarantine(s, func(q Quarantined) error { got = append(got, q.Where); return nil }); err != nil {
		t.Fatal(err)
	}
	var want []string
	for split := range 4 {
		for _, pos := range []int{96, 193} {
			want = append(want, fmt.Sprintf("%d, row %d", split, pos))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("places %q, want %q", got, want)
	}
}

// scripted reads rows that are given, one batch each.
type scripted struct {
	seqSource
	schema *arrow.Schema
	json   []string // with _pos and _arrived
	acked  *atomic.Value
}

func (s *scripted) Ack(_ context.Context, _ dataflow.Epoch, upTo map[dataflow.Split]dataflow.Position) error {
	s.acked.Store(string(upTo["0"]))
	return nil
}

func (s *scripted) Poll(ctx context.Context, max dataflow.PollLimit) (dataflow.Polled, error) {
	at := s.at["0"]
	if at == nil || at.next == int64(len(s.json)) {
		return s.seqSource.Poll(ctx, max)
	}
	b, _, err := array.RecordFromJSON(memory.DefaultAllocator, s.schema, strings.NewReader("["+s.json[at.next]+"]"))
	if err != nil {
		return dataflow.Polled{}, err
	}
	at.next++
	return dataflow.Polled{Split: "0", Batch: b, Next: seqPos(at.next)}, nil
}

// script makes a source step of rows, which name all columns of fields.
func script(fields []arrow.Field, time *EventTime, acked *atomic.Value, rows ...string) *Source {
	with := append(slices.Clone(fields), arrow.Field{Name: dataflow.SysPos, Type: dataflow.TypeInt64}, arrow.Field{Name: dataflow.SysArrived, Type: dataflow.TypeInt64, Nullable: true})
	return &Source{
		Name: "src", Component: "script", Schema: arrow.NewSchema(fields, nil), Bounded: true, EventTime: time,
		New: func(context.Context, *dataflow.Env) (dataflow.Source, error) {
			return &scripted{seqSource: seqSource{splits: 1, rows: int64(len(rows)), at: map[dataflow.Split]*seqAt{}, rng: rand.New(rand.NewSource(1))},
				schema: arrow.NewSchema(with, nil), json: rows, acked: acked}, nil
		},
	}
}

// C02: the first two flushes fail, the third works; nothing is acknowledged
// before. With a sink that always fails nothing is, and a good sink gets
// everything later.
func TestC02AFlushThatFailsIsRepeated(t *testing.T) {
	var rows, want []string
	for i := range 4 {
		rows = append(rows, fmt.Sprintf(`{"id":%d,"_pos":%d,"_arrived":null}`, i+1, i))
		want = append(want, fmt.Sprintf(`{"id":%d}`, i+1))
	}
	run := func(dir string, target *memTarget, acked *atomic.Value, change func(*Options)) error {
		src := script([]arrow.Field{{Name: "id", Type: dataflow.TypeInt64}}, nil, acked, rows...)
		g := &Graph{Name: "p", Parallelism: 1, Sources: []*Source{src}, Sinks: []*Sink{target.sink("out", PortRef{"src", 0})}}
		_, err := runJob(t, g, dir, change)
		return err
	}
	t.Run("twice", func(t *testing.T) {
		var acked atomic.Value
		tries := 0
		target := &memTarget{fail: func() error {
			if tries++; tries <= 2 {
				return errInjected
			}
			if acked.Load() != nil {
				t.Errorf("acknowledged up to %v before the third flush", acked.Load())
			}
			return nil
		}}
		if err := run(t.TempDir(), target, &acked, nil); err != nil {
			t.Fatal(err)
		}
		if d := diff(target.sorted(), want); d != "" || tries < 3 {
			t.Errorf("%d tries: %s", tries, d)
		}
		if acked.Load() != string(seqPos(4)) {
			t.Errorf("acknowledged up to %v, want 4", acked.Load())
		}
	})
	t.Run("always", func(t *testing.T) {
		var acked atomic.Value
		dir, target := t.TempDir(), &memTarget{fail: func() error { return errInjected }}
		err := run(dir, target, &acked, func(o *Options) { o.MaxRetry = 300 * time.Millisecond })
		if !errors.Is(err, errInjected) || acked.Load() != nil || len(target.rows) > 0 {
			t.Fatalf("%v, acknowledged %v, rows %v", err, acked.Load(), target.rows)
		}
		target.fail = nil
		if err := run(dir, target, &acked, nil); err != nil {
			t.Fatal(err)
		}
		if d := diff(target.sorted(), want); d != "" {
			t.Error(d)
		}
		if acked.Load() != string(seqPos(4)) {
			t.Errorf("acknowledged up to %v, want 4", acked.Load())
		}
	})
}

// C11: a clock that is a day ahead moves no watermark and makes no row late.
func TestC11OneClockADayFast(t *testing.T) {
	const start = int64(1772359200) // T
	row := func(pos, arrival, et int64, dev string, v int) string {
		at := time.Unix(start+et, 0).UTC().Format("2006-01-02T15:04:05Z")
		return fmt.Sprintf(`{"k":%q,"ts":%q,"n":%d,"_pos":%d,"_arrived":%d}`, dev, at, v, pos, (start+arrival)*1_000_000)
	}
	rows := []string{
		row(0, 6, 5, "d1", 1), row(1, 62, 86460, "d9", 1000), row(2, 63, 63, "d1", 2),
		row(3, 64, 64, "d2", 4), row(4, 125, 125, "d1", 8), row(5, 140, 140, "d2", 16),
	}
	var acked atomic.Value
	src := script([]arrow.Field{{Name: "k", Type: dataflow.TypeString}, {Name: "ts", Type: dataflow.TypeTimestampTZ, Nullable: true}, {Name: "n", Type: dataflow.TypeInt64}},
		&EventTime{Column: "ts", OutOfOrderness: 10 * time.Second, MaxAhead: 5 * time.Minute}, &acked, rows...)
	target := &memTarget{}
	dir := t.TempDir()
	res, err := runJob(t, &Graph{Name: "p", Parallelism: 1, Sources: []*Source{src}, Sinks: []*Sink{target.sink("out", PortRef{"src", 0})}}, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, r := range target.sorted() {
		var x struct{ N int }
		if err := json.Unmarshal([]byte(r), &x); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, fmt.Sprint(x.N))
	}
	slices.Sort(ids)
	if got := strings.Join(ids, " "); got != "1 16 2 4 8" {
		t.Errorf("rows %s", got)
	}
	if wm := res.Manifest.Sources["src"].Watermark; wm != dataflow.Time((start+130)*1_000_000) {
		t.Errorf("the watermark ends at %s, want T+130", wm)
	}
	s := openStore(t, dir)
	defer s.Close()
	var bad []Quarantined
	if err := ReadQuarantine(s, func(q Quarantined) error { bad = append(bad, q); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(bad) != 1 || bad[0].Reason != "future_timestamp" || !strings.Contains(bad[0].Detail, "86398 s") || !strings.Contains(string(bad[0].Row), `"d9"`) {
		t.Errorf("bad rows %+v", bad)
	}
}

// slowAck takes a moment for each acknowledgement, unless it is cancelled.
type slowAck struct {
	*seqSource
	acked *atomic.Value
}

func (s slowAck) Ack(ctx context.Context, _ dataflow.Epoch, upTo map[dataflow.Split]dataflow.Position) error {
	t := time.NewTimer(50 * time.Millisecond)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
	}
	s.acked.Store(string(upTo["0"]))
	return nil
}

// C01, C20: what is committed at the end of a run is acknowledged before the
// process ends; what was not, because it was killed, is by the next one, even if
// there is nothing else to do.
func TestTheLastAcknowledgementIsNotLost(t *testing.T) {
	target := &memTarget{}
	dir := t.TempDir()
	run := func() (Result, any) {
		t.Helper()
		var acked atomic.Value
		src := seqStep(1, 50, 1, nil)
		open := src.New
		src.New = func(ctx context.Context, env *dataflow.Env) (dataflow.Source, error) {
			s, err := open(ctx, env)
			return slowAck{s.(*seqSource), &acked}, err
		}
		res, err := runJob(t, &Graph{Name: "p", Parallelism: 1, Sources: []*Source{src}, Sinks: []*Sink{target.sink("out", PortRef{"src", 0})}}, dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		return res, acked.Load()
	}
	for i, nothing := range []bool{false, true} {
		if res, acked := run(); acked != string(seqPos(50)) || res.Nothing != nothing {
			t.Errorf("run %d: acknowledged up to %v, want 50; nothing to do: %v, want %v", i+1, acked, res.Nothing, nothing)
		}
	}
}

// A run that ends because nothing comes, with nothing new, writes no epoch.
func TestASecondRunUntilIdleChangesNothing(t *testing.T) {
	target := &memTarget{}
	dir := t.TempDir()
	run := func() Result {
		t.Helper()
		src := seqStep(2, 300, 1, nil)
		src.Bounded = false
		open := src.New
		src.New = func(ctx context.Context, env *dataflow.Env) (dataflow.Source, error) {
			s, err := open(ctx, env)
			s.(*seqSource).open = true
			return s, err
		}
		res, err := runJob(t, &Graph{Name: "p", Parallelism: 2, Sources: []*Source{src}, Sinks: []*Sink{target.sink("out", PortRef{"src", 0})}}, dir,
			func(o *Options) { o.UntilIdle = 500 * time.Millisecond })
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	first := run()
	if second := run(); !second.Nothing || second.Manifest.Epoch != first.Manifest.Epoch {
		t.Errorf("the second run: nothing %v, epoch %d after %d", second.Nothing, second.Manifest.Epoch, first.Manifest.Epoch)
	}
	want, _ := wantRows(2, 300)
	if d := diff(target.sorted(), want); d != "" {
		t.Error(d)
	}
}

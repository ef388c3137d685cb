package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// seqSchema is what seqSource gives: a key, a time and a number.
var seqSchema = arrow.NewSchema([]arrow.Field{
	{Name: "k", Type: dataflow.TypeInt64}, {Name: "ts", Type: dataflow.TypeTimestampTZ, Nullable: true}, {Name: "n", Type: dataflow.TypeInt64},
}, nil)

// seqRow is row i of a split: all tests and models agree on it.
func seqRow(split string, i int64) (k, ts, n int64) {
	s, _ := strconv.ParseInt(split, 10, 64)
	jitter := (i * 7919 % 13) * 100_000
	return (i*31 + s) % 17, 1_700_000_000_000_000 + i*50_000 - jitter, s*1_000_000 + i
}

// seqSource reads rows computed from split and position. Its behaviour varies
// with rng: batch sizes and the order of splits.
type seqSource struct {
	splits int
	rows   int64
	open   bool // never ends
	// shorter is by how many rows each split is shorter than the one before.
	shorter int64
	rng     *rand.Rand
	at      map[dataflow.Split]*seqAt
	order   []dataflow.Split
	fail    func() error
}

type seqAt struct {
	next, until int64
	told        bool
}

func seqPos(i int64) dataflow.Position { return dataflow.Position(fmt.Sprintf("%012d", i)) }

func (s *seqSource) Discover(context.Context) ([]dataflow.Split, error) {
	var out []dataflow.Split
	for i := range s.splits {
		out = append(out, dataflow.Split(strconv.Itoa(i)))
	}
	return out, nil
}

func (s *seqSource) Start(_ context.Context, splits []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	out := map[dataflow.Split]dataflow.Position{}
	for _, sp := range splits {
		out[sp] = seqPos(0)
	}
	return out, nil
}

func (s *seqSource) Begin(ctx context.Context, splits []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	return s.Start(ctx, splits)
}

func (s *seqSource) Assign(_ context.Context, splits []dataflow.SplitAt) error {
	for _, a := range splits {
		i, err := strconv.ParseInt(string(a.From), 10, 64)
		if err != nil {
			return err
		}
		at := &seqAt{next: i, until: -1}
		if a.Until != nil {
			at.until, _ = strconv.ParseInt(string(a.Until), 10, 64)
		}
		if s.at[a.Split] == nil {
			s.order = append(s.order, a.Split)
		}
		s.at[a.Split] = at
	}
	return nil
}

func (s *seqSource) Unassign(context.Context, []dataflow.Split) error { return nil }
func (s *seqSource) Close() error                                     { return nil }

func (s *seqSource) Poll(ctx context.Context, max dataflow.PollLimit) (dataflow.Polled, error) {
	if s.fail != nil {
		if err := s.fail(); err != nil {
			return dataflow.Polled{}, err
		}
	}
	s.rng.Shuffle(len(s.order), func(i, j int) { s.order[i], s.order[j] = s.order[j], s.order[i] })
	for _, sp := range s.order {
		at := s.at[sp]
		end := s.rows
		if n, _ := strconv.ParseInt(string(sp), 10, 64); s.shorter > 0 {
			end -= n * s.shorter
		}
		if at.until >= 0 {
			end = min(end, at.until)
		}
		if at.next >= end {
			if at.told {
				continue
			}
			at.told = true
			return dataflow.Polled{Split: sp, Next: seqPos(at.next), CaughtUp: true, AtUntil: at.until >= 0 && at.next == at.until, Ended: !s.open && at.until < 0}, nil
		}
		n := min(end-at.next, 1+s.rng.Int63n(200))
		b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(append(seqSchema.Fields(), arrow.Field{Name: dataflow.SysPos, Type: dataflow.TypeInt64}), nil))
		for i := at.next; i < at.next+n; i++ {
			k, ts, v := seqRow(string(sp), i)
			b.Field(0).(*array.Int64Builder).Append(k)
			if i%97 == 96 {
				b.Field(1).(*array.TimestampBuilder).AppendNull()
			} else {
				b.Field(1).(*array.TimestampBuilder).Append(arrow.Timestamp(ts))
			}
			b.Field(2).(*array.Int64Builder).Append(v)
			b.Field(3).(*array.Int64Builder).Append(i)
		}
		at.next += n
		rec := b.NewRecordBatch()
		b.Release()
		return dataflow.Polled{Split: sp, Batch: rec, Next: seqPos(at.next), AtUntil: at.next == at.until}, nil
	}
	t := time.NewTimer(time.Duration(max.WaitMicros) * time.Microsecond)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return dataflow.Polled{}, ctx.Err()
	case <-t.C:
		return dataflow.Polled{}, nil
	}
}

// memTarget is a target in memory that outlives runs.
type memTarget struct {
	mu   sync.Mutex
	held dataflow.Committed
	rows []string
	// fail is asked before each commit.
	fail func() error
}

type memWriter struct {
	t    *memTarget
	rows []string
}

func (w *memWriter) Write(_ context.Context, b arrow.RecordBatch) (arrow.RecordBatch, error) {
	for i := range int(b.NumRows()) {
		w.rows = append(w.rows, string(dataflow.RowJSON(b, i)))
	}
	return nil, nil
}

func (w *memWriter) Prepare(context.Context, dataflow.Epoch) (dataflow.Pending, error) {
	if len(w.rows) == 0 {
		return nil, nil
	}
	rows := w.rows
	w.rows = nil
	return dataflow.PartFunc(func(context.Context) (dataflow.Part, error) {
		data, err := json.Marshal(rows)
		return dataflow.Part{Rows: int64(len(rows)), Data: data}, err
	}), nil
}

func (w *memWriter) Close() error { return nil }

type memCommitter struct{ t *memTarget }

func (c memCommitter) Target() dataflow.Target { return "mem" }
func (c memCommitter) Close() error            { return nil }
func (c memCommitter) Committed(context.Context) (dataflow.Committed, error) {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	out := c.t.held
	out.ClockComplete = true
	return out, nil
}

func (c memCommitter) Commit(_ context.Context, k dataflow.Commit) error {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	if c.t.fail != nil {
		if err := c.t.fail(); err != nil {
			return err
		}
	}
	switch dataflow.DecideCommit(c.t.held, k) {
	case dataflow.Done:
		return nil
	case dataflow.Fenced:
		return dataflow.ErrFenced
	}
	for _, p := range k.Parts {
		var rows []string
		if err := json.Unmarshal(p.Data, &rows); err != nil {
			return err
		}
		c.t.rows = append(c.t.rows, rows...)
	}
	c.t.held.Positions = dataflow.MergePositions(c.t.held.Positions, k.At)
	c.t.held.Start, c.t.held.Plan, c.t.held.Watermarks = k.Start, k.Plan, k.Watermarks
	c.t.held.Clock = append(c.t.held.Clock, k.Clock...)
	return nil
}

func (t *memTarget) sorted() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := slices.Clone(t.rows)
	sort.Strings(out)
	return out
}

func (t *memTarget) sink(name string, input PortRef) *Sink {
	return &Sink{
		Name: name, Component: "mem", Input: input, Fingerprint: "f1",
		NewWriter:    func(context.Context, *dataflow.Env) (dataflow.Writer, error) { return &memWriter{t: t}, nil },
		NewCommitter: func(context.Context, *dataflow.Env) (dataflow.Committer, error) { return memCommitter{t}, nil },
	}
}

// seqStep is a source step over seqSource.
func seqStep(splits int, rows int64, seed int64, fail func() error) *Source {
	return &Source{
		Name: "src", Component: "seq", Schema: seqSchema, Bounded: true,
		EventTime: &EventTime{Column: "ts", OutOfOrderness: 2 * time.Second},
		New: func(_ context.Context, env *dataflow.Env) (dataflow.Source, error) {
			return &seqSource{splits: splits, rows: rows, rng: rand.New(rand.NewSource(seed + int64(env.Task))), at: map[dataflow.Split]*seqAt{}, fail: fail}, nil
		},
	}
}

// wantRows are the rows that pass the source.
func wantRows(splits int, rows int64) (good []string, bad int) {
	for s := range splits {
		for i := range rows {
			if i%97 == 96 {
				bad++
				continue
			}
			k, ts, n := seqRow(strconv.Itoa(s), i)
			good = append(good, fmt.Sprintf(`{"k":%d,"ts":"%s","n":%d}`, k, time.UnixMicro(ts).UTC().Format("2006-01-02T15:04:05.000000Z"), n))
		}
	}
	sort.Strings(good)
	return good, bad
}

func testLog(t *testing.T) *slog.Logger {
	t.Helper()
	if os.Getenv("FRAZIL_TEST_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func openStore(t *testing.T, dir string) *state.Store {
	t.Helper()
	s, err := state.Open(dir, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func diff(got, want []string) string {
	if slices.Equal(got, want) {
		return ""
	}
	count := map[string]int{}
	for _, r := range want {
		count[r]--
	}
	for _, r := range got {
		count[r]++
	}
	var out []string
	for r, n := range count {
		if n != 0 {
			out = append(out, fmt.Sprintf("%+d %s", n, r))
		}
	}
	sort.Strings(out)
	return fmt.Sprintf("%d rows, want %d; %d differ:\n%s", len(got), len(want), len(out), strings.Join(out[:min(len(out), 10)], "\n"))
}

var errInjected = errors.New("injected")

// countOp counts rows per key in event-time buckets of a second, emitting a
// bucket when the watermark passes it: a small keyed operator with state.
type countOp struct {
	env  *dataflow.Env
	open map[int64]map[int64]int64
}

var countSchema = arrow.NewSchema(append([]arrow.Field{
	{Name: "k", Type: dataflow.TypeInt64}, {Name: "bucket", Type: dataflow.TypeInt64}, {Name: "count", Type: dataflow.TypeInt64},
}, dataflow.TimeFields()...), nil)

var lateSchema = arrow.NewSchema(append(seqSchema.Fields(), dataflow.SystemFields(true)...), nil)

var countExchange = arrow.NewSchema([]arrow.Field{
	{Name: "k", Type: dataflow.TypeInt64}, {Name: "bucket", Type: dataflow.TypeInt64}, {Name: "h", Type: arrow.PrimitiveTypes.Uint64},
}, nil)

type countBefore struct{ env *dataflow.Env }

func (o *countBefore) Close() error { return nil }
func (o *countBefore) Process(ctx context.Context, _ int, b arrow.RecordBatch, out dataflow.Emitter) error {
	sb := array.NewRecordBuilder(memory.DefaultAllocator, countExchange)
	defer sb.Release()
	var late []int32
	times := b.Column(dataflow.Column(b.Schema(), dataflow.SysTime)).(*array.Int64)
	stamps := b.Column(dataflow.Column(b.Schema(), dataflow.SysStamp)).(*array.Int64)
	for i := range int(b.NumRows()) {
		bucket := times.Value(i) / 1_000_000
		if dataflow.Time((bucket+1)*1_000_000) <= max(dataflow.Time(stamps.Value(i)), o.env.Closed.Get()) {
			late = append(late, int32(i))
			continue
		}
		k := b.Column(0).(*array.Int64).Value(i)
		sb.Field(0).(*array.Int64Builder).Append(k)
		sb.Field(1).(*array.Int64Builder).Append(bucket)
		sb.Field(2).(*array.Uint64Builder).Append(uint64(k) * 0x9E3779B97F4A7C15)
	}
	o.env.Fates.Late.Add(int64(len(late)))
	o.env.Fates.Absorbed.Add(b.NumRows() - int64(len(late)))
	l, err := dataflow.TakeBatch(memory.DefaultAllocator, b, late)
	if err != nil {
		return err
	}
	if err := out.Emit(ctx, 1, l); err != nil {
		return err
	}
	return out.Emit(ctx, 0, sb.NewRecordBatch())
}

func newCountOp(_ context.Context, env *dataflow.Env) (dataflow.Operator, error) {
	o := &countOp{env: env, open: map[int64]map[int64]int64{}}
	for g := env.Groups.Lo; g < env.Groups.Hi; g++ {
		err := env.State.Scan(g, nil, nil, func(_, v []byte) error {
			var x [3]int64
			if err := json.Unmarshal(v, &x); err != nil {
				return err
			}
			o.add(x[0], x[1], x[2])
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return o, nil
}

func (o *countOp) add(bucket, k, n int64) {
	if o.open[bucket] == nil {
		o.open[bucket] = map[int64]int64{}
	}
	o.open[bucket][k] += n
}

func (o *countOp) Close() error { return nil }
func (o *countOp) Process(_ context.Context, _ int, b arrow.RecordBatch, _ dataflow.Emitter) error {
	for i := range int(b.NumRows()) {
		o.add(b.Column(1).(*array.Int64).Value(i), b.Column(0).(*array.Int64).Value(i), 1)
	}
	return nil
}

func (o *countOp) key(bucket, k int64) (int, []byte) {
	return state.GroupOf(uint64(k) * 0x9E3779B97F4A7C15), []byte(fmt.Sprintf("%d/%d", bucket, k))
}

func (o *countOp) OnBarrier(context.Context, dataflow.Epoch, dataflow.Emitter) error {
	for bucket, keys := range o.open {
		for k, n := range keys {
			g, key := o.key(bucket, k)
			v, _ := json.Marshal([3]int64{bucket, k, n})
			if err := o.env.State.Set(g, key, v); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *countOp) OnWatermark(ctx context.Context, wm dataflow.Time, out dataflow.Emitter) error {
	b := array.NewRecordBuilder(memory.DefaultAllocator, countSchema)
	defer b.Release()
	for bucket, keys := range o.open {
		end := dataflow.Time((bucket + 1) * 1_000_000)
		if end > wm {
			continue
		}
		for k, n := range keys {
			for f, v := range []int64{k, bucket, n, int64(end) - 1, int64(end) - 1} {
				b.Field(f).(*array.Int64Builder).Append(v)
			}
			g, key := o.key(bucket, k)
			if err := o.env.State.Delete(g, key); err != nil {
				return err
			}
		}
		if wm == dataflow.MaxTime {
			o.env.Closed.Raise(end)
		}
		delete(o.open, bucket)
	}
	rec := b.NewRecordBatch()
	o.env.Fates.Created.Add(rec.NumRows())
	return out.Emit(ctx, 0, rec)
}

func countStep(input PortRef) *Operator {
	return &Operator{
		Name: "count", Component: "count", Inputs: []PortRef{input},
		Plan: component.OperatorPlan{
			Ports: []dataflow.Port{{Stream: dataflow.Stream{Schema: countSchema}}, {Name: "late", Stream: dataflow.Stream{Schema: lateSchema}}},
			Keyed: true, Exchange: countExchange, RouteBy: "h", Fingerprint: "c1",
		},
		New:       newCountOp,
		NewBefore: func(_ context.Context, env *dataflow.Env) (dataflow.Operator, error) { return &countBefore{env}, nil },
	}
}

func sortedCopy(rows []string) []string {
	out := slices.Clone(rows)
	sort.Strings(out)
	return out
}

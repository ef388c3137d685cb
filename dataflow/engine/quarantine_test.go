package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
	"frazil/dataflow/codec"
	"frazil/dataflow/component"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// lineSource gives payloads computed from split and position, decoded by a JSON
// decoder; every seventh cannot be. It reads up to limit, which the test raises.
type lineSource struct {
	limit *atomic.Int64
	env   *dataflow.Env
	dec   dataflow.Decoder
	bad   *dataflow.BadRows
	rng   *rand.Rand
	at    map[dataflow.Split]*seqAt
	order []dataflow.Split
}

// linePayload is record i of a split, and what mends it.
func linePayload(split string, i int64) (payload, mended string) {
	k, ts, n := seqRow(split, i)
	good := fmt.Sprintf(`{"k":%d,"ts":%d,"n":%d}`, k, ts, n)
	if i%7 == 6 {
		return strings.Replace(good, `"n":`, `"n":"", "m":`, 1), good
	}
	return good, good
}

func (s *lineSource) Discover(context.Context) ([]dataflow.Split, error) {
	return []dataflow.Split{"0", "1"}, nil
}

func (s *lineSource) Start(_ context.Context, splits []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	out := map[dataflow.Split]dataflow.Position{}
	for _, sp := range splits {
		out[sp] = seqPos(0)
	}
	return out, nil
}

func (s *lineSource) Begin(ctx context.Context, splits []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	return s.Start(ctx, splits)
}

func (s *lineSource) Ends(_ context.Context, splits []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	out := map[dataflow.Split]dataflow.Position{}
	for _, sp := range splits {
		out[sp] = seqPos(s.limit.Load())
	}
	return out, nil
}

func (s *lineSource) Assign(ctx context.Context, splits []dataflow.SplitAt) error {
	for _, a := range splits {
		if a.Split != "0" && a.Split != "1" {
			return fmt.Errorf("split %q was never listed", a.Split)
		}
		i, err := strconv.ParseInt(string(a.From), 10, 64)
		if err != nil {
			return err
		}
		if s.at[a.Split] == nil {
			s.order = append(s.order, a.Split)
		}
		at := &seqAt{next: i, until: -1}
		if a.Until != nil {
			at.until, _ = strconv.ParseInt(string(a.Until), 10, 64)
		}
		s.at[a.Split] = at
	}
	return nil
}

func (s *lineSource) Unassign(context.Context, []dataflow.Split) error { return nil }

func (s *lineSource) Close() error {
	s.dec.(*codec.JSON).Release()
	s.bad.Release()
	return nil
}

func (s *lineSource) Poll(ctx context.Context, max dataflow.PollLimit) (dataflow.Polled, error) {
	s.rng.Shuffle(len(s.order), func(i, j int) { s.order[i], s.order[j] = s.order[j], s.order[i] })
	for _, sp := range s.order {
		at := s.at[sp]
		end := s.limit.Load()
		if at.until >= 0 {
			end = min(end, at.until)
		}
		if at.next >= end {
			if at.told {
				continue
			}
			at.told = true
			return dataflow.Polled{Split: sp, Next: seqPos(at.next), CaughtUp: true, AtUntil: at.next == at.until}, nil
		}
		n := min(end-at.next, 1+s.rng.Int63n(12))
		pos := array.NewInt64Builder(memory.DefaultAllocator)
		for i := at.next; i < at.next+n; i++ {
			p, _ := linePayload(string(sp), i)
			if bad := s.dec.Append([]byte(p)); bad != nil {
				s.bad.AddRaw(bad, sp, strconv.FormatInt(i, 10), []byte(p))
				continue
			}
			pos.Append(i)
		}
		at.next += n
		p := dataflow.Polled{Split: sp, Bad: s.bad.Flush(), Next: seqPos(at.next), AtUntil: at.next == at.until}
		if pos.Len() > 0 {
			cols := append(s.dec.Flush(), pos.NewArray())
			p.Batch = array.NewRecordBatch(arrow.NewSchema(append(lineSchema(), arrow.Field{Name: dataflow.SysPos, Type: dataflow.TypeInt64}), nil), cols, int64(cols[0].Len()))
			releaseAll(cols)
		}
		pos.Release()
		return p, nil
	}
	t := time.NewTimer(min(time.Duration(max.WaitMicros)*time.Microsecond, time.Millisecond))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return dataflow.Polled{}, ctx.Err()
	case <-t.C:
		for _, at := range s.at {
			at.told = at.told && at.next >= s.limit.Load()
		}
		return dataflow.Polled{}, nil
	}
}

func lineConfig(unit string, required ...string) codec.Config {
	c := codec.DefaultJSONConfig()
	c.Schema = component.NamedTypes{{Name: "k", Type: "int64"}, {Name: "ts", Type: "timestamptz" + unit}, {Name: "n", Type: "int64"}}
	c.Required = required
	return codec.Config{JSON: &c}
}

func lineSchema() []arrow.Field {
	s, err := lineConfig("(us)", "k", "n").ArrowSchema()
	if err != nil {
		panic(err)
	}
	return s.Fields()
}

func lineStep(limit *atomic.Int64, seed int64) *Source {
	decoder := func() (dataflow.Decoder, error) {
		return lineConfig("(us)", "k", "n").New(memory.DefaultAllocator)
	}
	return &Source{
		Name: "src", Component: "lines", Schema: arrow.NewSchema(lineSchema(), nil),
		EventTime:     &EventTime{Column: "ts", OutOfOrderness: 2 * time.Second},
		NewDecoder:    decoder,
		NewRowDecoder: func() (dataflow.Decoder, error) { return lineConfig("").New(memory.DefaultAllocator) },
		New: func(_ context.Context, env *dataflow.Env) (dataflow.Source, error) {
			dec, err := decoder()
			return &lineSource{limit: limit, env: env, dec: dec, bad: dataflow.NewBadRows(env), rng: rand.New(rand.NewSource(seed + int64(env.Task))), at: map[dataflow.Split]*seqAt{}}, err
		},
	}
}

// lineGraph reads the lines into a table, and counts them in windows.
func lineGraph(limit *atomic.Int64, seed int64, rows, counts *memTarget) *Graph {
	return &Graph{
		Name: "p", Parallelism: 2, Sources: []*Source{lineStep(limit, seed)}, Operators: []*Operator{countStep(PortRef{"src", 0})},
		Sinks: []*Sink{rows.sink("rows", PortRef{"src", 0}), counts.sink("counts", PortRef{"count", 0})},
	}
}

func quarantined(t *testing.T, s *state.Store) map[string]Quarantined {
	t.Helper()
	out := map[string]Quarantined{}
	if err := ReadQuarantine(s, func(q Quarantined) error {
		out[q.ID] = q
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func mendedOf(t *testing.T, q Quarantined) string {
	t.Helper()
	i, err := strconv.ParseInt(q.Where, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	_, mended := linePayload(q.Split, i)
	return mended
}

// people do things to the quarantine, and remember what they were told.
type people struct {
	t         *testing.T
	rng       *rand.Rand
	sent      map[string]bool
	discarded map[string]bool
}

// deal does something to some of the rows, by resend and discard.
func (p *people) deal(rows map[string]Quarantined, resend func([]Resend) ([]Resent, error), discard func([]string) (int, error)) {
	var list []Resend
	var drop []string
	ids := slices.Sorted(maps.Keys(rows))
	for _, id := range ids {
		if rows[id].Step != "src" {
			continue // late rows of the count
		}
		switch p.rng.Intn(6) {
		case 0, 1:
			list = append(list, Resend{ID: id, Raw: []byte(mendedOf(p.t, rows[id]))})
		case 2:
			list = append(list, Resend{ID: id}) // still bad
		case 3:
			drop = append(drop, id)
		}
	}
	if len(list) > 0 {
		res, err := resend(list)
		for i, r := range res {
			switch {
			case r.Sent && list[i].Raw == nil:
				p.t.Fatalf("%s was sent as it was, and is bad: %+v", r.ID, r)
			case r.Sent && p.sent[r.ID]:
				p.t.Fatalf("%s was sent twice", r.ID)
			case r.Sent:
				p.sent[r.ID] = true
			case !r.Again && r.Reason == "":
				if err == nil {
					p.t.Fatalf("no word of %s", r.ID)
				}
			}
		}
	}
	if len(drop) > 0 {
		n, err := discard(drop)
		if err == nil && n > 0 {
			for _, id := range drop {
				p.discarded[id] = true
			}
		}
		if err != nil { // it may be, or not
			for _, id := range drop {
				p.discarded[id] = true
			}
		}
	}
}

// Rows that are sent again come into the table exactly once, whenever the process
// is killed, whatever becomes of the state: and no window is made twice by them.
func TestRowsThatAreSentAgainComeOnce(t *testing.T) {
	for seed := range int64(4) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { sentAgain(t, seed, seed%2 == 1) })
	}
}

func sentAgain(t *testing.T, seed int64, lose bool) {
	rng := rand.New(rand.NewSource(seed))
	base := t.TempDir()
	dir, walDir := filepath.Join(base, "state"), filepath.Join(base, "wal")
	limit := &atomic.Int64{}
	rows, counts := &memTarget{}, &memTarget{}
	who := &people{t: t, rng: rng, sent: map[string]bool{}, discarded: map[string]bool{}}
	const rounds, per = 10, 150
	for round := range rounds {
		if lose && round == rounds/2 {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		store := openStore(t, dir)
		g := lineGraph(limit, seed*100+int64(round), rows, counts)
		if rng.Intn(2) == 0 && !(lose && round == rounds/2) {
			q, err := OpenQuarantine(g, store, walDir)
			if err != nil {
				t.Fatal(err)
			}
			who.deal(quarantined(t, store), q.Resend, q.Discard)
			if err := q.Close(); err != nil {
				t.Fatal(err)
			}
		}
		limit.Store(int64(round+1) * per)
		last := round == rounds-1
		manifests := make(chan *checkpoint.Manifest, 10_000)
		job := NewJob(g, Options{Store: store, Every: 3 * time.Millisecond, WALDir: walDir, Log: testLog(t), UntilEnd: last,
			OnManifest: func(m *checkpoint.Manifest) { manifests <- m }})
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			_, err := job.Run(ctx)
			ended <- err
		}()
		if !last {
			for range 1 + rng.Intn(6) {
				job.Checkpoint()
				for tick := time.NewTicker(10 * time.Millisecond); ; {
					select {
					case <-tick.C:
						job.Checkpoint()
						continue
					case <-manifests:
					}
					tick.Stop()
					break
				}
				cctx, stop := context.WithTimeout(ctx, 10*time.Second)
				who.deal(quarantined(t, store), func(l []Resend) ([]Resent, error) { return job.Resend(cctx, l) },
					func(ids []string) (int, error) { return job.Discard(cctx, ids) })
				stop()
			}
			if rng.Intn(3) == 0 {
				job.Stop()
			} else {
				cancel()
			}
		}
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Fatalf("round %d: %v", round, err)
		}
		cancel()
		if last {
			checkSentAgain(t, who, job, store, rows, counts, per*rounds, lose)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func checkSentAgain(t *testing.T, who *people, job *Job, store *state.Store, rows, counts *memTarget, total int64, lose bool) {
	t.Helper()
	shown := func(p string) string {
		var r struct{ K, Ts, N int64 }
		if err := json.Unmarshal([]byte(p), &r); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf(`{"k":%d,"ts":"%s","n":%d}`, r.K, time.UnixMicro(r.Ts).UTC().Format("2006-01-02T15:04:05.000000Z"), r.N)
	}
	var want []string
	left := quarantined(t, store)
	sent := 0
	for _, split := range []string{"0", "1"} {
		for i := range total {
			p, mended := linePayload(split, i)
			id := fmt.Sprintf("src/%s/%d/src", split, i)
			_, kept := left[id]
			switch {
			case p == mended, who.sent[id]:
				want = append(want, shown(mended))
				if p != mended {
					sent++
				}
				if kept {
					t.Errorf("%s is in the quarantine still", id)
				}
			case who.discarded[id]:
				// It came back if the state was lost.
				if kept && !lose {
					t.Errorf("%s was discarded and is there", id)
				}
			case !kept:
				t.Errorf("%s is gone: neither sent nor discarded", id)
			}
		}
	}
	slices.Sort(want)
	if d := diff(rows.sorted(), want); d != "" {
		t.Error(d)
	}
	if sent < 20 || len(who.discarded) < 10 {
		t.Errorf("only %d rows were sent again, %d discarded", sent, len(who.discarded))
	}
	m := job.Manifest()
	if m.Quarantine == nil || m.Quarantine.Balance() != 0 || m.Quarantine.Rows != int64(len(left)) {
		t.Errorf("quarantine counts %+v, %d rows", m.Quarantine, len(left))
	}
	seen := map[string]bool{}
	var counted int64
	for _, r := range counts.sorted() {
		var c struct{ K, Bucket, Count int64 }
		if err := json.Unmarshal([]byte(r), &c); err != nil {
			t.Fatal(err)
		}
		key := fmt.Sprint(c.K, "/", c.Bucket)
		if seen[key] {
			t.Errorf("window %s was made twice", key)
		}
		seen[key] = true
		counted += c.Count
	}
	late := m.Ledger.Steps["count"].Late
	if counted+late != int64(len(want)) {
		t.Errorf("%d rows counted and %d late, of %d", counted, late, len(want))
	}
}

// A full quarantine stops reading; discarding rows makes it go on.
func TestAFullQuarantineGoesOnWhenRowsAreDiscarded(t *testing.T) {
	limit := &atomic.Int64{}
	limit.Store(2000)
	rows, counts := &memTarget{}, &memTarget{}
	r := start(t, lineGraph(limit, 1, rows, counts), Options{Every: 5 * time.Millisecond, Quarantine: QuarantineLimits{Bytes: 4 << 10}, WALDir: filepath.Join(t.TempDir(), "wal")})
	fills := 0
	for rounds := 0; ; rounds++ {
		var full, done bool
		r.until("the quarantine is full, or everything is read", func() bool {
			s := r.job.Status()
			full, done = s.Quarantine.Full, s.Read == 2*2000 && !s.Quarantine.Full && s.QueueRows == 0
			return full || done
		})
		if done {
			break
		}
		fills++
		if !slices.ContainsFunc(r.job.Health(), func(p Problem) bool { return p.Code == ProblemQuarantineFull }) && r.job.Status().Quarantine.Full {
			t.Fatalf("it is full, and health says %v", r.job.Health())
		}
		ids := slices.Collect(maps.Keys(quarantined(t, r.job.o.Store)))
		if len(ids) == 0 {
			r.job.Checkpoint()
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		_, err := r.job.Discard(ctx, ids)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
	}
	if q := r.job.Status().Quarantine; fills < 3 || q.Dropped > 0 || q.Balance() != 0 {
		t.Errorf("%d times full: %+v", fills, q)
	}
}

// When it is told to, it drops the oldest rows instead, and counts them.
func TestTheOldestRowsAreDroppedWhereThatIsWanted(t *testing.T) {
	limit := &atomic.Int64{}
	limit.Store(2000)
	rows, counts := &memTarget{}, &memTarget{}
	g := lineGraph(limit, 1, rows, counts)
	store := openStore(t, t.TempDir())
	defer store.Close()
	job := NewJob(g, Options{Store: store, Every: 5 * time.Millisecond, Log: testLog(t), UntilEnd: true, Quarantine: QuarantineLimits{Bytes: 8 << 10, DropOldest: true}})
	if _, err := job.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	q := job.Manifest().Quarantine
	left := quarantined(t, store)
	if q.Dropped == 0 || q.Balance() != 0 || q.Rows != int64(len(left)) || q.Bytes > 10<<10 || q.Kept < 570 {
		t.Errorf("%+v, %d rows", q, len(left))
	}
	var positions []int
	for _, row := range left {
		n, _ := strconv.Atoi(row.Where)
		if row.Step == "src" {
			positions = append(positions, n)
		}
	}
	slices.Sort(positions)
	if positions[len(positions)-1] < 1990 {
		t.Errorf("the newest are not there: %v", positions)
	}
}

// Old rows are dropped, also while nothing is read, and counted.
func TestRowsAreDroppedByAge(t *testing.T) {
	limit := &atomic.Int64{}
	limit.Store(100)
	r := start(t, lineGraph(limit, 1, &memTarget{}, &memTarget{}), Options{Every: 5 * time.Millisecond, Quarantine: QuarantineLimits{Age: time.Hour, AlertRows: 5}})
	alert := func() bool {
		return slices.ContainsFunc(r.job.Health(), func(p Problem) bool { return p.Code == ProblemQuarantined })
	}
	r.until("the bad rows are kept", func() bool {
		m := r.job.Manifest()
		return m != nil && m.Quarantine != nil && m.Quarantine.Rows >= 28
	})
	r.until("health is red", alert)
	r.ahead.Store(int64(2 * time.Hour))
	r.until("they are dropped", func() bool { return r.job.Manifest().Quarantine.Rows == 0 })
	if q := r.job.Manifest().Quarantine; q.Dropped != q.Kept || q.Balance() != 0 {
		t.Errorf("%+v", q)
	}
}

// A late row that has the columns of its source is sent again only by somebody who
// means it.
func TestARowOfAStepIsSentAgainByItsSource(t *testing.T) {
	limit := &atomic.Int64{}
	limit.Store(500)
	rows := &memTarget{}
	r := start(t, lineGraph(limit, 1, rows, &memTarget{}), Options{Every: 5 * time.Millisecond, WALDir: t.TempDir()})
	in := func(id string) bool {
		_, ok := quarantined(t, r.job.o.Store)[id]
		return ok
	}
	r.until("everything is read", func() bool { return r.job.Status().Read == 1000 && in("src/0/496/src") })
	_, mended := linePayload("0", 6)
	res, err := r.job.Resend(t.Context(), []Resend{{ID: "src/0/6/src", Raw: []byte(mended)}})
	if err != nil || !res[0].Sent {
		t.Fatalf("%+v %v", res, err)
	}
	// Its window was made long ago.
	late := "src/" + string(fixedSplit) + "/1/count"
	r.until("it is late", func() bool { return in(late) && !in("src/0/6/src") })
	if res, err = r.job.Resend(t.Context(), []Resend{{ID: late}}); err != nil || res[0].Sent || res[0].Reason != "at_source" {
		t.Fatalf("%+v %v", res, err)
	}
	if res, err = r.job.Resend(t.Context(), []Resend{{ID: late, AtSource: true}}); err != nil || !res[0].Sent {
		t.Fatalf("%+v %v", res, err)
	}
	again := "src/" + string(fixedSplit) + "/2/count"
	r.until("it is late once more", func() bool { return !in(late) && in(again) })
}

// Rows of a version that kept nothing but them are counted, and are the oldest.
func TestAQuarantineWithoutSummaryIsCounted(t *testing.T) {
	store := openStore(t, t.TempDir())
	defer store.Close()
	kv, err := store.KV(QuarantineStep, state.Groups{Hi: state.NumGroups})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"src/0/1/src", "src/0/2/src"} {
		val := fmt.Sprintf(`{"id":%q,"step":"src","port":"bad","reason":"mistyped","source":"src","split":"0","raw":"e30="}`, id)
		if err := kv.Set(groupOfID(id), []byte(id), []byte(val)); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Write([]*state.Delta{kv.Freeze()}, []byte(`{"version":1,"pipeline":"p"}`)); err != nil {
		t.Fatal(err)
	}
	kv, err = store.KV(QuarantineStep, state.Groups{Hi: state.NumGroups})
	if err != nil {
		t.Fatal(err)
	}
	q, err := newQuarantineTask(kv, QuarantineLimits{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if v := q.view.Load(); v.counts.Rows != 2 || v.counts.Kept != 2 || v.counts.Balance() != 0 || len(v.groups) != 1 || v.groups[0].Reason != "mistyped" {
		t.Fatalf("%+v", v)
	}
	if n, err := q.discard([]string{"src/0/2/src", "src/0/3/src"}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	list, _, err := q.store.oldest(nil, 10)
	if err != nil || len(list) != 1 || list[0].id != "src/0/1/src" || !list[0].at.IsZero() {
		t.Fatalf("%v %v", list, err)
	}
}

// What is kept twice under one id is kept twice.
func TestRowsOfOneIDAreAllKept(t *testing.T) {
	store := openStore(t, t.TempDir())
	defer store.Close()
	kv, err := store.KV(QuarantineStep, state.Groups{Hi: state.NumGroups})
	if err != nil {
		t.Fatal(err)
	}
	s, err := loadQuarantine(kv)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := s.put(Quarantined{ID: "a/0/1/b", Step: "b", Port: "bad", Reason: "r", Detail: strconv.Itoa(i), At: time.UnixMicro(int64(i))}); err != nil {
			t.Fatal(err)
		}
	}
	for i, id := range []string{"a/0/1/b", "a/0/1/b#2", "a/0/1/b#3"} {
		if row, _, err := s.get(id); err != nil || row == nil || row.Detail != strconv.Itoa(i) {
			t.Errorf("%s: %+v %v", id, row, err)
		}
	}
}

// A row as it is shown can be decoded again.
func TestRowsAreReadAgainAsTheyWereShown(t *testing.T) {
	schema := arrow.NewSchema([]arrow.Field{{Name: "b", Type: dataflow.TypeBinary, Nullable: true}, {Name: "n", Type: dataflow.TypeInt64, Nullable: true}}, nil)
	got, err := rowPayload(json.RawMessage(`{"b":"00ff","n":1}`), schema)
	if err != nil || !bytes.Equal(got, []byte(`{"b":"AP8=","n":1}`)) {
		t.Errorf("%s %v", got, err)
	}
	nested := arrow.NewSchema([]arrow.Field{{Name: "h", Type: arrow.ListOf(dataflow.TypeBinary)}}, nil)
	if _, err := rowPayload(json.RawMessage(`{"h":["00"]}`), nested); err == nil {
		t.Error("binary values in lists were taken")
	}
}

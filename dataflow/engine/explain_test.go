package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"frazil/dataflow"
)

// Explain implements dataflow.Explainer: the key is the number, the windows are
// the buckets.
func (o *countOp) Explain(key string, at dataflow.Time) (dataflow.Explanation, error) {
	k, err := strconv.ParseInt(key, 10, 64)
	if err != nil {
		return dataflow.Explanation{}, fmt.Errorf("key %q: expected a number", key)
	}
	g, _ := o.key(0, k)
	bucket := int64(at) / 1_000_000
	w := dataflow.WindowState{Start: dataflow.Time(bucket * 1_000_000), End: dataflow.Time((bucket + 1) * 1_000_000)}
	w.Due = w.End
	if n := o.open[bucket][k]; n > 0 {
		w.Holds = json.RawMessage(fmt.Sprintf(`{"count":%d}`, n))
	}
	return dataflow.Explanation{
		Key: json.RawMessage(fmt.Sprintf(`{"k":%d}`, k)), Mine: g >= o.env.Groups.Lo && g < o.env.Groups.Hi, Windows: []dataflow.WindowState{w},
	}, nil
}

// liveJob is a job under way with a clock of the test's.
type liveJob struct {
	t     *testing.T
	job   *Job
	ahead atomic.Int64 // of the clock, in nanoseconds
	ended chan error
}

func start(t *testing.T, g *Graph, o Options) *liveJob {
	t.Helper()
	r := &liveJob{t: t, ended: make(chan error, 1)}
	o.Store, o.Log = openStore(t, t.TempDir()), testLog(t)
	o.Now = func() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }
	r.job = NewJob(g, o)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, err := r.job.Run(ctx)
		r.ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-r.ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := o.Store.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// until waits for something to become true.
func (r *liveJob) until(what string, ok func() bool) {
	r.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for range 10_000 {
		if ok() {
			return
		}
		<-tick.C
	}
	r.t.Fatalf("it never came to this: %s; splits %+v; health %v", what, r.job.Splits(), r.job.Health())
}

func (r *liveJob) explain(key int, at dataflow.Time) *WindowExplanation {
	r.t.Helper()
	e, err := r.job.ExplainWindow(r.t.Context(), "count", fmt.Sprint(key), at)
	if err != nil {
		r.t.Fatal(err)
	}
	return e
}

// I4: who holds a window open, since when, with which row, and what lets go. Split
// 1 has 40 rows, two seconds, and nothing more; the others go on.
func TestAWindowIsExplained(t *testing.T) {
	const short = 40
	src := unevenStep(3, 2000, 1, 0, map[dataflow.Split]int64{"1": short}, newDriftSeen(3))
	src.Bounded = false
	src.EventTime.IdleAfter = time.Hour
	target := &memTarget{}
	g := &Graph{Name: "p", Parallelism: 2, Sources: []*Source{src}, Operators: []*Operator{countStep(PortRef{"src", 0})}, Sinks: []*Sink{target.sink("out", PortRef{"count", 0})}}
	r := start(t, g, Options{Every: 20 * time.Millisecond})
	k, top := int64(0), int64(0)
	topAt := int64(-1)
	for i := range int64(short) {
		if _, ts, _ := seqRow("1", i); ts > top {
			top, topAt = ts, i
			k = i
		}
	}
	wm := dataflow.Time(top).Sub(2 * time.Second)
	r.until("all is read", func() bool {
		n := 0
		for _, sp := range r.job.Splits()["src"] {
			if sp.State == SplitCaughtUp {
				n++
			}
		}
		return n == 3 && r.job.Status().Steps["count"].Watermark == wm
	})
	_, first, _ := seqRow("0", 500)
	e := r.explain(3, dataflow.Time(first))
	if e.Watermark != Instant(wm) || e.Greatest < Instant(first) || string(e.Key) != `{"k":3}` || len(e.Windows) != 1 {
		t.Fatalf("%+v", e)
	}
	w := e.Windows[0]
	if w.State != WindowOpen || w.Holds == nil || w.Due <= e.Watermark {
		t.Errorf("window %+v", w)
	}
	if len(e.Holds) != 1 || e.OnTheWay {
		t.Fatalf("held by %+v", e.Holds)
	}
	h := e.Holds[0]
	if h.Source != "src" || h.Split != "1" || h.State != SplitCaughtUp || h.Watermark != Instant(wm) || h.MaxTime != Instant(top) || h.Rows != short {
		t.Errorf("held by %+v", h)
	}
	if h.Needs != Instant(dataflow.Time(w.Due).Add(2*time.Second)) {
		t.Errorf("needs %s for a window that closes at %s", h.Needs, w.Due)
	}
	key, _, n := seqRow("1", k)
	row := fmt.Sprintf(`{"k":%d,"ts":"%s","n":%d}`, key, dataflow.Time(top), n)
	if h.Top == nil || h.Top.Where != fmt.Sprint(topAt) || string(h.Top.Row) != row || h.Top.Time != Instant(top) {
		t.Errorf("the row that set the greatest time: %+v, want %s", h.Top, row)
	}
	text := strings.Join(h.Text(e.Now), "\n")
	for _, want := range []string{"split 1: caught up", row, "a row with event time " + h.Needs.String() + " or later in split 1", "idle_after: it is left out in "} {
		if !strings.Contains(text, want) {
			t.Errorf("the text does not say %q:\n%s", want, text)
		}
	}
	// A window that has closed, and one that nobody has come to.
	_, old, _ := seqRow("1", 0)
	if w := r.explain(3, dataflow.Time(old-5_000_000)).Windows[0]; w.State != WindowClosed {
		t.Errorf("an old window is %+v", w)
	}
	e = r.explain(3, dataflow.Time(e.Greatest)+3_600_000_000)
	if w := e.Windows[0]; w.State != WindowNotBegun || len(e.Holds) != 3 || e.Holds[0].Split != "1" {
		t.Errorf("a window to come is %+v, held by %+v", w, e.Holds)
	}
	// What cannot be answered is said.
	for _, c := range [][2]string{{"src", "a source"}, {"out", "a sink"}, {"nobody", "no step of the pipeline"}} {
		if _, err := r.job.ExplainWindow(t.Context(), c[0], "1", 0); !errors.Is(err, ErrNoWindows) || !strings.Contains(err.Error(), c[1]) || !strings.Contains(err.Error(), "steps with windows: count") {
			t.Errorf("%s: %v", c[0], err)
		}
	}
	if _, err := r.job.ExplainWindow(t.Context(), "count", "x", 0); err == nil || !strings.Contains(err.Error(), "expected a number") {
		t.Errorf("a key that cannot be read: %v", err)
	}
}

// I2: a watermark that one split holds back while others go on turns the health
// red after a while, and not before.
func TestAHeldWatermarkTurnsTheHealthRed(t *testing.T) {
	// The others go on once split 1 has come to its end: they must be the last to
	// move.
	var gate atomic.Bool
	src := unevenStep(3, 2000, 1, 0, map[dataflow.Split]int64{"1": 40}, newDriftSeen(3))
	src.Bounded = false
	open := src.New
	src.New = func(ctx context.Context, env *dataflow.Env) (dataflow.Source, error) {
		s, err := open(ctx, env)
		s.(*unevenSource).held = func(sp dataflow.Split) bool { return sp != "1" && !gate.Load() }
		return s, err
	}
	target := &memTarget{}
	g := &Graph{Name: "p", Parallelism: 2, Sources: []*Source{src}, Operators: []*Operator{countStep(PortRef{"src", 0})}, Sinks: []*Sink{target.sink("out", PortRef{"count", 0})}}
	r := start(t, g, Options{Every: 20 * time.Millisecond})
	r.until("split 1 is read", func() bool {
		return slices.ContainsFunc(r.job.Splits()["src"], func(s SplitStatus) bool { return s.Split == "1" && s.State == SplitCaughtUp })
	})
	gate.Store(true)
	r.until("all is read", func() bool { return r.job.Status().Read == 4040 })
	if h := r.job.Health(); len(h) > 0 {
		t.Errorf("red at once: %v", h)
	}
	r.ahead.Store(int64(2 * time.Minute))
	r.until("red", func() bool {
		h := r.job.Health()
		return len(h) == 1 && strings.HasPrefix(h[0].Message, "the watermark of source src is held back: source src, split 1: caught up") &&
			strings.Contains(h[0].Message, "idle_after, which is off")
	})
}

// I2: a source that stands still while another one of the same step goes on.
func TestASourceThatHoldsAStepBackTurnsTheHealthRed(t *testing.T) {
	// The fast one goes on once the slow one has come to its end: it must be the
	// last to move.
	gate := make(chan struct{})
	slow, fast := seqStep(1, 50, 1, nil), seqStep(1, 4000, 2, func() error { <-gate; return nil })
	fast.Name = "fast"
	end := dataflow.MinTime
	for i := range int64(50) {
		_, ts, _ := seqRow("0", i)
		end = max(end, dataflow.Time(ts).Sub(2*time.Second))
	}
	for _, src := range []*Source{slow, fast} {
		src.Bounded = false
		open := src.New
		src.New = func(ctx context.Context, env *dataflow.Env) (dataflow.Source, error) {
			s, err := open(ctx, env)
			s.(*seqSource).open = true
			return s, err
		}
	}
	target := &memTarget{}
	count := countStep(PortRef{"src", 0})
	count.Inputs = append(count.Inputs, PortRef{"fast", 0})
	g := &Graph{Name: "p", Parallelism: 2, Sources: []*Source{slow, fast}, Operators: []*Operator{count}, Sinks: []*Sink{target.sink("out", PortRef{"count", 0})}}
	r := start(t, g, Options{Every: 20 * time.Millisecond})
	r.until("the slow one is read", func() bool { return r.job.Status().Sources["src"].Watermark == end })
	close(gate)
	r.until("all is read", func() bool {
		s := r.job.Status()
		return s.Read == 4050 && s.Sources["fast"].Watermark > s.Sources["src"].Watermark
	})
	r.ahead.Store(int64(2 * time.Minute))
	r.until("red", func() bool {
		h := r.job.Health()
		return len(h) == 1 && strings.HasPrefix(h[0].Message, "the watermark of step count is held back: source src, split 0: caught up")
	})
}

// A question is answered although every input of the task is blocked by a
// barrier, and not asked of a run that is over.
func TestATaskAnswersBetweenTwoMessages(t *testing.T) {
	in := newInbox(1<<20, 1<<10)
	a, b := in.addEdge(), in.addEdge()
	seen := make(chan string, 4)
	r := &noting{seen: seen}
	done := make(chan error)
	go func() { done <- receive(context.Background(), in, r) }()
	if err := in.put(a, message{kind: msgBarrier, bar: barrier{epoch: 1}}); err != nil {
		t.Fatal(err)
	}
	if err := in.ask(func() { seen <- "asked" }); err != nil {
		t.Fatal(err)
	}
	if got := <-seen; got != "asked" {
		t.Errorf("first %s", got)
	}
	if err := in.put(b, message{kind: msgBarrier, bar: barrier{epoch: 1}}); err != nil {
		t.Fatal(err)
	}
	if got := <-seen; got != "barrier" {
		t.Errorf("then %s", got)
	}
	in.stop()
	if err := <-done; !errors.Is(err, errStopped) {
		t.Error(err)
	}
	if err := in.ask(func() {}); !errors.Is(err, errStopped) {
		t.Errorf("asked of a run that is over: %v", err)
	}
}

type noting struct{ seen chan string }

func (n *noting) batch(context.Context, int, message) error      { return nil }
func (n *noting) watermark(context.Context, dataflow.Time) error { return nil }
func (n *noting) end(context.Context) error                      { return nil }
func (n *noting) barrier(context.Context, barrier, dataflow.Time) error {
	n.seen <- "barrier"
	return nil
}

var _ dataflow.Explainer = (*countOp)(nil)

// A preview acknowledges nothing, whatever its epochs.
func TestAPreviewAcknowledgesNothing(t *testing.T) {
	target := &memTarget{}
	src := seqStep(2, 1000, 1, nil)
	open := src.New
	src.New = func(ctx context.Context, env *dataflow.Env) (dataflow.Source, error) {
		s, err := open(ctx, env)
		return &ackSource{s.(*seqSource), func(e dataflow.Epoch, _ map[dataflow.Split]dataflow.Position) {
			t.Errorf("%s was acknowledged", e)
		}}, err
	}
	g := &Graph{Name: "p", Parallelism: 1, Sources: []*Source{src}, Sinks: []*Sink{target.sink("out", PortRef{"src", 0})}}
	res, err := runJob(t, g, t.TempDir(), func(o *Options) { o.Preview = true })
	if err != nil || res.Manifest.Epoch == 0 {
		t.Fatalf("%+v, %v", res, err)
	}
}

package engine

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"frazil/dataflow"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"go.opentelemetry.io/otel"
)

// ackedSource remembers what it was told is safe.
type ackedSource struct {
	dataflow.Source
	dataflow.Discoverer
	dataflow.Starter
	acks *acks
}

// acks is the last epoch that a source was told is safe, and whether that had any
// row of it.
type acks struct {
	epoch atomic.Int64
	rows  atomic.Bool
}

func (a ackedSource) Ack(_ context.Context, e dataflow.Epoch, upTo map[dataflow.Split]dataflow.Position) error {
	a.acks.epoch.Store(int64(e))
	for _, p := range upTo {
		if p.Compare(seqPos(0)) > 0 {
			a.acks.rows.Store(true)
		}
	}
	return nil
}

// slowSource gives one batch an epoch.
type slowSource struct {
	ackedSource
	epoch func() dataflow.Epoch
	next  dataflow.Epoch
}

func (s *slowSource) Poll(ctx context.Context, limit dataflow.PollLimit) (dataflow.Polled, error) {
	if s.epoch() < s.next {
		<-time.After(100 * time.Microsecond)
		return dataflow.Polled{}, ctx.Err()
	}
	at := s.epoch()
	p, err := s.Source.Poll(ctx, limit)
	if p.Batch != nil {
		s.next = at + 1 // Without rows there is no epoch to wait for.
	}
	return p, err
}

func slow(s *Source, epoch func() dataflow.Epoch) {
	open := s.New
	s.New = func(ctx context.Context, env *dataflow.Env) (dataflow.Source, error) {
		src, err := open(ctx, env)
		if err != nil {
			return nil, err
		}
		return &slowSource{ackedSource: src.(ackedSource), epoch: epoch}, nil
	}
}

func withAcks(s *Source) (*Source, *acks) {
	acks := &acks{}
	open := s.New
	s.New = func(ctx context.Context, env *dataflow.Env) (dataflow.Source, error) {
		src, err := open(ctx, env)
		if err != nil {
			return nil, err
		}
		return ackedSource{src, src.(dataflow.Discoverer), src.(dataflow.Starter), acks}, nil
	}
	return s, acks
}

// B4: a target that takes no commits holds up the source that feeds it, and no
// other: those are read, committed and acknowledged to their end meanwhile.
func TestATargetThatIsStuckHoldsUpOnlyTheSourceThatFeedsIt(t *testing.T) {
	const rows = 20_000
	var r *liveJob
	gate := make(chan struct{})
	stuck := &memTarget{fail: func() error { <-gate; return nil }}
	free := &memTarget{}
	one, stuckAcks := withAcks(seqStep(1, 4*rows, 1, nil))
	two, freeAcks := withAcks(seqStep(2, rows, 2, nil))
	one.Name, two.Name = "stuck", "free"
	g := &Graph{
		Name: "p", Parallelism: 2, Sources: []*Source{one, two},
		Sinks: []*Sink{stuck.sink("a", PortRef{"stuck", 0}), free.sink("b", PortRef{"free", 0})},
	}
	good, _ := wantRows(2, rows)
	all, _ := wantRows(1, 4*rows)
	// The stuck source gives a batch an epoch, so that it does not come to its end
	// before it is held.
	slow(one, func() dataflow.Epoch { return r.job.Status().Epoch })
	r = start(t, g, Options{Every: time.Millisecond})
	r.until("the source of the stuck target is held", func() bool { return r.job.Status().Sources["stuck"].Held })
	r.until("everything of the other source is committed and acknowledged", func() bool {
		s := r.job.Status()
		return s.Targets["b"].Committed == int64(len(good)) && freeAcks.epoch.Load() == int64(s.Epoch)
	})
	s := r.job.Status()
	if !s.Sources["stuck"].Held || s.Sources["free"].Held {
		t.Errorf("held: stuck %v, free %v", s.Sources["stuck"].Held, s.Sources["free"].Held)
	}
	if s.Sources["stuck"].Read >= 4*rows {
		t.Error("the source of the stuck target was read to its end")
	}
	if w := s.Targets["a"].Waiting; w < 6 || w > 8 {
		t.Errorf("%d commits wait for the stuck target", w)
	}
	if stuckAcks.rows.Load() {
		t.Error("the source of the stuck target was told that rows of it are safe")
	}
	codes := map[string]bool{}
	for _, p := range r.job.Health() {
		codes[p.Step+" "+p.Code] = true
	}
	if !codes["stuck source_held"] || !codes["a commits_wait"] || codes["free source_held"] {
		t.Errorf("health: %v", r.job.Health())
	}
	for _, st := range r.job.Streams() {
		if want := map[string]string{"stuck": StreamHeld, "free": StreamOK}[st.Name]; st.Status != want {
			t.Errorf("stream %s is %s, want %s", st.Name, st.Status, want)
		}
	}
	close(gate)
	r.until("all is committed", func() bool {
		s := r.job.Status()
		return s.Targets["a"].Committed == int64(len(all)) && stuckAcks.epoch.Load() == int64(s.Epoch)
	})
	if d := diff(stuck.sorted(), all); d != "" {
		t.Errorf("stuck: %s", d)
	}
	if d := diff(free.sorted(), good); d != "" {
		t.Errorf("free: %s", d)
	}
}

// I1: an epoch is a span with its parts, and a commit is one below its epoch.
func TestEpochsAndCommitsAreTraced(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	old := otel.GetTracerProvider()
	otel.SetTracerProvider(provider)
	defer otel.SetTracerProvider(old)
	target := &memTarget{}
	g := &Graph{Name: "p", Parallelism: 1, Sources: []*Source{seqStep(1, 100, 1, nil)}, Sinks: []*Sink{target.sink("out", PortRef{"src", 0})}}
	if _, err := runJob(t, g, t.TempDir(), nil); err != nil {
		t.Fatal(err)
	}
	epochs, below := map[string]bool{}, map[string]int{}
	for _, s := range spans.GetSpans() {
		if s.Name == "epoch" {
			epochs[s.SpanContext.SpanID().String()] = true
		}
	}
	for _, s := range spans.GetSpans() {
		if epochs[s.Parent.SpanID().String()] {
			below[s.Name]++
		}
		if s.EndTime.Before(s.StartTime) {
			t.Errorf("span %s ends before it starts", s.Name)
		}
	}
	for _, part := range []string{"align", "stage", "write"} {
		if below[part] != len(epochs) {
			t.Errorf("%d spans %q below %d epochs", below[part], part, len(epochs))
		}
	}
	if len(epochs) == 0 || below["commit"] == 0 {
		t.Errorf("%d epochs, %d commits below them", len(epochs), below["commit"])
	}
}

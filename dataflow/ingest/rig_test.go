package ingest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/codec"
	"frazil/dataflow/component"
	"frazil/state/wal"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

var testTypes = component.NamedTypes{{Name: "n", Type: "int64"}, {Name: "s", Type: "string"}}

// rig is a stream on a file system of its own.
type rig struct {
	t     testing.TB
	dir   string
	fs    wal.FS
	types component.NamedTypes
	cfg   Config
	meta  []arrow.Field
	alloc *memory.CheckedAllocator
	s     *Stream

	mu  sync.Mutex
	now time.Time
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, dir: t.TempDir(), types: testTypes, cfg: DefaultConfig(), alloc: memory.NewCheckedAllocator(memory.NewGoAllocator()), now: time.Unix(1_700_000_000, 0)}
	t.Cleanup(func() {
		if !t.Failed() {
			r.alloc.AssertSize(t, 0)
		}
	})
	return r
}

func (r *rig) clock() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *rig) advance(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

func (r *rig) env() *dataflow.Env {
	return &dataflow.Env{
		Step: "in", WALDir: r.dir, Now: r.clock, Alloc: r.alloc, Memory: 16 << 20,
		NewDecoder: func() (dataflow.Decoder, error) {
			return codec.NewJSON(codec.JSONConfig{Schema: r.types}, r.alloc)
		},
	}
}

func (r *rig) tryOpen() error {
	env := r.env()
	dec, err := env.NewDecoder()
	must(r.t, err)
	env.FS = r.fs
	r.s, err = Open(env, r.cfg, Spec{Decoded: dec.Schema(), Meta: r.meta})
	return err
}

func (r *rig) open() *rig {
	r.t.Helper()
	must(r.t, r.tryOpen())
	return r
}

func (r *rig) close() {
	r.t.Helper()
	must(r.t, r.s.Close())
}

func (r *rig) reopen() {
	r.t.Helper()
	r.close()
	r.open()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type answer struct {
	res Result
	err error
}

// post submits a request; the answer comes later.
func (r *rig) post(req *Request) <-chan answer {
	done := make(chan answer, 1)
	req.Done = func(res Result, err error) { done <- answer{res, err} }
	if err := r.s.Submit(req); err != nil {
		done <- answer{Result{}, err}
	}
	return done
}

// send submits a request and waits.
func (r *rig) send(req *Request) (Result, error) {
	r.t.Helper()
	select {
	case a := <-r.post(req):
		return a.res, a.err
	case <-time.After(30 * time.Second):
		r.t.Fatal("no answer")
		return Result{}, nil
	}
}

func (r *rig) accept(req *Request) Result {
	r.t.Helper()
	res, err := r.send(req)
	must(r.t, err)
	return res
}

func record(n int) []byte { return fmt.Appendf(nil, `{"n": %d, "s": "text %d"}`, n, n) }

func records(from, to int) (out [][]byte) {
	for n := from; n < to; n++ {
		out = append(out, record(n))
	}
	return out
}

// reader polls a source as the engine does.
type reader struct {
	r    *rig
	src  dataflow.Source
	next dataflow.Position
}

func (r *rig) reader(from dataflow.Position) *reader {
	r.t.Helper()
	x := &reader{r: r, src: r.s.Source(r.env()), next: from}
	must(r.t, x.src.Assign(r.t.Context(), []dataflow.SplitAt{{Split: Split, From: from}}))
	return x
}

// rows reads until everything durable was read: rows as "seq n", bad ones as "bad
// raw".
func (x *reader) rows() (out []string) {
	t := x.r.t
	t.Helper()
	for {
		p, err := x.src.Poll(t.Context(), dataflow.PollLimit{Rows: 1000, Bytes: 1 << 20, WaitMicros: 1})
		must(t, err)
		if p.Split == "" {
			if end := position(x.r.s.log.Next()); x.next == nil || x.next.Compare(end) < 0 {
				continue
			}
			return out
		}
		x.next = p.Next
		if p.Bad != nil {
			raw := p.Bad.Column(dataflow.Column(p.Bad.Schema(), "raw")).(*array.Binary)
			for i := range raw.Len() {
				out = append(out, "bad "+string(raw.Value(i)))
			}
		}
		if p.Batch != nil {
			n := p.Batch.Column(0).(*array.Int64)
			pos := p.Batch.Column(dataflow.Column(p.Batch.Schema(), dataflow.SysPos)).(*array.Int64)
			for i := range n.Len() {
				out = append(out, fmt.Sprintf("%d %d", pos.Value(i), n.Value(i)))
			}
		}
		p.Release()
		if p.CaughtUp && x.next.Compare(position(x.r.s.log.Next())) >= 0 {
			return out
		}
	}
}

func (x *reader) ack() {
	x.r.t.Helper()
	must(x.r.t, x.src.(dataflow.Acker).Ack(x.r.t.Context(), 1, map[dataflow.Split]dataflow.Position{Split: x.next}))
}

func (x *reader) close() {
	x.r.t.Helper()
	must(x.r.t, x.src.Unassign(x.r.t.Context(), []dataflow.Split{Split}))
	must(x.r.t, x.src.Close())
}

func isBusy(err error, reason string) bool {
	var busy *BusyError
	return errors.As(err, &busy) && busy.Reason == reason
}

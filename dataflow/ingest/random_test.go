package ingest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"frazil/dataflow"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// world is a stream with producers that retry until they have an answer, and a
// reader that commits; kills, power losses and errors of the disk come in between.
type world struct {
	t   *testing.T
	rnd *rand.Rand
	r   *rig
	mem *vfs.MemFS
	// failing is how many of 1,000 operations of the file system that write fail.
	failing atomic.Int64
	full    atomic.Bool

	requests []*pushed
	open     []*pushed // without an answer that counts
	// committed are the rows in the table, upTo the position they end at.
	committed []string
	upTo      dataflow.Position
	reader    *reader
}

// pushed is what a producer wants to be there exactly once.
type pushed struct {
	make func() *Request
	rows []int
	wait <-chan answer
	res  *Result
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), r: newRig(t), mem: vfs.NewCrashableMem()}
	w.r.cfg.Buffer.Bytes = 1 << 20
	w.r.cfg.Idempotency.Keep *= 1000
	w.r.cfg.Buffer.Age = 0
	w.mount()
	w.start()
	return w
}

// mount puts the errors between the stream and what is on the disk.
func (w *world) mount() {
	mem := w.mem
	rnd := rand.New(rand.NewPCG(w.rnd.Uint64(), 2))
	var mu atomic.Int64
	w.r.fs = errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() != errorfs.OpIsWrite || op.Kind == errorfs.OpFileClose {
			return nil
		}
		if w.full.Load() && (op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpCreate) {
			return syscall.ENOSPC
		}
		p := w.failing.Load()
		if p == 0 {
			return nil
		}
		for !mu.CompareAndSwap(0, 1) { // rnd is not safe for concurrent use.
		}
		n := rnd.Int64N(1000)
		mu.Store(0)
		if n < p {
			return syscall.EIO
		}
		return nil
	}))
}

func (w *world) start() {
	w.t.Helper()
	for i := 0; ; i++ {
		err := w.r.tryOpen()
		if err == nil {
			break
		}
		if errors.Is(err, dataflow.ErrPermanent) || i == 1000 {
			w.t.Fatal(err)
		}
		if i > 10 {
			w.failing.Store(0)
			w.full.Store(false)
		}
	}
	if w.upTo == nil {
		w.upTo = position(w.r.s.log.First())
	}
	w.reader = w.r.reader(w.upTo)
}

func (w *world) stop() {
	w.reader.close()
	_ = w.r.s.Close() // The disk may fail.
}

// post sends new requests, and again those that have no answer.
func (w *world) post() {
	for _, p := range w.open {
		if p.wait == nil {
			p.wait = w.r.post(p.make())
		}
	}
	id := len(w.requests)
	p := &pushed{}
	var rs [][]byte
	for range 1 + w.rnd.IntN(5) {
		n := id*10 + len(p.rows)
		p.rows, rs = append(p.rows, n), append(rs, record(n))
	}
	atomicAll, numbered, pad := w.rnd.IntN(3) == 0, w.rnd.IntN(2) == 0, w.rnd.IntN(20) == 0
	if pad { // Something to truncate.
		rs[0] = fmt.Appendf(nil, `{"n": %d, "s": "%0*d"}`, p.rows[0], 100_000, 0)
	}
	producer, seq := fmt.Sprint("p", id%3), uint64(id/3+1)
	p.make = func() *Request {
		r := &Request{Records: slices.Clone(rs), Atomic: atomicAll, Digest: uint64(id)}
		if r.Key = fmt.Sprint("key ", id); numbered {
			r.Key, r.Producer, r.Sequence = "", producer, seq
		}
		return r
	}
	p.wait = w.r.post(p.make())
	w.requests, w.open = append(w.requests, p), append(w.open, p)
}

// drain takes the answers that are there; some are lost on the way.
func (w *world) drain() {
	w.t.Helper()
	var still []*pushed
	for _, p := range w.open {
		if p.wait != nil {
			select {
			case a := <-p.wait:
				p.wait = nil
				w.answered(p, a)
			default:
			}
		}
		if p.res == nil {
			still = append(still, p)
		}
	}
	w.open = still
}

func (w *world) answered(p *pushed, a answer) {
	w.t.Helper()
	var busy *BusyError
	switch {
	case errors.As(a.err, &busy), errors.Is(a.err, ErrUnavailable), errors.Is(a.err, ErrClosed):
	case a.err != nil:
		w.t.Fatalf("answer %v", a.err)
	case w.rnd.IntN(4) == 0: // Lost.
	default:
		if a.res.Accepted != len(p.rows) {
			w.t.Fatalf("answer %+v to %d records", a.res, len(p.rows))
		}
		p.res = &a.res
	}
}

// commit reads what is there and commits it.
func (w *world) commit() {
	w.committed = append(w.committed, w.reader.rows()...)
	w.upTo = w.reader.next
	err := w.reader.src.(dataflow.Acker).Ack(w.t.Context(), 1, map[dataflow.Split]dataflow.Position{Split: w.upTo})
	if err != nil && !errors.Is(err, syscall.EIO) {
		w.t.Fatalf("ack: %v", err)
	}
}

func (w *world) step() {
	switch n := w.rnd.IntN(60); {
	case n < 6:
		w.commit()
	case n == 6: // A restart.
		w.stop()
		w.start()
	case n == 7: // A power loss; answers from then on are lost.
		w.drain()
		clone := w.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: w.rnd})
		w.stop()
		for _, p := range w.open {
			p.wait = nil
		}
		w.mem = clone
		w.mount()
		w.start()
	case n == 8:
		w.failing.Store(w.rnd.Int64N(50))
	case n == 9:
		w.failing.Store(0)
		w.full.Store(!w.full.Load())
	case n < 12:
		w.full.Store(false)
	case n < 30:
		w.drain()
	default:
		w.post()
	}
}

// end lets everything come to rest and compares.
func (w *world) end() {
	w.t.Helper()
	w.failing.Store(0)
	w.full.Store(false)
	for deadline := time.Now().Add(60 * time.Second); len(w.open) > 0; {
		if time.Now().After(deadline) {
			w.t.Fatalf("%d requests have no answer: %v", len(w.open), w.r.s.StreamStats())
		}
		for _, p := range w.open {
			if p.wait == nil {
				p.wait = w.r.post(p.make())
			}
		}
		w.commit()
		w.drain()
	}
	w.commit()
	w.stop()
	var want []string
	for _, p := range w.requests {
		if p.res.Forgotten {
			w.t.Fatalf("forgotten: %v", p.rows)
		}
		for i, n := range p.rows {
			want = append(want, fmt.Sprintf("%d %d", p.res.First+uint64(i), n))
		}
	}
	slices.Sort(want)
	slices.Sort(w.committed)
	if !slices.Equal(w.committed, want) {
		w.t.Fatalf("%d rows are in the table, want %d: %s", len(w.committed), len(want), firstDifference(w.committed, want))
	}
}

func firstDifference(got, want []string) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("row %d is %q, want %q", i, got[i], want[i])
		}
	}
	return "one ends before the other"
}

func TestWhatProducersRetryIsThereExactlyOnce(t *testing.T) {
	runs := 4
	if os.Getenv("FRAZIL_LONG") != "" {
		runs = 200
	}
	for range runs {
		seed := rand.Uint64()
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newWorld(t, seed)
			for range 1500 {
				w.step()
			}
			w.end()
		})
	}
}

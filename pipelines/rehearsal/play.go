package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/engine"
	"frazil/state"
)

// Outcome is what a variant gave.
type Outcome struct {
	// Shows are the rows of each sink, as JSON, at each Show in order; End those at
	// the end. Rows of a changelog's sink are those of the table it makes.
	Shows []map[string][]string
	End   map[string][]string
	// Ledger are the counters of every step, over the whole piece.
	Ledger map[string]dataflow.Counts
}

// standstill is after how long without an end a run of the engine is given up.
const standstill = 2 * time.Minute

// Play plays a variant to its end. An error says that the pipeline failed, or
// that the engine broke a promise. log may be nil.
func (p *Piece) Play(ctx context.Context, v Variant, log *slog.Logger) (*Outcome, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	w := newWorld(p, v)
	g, err := p.load(v.tasks)
	if err != nil {
		return nil, err
	}
	w.replace(g)
	v.bound(g)
	dir, err := os.MkdirTemp("", "frazil-test-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the state: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	store, err := openState(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = store.Close() }()
	for runs := 0; !w.done(); runs++ {
		if runs > 2*len(w.moves)+10 {
			return nil, fmt.Errorf("no end after %d runs", runs)
		}
		crashed, err := w.attempt(ctx, g, store, log)
		if err != nil {
			return nil, err
		}
		if !crashed || !v.lost {
			store.Reset()
			continue
		}
		if err := errors.Join(store.Close(), os.RemoveAll(dir)); err != nil {
			return nil, fmt.Errorf("lose the state: %w", err)
		}
		if store, err = openState(dir); err != nil {
			return nil, err
		}
		w.lose()
	}
	return w.outcome()
}

func openState(dir string) (*state.Store, error) {
	s, err := state.Open(dir, state.Options{Logger: slog.New(slog.DiscardHandler), CacheBytes: 1 << 20})
	if err != nil {
		return nil, fmt.Errorf("open a state: %w", err)
	}
	return s, nil
}

// attempt runs the engine once and says whether it crashed.
func (w *world) attempt(ctx context.Context, g *engine.Graph, store *state.Store, log *slog.Logger) (crashed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, standstill)
	defer cancel()
	job := engine.NewJob(g, engine.Options{Store: store, Every: time.Hour, Now: w.now, OnManifest: w.onManifest, Log: log})
	w.begin(job, cancel)
	_, err = job.Run(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.failure != nil:
		return false, w.failure
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return false, fmt.Errorf("stands still at move %d of %d: %+v", w.run.next, len(w.moves), w.moves[min(w.run.next, len(w.moves)-1)])
	case err != nil && !(w.run.over && errors.Is(err, context.Canceled)):
		return false, err
	}
	return err != nil, nil
}

func (w *world) outcome() (*Outcome, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := &Outcome{Ledger: w.last.Ledger.Steps}
	for i := range w.moves {
		if rows, ok := w.shows[i]; ok {
			out.Shows = append(out.Shows, rows)
		}
	}
	out.End = w.committed()
	return out, w.failure
}

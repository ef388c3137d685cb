package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"frazil/dataflow"

	"github.com/twmb/franz-go/pkg/kgo"
)

// lack is what the next record of a split waits for: a schema that a registry does not
// give now. Meanwhile the split gives nothing and the others go on.
type lack struct {
	cancel context.CancelFunc
	// err, if it cannot be had at all, is set before done.
	err  error
	done atomic.Bool
}

const (
	// The waits between two questions double.
	minLackWait, maxLackWait = 100 * time.Millisecond, 30 * time.Second
)

// lacks says whether r cannot be read yet, and then gets what is missing in the
// background.
func (s *source) lacks(sp *split, r *kgo.Record) bool {
	fetch := s.poll.rows.missing(r)
	if fetch == nil {
		return false
	}
	s.poll.buffered -= sp.queued()
	ctx, cancel := context.WithCancel(s.ctx)
	sp.lack = &lack{cancel: cancel}
	s.wait.Add(1)
	go func(l *lack) {
		defer s.wait.Done()
		defer cancel()
		s.get(ctx, sp.name, fetch, l)
	}(sp.lack)
	return true
}

// missing is what gets what r cannot be decoded without; nil: nothing is missing.
func (w *rows) missing(r *kgo.Record) func(context.Context) error {
	if r.Value == nil || w.waits == nil && w.key == nil {
		return nil
	}
	if w.key != nil && w.key.waits != nil && r.Key != nil {
		if fetch := w.key.waits.Missing(r.Key); fetch != nil {
			return fetch
		}
	}
	if w.waits == nil {
		return nil
	}
	value := r.Value
	if w.cfg.CloudEvents {
		e, bad := event(r)
		if bad != nil {
			return nil
		}
		value = e.Data
	}
	return w.waits.Missing(value)
}

// get asks until there is an answer, or nobody waits for it any more.
func (s *source) get(ctx context.Context, split dataflow.Split, fetch func(context.Context) error, l *lack) {
	defer s.trouble.set(split, "")
	for wait := minLackWait; ; wait = min(2*wait, maxLackWait) {
		err := dataflow.Guarded(func() error { return fetch(ctx) })
		if err == nil || errors.Is(err, dataflow.ErrPermanent) {
			l.err = err
			break
		}
		if ctx.Err() != nil {
			return
		}
		if s.trouble.set(split, err.Error()) {
			s.env.Log.Warn("a partition waits: its next record cannot be decoded without what does not answer; asked again until it does", "split", string(split), "error", err)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
	l.done.Store(true)
	s.woken.Store(true)
	s.wake()
}

// regained says whether nothing is missing for the next record of sp any more.
func (s *source) regained(sp *split) bool {
	if sp.lack == nil {
		return true
	}
	if !sp.lack.done.Load() {
		return false
	}
	if err := sp.lack.err; err != nil {
		s.poll.failed = fmt.Errorf("read %s at offset %d: %w", sp.name, sp.pos.offset, err)
		return false
	}
	sp.lack = nil
	s.poll.buffered += sp.queued()
	s.fetchAgain(sp)
	return true
}

// troubles are why splits wait.
type troubles struct {
	mu sync.Mutex
	of map[dataflow.Split]string
}

// set notes why a split waits, "" when it does not, and says whether that is new.
func (t *troubles) set(split dataflow.Split, why string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if why == "" {
		delete(t.of, split)
		return false
	}
	if t.of == nil {
		t.of = map[dataflow.Split]string{}
	}
	before := t.of[split]
	t.of[split] = why
	return before == ""
}

// Trouble implements dataflow.Troubled.
func (s *source) Trouble() []string {
	s.trouble.mu.Lock()
	defer s.trouble.mu.Unlock()
	var out []string
	for _, why := range s.trouble.of {
		out = append(out, why)
	}
	return out
}

var _ dataflow.Troubled = (*source)(nil)

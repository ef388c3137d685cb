package ingest

import (
	"errors"
	"fmt"
	"os"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/failpoint"
	"frazil/state/wal"
)

// commit writes groups and answers their producers. It opens the log anew when it
// could not be written.
func (s *Stream) commit() {
	defer s.ended.Done()
	defer close(s.saving)
	for {
		var again <-chan time.Time
		if s.down {
			again = time.After(reopenEvery)
		}
		select {
		case g, ok := <-s.groups:
			if !ok {
				return
			}
			s.write(g)
		case <-again:
			s.reopen()
		}
	}
}

// reopenEvery is how often a log that could not be written is opened anew.
const reopenEvery = time.Second

func (s *Stream) write(g *group) {
	first, err := uint64(0), error(nil)
	if g.records > 0 {
		first, err = s.keep(g)
	}
	for i := range g.outcomes {
		s.conclude(&g.outcomes[i], first, err)
	}
}

// keep makes a group durable and lets it be read; the error is what producers are
// told. Once it is durable it must be remembered too, or a retry would add it again:
// if that fails the stream ends, and the next one reads it from the log.
func (s *Stream) keep(g *group) (first uint64, err error) {
	if first, err = s.append(g.frames); err == nil {
		err = dataflow.Guarded(func() error {
			if err := failpoint.Hit(failpoint.IngestDurable); err != nil {
				return err
			}
			return s.remember(g.notes, first, first+g.records)
		})
		if err != nil {
			err = s.breaks(err)
		}
	}
	if err != nil {
		if g.rows != nil {
			g.rows.Release()
		}
		return 0, err
	}
	s.stats.accepted.Add(int64(g.records))
	s.recent.add(entry{first: first, next: first + g.records, rows: g.rows, bads: g.bads, arrived: dataflow.TimeOf(g.arrived)})
	if err := dataflow.Guarded(func() error { return failpoint.Hit(failpoint.IngestAnswer) }); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return first, nil
}

// conclude answers a request of a group that was written from first on, or not.
func (s *Stream) conclude(o *outcome, first uint64, err error) {
	switch {
	case o.fresh && o.err == nil && o.res.Accepted > 0 && err != nil:
		o.res, o.err = Result{}, err
		s.refused(err)
	case o.fresh && o.res.Accepted > 0:
		o.res.First, o.res.Last = first+o.res.First, first+o.res.Last
	case o.replay && o.err == nil:
		s.stats.replayed.Add(1)
	}
	s.stats.rejected.Add(int64(len(o.res.Rejected)))
	s.settle(o)
	s.traces.accepted(o, s.now)
	if o.err != nil {
		o.r.Done(o.res, o.err)
		return
	}
	s.answer(o.r, o.res)
}

// append writes to the log; the error is what producers are told.
func (s *Stream) append(frames []wal.Frame) (first uint64, err error) {
	// Behind a group that could not be remembered nothing may be: what is remembered
	// of it would make the keys look complete up to there, and that group's producers
	// would add their records again.
	if s.down || s.err() != nil {
		return 0, ErrUnavailable
	}
	err = dataflow.Guarded(func() error {
		first, err = s.log.Append(frames)
		return err
	})
	switch {
	case err == nil:
		if s.full {
			s.full = false
			s.logger.Info("the disk of the write-ahead log has room again", "sequence", s.log.Next()-1)
		}
		return first, nil
	case errors.Is(err, wal.ErrFull):
		if !s.full {
			s.full = true
			s.logger.Warn("the disk of the write-ahead log is full: records are refused until there is room", "error", err)
		}
		return 0, &BusyError{Reason: "disk_full", RetryAfter: 5 * retryAfter, Detail: "the disk of the write-ahead log is full"}
	}
	s.logger.Error("the write-ahead log could not be written: records are refused until it is recovered", "error", err)
	s.down = true
	s.trouble(err)
	return 0, fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// reopen recovers the log. What the append that failed wrote may turn out to be
// durable: it is read like everything else then.
func (s *Stream) reopen() {
	err := dataflow.Guarded(s.log.Reopen)
	switch {
	case err == nil:
		s.down = false
		s.logger.Info("the write-ahead log is recovered", "sequence", s.log.Next()-1)
		s.recent.reach(s.log.Next())
		s.trouble(nil)
	case errors.Is(err, wal.ErrCorrupt):
		s.breaks(corrupt(err))
	default:
		s.logger.Warn("the write-ahead log cannot be opened again yet", "error", err)
		s.trouble(err)
	}
}

// answer tells the producer, now or when it is committed.
func (s *Stream) answer(r *Request, res Result) {
	if s.preview {
		r.Done(res, ErrPreview)
		return
	}
	if s.cfg.Ack == AckCommit && res.Accepted > 0 {
		s.mu.Lock()
		switch {
		case s.mu.ended:
			s.mu.Unlock()
			r.Done(res, ErrNotCommitted)
			return
		case res.Last >= s.mu.acked:
			s.mu.waiting = append(s.mu.waiting, waiting{res.Last, func(err error) { r.Done(res, err) }})
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
	}
	r.Done(res, nil)
}

// waiting is a request that is answered when everything up to last is committed.
type waiting struct {
	last uint64
	done func(error)
}

// acknowledge notes that everything below upTo is committed.
func (s *Stream) acknowledge(upTo uint64) error {
	s.mu.Lock()
	s.mu.acked = max(s.mu.acked, upTo)
	var ready, later []waiting
	for _, w := range s.mu.waiting {
		if w.last < upTo {
			ready = append(ready, w)
		} else {
			later = append(later, w)
		}
	}
	s.mu.waiting = later
	s.mu.Unlock()
	for _, w := range ready {
		w.done(nil)
	}
	s.traces.delivered(upTo, s.now)
	err := s.log.Truncate(upTo)
	switch {
	case errors.Is(err, wal.ErrCorrupt):
		return corrupt(err)
	case err != nil && !errors.Is(err, os.ErrClosed):
		// What could not be removed is tried again with the next commit.
		s.logger.Warn("truncate the write-ahead log", "error", err)
	}
	return nil
}

// trouble notes why nothing can be written now; nil: all is well.
func (s *Stream) trouble(err error) {
	s.mu.Lock()
	s.mu.trouble = err
	s.mu.Unlock()
}

// breaks ends the stream with err: the source reports it to the engine. It returns
// what producers are told.
func (s *Stream) breaks(err error) error {
	s.mu.Lock()
	if s.mu.broken == nil {
		s.mu.broken = dataflow.Permanent(err)
	}
	s.mu.Unlock()
	s.recent.poke()
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

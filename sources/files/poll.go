package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Bounds of a batch where the caller gives none.
const (
	defaultRows  = 8192
	defaultBytes = 4 << 20
)

// Poll returns the next batch of one lane; lanes take turns.
func (s *Source) Poll(ctx context.Context, limit dataflow.PollLimit) (dataflow.Polled, error) {
	if limit.Rows <= 0 {
		limit.Rows = defaultRows
	}
	if limit.Bytes <= 0 {
		limit.Bytes = defaultBytes
	}
	wait := time.Duration(limit.WaitMicros) * time.Microsecond
	for {
		if err := ctx.Err(); err != nil {
			return dataflow.Polled{}, err
		}
		p, err := s.once(limit)
		if err != nil || p.Split != "" || wait <= 0 {
			return p, err
		}
		pause := min(wait, s.cfg.Poll.D())
		wait -= pause
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return dataflow.Polled{}, ctx.Err()
		case <-s.closed:
			timer.Stop()
			return dataflow.Polled{}, errClosed
		case <-timer.C:
		}
	}
}

var errClosed = errors.New("source is closed")

// once goes once around the lanes.
func (s *Source) once(limit dataflow.PollLimit) (dataflow.Polled, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closed:
		return dataflow.Polled{}, errClosed
	default:
	}
	if len(s.lanes) == 0 {
		return dataflow.Polled{}, nil
	}
	if err := s.list(); err != nil {
		return dataflow.Polled{}, err
	}
	for range s.lanes {
		s.turn = (s.turn + 1) % len(s.lanes)
		p, err := s.read(s.lanes[s.turn], limit)
		if err != nil || p.Split != "" {
			return p, err
		}
	}
	return dataflow.Polled{}, nil
}

// list lists the files: once in mode end, every poll interval in mode follow.
func (s *Source) list() error {
	now := s.now()
	if s.files != nil && (!s.follow() || now.Sub(s.listedAt) < s.cfg.Poll.D()) {
		return nil
	}
	if s.files == nil && !s.follow() {
		if err := checkNamed(s.env.Dir, s.cfg.Paths); err != nil {
			return err
		}
	}
	files, err := list(s.env.Dir, s.cfg.Paths, s.cfg.Lanes)
	if err != nil {
		return err
	}
	if s.files == nil && !s.follow() && s.env.Log != nil {
		n := 0
		for _, l := range files {
			n += len(l)
		}
		if n == 0 {
			s.env.Log.Warn("no file matches", "step", s.env.Step, "paths", s.cfg.Paths)
		}
	}
	s.files, s.listedAt = files, now
	for _, l := range s.lanes {
		if !l.resumed {
			continue
		}
		if err := s.checkListed(l); err != nil {
			// Listed again by the next call, so that it is said again.
			s.listedAt = time.Time{}
			return err
		}
	}
	return nil
}

// read reads one lane up to the limit. It returns an empty Polled if there is
// nothing to say.
func (s *Source) read(l *lane, limit dataflow.PollLimit) (dataflow.Polled, error) {
	if l.parked || l.paused {
		return dataflow.Polled{}, nil
	}
	if l.row == l.until {
		l.parked = true
		return dataflow.Polled{Split: l.split, Next: l.place(), AtUntil: true}, nil
	}
	if !l.resumed {
		if err := s.resume(l); err != nil {
			return dataflow.Polled{}, err
		}
		l.resumed = true
	}
	from := l.row
	err := s.readLines(l, limit)
	if (err == errWait || err == errEnd) && l.until > l.row {
		// Whoever gave the bound has seen the lines before it.
		err = fmt.Errorf("lane %s: expected lines up to %d, the files end after %d: %w", l.split, l.until, l.row, dataflow.ErrGap)
	}
	if err != nil && err != errWait && err != errEnd && l.row == from {
		return dataflow.Polled{}, err
	}
	// Any other error comes again with the next call, after these rows.
	return s.polled(l, from, err)
}

// readLines reads lines until the batch is full or nothing more is there.
func (s *Source) readLines(l *lane, limit dataflow.PollLimit) error {
	from := l.row
	size := 0
	for l.row-from < int64(limit.Rows) && s.dec.Bytes()+size < limit.Bytes && l.row != l.until {
		line, length, err := s.nextLine(l)
		if err != nil {
			return err
		}
		if !s.take(l, line, length) {
			size += len(line)
		}
		l.row++
	}
	return nil
}

// take makes a line a row; false if it is none.
func (s *Source) take(l *lane, line []byte, length int64) bool {
	var bad *dataflow.Bad
	switch {
	case length > int64(len(line))+1:
		bad = &dataflow.Bad{Reason: reasonTooLarge, Detail: fmt.Sprintf("line of %d bytes, expected at most %d; the first %d are kept", length, s.maxLine, len(line))}
	case len(line) == 0 || line[0] <= ' ' && len(bytes.TrimSpace(line)) == 0:
		return true
	default:
		bad = s.dec.Append(line)
	}
	if bad != nil {
		s.bad.AddRaw(bad, l.split, s.Locate(l.split, l.row), line)
		return false
	}
	s.rows = append(s.rows, l.row)
	if s.paths != nil {
		s.paths.Append(l.name)
	}
	if s.lines != nil {
		s.lines.Append(l.r.line)
	}
	return true
}

// polled puts together what was read since from; err is why reading stopped.
func (s *Source) polled(l *lane, from int64, err error) (dataflow.Polled, error) {
	var p dataflow.Polled
	if s.dec.Rows() > 0 {
		p.Batch = s.batch()
	}
	p.Bad = s.bad.Flush()
	p.Skipped, s.skipped = s.skipped, nil
	caughtUp := err == errWait
	p.AtUntil = l.row == l.until
	p.Ended = err == errEnd
	say := l.row != from || p.Skipped != nil || p.AtUntil || p.Ended || caughtUp && !l.caughtUp
	l.caughtUp = caughtUp
	if !say {
		return dataflow.Polled{}, nil
	}
	p.Split, p.Next, p.CaughtUp = l.split, l.place(), caughtUp || p.Ended
	l.parked = p.AtUntil || p.Ended
	return p, nil
}

// batch cuts the rows.
func (s *Source) batch() arrow.RecordBatch {
	rows := int64(s.dec.Rows())
	cols := s.dec.Flush()
	if s.paths != nil {
		cols = append(cols, s.paths.NewArray())
	}
	if s.lines != nil {
		cols = append(cols, s.lines.NewArray())
	}
	s.pos.AppendValues(s.rows, nil)
	s.rows = s.rows[:0]
	cols = append(cols, s.pos.NewArray())
	b := array.NewRecordBatch(s.schema, cols, rows)
	for _, c := range cols {
		c.Release()
	}
	return b
}

var (
	_ dataflow.Source     = (*Source)(nil)
	_ dataflow.Discoverer = (*Source)(nil)
	_ dataflow.Starter    = (*Source)(nil)
	_ dataflow.Ender      = (*Source)(nil)
	_ dataflow.Locator    = (*Source)(nil)
	_ dataflow.Pauser     = (*Source)(nil)
)

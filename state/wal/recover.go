package wal

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"frazil/dataflow/failpoint"
	"frazil/state"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// found is what stands in the directory of a log.
type found struct {
	mark   mark
	marked bool
	// segments are whole, contiguous and in order; stale ones before them are
	// committed and were being removed.
	segments []*segment
	stale    []string
	backlog  backlog
	// clean: nothing stands behind the last whole Append.
	clean bool
	// unsure are the frames of the last segment from the sequence number on that is
	// known to be synced.
	unsure []Frame
	// at is where the first of unsure begins.
	at int64
}

// scan reads all of dir. Frames from sure on are unsure; 0: from where the marker
// says.
func scan(fs vfs.FS, dir string, sure uint64, visit func(Frame) error) (*found, error) {
	r := &found{clean: true}
	var err error
	if r.mark, r.marked, err = readMark(fs, dir); err != nil {
		return nil, err
	}
	if sure == 0 && r.marked {
		sure = r.mark.next
	}
	firsts, err := listSegments(fs, dir)
	if err != nil {
		return nil, err
	}
	for i, first := range firsts {
		until := uint64(0)
		if i+1 < len(firsts) {
			until = firsts[i+1]
		}
		var frames []Frame
		path := fs.PathJoin(dir, segmentName(first))
		s, clean, err := readSegment(fs, path, first, until, func(f Frame, at int64) {
			frames = append(frames, f)
			// What stands before a later segment was synced before that one had its
			// name, also where the marker was not told any more.
			if until == 0 && sure > 0 && f.First >= sure {
				if len(r.unsure) == 0 {
					r.at = at
				}
				r.unsure = append(r.unsure, f)
			}
		})
		if until > 0 && r.marked && until <= r.mark.acked && (err != nil && errors.Is(err, ErrCorrupt)) {
			r.dropStale(append(r.paths(), path))
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, f := range frames {
			r.backlog.add(f)
			if err := visit(f); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		}
		r.segments, r.clean = append(r.segments, s), clean
	}
	return r, r.check(dir)
}

func (r *found) paths() (out []string) {
	for _, s := range r.segments {
		out = append(out, s.path)
	}
	return out
}

func (r *found) dropStale(paths []string) {
	r.stale, r.segments, r.backlog = append(r.stale, paths...), nil, backlog{}
}

// check compares the segments with the marker.
func (r *found) check(dir string) error {
	next, first := uint64(1), uint64(1)
	if n := len(r.segments); n > 0 {
		first, next = r.segments[0].first, r.segments[n-1].next
	}
	switch {
	case r.marked && r.mark.next > next:
		return fmt.Errorf("%w: %s ends with record %d, but %d were synced: the files were cut or removed", ErrCorrupt, dir, next-1, r.mark.next-1)
	case r.marked && first > r.mark.acked && len(r.segments) > 0:
		return fmt.Errorf("%w: %s begins with record %d, but %d to %d are not committed: files were removed", ErrCorrupt, dir, first, r.mark.acked, first-1)
	case !r.marked && !r.clean:
		return fmt.Errorf("%w: what stands behind record %d cannot be read, and the file %s, which tells how far it was synced, cannot either", ErrCorrupt, next-1, markerName)
	}
	return nil
}

// recover reads what is there and makes it sure.
func (l *Log) recover() error {
	if err := removeTemporary(l.fs, l.dir); err != nil {
		return err
	}
	r, err := scan(l.fs, l.dir, 0, l.o.Visit)
	if err != nil {
		return err
	}
	return l.adopt(r)
}

// adopt takes what was found. What was written and is not known to be synced (the
// process was killed in between, or a sync failed) may be in the memory of the
// system only, where reading finds it: it is written again, into a segment of its
// own, before anybody builds on it.
func (l *Log) adopt(r *found) error {
	if err := failpoint.Hit(failpoint.WALRecovered); err != nil {
		return err
	}
	next, acked := uint64(1), uint64(1)
	if n := len(r.segments); n > 0 {
		next, acked = r.segments[n-1].next, r.segments[0].first
	}
	if r.marked {
		acked = max(acked, min(r.mark.acked, next))
	}
	sure := next
	if len(r.unsure) > 0 {
		sure = r.unsure[0].First
		last := r.segments[len(r.segments)-1]
		last.next, last.size = sure, r.at
	}
	l.mu.Lock()
	l.mu.segments, l.mu.next, l.mu.acked = r.segments, sure, max(l.mu.acked, min(acked, sure))
	l.mu.Unlock()
	if len(r.unsure) > 0 {
		if _, err := l.begin(sure, slices.Clone(r.unsure)); err != nil {
			return err
		}
	}
	l.mu.Lock()
	l.mu.next, l.mu.backlog = next, r.backlog
	l.mu.backlog.drop(l.mu.acked)
	l.mu.Unlock()
	if err := l.mark(); err != nil {
		return err
	}
	for _, path := range r.stale {
		if err := l.fs.Remove(path); err != nil && !isNotExist(err) {
			return err
		}
	}
	return nil
}

// mark opens the marker anew and syncs it.
func (l *Log) mark() error {
	l.mu.Lock()
	old, m := l.mu.marker, mark{l.mu.next, l.mu.acked}
	l.mu.marker = nil
	l.mu.Unlock()
	if old != nil {
		old.Close() // It was replaced by what is on the disk.
	}
	f, err := openMarker(l.fs, l.dir, m)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.mu.marker = f
	l.mu.Unlock()
	return state.SyncDir(l.fs, l.dir)
}

// Reopen recovers after ErrBroken: what was written by the Append that failed is
// either a part of the log then, and given to Options.Visit, or not. After an
// error the log is still broken, and Reopen may be called again.
func (l *Log) Reopen() error {
	l.truncating.Lock()
	defer l.truncating.Unlock()
	l.mu.Lock()
	closed, next := l.mu.closed, l.mu.next
	l.mu.Unlock()
	if closed {
		return os.ErrClosed
	}
	if l.active != nil {
		l.active.Close() // It failed.
		l.active = nil
	}
	r, err := scan(l.fs, l.dir, next, func(f Frame) error {
		if f.First < next {
			return nil
		}
		return l.o.Visit(f)
	})
	if err == nil && len(r.segments) > 0 && r.segments[len(r.segments)-1].next < next {
		err = fmt.Errorf("%w: it ends with record %d, but %d were synced", ErrCorrupt, r.segments[len(r.segments)-1].next-1, next-1)
	}
	if err == nil {
		err = l.adopt(r)
	}
	if err != nil {
		return fmt.Errorf("open the write-ahead log %s again: %w", l.dir, noRoom(err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.broken = nil
	return nil
}

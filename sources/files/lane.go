package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sort"
	"strconv"

	"frazil/dataflow"
)

// lane is one split while it is read.
type lane struct {
	id    int
	split dataflow.Split

	row int64 // lines before the place
	// at is the place as last noted; textAt is its text.
	at     position
	textAt dataflow.Position
	// until is the line to stop before, -1: none.
	until   int64
	untilAt dataflow.Position

	resumed bool
	r       *reader // the open file, nil between files
	name    string  // its name
	after   string  // every file up to this name is finished
	done    finished
	known   map[string]stamp // the finished files, as far as they are still there

	caughtUp, parked bool
	// paused: the lane gives nothing until it is resumed.
	paused bool
	block  []byte
}

var (
	// errWait: nothing more is there now. errEnd: nothing more will come.
	errWait = errors.New("nothing more now")
	errEnd  = errors.New("end of the lane")
)

func newLane(id int, lanes int) *lane {
	return &lane{id: id, split: dataflow.Split(strconv.Itoa(id)), until: -1, known: map[string]stamp{}, at: position{Lanes: lanes}}
}

// place returns the position of the next line.
func (l *lane) place() dataflow.Position {
	if l.r != nil {
		l.note()
	}
	if l.textAt == nil {
		l.textAt = l.at.encode()
	}
	if l.until >= 0 && l.row == l.until {
		return l.untilAt
	}
	return l.textAt
}

// note writes down the place if lines were read since it was last. What stands
// in a position beside the number of the line never changes without a line: a
// position that moves by itself would look like progress.
func (l *lane) note() {
	if l.row == l.at.Row {
		return
	}
	l.at = position{Row: l.row, File: l.name, Line: l.r.line, Offset: l.r.offset, Sum: l.r.sum(), Done: l.done, Lanes: l.at.Lanes}
	l.textAt = nil
}

// finish closes the open file: it is read to its end.
func (l *lane) finish() error {
	l.note()
	info, err := l.r.file.Stat()
	if err != nil {
		return fmt.Errorf("look at %q: %w", l.name, err)
	}
	s := stampOf(info)
	l.done.add(l.name, s)
	l.known[l.name] = s
	l.after = l.name
	return l.close()
}

// close closes the open file without having finished it.
func (l *lane) close() error {
	if l.r == nil {
		return nil
	}
	buf, err := l.r.close()
	l.block, l.r = buf, nil
	if err != nil {
		return fmt.Errorf("close %q: %w", l.name, err)
	}
	return nil
}

// following returns the first file after name, nil if there is none.
func following(files []listed, name string) *listed {
	i := sort.Search(len(files), func(i int) bool { return files[i].name > name })
	if i == len(files) {
		return nil
	}
	return &files[i]
}

// nextLine returns the next line of the lane, going from file to file.
func (s *Source) nextLine(l *lane) (line []byte, length int64, err error) {
	for {
		if l.r == nil {
			if err := s.openNext(l); err != nil {
				return nil, 0, err
			}
		}
		line, length, err = l.r.next()
		if err == nil {
			return line, length, nil
		}
		last := following(s.files[l.id], l.name) == nil
		switch {
		case err != io.EOF && !errors.Is(err, errPacked):
			return nil, 0, fmt.Errorf("read file %q: %w", l.name, err)
		case last && s.follow():
			err = s.wait(l)
		case err != io.EOF:
			err = s.giveUp(l, err)
		default:
			// The listing is older than this end of the file: whatever was written
			// before the next file came has been read.
			if line, length, ok := l.r.rest(); ok {
				return line, length, nil
			}
			if last {
				return nil, 0, errEnd
			}
			var again bool
			if again, err = s.grown(l); err == nil && !again {
				err = l.finish()
			}
		}
		if err != nil {
			return nil, 0, err
		}
	}
}

// openNext opens the file after the finished ones.
func (s *Source) openNext(l *lane) error {
	for {
		f := following(s.files[l.id], l.after)
		if f == nil {
			if s.follow() {
				return errWait
			}
			return errEnd
		}
		r, err := open(inDir(s.env.Dir, f.name), s.maxLine, l.block)
		switch {
		case err == nil:
			l.r, l.name, l.block = r, f.name, nil
			s.segment(l, l.row, f.name)
			return nil
		case errors.Is(err, fs.ErrNotExist):
			if err := s.gap(l, "file %q was removed before it was read", f.name); err != nil {
				return err
			}
		case errors.Is(err, errPacked):
			if s.follow() && following(s.files[l.id], f.name) == nil {
				return errWait // It is still being written.
			}
			if err := s.gap(l, "file %q: %v", f.name, err); err != nil {
				return err
			}
		case errors.Is(err, fs.ErrPermission):
			return dataflow.Permanentf("read file %q: %w", f.name, err)
		default:
			return fmt.Errorf("read file %q: %w", f.name, err)
		}
		l.known[f.name] = f.stamp
		l.done.add(f.name, f.stamp)
		l.after = f.name
	}
}

// wait is called where the last file of a followed lane has nothing more. It
// returns errWait, or nil if reading may go on.
func (s *Source) wait(l *lane) error {
	if l.r.offset == 0 && l.r.hi < 4 {
		// Too little to know whether it is compressed.
		if err := l.close(); err != nil {
			return err
		}
		return errWait
	}
	again, err := s.grown(l)
	if err == nil && !again {
		err = errWait
	}
	return err
}

// grown looks at the open file, read to its end, from outside. It returns true
// if there is more to read: a compressed file is then opened again, since its
// decoder is at its end. A file that was replaced or became shorter is a gap.
func (s *Source) grown(l *lane) (again bool, err error) {
	info, err := os.Stat(inDir(s.env.Dir, l.name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // Read to its end, then removed.
	}
	if err != nil {
		return false, fmt.Errorf("look at %q: %w", l.name, err)
	}
	packed, here := l.r.packed(), l.r.offset+int64(l.r.hi-l.r.lo)+l.r.longLen
	switch {
	case !os.SameFile(info, l.r.opened) || !packed && info.Size() < here:
		if err := s.gap(l, "file %q was replaced or cut after line %d (byte %d)", l.name, l.r.line, l.r.offset); err != nil {
			return false, err
		}
		return true, s.restart(l)
	case packed && info.Size() != l.r.opened.Size():
		p := position{Line: l.r.line, Offset: l.r.offset, Sum: l.r.sum()}
		l.note()
		if err := l.close(); err != nil {
			return false, err
		}
		return true, s.openAt(l, p)
	case !packed && info.Size() > here && l.r.offset > 0 && !l.r.endsLine():
		// Its last line was taken as it was, because another file followed.
		return false, s.gap(l, "file %q was continued at line %d after it had been finished", l.name, l.r.line)
	}
	return !packed && info.Size() > here, nil
}

// restart reads the lane's file from its beginning, as something new.
func (s *Source) restart(l *lane) error {
	l.note()
	if err := l.close(); err != nil {
		return err
	}
	return s.openAt(l, position{Sum: sumOfNothing})
}

// openAt opens l.name at a place inside it.
func (s *Source) openAt(l *lane, p position) error {
	r, err := open(inDir(s.env.Dir, l.name), s.maxLine, l.block)
	if err != nil {
		return fmt.Errorf("read file %q: %w", l.name, err)
	}
	l.r, l.block = r, nil
	if err := r.seek(p); err != nil {
		return errors.Join(fmt.Errorf("read file %q: %w", l.name, err), l.close())
	}
	s.segment(l, l.row-p.Line, l.name)
	return nil
}

// giveUp leaves a compressed file that cannot be read on.
func (s *Source) giveUp(l *lane, cause error) error {
	if err := s.gap(l, "file %q after line %d: %v", l.name, l.r.line, cause); err != nil {
		return err
	}
	return l.finish()
}

// resume takes a lane up at l.at, after looking whether what was read is still
// what it was.
func (s *Source) resume(l *lane) error {
	if l.at.Lanes != s.cfg.Lanes {
		return dataflow.Permanentf("lane %s: its position was written with lanes: %d, now lanes is %d; set it back, or start anew", l.split, l.at.Lanes, s.cfg.Lanes)
	}
	if l.at.File == "" {
		return nil
	}
	files := s.files[l.id]
	known, done := map[string]stamp{}, finished{}
	current := false
	var earlier []string
	for _, f := range files {
		if f.name < l.at.File {
			earlier = append(earlier, f.name)
			known[f.name] = f.stamp
			done.add(f.name, f.stamp)
		}
		current = current || f.name == l.at.File
	}
	if err := s.checkDone(l, files, done); err != nil {
		return err
	}
	l.known, l.done = known, done
	l.name, l.after = l.at.File, l.at.File
	s.noteEarlier(l.split, earlier)
	if !current {
		return s.gap(l, "file %q, read up to line %d, is gone", l.at.File, l.at.Line)
	}
	if i := sort.Search(len(files), func(i int) bool { return files[i].name >= l.at.File }); i > 0 {
		l.after = files[i-1].name
	} else {
		l.after = ""
	}
	err := s.openAt(l, l.at)
	if errors.Is(err, errChanged) || errors.Is(err, errPacked) {
		if err := s.gap(l, "file %q, read up to line %d: %v", l.at.File, l.at.Line, err); err != nil {
			return err
		}
		return s.openAt(l, position{Sum: sumOfNothing})
	}
	return err
}

// checkDone compares the files before the place with those that were finished.
// That some of them are gone is no gap.
func (s *Source) checkDone(l *lane, files []listed, now finished) error {
	was := l.at.Done
	if now.Files == was.Files && now.Sum == was.Sum {
		return nil
	}
	if now.Files < was.Files && now.Newest <= was.Newest {
		return nil
	}
	for _, f := range files {
		if f.name < l.at.File && f.changed > was.Newest {
			return s.gap(l, "file %q is new or changed, but the lane is at %q already (%d files were finished before it, now there are %d)",
				f.name, l.at.File, was.Files, now.Files)
		}
	}
	return s.gap(l, "the files before %q are not those that were read (%d then, %d now)", l.at.File, was.Files, now.Files)
}

// checkListed compares a new listing with what the lane has finished.
func (s *Source) checkListed(l *lane) error {
	place := l.after
	if l.r != nil {
		place = l.name
	}
	seen := 0
	for _, f := range s.files[l.id] {
		if f.name > place || l.r != nil && f.name == l.name {
			break
		}
		was, ok := l.known[f.name]
		if ok && was == f.stamp {
			seen++
			continue
		}
		format := "file %q is new, but the lane is at %q already"
		if ok {
			format = "file %q changed after it was finished; the lane is at %q"
			l.done.remove(f.name, was)
		}
		if err := s.gap(l, format, f.name, place); err != nil {
			if ok {
				l.done.add(f.name, was)
			}
			return err
		}
		l.known[f.name] = f.stamp
		l.done.add(f.name, f.stamp)
		seen++
	}
	if seen < len(l.known) {
		s.forget(l)
	}
	return nil
}

// forget drops finished files that are gone.
func (s *Source) forget(l *lane) {
	there := make(map[string]bool, len(l.known))
	for _, f := range s.files[l.id] {
		there[f.name] = true
	}
	for name, was := range l.known {
		if !there[name] {
			l.done.remove(name, was)
			delete(l.known, name)
		}
	}
}

// gap is what happens where records changed or are gone: an error, or with
// on_gap: continue a warning and a count.
func (s *Source) gap(l *lane, format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	if s.cfg.OnGap == GapFail {
		return fmt.Errorf("lane %s: %s: %w (put the files back as they were, or set on_gap: continue to read on with what is there)", l.split, what, dataflow.ErrGap)
	}
	if s.skipped == nil {
		s.skipped = map[string]int64{}
	}
	s.skipped[SkippedGap]++
	if s.env.Log != nil {
		s.env.Log.Warn("gap passed over", "step", s.env.Step, "lane", string(l.split), "what", what)
	}
	return nil
}

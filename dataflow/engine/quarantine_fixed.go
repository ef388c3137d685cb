package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/failpoint"
	"frazil/state"
	"frazil/state/wal"
)

// fixedSplit is a further split of a source that has a decode block: rows of the
// quarantine that were sent again. Their payloads stand in a write-ahead log
// beside the source's own splits, each with the source's watermark when it was
// appended, which is its stamp. The split has positions as any other, so that a
// row is read exactly once, and is in no minimum: but the watermark does not pass
// the stamp of a row that was appended and not yet read.
//
// What makes it exactly once: the record in the log is what counts. With the
// record its reader takes the row out of the quarantine, in the same epoch. A row
// whose record was appended is not sent again.
const fixedSplit dataflow.Split = "~fixed"

// fixedKind is the kind of the frames.
const fixedKind = 1

// fixedRecord is the body of a frame.
type fixedRecord struct {
	// ID of the row in the quarantine.
	ID string `json:"id"`
	// Raw is a payload for the source's decode block, Columns a JSON object with
	// the columns that do not come from it; or Row is one with all columns.
	Raw     []byte          `json:"raw,omitempty"`
	Columns json.RawMessage `json:"columns,omitempty"`
	Row     json.RawMessage `json:"row,omitempty"`
	// Stamp is the source's watermark when it was appended.
	Stamp dataflow.Time `json:"stamp"`

	at  dataflow.Time
	seq uint64
}

// fixedStream is the log of one source step. Any goroutine may append; one task
// reads.
type fixedStream struct {
	src *Source
	fs  state.FS
	dir string
	now func() time.Time
	// append is held during an append, so that records stand in the order of
	// their stamps.
	append sync.Mutex

	mu struct {
		sync.Mutex
		log *wal.Log // nil: nothing was ever appended
		// pos is the next record to read, end is behind the last one.
		pos, end uint64
		// ids of the records that no durable epoch has read.
		ids map[string]uint64
		// runs are the records from pos on, by stamp.
		runs []fixedRun
		// tracker of the attempt under way; appending: it is held. unsure: nobody
		// knows what the last append has left in the log.
		tracker   *tracker
		appending bool
		unsure    bool
		wake      func()
	}
}

// fixedRun are the records below next, from those of the run before on.
type fixedRun struct {
	next  uint64
	stamp dataflow.Time
}

var errNotConnected = errors.New("the pipeline is not connected to its sources and targets yet: try again")

func fixedPosition(seq uint64) dataflow.Position { return dataflow.Position(fmt.Sprintf("%020d", seq)) }

func parseFixed(p string) (uint64, error) {
	n, err := strconv.ParseUint(p, 10, 63)
	if err != nil || n == 0 {
		return 0, dataflow.Permanentf("position %q of rows that were sent again: expected a sequence number", p)
	}
	return n, nil
}

// newFixedStream opens the log of a source if there is one.
func newFixedStream(src *Source, walDir string, fs state.FS, now func() time.Time) (*fixedStream, error) {
	f := &fixedStream{src: src, fs: fs, dir: filepath.Join(walDir, src.Name+string(fixedSplit)), now: now}
	f.mu.ids = map[string]uint64{}
	if _, err := fs.Stat(f.dir); errors.Is(err, os.ErrNotExist) {
		return f, nil
	}
	return f, f.open()
}

// open opens the log, making it if there is none.
func (f *fixedStream) open() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.log != nil {
		return nil
	}
	var log *wal.Log
	err := dataflow.Guarded(func() (err error) {
		log, err = wal.Open(f.dir, wal.Options{SegmentBytes: 4 << 20, FS: f.fs})
		return err
	})
	if err != nil {
		err = fmt.Errorf("source %s: rows that were sent again: %w", f.src.Name, err)
		if errors.Is(err, wal.ErrCorrupt) {
			err = dataflow.Permanent(err)
		}
		return err
	}
	f.mu.log, f.mu.pos, f.mu.end = log, log.First(), log.Next()
	return nil
}

func (f *fixedStream) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.log == nil {
		return nil
	}
	err := f.mu.log.Close()
	f.mu.log = nil
	return err
}

// used says whether anything was ever appended, and from where it can be read.
func (f *fixedStream) used() (first uint64, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.log == nil || f.mu.end <= 1 {
		return 1, false
	}
	return f.mu.log.First(), true
}

// attach begins an attempt that reads from the position from, "" for the first
// record, and holds back tr as long as there are records to read.
func (f *fixedStream) attach(tr *tracker, from string, wake func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.unsure {
		if err := f.mu.log.Reopen(); err != nil {
			return err
		}
		f.mu.unsure, f.mu.appending = false, false
	}
	first, end := uint64(1), uint64(1)
	if f.mu.log != nil {
		first, end = f.mu.log.First(), f.mu.log.Next()
	}
	pos, err := first, error(nil)
	if from != "" {
		if pos, err = parseFixed(from); err != nil {
			return err
		}
	}
	if pos < first || pos > end {
		return dataflow.Permanentf("%w: rows of the quarantine that were sent again: %s holds the records %d to %d, and reading goes on at %d: was the directory removed or replaced? Put it back, or start anew with another state directory and other tables",
			dataflow.ErrGap, f.dir, first, end-1, pos)
	}
	f.mu.pos, f.mu.end, f.mu.tracker, f.mu.wake = pos, end, tr, wake
	f.mu.runs, f.mu.ids = nil, map[string]uint64{}
	if f.mu.log != nil {
		err = readFixed(f.mu.log, pos, func(r *fixedRecord) bool {
			f.noteLocked(r.ID, r.seq, r.Stamp)
			return true
		})
	}
	f.holdLocked()
	return err
}

func (f *fixedStream) noteLocked(id string, seq uint64, stamp dataflow.Time) {
	f.mu.ids[id] = seq
	if n := len(f.mu.runs); n > 0 && f.mu.runs[n-1].stamp == stamp {
		f.mu.runs[n-1].next = seq + 1
		return
	}
	f.mu.runs = append(f.mu.runs, fixedRun{seq + 1, stamp})
}

// readFixed visits the records from pos on, until visit says false.
func readFixed(log *wal.Log, pos uint64, visit func(*fixedRecord) bool) error {
	c, err := log.Read(pos)
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		r, err := nextFixed(c)
		if err != nil || r == nil || !visit(r) {
			return err
		}
	}
}

// nextFixed reads a record; nil: there is none yet.
func nextFixed(c *wal.Cursor) (*fixedRecord, error) {
	frame, ok, err := c.Next()
	if err != nil || !ok {
		return nil, err
	}
	if frame.Kind != fixedKind || frame.Records != 1 {
		return nil, dataflow.Permanentf("record %d of rows that were sent again is of kind %d, which this version does not know", frame.First, frame.Kind)
	}
	r := &fixedRecord{}
	if err := json.Unmarshal(frame.Body, r); err != nil {
		return nil, dataflow.Permanentf("record %d of rows that were sent again: %w", frame.First, err)
	}
	r.seq, r.at = frame.First, dataflow.Time(frame.Arrived)
	return r, nil
}

// detach ends an attempt: nothing is held any more, and nothing can be appended.
func (f *fixedStream) detach() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.tracker, f.mu.wake = nil, nil
}

// holdLocked brings the tracker's hold up to date.
func (f *fixedStream) holdLocked() {
	if f.mu.tracker == nil || f.mu.appending {
		return
	}
	for len(f.mu.runs) > 0 && f.mu.runs[0].next <= f.mu.pos {
		f.mu.runs = f.mu.runs[1:]
	}
	if len(f.mu.runs) > 0 {
		f.mu.tracker.setHold(true, f.mu.runs[0].stamp)
	} else {
		f.mu.tracker.setHold(false, 0)
	}
}

// read notes that the task has read up to pos, and lets the watermark go.
func (f *fixedStream) read(pos uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.pos = pos
	f.holdLocked()
}

// settled notes that an epoch with the position is durable: the rows of the
// records before it have left the quarantine.
func (f *fixedStream) settled(p string) {
	pos, err := parseFixed(p)
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, seq := range f.mu.ids {
		if seq < pos {
			delete(f.mu.ids, id)
		}
	}
}

// unread lists the rows whose records no durable epoch has read.
func (f *fixedStream) unread() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]string, 0, len(f.mu.ids))
	for id := range f.mu.ids {
		out = append(out, id)
	}
	return out
}

func (f *fixedStream) has(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.mu.ids[id]
	return ok
}

// send makes records durable, all or none, stamped with the watermark of now. What
// counts is what stands in the log afterwards: an append that failed may be durable.
func (f *fixedStream) send(records []*fixedRecord) error {
	f.append.Lock()
	defer f.append.Unlock()
	if err := f.open(); err != nil {
		return err
	}
	f.mu.Lock()
	if f.mu.tracker == nil {
		f.mu.Unlock()
		return errNotConnected
	}
	stamp := f.mu.tracker.hold()
	f.mu.appending = true
	log := f.mu.log
	f.mu.Unlock()
	err := dataflow.Guarded(func() error { return appendFixed(log, records, stamp, f.now()) })
	n, lookErr := f.look(err != nil)
	if lookErr == nil && n == len(records) {
		return nil
	}
	return errors.Join(err, lookErr)
}

// settle finds out what became of an append that failed, if that is not known.
func (f *fixedStream) settle() error {
	f.append.Lock()
	defer f.append.Unlock()
	f.mu.Lock()
	unsure := f.mu.unsure
	f.mu.Unlock()
	if !unsure {
		return nil
	}
	_, err := f.look(true)
	return err
}

// look notes the records behind those that are known, and lets the watermark go on
// as far as they do. unsure: an append has failed. As long as nobody knows what it
// has left, the watermark stays where it is.
func (f *fixedStream) look(unsure bool) (found int, err error) {
	f.mu.Lock()
	found, err = f.lookLocked(unsure)
	wake := f.mu.wake
	f.mu.Unlock()
	if wake != nil {
		wake()
	}
	return found, err
}

func (f *fixedStream) lookLocked(unsure bool) (found int, err error) {
	log := f.mu.log
	f.mu.unsure = unsure
	if unsure {
		if err := dataflow.Guarded(log.Reopen); err != nil {
			return 0, fmt.Errorf("find out what was appended: %w", err)
		}
	}
	err = readFixed(log, f.mu.end, func(r *fixedRecord) bool {
		f.noteLocked(r.ID, r.seq, r.Stamp)
		found++
		return true
	})
	if err != nil {
		return found, err
	}
	f.mu.end, f.mu.unsure, f.mu.appending = log.Next(), false, false
	f.holdLocked()
	return found, nil
}

func appendFixed(log *wal.Log, records []*fixedRecord, stamp dataflow.Time, now time.Time) error {
	if err := failpoint.Hit(failpoint.FixedStamped); err != nil {
		return err
	}
	frames := make([]wal.Frame, len(records))
	for i, r := range records {
		r.Stamp = stamp
		body, err := json.Marshal(r)
		if err != nil {
			return err
		}
		frames[i] = wal.Frame{Records: 1, Arrived: now.UnixMicro(), Kind: fixedKind, Body: body}
	}
	if _, err := log.Append(frames); err != nil {
		return fmt.Errorf("append rows that are sent again: %w", err)
	}
	return failpoint.Hit(failpoint.FixedAppended)
}

// truncate forgets records that are in every table. Only a source whose own
// records are forgotten then (it is pushed to) does so: others can be read again
// from their start, and these rows with them.
func (f *fixedStream) truncate(p dataflow.Position) error {
	pos, err := parseFixed(string(p))
	f.mu.Lock()
	log := f.mu.log
	f.mu.Unlock()
	if err != nil || log == nil {
		return err
	}
	return log.Truncate(pos)
}

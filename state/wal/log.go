package wal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"log/slog"
	"os"
	"sync"
	"syscall"

	"frazil/dataflow/failpoint"
	"frazil/state"

	"github.com/cockroachdb/pebble/v2/vfs"
)

var (
	// ErrCorrupt: bytes that were durable once are damaged or gone.
	ErrCorrupt = errors.New("the write-ahead log is damaged")
	// ErrVersion: a newer program wrote the log.
	ErrVersion = errors.New("the write-ahead log was written by a newer frazil: run that one")
	// ErrFull: there is no room on the disk. Nothing of the Append was kept; a
	// later one may find room again.
	ErrFull = errors.New("the disk of the write-ahead log is full")
	// ErrBroken: a write or a sync failed, so that nobody knows what is on the
	// disk. Reopen recovers what is there.
	ErrBroken = errors.New("the write-ahead log could not be written")
	// ErrTruncated: records that are asked for were truncated.
	ErrTruncated = errors.New("records of the write-ahead log were truncated")
	// ErrLocked: another process has the log open.
	ErrLocked = errors.New("the write-ahead log is in use by another process")
)

// FS is a file system.
type FS = vfs.FS

// Options of a log. The zero value is usable.
type Options struct {
	// FS is the file system; default: the machine's.
	FS vfs.FS
	// SegmentBytes is how large a segment grows before the next one begins, and
	// so what Truncate removes at once. Default 16 MiB.
	SegmentBytes int64
	// Visit is called by Open with every durable frame, in order, and by Reopen
	// with those that turn out to be durable beside those that Append returned. It
	// borrows the body. Default: none.
	Visit func(Frame) error
	// Retire is called by Truncate before segments are removed: whatever else their
	// frames are needed for must be durable elsewhere when it returns. next is the
	// sequence number behind them. After an error they stay until a later Truncate.
	Retire func(next uint64) error
	// Log takes messages; default: none.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = 16 << 20
	}
	if o.Visit == nil {
		o.Visit = func(Frame) error { return nil }
	}
	if o.Retire == nil {
		o.Retire = func(uint64) error { return nil }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Log is the write-ahead log of one stream. Append, Reopen and Close are for one
// goroutine at a time, everything else for any.
type Log struct {
	fs  vfs.FS
	dir string
	o   Options

	lock io.Closer
	// active is open for appending; nil: the next Append begins a new segment.
	// Only Append, Reopen and Close touch it.
	active vfs.File
	buf    []byte
	// truncating is held by Truncate, Reopen and Close.
	truncating sync.Mutex

	mu struct {
		sync.Mutex
		marker vfs.File
		// segments, oldest first; the last one may be active.
		segments []*segment
		next     uint64
		acked    uint64
		broken   error
		closed   bool
		backlog  backlog
		// written and syncs count what Append did.
		written, syncs int64
	}
}

// Open opens the log in dir, making it if there is none, and takes its lock. It
// reads all of it: what it finds is recovered exactly, or Open fails with
// ErrCorrupt.
func Open(dir string, o Options) (*Log, error) {
	o = o.withDefaults()
	l := &Log{fs: o.FS, dir: dir, o: o}
	if err := state.MakeDir(l.fs, dir); err != nil {
		return nil, fmt.Errorf("make the directory of the write-ahead log: %w", noRoom(err))
	}
	lock, err := l.fs.Lock(l.fs.PathJoin(dir, "LOCK"))
	if path := (*iofs.PathError)(nil); errors.As(err, &path) {
		return nil, fmt.Errorf("lock the write-ahead log: %w", noRoom(err)) // The file could not be made.
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrLocked, dir, err)
	}
	l.lock = lock
	opened := false
	defer func() {
		if !opened {
			_ = l.Close() // It has panicked, or failed and is closed.
		}
	}()
	if err := l.recover(); err != nil {
		return nil, errors.Join(fmt.Errorf("open the write-ahead log %s: %w", dir, noRoom(err)), l.Close())
	}
	opened = true
	return l, nil
}

// Append makes frames durable, all or none, and returns the sequence number of
// their first record. It sets First of each frame. After ErrFull the log is as it
// was; after any other error Reopen must recover what is there.
func (l *Log) Append(frames []Frame) (uint64, error) {
	size := int64(0)
	for _, f := range frames {
		if f.Records == 0 || f.Kind == KindLost || len(f.Body) > MaxBody {
			return 0, fmt.Errorf("append to the write-ahead log: a frame of %d records, kind %d and %d bytes", f.Records, f.Kind, len(f.Body))
		}
		size += f.size()
	}
	l.mu.Lock()
	first, broken, closed := l.mu.next, l.mu.broken, l.mu.closed
	l.mu.Unlock()
	if closed {
		return 0, os.ErrClosed
	}
	if broken != nil {
		return 0, broken
	}
	if err := l.atReserve(); err != nil {
		return 0, err
	}
	s, err := l.room(first, size)
	if err != nil {
		return 0, err
	}
	var next uint64
	l.buf, next = appendFrames(l.buf[:0], frames, s.nonce, first)
	if cap(l.buf) > keepBuffer {
		defer func() { l.buf = nil }()
	}
	if err := l.write(); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.size += size
	s.next, l.mu.next = next, next
	l.mu.written, l.mu.syncs = l.mu.written+size, l.mu.syncs+1
	for _, f := range frames {
		l.mu.backlog.add(f)
	}
	l.noteLocked()
	return first, nil
}

// write makes the buffer durable in the active segment. Whatever ends it early, a
// panic too, leaves the log broken: nobody may append behind what is half written.
func (l *Log) write() error {
	ended := false
	defer func() {
		if !ended {
			l.breaks(errors.New("a write did not end"))
		}
	}()
	err := l.writeSynced()
	ended = true
	return err
}

func (l *Log) writeSynced() error {
	if err := failpoint.Hit(failpoint.WALAppend); err != nil {
		return l.breaks(err)
	}
	if _, err := l.active.Write(l.buf); err != nil {
		if isFull(err) {
			return errors.Join(ErrFull, l.seal())
		}
		return l.breaks(err)
	}
	if err := failpoint.Hit(failpoint.WALWritten); err != nil {
		return l.breaks(err)
	}
	if err := l.active.SyncData(); err != nil {
		return l.breaks(err)
	}
	if err := failpoint.Hit(failpoint.WALSynced); err != nil {
		return l.breaks(err)
	}
	return nil
}

// keepBuffer is how much memory Append keeps for the next one.
const keepBuffer = 4 << 20

// room returns a segment that has room for size bytes.
func (l *Log) room(first uint64, size int64) (*segment, error) {
	l.mu.Lock()
	var last *segment
	if n := len(l.mu.segments); n > 0 {
		last = l.mu.segments[n-1]
	}
	l.mu.Unlock()
	if l.active != nil && (last.size+size <= l.o.SegmentBytes || last.next == last.first) {
		return last, nil
	}
	if err := l.seal(); err != nil {
		return nil, l.breaks(err)
	}
	s, err := l.begin(first, nil)
	if err != nil {
		if isFull(err) {
			return nil, errors.Join(ErrFull, err)
		}
		return nil, l.breaks(err)
	}
	return s, nil
}

// begin makes a new segment that holds frames, which Append has not seen. It gets
// its name when it is synced, in place of one of the same name that holds nothing
// else.
func (l *Log) begin(first uint64, frames []Frame) (s *segment, err error) {
	var n [8]byte
	if _, err := rand.Read(n[:]); err != nil {
		return nil, err
	}
	s = &segment{path: l.fs.PathJoin(l.dir, segmentName(first)), first: first, next: first, nonce: binary.LittleEndian.Uint64(n[:])}
	data := segmentStart(first, s.nonce)
	if len(frames) > 0 {
		data, s.next = appendFrames(data, frames, s.nonce, first)
	}
	s.size = int64(len(data))
	f, err := writeNamed(l.fs, l.dir, segmentName(first), data)
	if err != nil {
		return nil, fmt.Errorf("begin a segment: %w", err)
	}
	if err := failpoint.Hit(failpoint.WALSegment); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	l.active = f
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := len(l.mu.segments); k > 0 && l.mu.segments[k-1].first == first {
		l.mu.segments = l.mu.segments[:k-1]
	}
	l.mu.segments = append(l.mu.segments, s)
	// What was synced before this segment is now known for sure, so that never more
	// than one segment is in doubt after a power loss.
	if l.mu.marker != nil {
		l.noteLocked()
		err = l.mu.marker.Sync()
	}
	return s, err
}

// writeNamed makes a file with data and leaves it open for appending. It has its
// name when all is synced, not before.
func writeNamed(fs vfs.FS, dir, name string, data []byte) (vfs.File, error) {
	tmp, path := fs.PathJoin(dir, name+tmpSuffix), fs.PathJoin(dir, name)
	f, err := fs.Create(tmp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), fs.Remove(tmp))
	}
	if err = fs.Rename(tmp, path); err == nil {
		err = state.SyncDir(fs, dir)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

const tmpSuffix = ".tmp"

// seal ends the active segment.
func (l *Log) seal() error {
	if l.active == nil {
		return nil
	}
	err := l.active.Close()
	l.active = nil
	return err
}

func (l *Log) breaks(err error) error {
	err = fmt.Errorf("%w: %s: %w", ErrBroken, l.dir, err)
	l.mu.Lock()
	l.mu.broken = err
	l.mu.Unlock()
	return err
}

// noteLocked writes the marker. A failure costs the detection of a lost tail,
// nothing else.
func (l *Log) noteLocked() {
	if l.mu.marker == nil {
		return
	}
	if _, err := l.mu.marker.WriteAt(mark{l.mu.next, l.mu.acked}.encode(), 0); err != nil {
		l.o.Log.Warn("write the marker of the write-ahead log", "dir", l.dir, "error", err)
	}
}

// First is the sequence number of the oldest record that can be read.
func (l *Log) First() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.firstLocked()
}

func (l *Log) firstLocked() uint64 {
	if len(l.mu.segments) == 0 {
		return l.mu.next
	}
	return l.mu.segments[0].first
}

// Next is the sequence number that the next record gets.
func (l *Log) Next() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.next
}

// Truncate says that the records below upTo are committed: segments that hold
// only such are removed. Smaller numbers than before change nothing but that what
// could not be removed then is tried again.
func (l *Log) Truncate(upTo uint64) error {
	l.truncating.Lock()
	defer l.truncating.Unlock()
	l.mu.Lock()
	if l.mu.closed {
		l.mu.Unlock()
		return os.ErrClosed
	}
	l.mu.acked = max(l.mu.acked, min(upTo, l.mu.next))
	l.mu.backlog.drop(l.mu.acked)
	l.noteLocked()
	n := 0
	for n < len(l.mu.segments)-1 && l.mu.segments[n].next <= l.mu.acked {
		n++
	}
	gone, marker := l.mu.segments[:n:n], l.mu.marker
	l.mu.Unlock()
	if n == 0 {
		return nil
	}
	if err := l.o.Retire(gone[n-1].next); err != nil {
		return fmt.Errorf("truncate the write-ahead log: %w", noRoom(err))
	}
	if err := failpoint.Hit(failpoint.WALRetired); err != nil {
		return fmt.Errorf("truncate the write-ahead log: %w", err)
	}
	// The marker must say that the records are committed before they are gone:
	// otherwise their absence is damage.
	l.mu.Lock()
	_, err := marker.WriteAt(mark{l.mu.next, l.mu.acked}.encode(), 0)
	l.mu.Unlock()
	if err == nil {
		err = marker.Sync()
	}
	if err == nil {
		err = failpoint.Hit(failpoint.WALMarked)
	}
	if err != nil {
		return fmt.Errorf("truncate the write-ahead log: %w", err)
	}
	removed := 0
	for _, s := range gone {
		// Oldest first and none left out: a gap would look like damage.
		if err = l.fs.Remove(s.path); err != nil && !isNotExist(err) {
			err = fmt.Errorf("remove a segment of the write-ahead log: %w", err)
			break
		}
		removed++
		if err = failpoint.Hit(failpoint.WALRemoved); err != nil {
			break
		}
	}
	l.mu.Lock()
	l.mu.segments = l.mu.segments[removed:]
	l.mu.Unlock()
	return err
}

// Written is how many bytes Append has written, in how many writes that were
// synced.
func (l *Log) Written() (bytes, syncs int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.written, l.mu.syncs
}

// Close releases the log. Later calls change nothing.
func (l *Log) Close() error {
	l.truncating.Lock()
	defer l.truncating.Unlock()
	l.mu.Lock()
	if l.mu.closed {
		l.mu.Unlock()
		return nil
	}
	l.mu.closed = true
	marker := l.mu.marker
	l.mu.marker = nil
	l.mu.Unlock()
	err := l.seal()
	if marker != nil {
		err = errors.Join(err, marker.Close())
	}
	return errors.Join(err, l.lock.Close())
}

func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

func noRoom(err error) error {
	if isFull(err) {
		return errors.Join(ErrFull, err)
	}
	return err
}

func isNotExist(err error) bool { return errors.Is(err, os.ErrNotExist) }

package wal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

var (
	// ErrCorrupt: bytes that were durable once are damaged or gone.
	ErrCorrupt = errors.New("the write-ahead log is damaged")
	// ErrFull: there is no room on the disk. Nothing of the Append was kept; a
	// later one may find room again.
	ErrFull = errors.New("the disk of the write-ahead log is full")
	// ErrBroken: a sync failed, so that nobody knows what is on the disk. Close
	// the log and open it anew: that recovers what is there.
	ErrBroken = errors.New("the write-ahead log could not be synced")
	// ErrTruncated: records that are asked for were truncated.
	ErrTruncated = errors.New("records of the write-ahead log were truncated")
)

// Options of a log. The zero value is usable.
type Options struct {
	// FS is the file system; default: the machine's.
	FS vfs.FS
	// SegmentBytes is how large a segment grows before the next one begins, and
	// so what Truncate removes at once. Default 16 MiB.
	SegmentBytes int64
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
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Log is the write-ahead log of one stream. Append is for one goroutine at a
// time, everything else for any.
type Log struct {
	fs  vfs.FS
	dir string
	o   Options

	lock   vfsCloser
	marker vfs.File
	// active is open for appending; nil: the next Append begins a new segment.
	// Only Append and Close touch it.
	active vfs.File
	buf    []byte

	mu struct {
		sync.Mutex
		// segments, oldest first; the last one may be active.
		segments []*segment
		next     uint64
		acked    uint64
		broken   error
		closed   bool
		backlog  backlog
	}
}

type vfsCloser interface{ Close() error }

// Open opens the log in dir, making it if there is none, and takes its lock. It
// reads all of it: what it finds is recovered exactly, or Open fails with
// ErrCorrupt.
func Open(dir string, o Options) (*Log, error) {
	o = o.withDefaults()
	l := &Log{fs: o.FS, dir: dir, o: o}
	if err := l.fs.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the directory of the write-ahead log: %w", err)
	}
	lock, err := l.fs.Lock(l.fs.PathJoin(dir, "LOCK"))
	if err != nil {
		return nil, fmt.Errorf("the write-ahead log %s is in use by another process: %w", dir, err)
	}
	l.lock = lock
	if err := l.recover(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	if l.marker, err = openMarker(l.fs, dir, mark{l.mu.next, l.mu.acked}); err == nil {
		err = l.syncDir()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the write-ahead log %s: %w", dir, noRoom(err)), l.Close())
	}
	return l, nil
}

// recover reads the segments and the marker.
func (l *Log) recover() error {
	m, marked, err := readMark(l.fs, l.dir)
	if err != nil {
		return fmt.Errorf("read the write-ahead log %s: %w", l.dir, err)
	}
	segments, b, err := scan(l.fs, l.dir)
	if err != nil {
		return err
	}
	l.mu.next, l.mu.acked = 1, 1
	if n := len(segments); n > 0 {
		l.mu.segments, l.mu.next, l.mu.acked = segments, segments[n-1].next, segments[0].first
	}
	if marked && m.next > l.mu.next {
		return fmt.Errorf("%w: %s ends with record %d, but %d were synced: the files were cut or removed", ErrCorrupt, l.dir, l.mu.next-1, m.next-1)
	}
	l.mu.backlog = b
	if marked {
		l.mu.acked = max(l.mu.acked, min(m.acked, l.mu.next))
	}
	l.mu.backlog.drop(l.mu.acked)
	return nil
}

// scan reads all segments of dir.
func scan(fs vfs.FS, dir string) ([]*segment, backlog, error) {
	firsts, err := listSegments(fs, dir)
	if err != nil {
		return nil, backlog{}, fmt.Errorf("list the write-ahead log %s: %w", dir, err)
	}
	var out []*segment
	var b backlog
	for i, first := range firsts {
		until := uint64(0)
		if i+1 < len(firsts) {
			until = firsts[i+1]
		}
		s, err := readSegment(fs, fs.PathJoin(dir, segmentName(first)), first, until, func(f Frame) {
			b.add(f.Next(), int64(f.Records), frameHeader+int64(len(f.Body)), f.Arrived)
		})
		if err != nil {
			return nil, b, err
		}
		out = append(out, s)
	}
	return out, b, nil
}

// Append makes frames durable, all or none, and returns the sequence number of
// their first record. It sets First of each frame. After ErrFull the log is as it
// was; after any other error it is broken and must be opened anew.
func (l *Log) Append(frames []Frame) (uint64, error) {
	l.mu.Lock()
	first, broken, closed := l.mu.next, l.mu.broken, l.mu.closed
	l.mu.Unlock()
	if closed {
		return 0, os.ErrClosed
	}
	if broken != nil {
		return 0, broken
	}
	s, err := l.room(first, frames)
	if err != nil {
		return 0, err
	}
	next := first
	l.buf = l.buf[:0]
	for i := range frames {
		frames[i].First = next
		next = frames[i].Next()
		flags := uint8(flagMore)
		if i == len(frames)-1 {
			flags = 0
		}
		l.buf = appendFrame(l.buf, frames[i], s.nonce, first, flags)
	}
	size := int64(len(l.buf))
	if cap(l.buf) > 4<<20 {
		defer func() { l.buf = nil }()
	}
	if _, err := l.active.Write(l.buf); err != nil {
		if isFull(err) {
			return 0, errors.Join(ErrFull, l.seal())
		}
		return 0, l.breaks(err)
	}
	if err := l.active.SyncData(); err != nil {
		return 0, l.breaks(err)
	}
	l.mu.Lock()
	s.size += size
	s.next, l.mu.next = next, next
	for _, f := range frames {
		l.mu.backlog.add(f.Next(), int64(f.Records), frameHeader+int64(len(f.Body)), f.Arrived)
	}
	m := mark{next, l.mu.acked}
	l.mu.Unlock()
	l.note(m)
	return first, nil
}

// room returns a segment that has room for frames.
func (l *Log) room(first uint64, frames []Frame) (*segment, error) {
	size := int64(0)
	for _, f := range frames {
		size += frameHeader + int64(len(f.Body))
	}
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
		return nil, err
	}
	return l.begin(first, size)
}

// begin makes a new segment. One of the same name holds nothing durable.
func (l *Log) begin(first uint64, size int64) (*segment, error) {
	var n [8]byte
	if _, err := rand.Read(n[:]); err != nil {
		return nil, err
	}
	s := &segment{path: l.fs.PathJoin(l.dir, segmentName(first)), first: first, next: first, size: segmentHeader, nonce: binary.LittleEndian.Uint64(n[:])}
	f, err := l.fs.Create(s.path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, noRoom(fmt.Errorf("make a segment: %w", err))
	}
	fail := func(err error) (*segment, error) {
		if isFull(err) {
			return nil, errors.Join(ErrFull, f.Close(), l.fs.Remove(s.path))
		}
		return nil, l.breaks(errors.Join(err, f.Close()))
	}
	if err := f.Preallocate(0, max(l.o.SegmentBytes, size+segmentHeader)); err != nil {
		return fail(err)
	}
	if _, err := f.Write(segmentStart(first, s.nonce)); err != nil {
		return fail(err)
	}
	if err := f.Sync(); err != nil {
		return fail(err)
	}
	if err := l.syncDir(); err != nil {
		return fail(err)
	}
	l.active = f
	l.mu.Lock()
	defer l.mu.Unlock()
	if k := len(l.mu.segments); k > 0 && l.mu.segments[k-1].first == first {
		l.mu.segments = l.mu.segments[:k-1]
	}
	l.mu.segments = append(l.mu.segments, s)
	return s, nil
}

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

// note writes the marker. A failure costs the detection of a lost tail, nothing
// else.
func (l *Log) note(m mark) {
	if _, err := l.marker.WriteAt(m.encode(), 0); err != nil {
		l.o.Log.Warn("write the marker of the write-ahead log", "dir", l.dir, "error", err)
	}
}

func (l *Log) syncDir() error {
	d, err := l.fs.OpenDir(l.dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// First is the sequence number of the oldest record that can be read, Next the
// one that the next record gets.
func (l *Log) First() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
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
// only such are removed. Smaller numbers than before change nothing.
func (l *Log) Truncate(upTo uint64) error {
	l.mu.Lock()
	upTo = min(upTo, l.mu.next)
	if upTo <= l.mu.acked {
		l.mu.Unlock()
		return nil
	}
	l.mu.acked = upTo
	l.mu.backlog.drop(upTo)
	var gone []*segment
	for len(l.mu.segments) > 1 && l.mu.segments[0].next <= upTo {
		gone = append(gone, l.mu.segments[0])
		l.mu.segments = l.mu.segments[1:]
	}
	m := mark{l.mu.next, upTo}
	closed := l.mu.closed
	l.mu.Unlock()
	if closed {
		return os.ErrClosed
	}
	l.note(m)
	for _, s := range gone {
		if err := l.fs.Remove(s.path); err != nil && !isNotExist(err) {
			return fmt.Errorf("remove a segment of the write-ahead log: %w", err)
		}
	}
	return nil
}

// Close releases the log. It may be called once.
func (l *Log) Close() error {
	l.mu.Lock()
	l.mu.closed = true
	l.mu.Unlock()
	err := l.seal()
	if l.marker != nil {
		err = errors.Join(err, l.marker.Close())
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

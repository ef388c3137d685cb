package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Info is what stands in the directory of a log.
type Info struct {
	Segments []SegmentInfo `json:"segments"`
	// Committed and Synced are the last record that is known to be committed and to
	// be synced; Next is the one behind the last that is there.
	Committed uint64 `json:"committed"`
	Synced    uint64 `json:"synced"`
	Next      uint64 `json:"next"`
	// BacklogRecords and BacklogBytes are not committed; Oldest is when the oldest of
	// them arrived, in microseconds since 1970, 0 without one.
	BacklogRecords int64 `json:"backlog_records"`
	BacklogBytes   int64 `json:"backlog_bytes"`
	Oldest         int64 `json:"oldest"`
	// Keys counts the idempotency keys in KeyFiles files of KeyBytes.
	Keys     int64 `json:"keys"`
	KeyFiles int   `json:"key_files"`
	KeyBytes int64 `json:"key_bytes"`
	// Problems say what is damaged or missing, Lost which records that costs.
	Problems []string `json:"problems,omitempty"`
	Lost     []Range  `json:"lost,omitempty"`
	// LostKeys are the records whose idempotency keys are damaged.
	LostKeys []Range `json:"lost_keys,omitempty"`
}

// SegmentInfo is one file.
type SegmentInfo struct {
	Name  string `json:"name"`
	First uint64 `json:"first"`
	Next  uint64 `json:"next"`
	Bytes int64  `json:"bytes"`
}

// Range is the records First to Last.
type Range struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
}

func (r Range) String() string {
	if r.First == r.Last {
		return fmt.Sprint(r.First)
	}
	return fmt.Sprintf("%d to %d", r.First, r.Last)
}

// Inspect reads the log in dir and changes nothing: beside a process that has it
// open, or without one. An error is of reading, not of what is there.
func Inspect(dir string) (*Info, error) { return inspect(vfs.Default, dir) }

func inspect(fs vfs.FS, dir string) (*Info, error) {
	s, err := salvage(fs, dir)
	if err != nil {
		return nil, err
	}
	info := &Info{Segments: []SegmentInfo{}, Committed: s.acked - 1, Synced: max(s.mark.next, 1) - 1, Next: s.next, Lost: s.lost}
	for _, p := range s.problems {
		info.Problems = append(info.Problems, p.Error())
	}
	var b backlog
	for _, seg := range s.segments {
		i := SegmentInfo{Name: segmentName(seg.first), First: seg.first, Next: seg.first, Bytes: seg.bytes}
		for _, f := range seg.frames {
			i.Next = f.Next()
			b.add(f)
		}
		info.Segments = append(info.Segments, i)
	}
	b.drop(s.acked)
	info.BacklogRecords, info.BacklogBytes = b.rows, b.bytes
	if len(b.frames) > 0 {
		info.Oldest = b.frames[0].arrived
	}
	return info, info.inspectKeys(fs, dir)
}

func (info *Info) inspectKeys(fs vfs.FS, dir string) error {
	names, err := listKeyRuns(fs, dir)
	if err != nil {
		info.Problems = append(info.Problems, err.Error())
		return nil
	}
	saved := uint64(0)
	for _, n := range names {
		if n.upTo <= saved {
			continue
		}
		if saved > 0 && n.from > saved {
			info.Problems = append(info.Problems, fmt.Sprintf("the idempotency keys of the records %d to %d are missing", saved, n.from-1))
			info.LostKeys = append(info.LostKeys, Range{saved, n.from - 1})
		}
		saved = n.upTo
		entries, err := readKeyRun(fs, n.path(fs, dir), n)
		switch {
		case isNotExist(err):
			continue // Merged or removed meanwhile.
		case errors.Is(err, ErrCorrupt):
			info.Problems = append(info.Problems, err.Error())
			info.LostKeys = append(info.LostKeys, Range{n.from, n.upTo - 1})
			continue
		case err != nil:
			return err
		}
		info.Keys += int64(len(entries))
		info.KeyFiles++
		if st, err := fs.Stat(n.path(fs, dir)); err == nil {
			info.KeyBytes += st.Size()
		}
	}
	return nil
}

// Scan visits the frames that hold the records from on, as far as they are known
// to be synced. It changes nothing: beside a process that has the log open, or
// without one. The body is the visitor's.
func Scan(dir string, from uint64, visit func(Frame) error) error {
	s, err := salvage(vfs.Default, dir)
	if err != nil {
		return err
	}
	for _, seg := range s.segments {
		for _, f := range seg.frames {
			if f.Next() <= from {
				continue
			}
			if err := visit(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// ReadFile is Log.File of a log that is not open, or by another process.
func ReadFile(dir, name string) ([]byte, error) { return readAux(vfs.Default, dir, name) }

// salvaged is all that can be read of a log, whatever is damaged.
type salvaged struct {
	mark     mark
	acked    uint64
	next     uint64
	segments []salvagedSegment
	lost     []Range
	problems []error
}

// steadyMark reads the marker, again where it is just being written.
func steadyMark(fs vfs.FS, dir string) (m mark, ok bool, err error) {
	for range 5 {
		if m, ok, err = readMark(fs, dir); ok || err != nil {
			break
		}
	}
	return m, ok, err
}

type salvagedSegment struct {
	first   uint64
	bytes   int64
	frames  []Frame
	damaged bool
}

// salvage reads every whole frame in dir, again where files went meanwhile.
func salvage(fs vfs.FS, dir string) (s *salvaged, err error) {
	for range 20 {
		if s, err = salvageOnce(fs, dir); !errors.Is(err, errMoved) {
			break
		}
	}
	return s, err
}

// errMoved: the log was truncated while it was read.
var errMoved = errors.New("the write-ahead log was truncated while it was read: try again")

func salvageOnce(fs vfs.FS, dir string) (*salvaged, error) {
	s := &salvaged{}
	// Beside a process that appends and truncates: what the marker said was synced
	// before the files were looked at must be in them; what it says is committed
	// afterwards may be gone.
	before, _, err := steadyMark(fs, dir)
	if err != nil {
		return nil, err
	}
	firsts, err := listSegments(fs, dir)
	if err != nil {
		return nil, err
	}
	after, marked, err := steadyMark(fs, dir)
	if err != nil {
		return nil, err
	}
	s.mark = mark{before.next, after.acked}
	if len(firsts) == 0 && !marked {
		return nil, fmt.Errorf("there is no write-ahead log in %s: %w", dir, os.ErrNotExist)
	}
	if !marked {
		s.mark = mark{}
		s.problems = append(s.problems, fmt.Errorf("%w: %s cannot be read: how far it was synced is not known", ErrCorrupt, markerName))
	}
	s.next = max(s.mark.acked, 1)
	if len(firsts) > 0 && (!marked || firsts[0] < s.next) {
		s.next = firsts[0]
	}
	s.acked = max(s.mark.acked, s.next)
	for i, first := range firsts {
		until := uint64(0)
		if i+1 < len(firsts) {
			until = firsts[i+1]
		}
		data, err := readFile(fs, fs.PathJoin(dir, segmentName(first)))
		if isNotExist(err) {
			return nil, errMoved
		}
		if err != nil {
			return nil, err
		}
		seg := salvagedSegment{first: first, bytes: int64(len(data))}
		_, clean, err := parseSegment(data, segmentName(first), first, until, func(Frame, int64) {})
		if errors.Is(err, ErrVersion) {
			return nil, err
		}
		if err != nil {
			s.problems, seg.damaged = append(s.problems, err), true
		} else if !marked && until == 0 && !clean {
			seg.damaged = true
		}
		s.gap(first, &seg)
		lost := len(s.lost)
		s.collect(data, until, &seg)
		if err == nil && len(s.lost) > lost {
			// Inside of one Append, of which the rest is whole: the log is opened without
			// any of it, and then ends too early.
			s.problems = append(s.problems, fmt.Errorf("%s: %w: the records %s are damaged", segmentName(first), ErrCorrupt, s.lost[lost]))
		}
		s.segments = append(s.segments, seg)
	}
	if s.next < s.mark.next {
		var tail *salvagedSegment
		if n := len(s.segments); n > 0 {
			tail = &s.segments[n-1]
		}
		s.problems = append(s.problems, fmt.Errorf("%w: it ends with record %d, but %d were synced", ErrCorrupt, s.next-1, s.mark.next-1))
		if tail == nil {
			s.segments = append(s.segments, salvagedSegment{first: s.next})
			tail = &s.segments[0]
		}
		tail.damaged = true
		s.gap(s.mark.next, tail)
	}
	return s, nil
}

// gap notes that the records up to next, which stands in seg or behind it, are not
// there.
func (s *salvaged) gap(next uint64, seg *salvagedSegment) {
	if next <= s.next {
		return
	}
	lost := Range{s.next, next - 1}
	if len(seg.frames) == 0 && seg.first == next {
		s.problems = append(s.problems, fmt.Errorf("%w: the records %s are missing", ErrCorrupt, lost))
		seg.first = s.next
	}
	seg.damaged = true
	s.lost = append(s.lost, lost)
	for n := s.next; n < next; {
		k := min(next-n, 1<<31)
		seg.frames = append(seg.frames, Frame{First: n, Records: uint32(k), Kind: KindLost})
		n += k
	}
	s.next = next
}

// collect adds the whole frames of a segment, and lost ones between them.
func (s *salvaged) collect(data []byte, until uint64, seg *salvagedSegment) {
	nonce := nonceOf(data)
	for off := int64(segmentHeader); off < int64(len(data)); {
		h, size, ok := frameAt(data, off, nonce)
		f := h.frame
		switch {
		case !ok:
			off++
			continue
		case until > 0 && f.Next() > until || f.First < s.next,
			f.First > s.next && until == 0 && f.First >= s.mark.next && h.durable <= s.next:
			off += size // Written again elsewhere, or never promised.
			continue
		}
		s.gap(f.First, seg)
		seg.frames = append(seg.frames, f)
		s.next, off = f.Next(), off+size
	}
	if until > s.next {
		s.gap(until, seg)
	}
}

// nonceOf finds the nonce of a segment also where its header is damaged by one bit.
func nonceOf(data []byte) uint64 {
	if len(data) < segmentHeader {
		return 0
	}
	nonce := binary.LittleEndian.Uint64(data[16:])
	if _, _, ok := frameAt(data, segmentHeader, nonce); ok {
		return nonce
	}
	for bit := range 64 {
		if _, _, ok := frameAt(data, segmentHeader, nonce^1<<bit); ok {
			return nonce ^ 1<<bit
		}
	}
	return nonce
}

// Streams lists the logs in the folders of dir, by name.
func Streams(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if _, err := os.Stat(dir + "/" + e.Name() + "/" + markerName); err == nil {
			out = append(out, e.Name())
		}
	}
	slices.Sort(out)
	return out, nil
}

package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const segmentSuffix = ".wal"

// segment is one file of a log.
type segment struct {
	path string
	// first is the sequence number of its first record, next the one behind its
	// last durable one.
	first, next uint64
	// size is where its last durable frame ends.
	size  int64
	nonce uint64
}

func segmentName(first uint64) string { return fmt.Sprintf("%020d%s", first, segmentSuffix) }

// listSegments returns the first sequence numbers of the files in dir, sorted.
func listSegments(fs vfs.FS, dir string) ([]uint64, error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	var out []uint64
	for _, name := range names {
		base, ok := strings.CutSuffix(name, segmentSuffix)
		if !ok {
			continue
		}
		first, err := strconv.ParseUint(base, 10, 64)
		if err != nil || segmentName(first) != name {
			return nil, fmt.Errorf("%w: %s is no name of a segment", ErrCorrupt, name)
		}
		out = append(out, first)
	}
	slices.Sort(out)
	return out, nil
}

func segmentStart(first, nonce uint64) []byte {
	b := make([]byte, 0, segmentHeader)
	b = append(b, segmentMagic...)
	b = binary.LittleEndian.AppendUint64(b, first)
	b = binary.LittleEndian.AppendUint64(b, nonce)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return append(b, 0, 0, 0, 0)
}

// readSegment reads a file and walks its frames. until is the first sequence
// number of the segment behind it, 0 for the last one: frames from there on were
// written, never promised, and written again there. clean says that nothing
// stands behind the last whole Append.
func readSegment(fs vfs.FS, path string, first, until uint64, visit func(f Frame, at int64)) (s *segment, clean bool, err error) {
	data, err := readFile(fs, path)
	if err != nil {
		return nil, false, err
	}
	return parseSegment(data, path, first, until, visit)
}

func parseSegment(data []byte, path string, first, until uint64, visit func(f Frame, at int64)) (s *segment, clean bool, err error) {
	s = &segment{path: path, first: first, next: first, size: segmentHeader}
	if s.nonce, err = checkStart(data, first); err != nil {
		return nil, false, fmt.Errorf("%s: %w", path, err)
	}
	if err := s.walk(data, until, visit); err != nil {
		return nil, false, fmt.Errorf("%s: %w", path, err)
	}
	return s, len(trimZeros(data[s.size:])) == 0, nil
}

// checkStart checks the header of a segment, which was synced before the file got
// its name.
func checkStart(data []byte, first uint64) (nonce uint64, err error) {
	n := len(segmentMagic) - 1
	if len(data) > n && string(data[:n]) == segmentMagic[:n] && data[n] > segmentMagic[n] {
		return 0, fmt.Errorf("%w: version %d of the format, and this program knows up to %d", ErrVersion, data[n], segmentMagic[n])
	}
	if len(data) >= segmentHeader {
		nonce = binary.LittleEndian.Uint64(data[16:])
		if slices.Equal(data[:segmentHeader], segmentStart(first, nonce)) {
			return nonce, nil
		}
	}
	return 0, fmt.Errorf("%w: its header cannot be read", ErrCorrupt)
}

// walk visits the whole frames of whole Appends, in order.
func (s *segment) walk(data []byte, until uint64, visit func(f Frame, at int64)) error {
	off := int64(segmentHeader)
	next := s.first
	type placed struct {
		f  Frame
		at int64
	}
	var waiting []placed
	for until == 0 || next < until {
		h, size, ok := frameAt(data, off, s.nonce)
		if !ok || h.frame.First != next {
			break
		}
		waiting = append(waiting, placed{h.frame, off})
		off, next = off+size, h.frame.Next()
		if h.flags&flagMore != 0 {
			continue
		}
		for _, p := range waiting {
			visit(p.f, p.at)
		}
		waiting, s.size, s.next = waiting[:0], off, next
	}
	if until != 0 {
		if s.next != until {
			return fmt.Errorf("%w: the records %d to %d are damaged or missing", ErrCorrupt, s.next, until-1)
		}
		return nil
	}
	if f, ok := promisedBehind(data, s.size, s.next, s.nonce); ok {
		return fmt.Errorf("%w: the record %d at byte %d is damaged, and record %d behind it is whole", ErrCorrupt, s.next, s.size, f.First)
	}
	return nil
}

// promisedBehind looks behind a broken frame for a whole one that was written
// after the broken one had been synced. It is only asked about damage and tails,
// so that looking at every byte may take its time.
func promisedBehind(data []byte, off int64, next, nonce uint64) (Frame, bool) {
	for o := off; o+frameHeader <= int64(len(data)); o++ {
		h, ok := parseHeader(data[o : o+frameHeader])
		if !ok || h.frame.First <= next || h.durable <= next {
			continue
		}
		if h, _, ok := frameAt(data, o, nonce); ok {
			return h.frame, true
		}
	}
	return Frame{}, false
}

func trimZeros(b []byte) []byte {
	n := len(b)
	for n > 0 && b[n-1] == 0 {
		n--
	}
	return b[:n]
}

func readFile(fs vfs.FS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

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
// written, never promised, and written again there.
func readSegment(fs vfs.FS, path string, first, until uint64, visit func(Frame)) (*segment, error) {
	data, err := readFile(fs, path)
	if err != nil {
		return nil, err
	}
	s := &segment{path: path, first: first, next: first, size: segmentHeader}
	if len(data) < segmentHeader || !slices.Equal(data[:segmentHeader], segmentStart(first, binary.LittleEndian.Uint64(data[16:]))) {
		if whyVersion(data) {
			return nil, fmt.Errorf("%w: %s was written by a newer frazil: run that one", ErrCorrupt, path)
		}
		if until == 0 && len(trimZeros(data)) < segmentHeader {
			// Made, and killed before the header was synced: nothing was promised.
			s.size, s.nonce = 0, 0
			return s, nil
		}
		return nil, fmt.Errorf("%w: the header of %s is damaged", ErrCorrupt, path)
	}
	s.nonce = binary.LittleEndian.Uint64(data[16:])
	if err := s.walk(data, until, visit); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// walk visits the whole frames of whole Appends, in order.
func (s *segment) walk(data []byte, until uint64, visit func(Frame)) error {
	off := int64(segmentHeader)
	next := s.first
	var waiting []Frame
	for until == 0 || next < until {
		f, size, more, ok := frameAt(data, off, next, s.nonce)
		if !ok {
			break
		}
		waiting = append(waiting, f)
		off, next = off+size, f.Next()
		if more {
			continue
		}
		for _, f := range waiting {
			visit(f)
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

// frameAt decodes the frame at off if it is whole and begins with the record
// next.
func frameAt(data []byte, off int64, next, nonce uint64) (f Frame, size int64, more, ok bool) {
	if off+frameHeader > int64(len(data)) {
		return f, 0, false, false
	}
	h, ok := parseHeader(data[off : off+frameHeader])
	size = frameHeader + int64(h.body)
	if !ok || h.frame.First != next || off+size > int64(len(data)) || checksum(data[off:off+size], nonce) != h.sum {
		return f, 0, false, false
	}
	f = h.frame
	f.Body = data[off+frameHeader : off+size]
	return f, size, h.flags&flagMore != 0, true
}

// promisedBehind looks behind a broken frame for a whole one that was written
// after the broken one had been synced. It is only asked about damage and tails,
// so that looking at every byte may take its time.
func promisedBehind(data []byte, off int64, next, nonce uint64) (Frame, bool) {
	for o := off; o+frameHeader <= int64(len(data)); o++ {
		h, ok := parseHeader(data[o : o+frameHeader])
		size := frameHeader + int64(h.body)
		if ok && h.frame.First > next && h.durable > next && o+size <= int64(len(data)) && checksum(data[o:o+size], nonce) == h.sum {
			return h.frame, true
		}
	}
	return Frame{}, false
}

// whyVersion says whether data begins like a segment of another version.
func whyVersion(data []byte) bool {
	n := len(segmentMagic) - 1
	return len(data) > n && string(data[:n]) == segmentMagic[:n] && data[n] > segmentMagic[n]
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

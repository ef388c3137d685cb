package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	blockSize = 256 << 10
	// keep is how many bytes before the place are kept, for the sum of a position.
	keep = 256
)

// reader reads the lines of one file. Reading on after io.EOF is allowed for a
// plain file that grows.
type reader struct {
	file   *os.File
	in     io.Reader
	unpack io.Closer // nil for a plain file
	opened os.FileInfo

	buf    []byte
	lo, hi int // buf[lo:hi] is read but not given out; before lo at least keep bytes are kept
	from   int // no newline in buf[lo:from]
	max    int // longest line that is given out whole

	line, offset int64 // lines and bytes before buf[lo]

	// A line longer than max is passed over while it is read: its beginning, its
	// length so far and the sum before it. nil: no such line.
	long    []byte
	longLen int64
	longSum uint64
}

// errPacked: a compressed file breaks off or is damaged.
var errPacked = errors.New("compressed data breaks off or is damaged")

// open opens a file at its beginning. buf is reused.
func open(path string, max int, buf []byte) (*reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r := &reader{file: f, in: f, max: max, buf: buf}
	if len(buf) < blockSize {
		r.buf = make([]byte, blockSize)
	}
	if r.opened, err = f.Stat(); err == nil {
		err = r.sniff()
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return r, nil
}

// sniff finds out by the first bytes whether the file is compressed.
func (r *reader) sniff() error {
	var magic [4]byte
	n, err := r.file.ReadAt(magic[:], 0)
	if err != nil && err != io.EOF {
		return err
	}
	switch {
	case n >= 2 && magic[0] == 0x1f && magic[1] == 0x8b:
		z, err := gzip.NewReader(r.file)
		if err != nil {
			return fmt.Errorf("%w: %v", errPacked, err)
		}
		r.in, r.unpack = z, z
	case n == 4 && string(magic[:]) == "\x28\xb5\x2f\xfd":
		z, err := zstd.NewReader(r.file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
		if err != nil {
			return fmt.Errorf("%w: %v", errPacked, err)
		}
		r.in, r.unpack = z, z.IOReadCloser()
	}
	return nil
}

func (r *reader) packed() bool { return r.unpack != nil }

// close closes the file and returns its block for the next one.
func (r *reader) close() (buf []byte, err error) {
	if r.unpack != nil {
		// It repeats what reading said.
		_ = r.unpack.Close()
	}
	return r.buf, r.file.Close()
}

// fill reads once. It returns io.EOF when nothing more is there now.
func (r *reader) fill() error {
	if r.hi == len(r.buf) {
		start := max(0, r.lo-keep)
		if start == 0 {
			// One line fills the block.
			grown := make([]byte, 2*len(r.buf))
			copy(grown, r.buf)
			r.buf = grown
		} else {
			r.hi = copy(r.buf, r.buf[start:r.hi])
			r.lo -= start
			r.from -= start
		}
	}
	for {
		n, err := r.in.Read(r.buf[r.hi:])
		r.hi += n
		switch {
		case n > 0:
			return nil
		case err == nil:
			continue
		case err != io.EOF && r.packed():
			return fmt.Errorf("%w: %v", errPacked, err)
		}
		return err
	}
}

// next returns the next line without its end, valid until the next call. A line
// longer than max is cut, and length tells how long it was. err is io.EOF when
// no whole line is there now.
func (r *reader) next() (line []byte, length int64, err error) {
	for {
		if n := bytes.IndexByte(r.buf[r.from:r.hi], '\n'); n >= 0 {
			line = r.buf[r.lo : r.from+n]
			size := int64(len(line)) + 1
			r.lo = r.from + n + 1
			r.from = r.lo
			r.line++
			if r.long == nil {
				r.offset += size
				return cutReturn(line), size - 1, nil
			}
			size += r.longLen
			r.offset += size
			line, r.long, r.longLen = r.long, nil, 0
			return line, size - 1, nil
		}
		r.from = r.hi
		if r.hi-r.lo > r.max+1 {
			r.passOver()
		}
		if err := r.fill(); err != nil {
			return nil, 0, err
		}
	}
}

// passOver gives up what is there of a line that is too long, but for its
// beginning.
func (r *reader) passOver() {
	if r.long == nil {
		r.longSum = r.sum()
		r.long = bytes.Clone(r.buf[r.lo : r.lo+r.max])
	}
	r.longLen += int64(r.hi - r.lo)
	r.lo, r.from = r.hi, r.hi
}

// rest returns the last line if it has no end; ok is false if there is none.
func (r *reader) rest() (line []byte, length int64, ok bool) {
	if r.hi == r.lo && r.long == nil {
		return nil, 0, false
	}
	line = r.buf[r.lo:r.hi]
	length = int64(len(line))
	if r.long != nil {
		length += r.longLen
		line, r.long, r.longLen = r.long, nil, 0
	}
	r.lo, r.from = r.hi, r.hi
	r.line++
	r.offset += length
	return cutReturn(line), length, true
}

// cutReturn takes a carriage return off the end.
func cutReturn(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		return line[:n-1]
	}
	return line
}

// sum is over the last bytes before the place.
func (r *reader) sum() uint64 {
	if r.long != nil {
		return r.longSum
	}
	return xxhash.Sum64(r.buf[max(0, r.lo-keep):r.lo])
}

// endsLine says whether the byte before the place ends a line.
func (r *reader) endsLine() bool { return r.lo == 0 || r.buf[r.lo-1] == '\n' }

// errChanged: the bytes before a place are not those that were read.
var errChanged = errors.New("changed")

// seek goes to a place that an earlier reader had, in a reader just opened.
func (r *reader) seek(p position) error {
	skip := p.Offset
	if !r.packed() {
		start := max(0, p.Offset-keep)
		if _, err := r.file.Seek(start, io.SeekStart); err != nil {
			return err
		}
		skip = p.Offset - start
	}
	for skip > 0 {
		if r.hi == r.lo {
			if err := r.fill(); err == io.EOF {
				return fmt.Errorf("%w: it is shorter", errChanged)
			} else if err != nil {
				return err
			}
		}
		n := min(skip, int64(r.hi-r.lo))
		r.lo += int(n)
		skip -= n
	}
	r.from = r.lo
	r.line, r.offset = p.Line, p.Offset
	if r.sum() != p.Sum {
		return fmt.Errorf("%w: other bytes stand before line %d", errChanged, p.Line+1)
	}
	if !r.endsLine() {
		// The last line had no end when it was read: the file must still end there.
		var err error
		if r.hi == r.lo {
			err = r.fill()
		}
		if err == nil {
			return fmt.Errorf("%w: line %d, which was the last and had no end, was continued", errChanged, p.Line)
		} else if err != io.EOF {
			return err
		}
	}
	return nil
}

package wal

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Cursor reads the durable frames of a log in order. One goroutine uses it,
// beside any Append and Truncate.
type Cursor struct {
	l    *Log
	next uint64
	seg  *segment
	f    vfs.File
	off  int64
	head [frameHeader]byte
}

// Read starts before the frame that holds the record from, or, where none does
// yet, before the one that will.
func (l *Log) Read(from uint64) (*Cursor, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.mu.next
	if len(l.mu.segments) > 0 {
		first = l.mu.segments[0].first
	}
	if from < first {
		return nil, fmt.Errorf("%w: %d to %d of %s", ErrTruncated, from, first-1, l.dir)
	}
	if from > l.mu.next {
		return nil, fmt.Errorf("%w: %s ends with record %d, asked for is %d: was its directory removed or replaced?", ErrCorrupt, l.dir, l.mu.next-1, from)
	}
	return &Cursor{l: l, next: from}, nil
}

// Next returns the next frame, or ok false at the end of what is durable now.
func (c *Cursor) Next() (f Frame, ok bool, err error) {
	for {
		end, err := c.position()
		if err != nil {
			return f, false, err
		}
		if c.seg == nil || c.off >= end {
			return f, false, nil
		}
		f, err = c.read()
		if err != nil {
			return f, false, fmt.Errorf("read %s: %w", c.seg.path, err)
		}
		if f.Next() > c.next || f.Records == 0 && f.First >= c.next {
			c.next = f.Next()
			return f, true, nil
		}
	}
}

// position opens the segment that holds the record next and returns where its
// durable frames end.
func (c *Cursor) position() (end int64, err error) {
	l := c.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.seg != nil && c.off < c.seg.size {
		return c.seg.size, nil
	}
	var want *segment
	for i, s := range l.mu.segments {
		if s == c.seg && i+1 < len(l.mu.segments) {
			want = l.mu.segments[i+1]
			break
		}
		if c.seg == nil && c.next < s.next {
			want = s
			break
		}
	}
	if want == nil {
		if c.seg == nil {
			return 0, nil
		}
		return c.seg.size, nil
	}
	f, err := l.fs.Open(want.path)
	if err != nil {
		return 0, err
	}
	if c.f != nil {
		err = c.f.Close()
	}
	c.f, c.seg, c.off = f, want, segmentHeader
	return want.size, err
}

func (c *Cursor) read() (Frame, error) {
	if _, err := c.f.ReadAt(c.head[:], c.off); err != nil {
		return Frame{}, notShort(err)
	}
	h, ok := parseHeader(c.head[:])
	if !ok {
		return Frame{}, fmt.Errorf("%w: no frame at byte %d", ErrCorrupt, c.off)
	}
	whole := make([]byte, frameHeader+h.body)
	if _, err := c.f.ReadAt(whole, c.off); err != nil {
		return Frame{}, notShort(err)
	}
	if checksum(whole, c.seg.nonce) != h.sum {
		return Frame{}, fmt.Errorf("%w: the frame at byte %d was damaged since it was written", ErrCorrupt, c.off)
	}
	c.off += int64(len(whole))
	h.frame.Body = whole[frameHeader:]
	return h.frame, nil
}

// notShort names an unexpected end of a file.
func notShort(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: the file was cut", ErrCorrupt)
	}
	return err
}

// Close releases the cursor.
func (c *Cursor) Close() error {
	if c.f == nil {
		return nil
	}
	f := c.f
	c.f = nil
	return f.Close()
}

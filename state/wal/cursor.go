package wal

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Cursor reads the durable frames of a log in order. One goroutine uses it,
// beside any Append, Reopen and Truncate.
type Cursor struct {
	l    *Log
	next uint64
	f    vfs.File
	// path and nonce are of the segment that f is.
	path  string
	nonce uint64
	off   int64
	head  [frameHeader]byte
}

// Read starts before the frame that holds the record from, or, where none does
// yet, before the one that will.
func (l *Log) Read(from uint64) (*Cursor, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if first := l.firstLocked(); from < first {
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
		if ok, err := c.position(); !ok || err != nil {
			return f, false, err
		}
		f, err = c.read()
		if err != nil {
			return f, false, fmt.Errorf("read %s: %w", c.path, err)
		}
		if f.Next() > c.next {
			c.next = f.Next()
			return f, true, nil
		}
	}
}

// position opens the segment that holds the record next; ok is false if there is
// no such record.
func (c *Cursor) position() (ok bool, err error) {
	want, first := c.l.holding(c.next)
	if want == nil {
		if c.next < first {
			return false, fmt.Errorf("%w: %d to %d of %s", ErrTruncated, c.next, first-1, c.l.dir)
		}
		return false, nil
	}
	if c.f != nil && c.nonce == want.nonce {
		return true, nil
	}
	f, err := c.l.fs.Open(want.path)
	if isNotExist(err) {
		return false, fmt.Errorf("%w: %s", ErrTruncated, want.path)
	}
	if err != nil {
		return false, err
	}
	err = c.Close()
	c.f, c.path, c.nonce, c.off = f, want.path, want.nonce, segmentHeader
	return true, err
}

// holding returns the segment that holds the durable record seq, nil if there is
// none, and the first record that can be read.
func (l *Log) holding(seq uint64) (*segment, uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.mu.segments) - 1; i >= 0; i-- {
		if s := l.mu.segments[i]; s.first <= seq {
			if seq >= s.next {
				return nil, 0
			}
			return s, 0
		}
	}
	return nil, l.firstLocked()
}

func (c *Cursor) read() (Frame, error) {
	if _, err := c.f.ReadAt(c.head[:], c.off); err != nil {
		return Frame{}, notShort(err)
	}
	h, ok := parseHeader(c.head[:])
	if !ok || h.frame.First > c.next {
		return Frame{}, fmt.Errorf("%w: no frame at byte %d", ErrCorrupt, c.off)
	}
	whole := make([]byte, frameHeader+h.body)
	if _, err := c.f.ReadAt(whole, c.off); err != nil {
		return Frame{}, notShort(err)
	}
	h, size, ok := frameAt(whole, 0, c.nonce)
	if !ok {
		return Frame{}, fmt.Errorf("%w: the frame at byte %d was damaged since it was written", ErrCorrupt, c.off)
	}
	c.off += size
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

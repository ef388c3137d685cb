package state

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Log keeps rows that are only ever added and that leave by their age: the state
// of operators whose every row is new. Rows are grouped by key group and by time
// bucket and stand in the KV in blocks of up to 64 KiB; a bucket that has
// expired goes as one range. What the rows are good for (an index over them) is
// the caller's, who rebuilds it when the log is opened.
//
// Rows reach the KV at Flush or, in full blocks, before it. Like its KV a Log has
// one user.
type Log struct {
	kv     KV
	opts   LogOptions
	groups [NumGroups]logGroup
	key    []byte
	rows   int
}

// LogOptions are part of the format: a log is opened with those it was written
// with.
type LogOptions struct {
	// Prefix is the first byte of the log's keys within the operator's KV.
	Prefix byte
	// Bucket is the width of a time bucket, in the unit of the times, above 0.
	Bucket int64
	// RowWidth is the length of every row in bytes; 0 means that rows vary, and
	// then each has its length before it.
	RowWidth int
}

const (
	logBlock = 64 << 10
	// A block that is still shorter than logRewrite is written again with the
	// next rows behind it; a longer one stays, and the next rows begin another.
	// It keeps both the number of blocks and the bytes written in bounds when an
	// epoch adds few rows.
	logRewrite = 4 << 10
)

type logGroup struct {
	buckets []*logBucket // few, in the order of their first row
	last    *logBucket   // where the last row went
	dirty   bool
}

// logBucket is one bucket of one key group.
type logBucket struct {
	n       int64  // bucket number: time / width, rounded down
	next    uint32 // number of the block that begins with tail
	tail    []byte // what Flush writes; it begins with a block that may be rewritten
	flushed int    // how much of tail is in the KV already
	rows    int
}

// OpenLog reads the log of groups that stands in kv and hands every row to visit
// in the order of group, bucket and Append. visit borrows row.
func OpenLog(kv KV, groups Groups, o LogOptions, visit func(group int, row []byte) error) (*Log, error) {
	if o.Bucket <= 0 || o.RowWidth < 0 {
		return nil, errors.New("log: the bucket must be above 0 and the row width not below")
	}
	l := &Log{kv: kv, opts: o}
	for g := groups.Lo; g < groups.Hi; g++ {
		err := kv.Scan(g, []byte{o.Prefix}, prefixEnd(o.Prefix), func(k, block []byte) error {
			return l.load(g, k, block, visit)
		})
		if err != nil {
			return nil, fmt.Errorf("load log of key group %d: %w", g, err)
		}
	}
	return l, nil
}

func (l *Log) load(g int, key, block []byte, visit func(group int, row []byte) error) error {
	if len(key) != logKeyLen {
		return fmt.Errorf("log key %x: expected %d bytes", key, logKeyLen)
	}
	b := l.bucket(g, parseTime(key[1:]))
	b.next = binary.BigEndian.Uint32(key[9:]) + 1
	b.tail, b.flushed = b.tail[:0], 0
	if len(block) < logRewrite {
		b.next--
		b.tail = append(b.tail, block...)
		b.flushed = len(block)
	}
	for rest := block; len(rest) > 0; {
		row, n := l.row(rest)
		if n <= 0 {
			return fmt.Errorf("log block %x ends within a row", key)
		}
		if err := visit(g, row); err != nil {
			return err
		}
		b.rows++
		l.rows++
		rest = rest[n:]
	}
	return nil
}

// row returns the first row of block and its length there, 0 if it is cut off.
func (l *Log) row(block []byte) ([]byte, int) {
	if w := l.opts.RowWidth; w > 0 {
		if len(block) < w {
			return nil, 0
		}
		return block[:w], w
	}
	n, h := binary.Uvarint(block)
	if h <= 0 || uint64(len(block)-h) < n {
		return nil, 0
	}
	return block[h : h+int(n)], h + int(n)
}

// bucket returns the bucket n of a group, making it if it is new.
func (l *Log) bucket(g int, n int64) *logBucket {
	gr := &l.groups[g]
	if gr.last != nil && gr.last.n == n {
		return gr.last
	}
	for _, b := range gr.buckets {
		if b.n == n {
			gr.last = b
			return b
		}
	}
	b := &logBucket{n: n}
	gr.buckets = append(gr.buckets, b)
	gr.last = b
	return b
}

func (l *Log) bucketOf(at int64) int64 {
	n := at / l.opts.Bucket
	if at%l.opts.Bucket < 0 {
		n--
	}
	return n
}

// Append adds a row of a group the log was opened with. It copies row. With a
// RowWidth the row must have it. A block that is full goes to the KV at once, so
// that its bytes are counted there.
func (l *Log) Append(group int, at int64, row []byte) error {
	b := l.bucket(group, l.bucketOf(at))
	if l.opts.RowWidth == 0 {
		b.tail = binary.AppendUvarint(b.tail, uint64(len(row)))
	}
	b.tail = append(b.tail, row...)
	b.rows++
	l.rows++
	l.groups[group].dirty = true
	if len(b.tail) > logBlock {
		return l.write(group, b, logBlock)
	}
	return nil
}

// Len is the number of rows.
func (l *Log) Len() int { return l.rows }

// Rows is the number of rows of one group.
func (l *Log) Rows(group int) int {
	n := 0
	for _, b := range l.groups[group].buckets {
		n += b.rows
	}
	return n
}

// Flush writes the rows added since the last Flush into the KV.
func (l *Log) Flush() error {
	for g := range l.groups {
		gr := &l.groups[g]
		if !gr.dirty {
			continue
		}
		gr.dirty = false
		for _, b := range gr.buckets {
			if err := l.write(g, b, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// write writes blocks of a bucket's tail until no more than keep bytes are left
// that are not in the KV.
func (l *Log) write(g int, b *logBucket, keep int) error {
	rest := b.tail
	for len(rest) > keep && len(rest) > b.flushed {
		n := l.blockLen(rest)
		if err := l.kv.Set(g, l.blockKey(b.n, b.next), rest[:n]); err != nil {
			return fmt.Errorf("write log of key group %d: %w", g, err)
		}
		b.flushed = 0
		if n < logRewrite {
			b.flushed = n
			break
		}
		b.next++
		rest = rest[n:]
	}
	switch {
	case len(rest) == 0 && cap(b.tail) > 4*logRewrite:
		b.tail = nil
	case len(rest) < len(b.tail):
		b.tail = append(b.tail[:0], rest...)
	}
	return nil
}

// blockLen is how much of rows, whole rows, fits into one block; a single row
// may be longer than that.
func (l *Log) blockLen(rows []byte) int {
	if len(rows) <= logBlock {
		return len(rows)
	}
	if w := l.opts.RowWidth; w > 0 {
		return max(w, logBlock/w*w)
	}
	n := 0
	for {
		_, k := l.row(rows[n:])
		if n > 0 && n+k > logBlock || k == 0 {
			return n
		}
		n += k
	}
}

// Expire drops every bucket that ends at or before before: all of its rows have
// at < before. The rows of later buckets stay whatever their time.
func (l *Log) Expire(before int64) error {
	first := l.bucketOf(before)
	for g := range l.groups {
		gr := &l.groups[g]
		for i := 0; i < len(gr.buckets); {
			b := gr.buckets[i]
			if b.n >= first {
				i++
				continue
			}
			if b.next > 0 || b.flushed > 0 {
				if err := l.kv.DeleteRange(g, l.blockKey(b.n, 0), l.endKey(b.n)); err != nil {
					return fmt.Errorf("expire log of key group %d: %w", g, err)
				}
			}
			l.rows -= b.rows
			gr.last = nil
			gr.buckets = append(gr.buckets[:i], gr.buckets[i+1:]...)
		}
	}
	return nil
}

// Oldest returns the start of the oldest bucket that Expire(before) keeps.
func (l *Log) Oldest(before int64) int64 { return l.bucketOf(before) * l.opts.Bucket }

// logKeyLen: prefix, bucket, block number.
const logKeyLen = 1 + 8 + 4

func (l *Log) blockKey(bucket int64, block uint32) []byte {
	l.key = appendTime(append(l.key[:0], l.opts.Prefix), bucket)
	l.key = binary.BigEndian.AppendUint32(l.key, block)
	return l.key
}

func (l *Log) endKey(bucket int64) []byte { return appendTime([]byte{l.opts.Prefix}, bucket+1) }

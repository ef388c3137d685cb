package wal

// backlog counts what is durable and not yet committed, frame by frame.
type backlog struct {
	frames []pending
	bytes  int64
	rows   int64
}

type pending struct {
	next        uint64
	rows, bytes int64
	arrived     int64
}

func (b *backlog) add(f Frame) {
	p := pending{f.Next(), int64(f.Records), f.size(), f.Arrived}
	b.frames = append(b.frames, p)
	b.bytes += p.bytes
	b.rows += p.rows
}

// drop forgets frames whose records are all below upTo.
func (b *backlog) drop(upTo uint64) {
	n := 0
	for n < len(b.frames) && b.frames[n].next <= upTo {
		b.bytes -= b.frames[n].bytes
		b.rows -= b.frames[n].rows
		n++
	}
	b.frames = b.frames[n:]
	if len(b.frames) == 0 {
		b.frames = nil
	}
}

// Backlog is what waits for a commit.
type Backlog struct {
	Bytes, Rows int64
	// Oldest is when the oldest record of it arrived, in microseconds; 0 without
	// one.
	Oldest int64
	// Acked is the sequence number below which everything is committed, Next the
	// one that the next record gets.
	Acked, Next uint64
	// Disk is what the segments take.
	Disk int64
}

// Backlog returns what waits for a commit.
func (l *Log) Backlog() Backlog {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := Backlog{Bytes: l.mu.backlog.bytes, Rows: l.mu.backlog.rows, Acked: l.mu.acked, Next: l.mu.next}
	if len(l.mu.backlog.frames) > 0 {
		b.Oldest = l.mu.backlog.frames[0].arrived
	}
	for _, s := range l.mu.segments {
		b.Disk += s.size
	}
	return b
}

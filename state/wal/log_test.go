package wal

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func open(t *testing.T, fs vfs.FS, segment int64) *Log {
	t.Helper()
	l, err := Open("w", Options{FS: fs, SegmentBytes: segment})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func bodies(t *testing.T, l *Log, from uint64) (out []string) {
	t.Helper()
	c, err := l.Read(from)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for {
		f, ok, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return out
		}
		out = append(out, fmt.Sprintf("%d+%d %s", f.First, f.Records, f.Body))
	}
}

func TestWhatWasAppendedIsReadAgainInOrder(t *testing.T) {
	fs := vfs.NewMem()
	l := open(t, fs, 200)
	var want []string
	for i := range 20 {
		f := Frame{Records: uint32(i%3 + 1), Arrived: int64(i), Body: fmt.Appendf(nil, "body %d", i)}
		first, err := l.Append([]Frame{f})
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, fmt.Sprintf("%d+%d %s", first, f.Records, f.Body))
	}
	if got := bodies(t, l, 1); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("got  %v\nwant %v", got, want)
	}
	if err := l.Truncate(15); err != nil {
		t.Fatal(err)
	}
	before := l.Backlog()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, fs, 200)
	defer l.Close()
	if got := l.Backlog(); got != before {
		t.Fatalf("backlog %+v, want %+v", got, before)
	}
	got := bodies(t, l, 15)
	if fmt.Sprint(got) != fmt.Sprint(want[7:]) {
		t.Fatalf("got  %v\nwant %v", got, want[7:])
	}
}

// The power goes between the name of a new segment and the marker, which then tells an
// older place, in a segment before the last. What stands there was synced: it stays
// where it is, so that a truncation behind it removes nothing else.
func TestAMarkerOfAnEarlierSegmentMovesNothing(t *testing.T) {
	for next := uint64(1); next <= 8; next++ {
		fs := vfs.NewMem()
		l := open(t, fs, 100)
		var want []string
		add := func(from, to int) {
			for i := from; i < to; i++ {
				body := fmt.Sprintf("body %d, of some length", i)
				first, err := l.Append([]Frame{{Records: 1, Body: []byte(body)}})
				must(t, err)
				want = append(want, fmt.Sprintf("%d+1 %s", first, body))
			}
		}
		add(0, 8)
		if n := len(l.mu.segments); n < 3 {
			t.Fatalf("%d segments, want at least 3", n)
		}
		must(t, l.Close())
		write(t, fs, "w/"+markerName, mark{next: next, acked: 1}.encode())
		l = open(t, fs, 100)
		add(8, 10)
		must(t, l.Truncate(4))
		for range 2 {
			if got := bodies(t, l, 4); fmt.Sprint(got) != fmt.Sprint(want[3:]) {
				t.Fatalf("marker at %d: got  %v\nwant %v", next, got, want[3:])
			}
			must(t, l.Close())
			l = open(t, fs, 100)
		}
		must(t, l.Close())
	}
}

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

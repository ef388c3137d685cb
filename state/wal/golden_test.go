package wal

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// goldenImage is a log with everything that the format has: its nonces are fixed.
func goldenImage() image {
	nonce := uint64(0x0102030405060708)
	first := segmentStart(1, nonce)
	first, next := appendFrames(first, []Frame{
		{Records: 2, Arrived: 1_700_000_000_000_000, Kind: 1, Body: []byte("first body")},
		{Records: 1, Arrived: 1_700_000_000_000_000, Kind: 1, Body: []byte("of the same append")},
	}, nonce, 1)
	first, next = appendFrames(first, []Frame{{Records: 300, Arrived: 1_700_000_000_000_001, Kind: KindLost}}, nonce, next)
	second := segmentStart(next, nonce+1)
	second, end := appendFrames(second, []Frame{{Records: 1, Arrived: 1_700_000_000_000_002, Kind: 7}}, nonce+1, next)
	run := keyRunName{1, 304}
	return image{
		segmentName(1):    first,
		segmentName(next): second,
		markerName:        mark{end, 3}.encode(),
		"aux.schema":      encodeFile([]byte("a file of the owner")),
		run.name(): encodeKeyRun(run, []KeyEntry{
			{Key: Key{1: 1}, Digest: 2, First: 3, Arrived: 1_700_000_000_000_000, Accepted: 4, More: []byte("more")},
			{Key: Key{1: 2}, First: 5, Arrived: 1_700_000_000_000_001, Accepted: 6},
		}),
	}
}

// The bytes of the format, version 1, stay as they are; a change needs a version of
// its own and golden files beside these.
func TestTheFormatIsAsItWas(t *testing.T) {
	dir := filepath.Join("testdata", "wal-v1")
	want := goldenImage()
	if *rewrite {
		must(t, os.MkdirAll(dir, 0o755))
		for name, data := range want {
			must(t, os.WriteFile(filepath.Join(dir, name+".hex"), []byte(dump(data)), 0o644))
		}
	}
	files, err := os.ReadDir(dir)
	must(t, err)
	if len(files) != len(want) {
		t.Fatalf("%d files in %s, want %d", len(files), dir, len(want))
	}
	golden := image{}
	for name, data := range want {
		text, err := os.ReadFile(filepath.Join(dir, name+".hex"))
		must(t, err)
		golden[name], err = hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
		must(t, err)
		if !bytes.Equal(golden[name], data) {
			t.Errorf("%s is written differently:\n%s", name, dump(data))
		}
	}
	fs := golden.mem(t)
	l, err := Open("w", Options{FS: fs})
	must(t, err)
	got, err := frames(l)
	must(t, err)
	wantFrames := []string{
		"1+2 at 1700000000000000 kind 1: " + hex.EncodeToString([]byte("first body")),
		"3+1 at 1700000000000000 kind 1: " + hex.EncodeToString([]byte("of the same append")),
		"4+300 at 1700000000000001 kind 255: ",
		"304+1 at 1700000000000002 kind 7: ",
	}
	if !slices.Equal(got, wantFrames) {
		t.Fatalf("frames %v, want %v", got, wantFrames)
	}
	if b := l.Backlog(); b.Acked != 3 || b.Next != 305 || b.Rows != 302 {
		t.Fatalf("backlog %+v", b)
	}
	aux, err := l.File("aux.schema")
	must(t, err)
	if string(aux) != "a file of the owner" {
		t.Fatalf("file %q", aux)
	}
	must(t, l.Close())
	entries, err := readKeyRun(fs, "w/"+keyRunName{1, 304}.name(), keyRunName{1, 304})
	must(t, err)
	if len(entries) != 2 || string(entries[0].More) != "more" || entries[1].Accepted != 6 {
		t.Fatalf("keys %+v", entries)
	}
}

// dump is hex, 32 bytes a line.
func dump(b []byte) string {
	var out strings.Builder
	for len(b) > 0 {
		n := min(32, len(b))
		fmt.Fprintf(&out, "%x\n", b[:n])
		b = b[n:]
	}
	return out.String()
}

func TestANewerVersionIsRefusedByName(t *testing.T) {
	for name := range goldenImage() {
		m := goldenImage()
		m[name][7]++
		fs := m.mem(t)
		_, err := OpenKeys("w", KeysOptions{FS: fs})
		if err == nil {
			var l *Log
			if l, err = Open("w", Options{FS: fs}); err == nil {
				_, err = l.File("aux.schema")
				must(t, l.Close())
			}
		}
		if !errors.Is(err, ErrVersion) {
			t.Errorf("%s of version 2: %v", name, err)
			continue
		}
		// What, where, what to do, what it has and what is known.
		want := name + ": the write-ahead log was written by a newer frazil: run that one: version 2 of the format, and this program knows up to 1"
		if !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s of version 2: %v\nwant at its end %s", name, err, want)
		}
	}
}

// On a disk that is full nothing is lost, and it goes on by itself when there is
// room. The real disk is tested in test/push.
func TestAFullDiskKeepsWhatWasPromised(t *testing.T) {
	room := 0
	mem := vfs.NewMem()
	full := &smallFS{FS: mem, room: &room}
	l, err := Open("w", Options{FS: mem, SegmentBytes: 1000})
	must(t, err)
	must(t, l.Close())
	room = 5000
	l, err = Open("w", Options{FS: full, SegmentBytes: 1000})
	must(t, err)
	promised, refused := 0, 0
	for i := range 300 {
		_, err := l.Append([]Frame{{Records: 1, Kind: 1, Body: fmt.Appendf(nil, "%090d", i)}})
		switch {
		case err == nil:
			promised++
		case errors.Is(err, ErrFull) && !errors.Is(err, ErrBroken):
			refused++
			room += 100
		default:
			t.Fatal(err)
		}
	}
	if refused == 0 {
		t.Fatal("the disk was never full")
	}
	must(t, l.Close())
	l, err = Open("w", Options{FS: mem})
	must(t, err)
	defer l.Close()
	got, err := frames(l)
	must(t, err)
	if len(got) != promised {
		t.Fatalf("%d records, promised were %d", len(got), promised)
	}
}

// smallFS has room for so many bytes.
type smallFS struct {
	vfs.FS
	room *int
}

type smallFile struct {
	vfs.File
	room *int
}

func (s *smallFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := s.FS.Create(name, c)
	if err != nil {
		return nil, err
	}
	return &smallFile{f, s.room}, nil
}

// Write writes what there is room for, as a real disk does.
func (f *smallFile) Write(b []byte) (int, error) {
	if n := *f.room; n < len(b) {
		*f.room = 0
		_, _ = f.File.Write(b[:n])
		return n, syscall.ENOSPC
	}
	*f.room -= len(b)
	return f.File.Write(b)
}

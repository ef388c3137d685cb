package wal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// long says that the full tests are asked for.
func long() bool { return os.Getenv("FRAZIL_LONG") != "" }

// image is what stands in a directory.
type image map[string][]byte

func takeImage(t *testing.T, fs vfs.FS) image {
	t.Helper()
	names, err := fs.List("w")
	must(t, err)
	out := image{}
	for _, name := range names {
		if name != "LOCK" {
			out[name], err = readFile(fs, fs.PathJoin("w", name))
			must(t, err)
		}
	}
	return out
}

func (m image) mem(t *testing.T) vfs.FS {
	fs := vfs.NewMem()
	must(t, fs.MkdirAll("w", 0o755))
	for name, data := range m {
		write(t, fs, fs.PathJoin("w", name), data)
	}
	return fs
}

// frames reads all that an opened log says is durable, by its cursor.
func frames(l *Log) (out []string, err error) {
	c, err := l.Read(l.First())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for {
		f, ok, err := c.Next()
		if err != nil || !ok {
			return out, err
		}
		out = append(out, frameText(f))
	}
}

func frameText(f Frame) string {
	return fmt.Sprintf("%d+%d at %d kind %d: %x", f.First, f.Records, f.Arrived, f.Kind, f.Body)
}

// everything is what a directory holds, by all ways to read it.
func everything(fs vfs.FS) (out []string, err error) {
	var visited []string
	k, err := OpenKeys("w", KeysOptions{FS: fs, Keep: time.Hour, Now: func() time.Time { return time.Unix(0, 0) }})
	if err != nil {
		return nil, err
	}
	defer k.Close()
	l, err := Open("w", Options{FS: fs, Visit: func(f Frame) error { visited = append(visited, frameText(f)); return nil }})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if out, err = frames(l); err != nil {
		return nil, err
	}
	if !slices.Equal(out, visited) {
		return nil, fmt.Errorf("visited %d frames, read %d", len(visited), len(out))
	}
	b := l.Backlog()
	out = append(out, fmt.Sprintf("acked %d next %d", b.Acked, b.Next))
	aux, err := l.File("aux.schema")
	if err != nil {
		return nil, err
	}
	out = append(out, string(aux))
	for i := range 400 {
		e, ok, err := k.Find(keyOf(fmt.Sprint(i)))
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, fmt.Sprint(e))
		}
	}
	return out, nil
}

// damageable is a log with several segments, keys and a file beside them.
func damageable(t *testing.T, rnd *rand.Rand) image {
	t.Helper()
	fs := vfs.NewMem()
	l, err := Open("w", Options{FS: fs, SegmentBytes: 70 << 10})
	must(t, err)
	must(t, l.PutFile("aux.schema", []byte("a schema of some kind")))
	k, err := OpenKeys("w", KeysOptions{FS: fs, Keep: time.Hour})
	must(t, err)
	for l.Next() < 1400 || l.mu.segments[len(l.mu.segments)-1].size < 64<<10 {
		var fs []Frame
		for range 1 + rnd.IntN(3) {
			body := make([]byte, rnd.IntN(800))
			for i := range body {
				body[i] = byte(rnd.Uint32())
			}
			fs = append(fs, Frame{Records: uint32(1 + rnd.IntN(5)), Arrived: rnd.Int64N(1 << 40), Kind: 1, Body: body})
		}
		first, err := l.Append(fs)
		must(t, err)
		if first < 500 {
			k.Put(l.Next(), KeyEntry{Key: keyOf(fmt.Sprint(first)), First: first, Arrived: 1, More: fs[0].Body[:len(fs[0].Body)/10]})
		}
		if first > 200 && first < 220 {
			must(t, k.Save())
		}
	}
	must(t, k.Save())
	must(t, l.Truncate(500))
	must(t, errors.Join(l.Close(), k.Close()))
	return takeImage(t, fs)
}

func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if n, err := strconv.ParseUint(os.Getenv("FRAZIL_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// same fails unless damage was refused or what was there is read exactly.
// How far the log was committed is a hint that SYNCED alone holds.
func same(t *testing.T, want []string, fs vfs.FS, format string, args ...any) (refused bool) {
	t.Helper()
	got, err := everything(fs)
	if err != nil {
		if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) && !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("%s: refused by an error of another kind: %v", fmt.Sprintf(format, args...), err)
		}
		return true
	}
	hint := func(s string) bool { return strings.HasPrefix(s, "acked") }
	if !slices.Equal(slices.DeleteFunc(got, hint), slices.DeleteFunc(slices.Clone(want), hint)) {
		t.Fatalf("%s: silently read something else: %d things instead of %d", fmt.Sprintf(format, args...), len(got), len(want))
	}
	return false
}

func TestALogThatWasCutIsRefused(t *testing.T) {
	m := damageable(t, seeded(t))
	want, err := everything(m.mem(t))
	must(t, err)
	last := m.last(t)
	whole := m[last]
	from := max(0, len(whole)-64<<10)
	step := 1
	if !long() {
		step = 61
	}
	refused := 0
	for n := from; n < len(whole); n += step {
		m[last] = whole[:n]
		if same(t, want, m.mem(t), "cut at byte %d of %d", n, len(whole)) {
			refused++
		}
		// Zeros in place of what was cut, as after a power loss.
		m[last] = append(bytes.Clone(whole[:n]), make([]byte, len(whole)-n)...)
		same(t, want, m.mem(t), "zeros from byte %d of %d", n, len(whole))
	}
	if refused == 0 {
		t.Fatal("nothing was refused")
	}
	for name := range m {
		if !strings.HasSuffix(name, segmentSuffix) {
			continue
		}
		one := m[name]
		delete(m, name)
		if !same(t, want, m.mem(t), "without %s", name) {
			t.Fatalf("%s is missing, and nobody noticed", name)
		}
		m[name] = one
	}
}

func (m image) last(t *testing.T) (name string) {
	for n := range m {
		if strings.HasSuffix(n, segmentSuffix) && n > name {
			name = n
		}
	}
	if name == "" || len(m[name]) < 10_000 {
		t.Fatalf("the last segment %q has %d bytes", name, len(m[name]))
	}
	return name
}

func TestAFlippedBitIsRefusedOrDoesNoHarm(t *testing.T) {
	rnd := seeded(t)
	m := damageable(t, rnd)
	want, err := everything(m.mem(t))
	must(t, err)
	n := 500
	if long() {
		n = 10_000
	}
	var names []string
	total := 0
	for name, data := range m {
		names, total = append(names, name), total+len(data)
	}
	slices.Sort(names)
	flip := func(name string, bit int) {
		m[name][bit/8] ^= 1 << (bit % 8)
		same(t, want, m.mem(t), "bit %d of %s flipped", bit, name)
		m[name][bit/8] ^= 1 << (bit % 8)
	}
	for range n {
		at := rnd.IntN(total * 8)
		for _, name := range names {
			if size := len(m[name]) * 8; at >= size {
				at -= size
				continue
			}
			flip(name, at)
			break
		}
	}
	for _, name := range names { // The small and the special places.
		for bit := range min(len(m[name])*8, 8*72) {
			flip(name, bit)
		}
	}
}

// A torn tail is what a kill or a power loss leaves of an append that nobody was
// told of.
func TestATornTailIsLeftOutExactly(t *testing.T) {
	rnd := seeded(t)
	m := damageable(t, rnd)
	want, err := everything(m.mem(t))
	must(t, err)
	last := m.last(t)
	whole := bytes.Clone(m[last])
	nonce, err := checkStart(whole, mustFirst(t, last))
	must(t, err)
	next := uint64(0)
	_, _, err = parseSegment(whole, last, mustFirst(t, last), 0, func(f Frame, _ int64) { next = f.Next() })
	must(t, err)
	torn, _ := appendFrames(nil, []Frame{{Records: 3, Body: []byte("one")}, {Records: 1, Body: bytes.Repeat([]byte("two"), 50)}}, nonce, next)
	for n := range len(torn) {
		m[last] = append(bytes.Clone(whole), torn[:n]...)
		if same(t, want, m.mem(t), "%d bytes of an append that was torn", n) {
			t.Fatalf("%d bytes of an append that was torn: refused", n)
		}
		// Any part of it may be missing, not only the end.
		holes := append(bytes.Clone(whole), torn...)
		for i := range torn {
			if i/64 == n/64 {
				holes[len(whole)+i] = 0
			}
		}
		m[last] = holes
		if same(t, want, m.mem(t), "a hole at byte %d of an append that was torn", n/64*64) {
			t.Fatalf("a hole in an append that was torn: refused")
		}
	}
	m[last] = append(bytes.Clone(whole), torn...)
	fs := m.mem(t)
	got, err := everything(fs)
	must(t, err)
	if len(got) != len(want)+2 {
		t.Fatalf("a whole append that nobody was told of: %d things, want %d", len(got), len(want)+2)
	}
	again, err := everything(fs)
	must(t, err)
	if !slices.Equal(got, again) {
		t.Fatal("opened twice, read differently")
	}
}

func mustFirst(t *testing.T, name string) (first uint64) {
	t.Helper()
	_, err := fmt.Sscanf(name, "%d"+segmentSuffix, &first)
	must(t, err)
	return first
}

func FuzzSegment(f *testing.F) {
	b := segmentStart(1, 7)
	b, _ = appendFrames(b, []Frame{{Records: 2, Body: []byte("hello")}, {Records: 1, Kind: 3}}, 7, 1)
	f.Add(b, uint64(0))
	f.Add(b[:len(b)-1], uint64(3))
	f.Fuzz(func(t *testing.T, data []byte, until uint64) {
		next := uint64(1)
		s, _, err := parseSegment(data, "x", 1, until, func(f Frame, at int64) {
			if f.First != next || f.Next() <= f.First || at+f.size() > int64(len(data)) {
				t.Fatalf("frame %+v at %d behind record %d", f, at, next)
			}
			next = f.Next()
		})
		if err == nil && (s.next != next || s.size > int64(len(data)) || until != 0 && s.next != until) {
			t.Fatalf("segment %+v, next %d, until %d", s, next, until)
		}
	})
}

func FuzzKeyRun(f *testing.F) {
	n := keyRunName{1, 9}
	f.Add(encodeKeyRun(n, []KeyEntry{{Key: keyOf("a"), First: 3, More: []byte("more")}, {Key: keyOf("b")}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := decodeKeyRun(data, n)
		if err == nil && !bytes.Equal(encodeKeyRun(n, entries), data) {
			t.Fatal("read without an error, and written differently")
		}
	})
}

func FuzzFile(f *testing.F) {
	f.Add(encodeFile([]byte("x")))
	f.Fuzz(func(t *testing.T, data []byte) {
		fs := vfs.NewMem()
		write(t, fs, "f", data)
		if got, err := readAux(fs, "", "f"); err == nil && !bytes.Equal(encodeFile(got), data) {
			t.Fatal("read without an error, and written differently")
		}
	})
}

var _ io.Closer = (*Log)(nil)

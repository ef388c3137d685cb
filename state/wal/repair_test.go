package wal

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// What is given up is what Inspect listed, and everything else is still there.
func TestRepairGivesUpWhatItSaysAndNothingElse(t *testing.T) {
	rnd := seeded(t)
	m := damageable(t, rnd)
	all := map[string]bool{}
	intact := m.mem(t)
	want, err := everything(intact)
	must(t, err)
	for _, w := range want {
		all[w] = true
	}
	whole, err := inspect(intact, "w")
	must(t, err)
	if len(whole.Problems) > 0 || len(whole.Lost) > 0 || whole.Committed != 499 {
		t.Fatalf("an intact log: %+v", whole)
	}
	var names []string
	for name := range m {
		if strings.HasSuffix(name, segmentSuffix) || strings.HasSuffix(name, keySuffix) || name == markerName {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	repaired := 0
	for range 150 {
		name := names[rnd.IntN(len(names))]
		old := m[name]
		b := slices.Clone(old)
		switch rnd.IntN(3) {
		case 0:
			b[rnd.IntN(len(b))] ^= 1 << rnd.IntN(8)
		case 1:
			b = b[:rnd.IntN(len(b))]
		case 2:
			at := rnd.IntN(len(b))
			clear(b[at:min(len(b), at+3000)])
		}
		m[name] = b
		fs := m.mem(t)
		_, before := everything(fs)
		info, err := inspect(fs, "w")
		must(t, ignoreVersion(err))
		if err == nil {
			if (len(info.Problems) > 0) != (before != nil) && name != markerName {
				t.Fatalf("%s: opened with %v, inspected: %+v", name, before, info.Problems)
			}
			got, err := repair(fs, "w")
			must(t, err)
			checkRepaired(t, fs, all, got)
			repaired++
		}
		m[name] = old
	}
	if repaired == 0 {
		t.Fatal("nothing was repaired")
	}
}

func ignoreVersion(err error) error {
	if errors.Is(err, ErrVersion) {
		return nil
	}
	return err
}

func checkRepaired(t *testing.T, fs vfs.FS, all map[string]bool, info *Info) {
	t.Helper()
	got, err := everything(fs)
	if err != nil {
		t.Fatalf("after a repair: %v (%+v)", err, info)
	}
	l, err := Open("w", Options{FS: fs})
	must(t, err)
	defer l.Close()
	c, err := l.Read(l.First())
	must(t, err)
	defer c.Close()
	var lost []Range
	for {
		f, ok, err := c.Next()
		must(t, err)
		if !ok {
			break
		}
		if f.Kind != KindLost {
			if !all[frameText(f)] {
				t.Fatalf("after a repair there is a frame that was never written: %s", frameText(f))
			}
			continue
		}
		r := Range{f.First, f.Next() - 1}
		if n := len(lost); n > 0 && lost[n-1].Last+1 == r.First {
			lost[n-1].Last = r.Last
			continue
		}
		lost = append(lost, r)
	}
	if want := joined(info.Lost); !slices.Equal(lost, want) {
		t.Fatalf("given up %v, told %v", lost, want)
	}
	if l.Next() < info.Synced+1 {
		t.Fatalf("numbers of synced records are free again: next is %d, synced %d", l.Next(), info.Synced)
	}
	_ = got
}

func joined(list []Range) (out []Range) {
	for _, r := range list {
		if n := len(out); n > 0 && out[n-1].Last+1 == r.First {
			out[n-1].Last = r.Last
			continue
		}
		out = append(out, r)
	}
	return out
}

// A log that is appended to and truncated meanwhile is no damaged one.
func TestInspectBesideAWriter(t *testing.T) {
	fs := vfs.NewMem()
	l, err := Open("w", Options{FS: fs, SegmentBytes: 2000})
	must(t, err)
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < 20_000 && err == nil; i++ {
			var first uint64
			first, err = l.Append([]Frame{{Records: 2, Kind: 1, Body: make([]byte, 100)}})
			if err == nil && i%7 == 0 {
				err = l.Truncate(first)
			}
		}
		done <- err
	}()
	for n := 0; ; n++ {
		info, err := inspect(fs, "w")
		must(t, err)
		if len(info.Problems) > 0 || len(info.Lost) > 0 {
			t.Fatalf("look %d: %+v", n, info)
		}
		select {
		case err := <-done:
			must(t, err)
			must(t, l.Close())
			return
		default:
		}
	}
}

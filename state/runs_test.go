package state

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// runRow is a row of a test: a key in few groups, a time, a word of its own.
func runRow(hi, lo, at, word uint64) []byte {
	b := binary.BigEndian.AppendUint64(nil, hi)
	b = binary.BigEndian.AppendUint64(b, lo)
	b = binary.BigEndian.AppendUint64(b, at)
	return binary.BigEndian.AppendUint64(b, word)
}

// Runs against a list, over merges, expiry, restarts and lost epochs.
func TestRunsFindWhatWasAddedUntilItExpires(t *testing.T) {
	r := testSeed(t)
	o := RunsOptions{Prefix: 'c', RowWidth: 32}
	s := openMem(t, vfs.NewMem())
	type row struct{ hi, lo, at, word uint64 }
	model := map[int][]row{}
	keep := uint64(0)
	find := func(g int, hi, lo, from, to uint64) map[uint64]bool {
		words := map[uint64]bool{}
		for _, x := range model[g] {
			if x.hi == hi && x.lo == lo && x.at >= from && x.at <= to {
				words[x.word] = true
			}
		}
		return words
	}
	word := uint64(0)
	// Keys of one group collide in their first half now and then.
	key := func() (g int, hi, lo uint64) {
		g = r.IntN(4) * 64
		return g, uint64(g)<<56 | uint64(r.IntN(40))<<r.IntN(50), uint64(r.IntN(30))
	}
	mostRuns, merged := 0, false
	for epoch := range 90 {
		tasks := 1 + r.IntN(3)
		var runs []*Runs
		var kvs []*TaskKV
		for i := range tasks {
			kv := openKV(t, s, "step", GroupsOf(i, tasks))
			x, err := OpenRuns(kv, kv.groups, o)
			must(t, err)
			must(t, x.Expire(keep))
			runs, kvs = append(runs, x), append(kvs, kv)
		}
		before := map[int][]row{}
		for g, rows := range model {
			before[g] = append([]row(nil), rows...)
		}
		keepBefore := keep
		for range 1 + r.IntN(6) {
			g, _, _ := key()
			var rows []byte
			for range r.IntN(600) {
				kg, hi, lo := key()
				if kg != g {
					continue
				}
				word++
				x := row{hi, lo, keep + uint64(r.IntN(1000)), word}
				model[g] = append(model[g], x)
				rows = append(rows, runRow(x.hi, x.lo, x.at, x.word)...)
			}
			x := runs[TaskOf(g, tasks)]
			had := x.Group(g)
			must(t, x.Add(g, rows))
			merged = merged || x.Group(g) < had
			mostRuns = max(mostRuns, x.Group(g))
		}
		if r.IntN(4) == 0 {
			keep += uint64(r.IntN(900))
			for _, x := range runs {
				must(t, x.Expire(keep))
			}
		}
		for range 300 {
			g, hi, lo := key()
			from := keep + uint64(r.IntN(1000))
			to := from + uint64(r.IntN(500))
			got, err := runs[TaskOf(g, tasks)].Find(g, hi, lo, from, to)
			must(t, err)
			want := find(g, hi, lo, from, to)
			if got == nil && len(want) > 0 || got != nil && !want[binary.BigEndian.Uint64(got[24:])] {
				t.Fatalf("epoch %d, group %d, key %x %x from %d to %d: got %x, want one of %v", epoch, g, hi, lo, from, to, got, want)
			}
			if want != nil && len(want) > 0 && !runs[TaskOf(g, tasks)].MayHave(g, lo) {
				t.Fatal("the filter denies a key that is there")
			}
		}
		if r.IntN(5) == 0 { // The epoch is lost.
			s.Reset()
			model, keep = before, keepBefore
			continue
		}
		var deltas []*Delta
		for _, kv := range kvs {
			deltas = append(deltas, kv.Freeze())
		}
		must(t, s.Write(deltas, []byte("m")))
	}
	if !merged || mostRuns > runFan*maxTier {
		t.Errorf("merged: %v, most runs of a group: %d", merged, mostRuns)
	}
	kv := openKV(t, s, "step", Groups{0, NumGroups})
	x, err := OpenRuns(kv, kv.groups, o)
	must(t, err)
	must(t, x.Expire(^uint64(0)))
	if x.Len() != 0 || x.Bytes() != 0 {
		t.Errorf("%d rows, %d bytes after all expired", x.Len(), x.Bytes())
	}
}

func TestFilterKnowsWhatItHasAndLittleElse(t *testing.T) {
	r := testSeed(t)
	for _, n := range []int{0, 1, 100, 20_000, 300_000} {
		f := NewFilter(n)
		var in []uint64
		for range n {
			h := r.Uint64()
			in = append(in, h)
			f.Add(h)
		}
		for _, h := range in {
			if !f.Has(h) {
				t.Fatalf("%d hashes: %x is not known", n, h)
			}
		}
		wrong := 0
		const asked = 100_000
		for range asked {
			if f.Has(r.Uint64()) {
				wrong++
			}
		}
		if n >= 100 && wrong > asked/100 {
			t.Errorf("%d hashes: %d of %d others are said to be known", n, wrong, asked)
		}
		if n > 1000 && f.Bytes() > int64(n)*filterBits/8+64 {
			t.Errorf("%d hashes take %d bytes", n, f.Bytes())
		}
		t.Log(fmt.Sprintf("%d hashes: %.2f%%", n, 100*float64(wrong)/asked))
	}
}

func BenchmarkFilterHas(b *testing.B) {
	f := NewFilter(1_000_000)
	for i := range uint64(1_000_000) {
		f.Add(mix(i))
	}
	b.ResetTimer()
	n := 0
	for i := range b.N {
		if f.Has(mix(uint64(i) + 1<<40)) {
			n++
		}
	}
	b.ReportMetric(float64(n)/float64(b.N)*100, "%wrong")
}

// A format: see docs/state-format.md for the rule.
func TestRunsHaveTheirBytes(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	kv := openKV(t, s, "step", allGroups)
	x, err := OpenRuns(kv, allGroups, RunsOptions{Prefix: 'c', RowWidth: 24})
	must(t, err)
	row := func(hi, lo, at uint64) []byte { return runRow(hi, lo, at, 0)[:24] }
	must(t, x.Add(3, append(row(3<<56|9, 2, 7), row(3<<56|1, 1, 5)...)))
	must(t, x.Add(3, row(3<<56|4, 4, 4)))
	var got []string
	must(t, kv.Scan(3, []byte{0}, nil, func(k, v []byte) error {
		got = append(got, fmt.Sprintf("%x = %x", k, v))
		return nil
	}))
	want := []string{
		"6300000000000300000000000001 = 0300000000000001000000000000000100000000000000050300000000000009" + "00000000000000020000000000000007",
		"6300000001000300000000000004 = 030000000000000400000000000000040000000000000004",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

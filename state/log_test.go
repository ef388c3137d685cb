package state

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// logModel is what a log must hold: rows per group and bucket, in order.
type logModel map[int]map[int64][]string

func (m logModel) rows() map[int][]string {
	out := map[int][]string{}
	for g, buckets := range m {
		var ns []int64
		for n := range buckets {
			ns = append(ns, n)
		}
		slices.Sort(ns)
		for _, n := range ns {
			out[g] = append(out[g], buckets[n]...)
		}
	}
	return out
}

func openLog(t *testing.T, kv *TaskKV, o LogOptions) (*Log, map[int][]string) {
	t.Helper()
	rows := map[int][]string{}
	l, err := OpenLog(kv, kv.groups, o, func(g int, row []byte) error {
		rows[g] = append(rows[g], string(row))
		return nil
	})
	must(t, err)
	return l, rows
}

func TestLogKeepsRowsOverRestartsUntilTheirBucketExpires(t *testing.T) {
	r := testSeed(t)
	for _, width := range []int{0, 24, 5000, 70000} {
		o := LogOptions{Prefix: 0xff, Bucket: 100, RowWidth: width}
		s := openMem(t, vfs.NewMem())
		want := logModel{}
		tasks, before, n := 1, int64(-1000), 0
		for epoch := 0; epoch < 40; epoch++ {
			logs := make([]*Log, tasks)
			kvs := make([]*TaskKV, tasks)
			got := map[int][]string{}
			for i := range logs {
				kvs[i] = openKV(t, s, "step", GroupsOf(i, tasks))
				var rows map[int][]string
				logs[i], rows = openLog(t, kvs[i], o)
				for g, x := range rows {
					got[g] = x
				}
			}
			if w := want.rows(); fmt.Sprint(w) != fmt.Sprint(got) {
				t.Fatalf("width %d, epoch %d: loaded rows differ", width, epoch)
			}
			for flush := 0; flush < 1+r.IntN(3); flush++ {
				per := 300
				if width >= 5000 {
					per = 20
				}
				if width == 0 && r.IntN(10) == 0 {
					per = 6000
				}
				for i := r.IntN(per); i > 0; i-- {
					n++
					g := []int{0, 1, 100, 255}[r.IntN(4)]
					at := before + int64(r.IntN(500))
					row := binary.BigEndian.AppendUint64(nil, uint64(n))
					row = append(row, make([]byte, max(width-8, 0))...)
					if width == 0 {
						row = append(row, make([]byte, r.IntN(100))...)
					}
					must(t, logs[TaskOf(g, tasks)].Append(g, at, row))
					bucket := logs[0].bucketOf(at)
					if want[g] == nil {
						want[g] = map[int64][]string{}
					}
					want[g][bucket] = append(want[g][bucket], string(row))
				}
				total := 0
				for _, l := range logs {
					must(t, l.Flush())
					total += l.Len()
				}
				if all := want.rows(); total != len(all[0])+len(all[1])+len(all[100])+len(all[255]) {
					t.Fatalf("width %d, epoch %d: %d rows", width, epoch, total)
				}
				if r.IntN(2) == 0 {
					before += int64(r.IntN(200))
					for _, l := range logs {
						must(t, l.Expire(before))
					}
					for g, buckets := range want {
						for b := range buckets {
							if (b+1)*o.Bucket <= before {
								delete(buckets, b)
							}
						}
						if len(buckets) == 0 {
							delete(want, g)
						}
					}
				}
			}
			var deltas []*Delta
			for _, kv := range kvs {
				deltas = append(deltas, kv.Freeze())
			}
			must(t, s.Write(deltas, nil))
			tasks = 1 + r.IntN(3)
		}
		must(t, s.Close())
	}
}

func TestLogBlocksStayFewAndBounded(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	kv := openKV(t, s, "step", allGroups)
	o := LogOptions{Prefix: 1, Bucket: 1000, RowWidth: 24}
	l, _ := openLog(t, kv, o)
	const rows = 20000
	for i := 0; i < rows; i++ {
		must(t, l.Append(9, 5, make([]byte, 24)))
		if i%10 == 0 {
			must(t, l.Flush())
		}
	}
	must(t, l.Flush())
	blocks := 0
	must(t, kv.Scan(9, nil, nil, func(_, v []byte) error {
		blocks++
		if len(v) > logBlock {
			t.Errorf("a block of %d bytes", len(v))
		}
		return nil
	}))
	if limit := rows*24/logRewrite + 1; blocks > limit {
		t.Fatalf("%d blocks for small flushes, want at most %d", blocks, limit)
	}
	for i := 0; i < rows; i++ {
		must(t, l.Append(10, 5, make([]byte, 24)))
	}
	must(t, l.Flush())
	blocks = 0
	must(t, kv.Scan(10, nil, nil, func(_, v []byte) error { blocks++; return nil }))
	if limit := rows*24/logBlock + 1; blocks > limit {
		t.Fatalf("%d blocks for one large flush, want at most %d", blocks, limit)
	}
	must(t, l.Expire(1000))
	must(t, kv.Scan(10, nil, nil, func(k, _ []byte) error { t.Errorf("key %x stays", k); return nil }))
}

func TestTruncatedLogBlockIsAnError(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	kv := openKV(t, s, "step", allGroups)
	o := LogOptions{Prefix: 1, Bucket: 1000, RowWidth: 24}
	l, _ := openLog(t, kv, o)
	must(t, kv.Set(0, l.blockKey(0, 0), make([]byte, 25)))
	if _, err := OpenLog(kv, allGroups, o, func(int, []byte) error { return nil }); err == nil {
		t.Fatal("no error")
	}
}

func BenchmarkLogAppend(b *testing.B) {
	s, err := Open(b.TempDir(), Options{Logger: quiet})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	kv, err := s.KV("step", allGroups)
	if err != nil {
		b.Fatal(err)
	}
	l, err := OpenLog(kv, allGroups, LogOptions{Prefix: 1, Bucket: 1 << 40, RowWidth: 24}, nil)
	if err != nil {
		b.Fatal(err)
	}
	row := make([]byte, 24)
	b.SetBytes(24)
	for i := 0; b.Loop(); i++ {
		binary.LittleEndian.PutUint64(row, uint64(i)*0x9e3779b97f4a7c15)
		if err := l.Append(int(row[7]), 1, row); err != nil {
			b.Fatal(err)
		}
		if i%1_000_000 == 999_999 {
			if err := l.Flush(); err != nil {
				b.Fatal(err)
			}
			if err := s.Write([]*Delta{kv.Freeze()}, nil); err != nil {
				b.Fatal(err)
			}
		}
	}
}

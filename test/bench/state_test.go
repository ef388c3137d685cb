package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// keysPipeline gives keys numbers, each new, and then the first tenth of them once
// more, hours of event time later. What passes dedup is summed up, so that one row
// tells whether each key passed once.
func keysPipeline(keys int64, memory string) string {
	return fmt.Sprintf(`sources:
  numbers:
    generate: {counter: {count: %d}}
    event_time: {column: ts, out_of_orderness: 0s}
operators:
  keys: {from: numbers, project: {compute: {k: "n %% %d"}, select: [k, ts]}}
  once: {from: keys, dedup: {key: [k], within: 30d}}
  sums: {from: once, window: {tumbling: 90d, aggregate: {n: count(*), sum: sum(k), least: min(k), most: max(k)}}}
sinks:
  out: {from: sums, files: {path: out}}
state: {memory: %s}
`, keys+keys/10, keys, memory)
}

func checkKeys(tb testing.TB, j *job, keys int64) {
	tb.Helper()
	want := fmt.Sprintf(`"n":%d,"sum":"%d","least":0,"most":%d}`, keys, keys*(keys-1)/2, keys-1)
	if got := j.rows("out"); len(got) != 1 || !strings.HasSuffix(got[0], want) {
		tb.Fatalf("got %v, want one row that ends in %s", got, want)
	}
}

// diskBytes is what the files of the state take.
func (j *job) diskBytes() int64 {
	var n int64
	_ = filepath.WalkDir(filepath.Join(j.dir, "frazil-data/state"), func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if i, err := d.Info(); err == nil {
				n += i.Size()
			}
		}
		return nil
	})
	return n
}

// TestKeysBeyondTheMemory is the benchmark on few keys and as little memory as can
// be: a quarter of the keys find room.
func TestKeysBeyondTheMemory(t *testing.T) {
	const keys = 300_000
	j := newJob(t, keysPipeline(keys, "4MiB")+"parallelism: 2\ncheckpoint: {every: 200ms}\n")
	j.run("--until", "end")
	checkKeys(t, j, keys)
}

// BenchmarkStateKeys is dedup of 20 million keys (FRAZIL_BENCH_ROWS: millions)
// under a ceiling of 256 MiB for all state.
func BenchmarkStateKeys(b *testing.B) {
	keys := rowsOf(b, 20_000_000)
	for b.Loop() {
		j := newJob(b, keysPipeline(keys, "256MiB"))
		u, _ := j.run("--until", "end")
		checkKeys(b, j, keys)
		reportState(b, j, u, 1.1*float64(keys))
	}
}

// sessionsPipeline counts keys numbers twice, as sessions that stay open until the
// end: each of them gets its second row when all keys have had their first.
func sessionsPipeline(keys int64, memory string) string {
	return fmt.Sprintf(`sources:
  numbers:
    generate: {counter: {count: %d}}
    event_time: {column: ts, out_of_orderness: 0s}
operators:
  keys: {from: numbers, project: {compute: {k: "n %% %d"}, select: [k, ts]}}
  sessions: {from: keys, window: {session: {gap: 30d}, by: [k], aggregate: {rows: count(*), least: min(k)}}}
  sums: {from: sessions, window: {global: {}, aggregate: {n: count(*), fewest: min(rows), most: max(rows), sum: sum(least)}}}
sinks:
  out: {from: sums, files: {path: out}}
state: {memory: %s}
`, 2*keys, keys, memory)
}

func checkSessions(tb testing.TB, j *job, keys int64) {
	tb.Helper()
	want := fmt.Sprintf(`"n":%d,"fewest":2,"most":2,"sum":"%d"}`, keys, keys*(keys-1)/2)
	if got := j.rows("out"); len(got) != 1 || !strings.HasSuffix(got[0], want) {
		tb.Fatalf("got %v, want one row that ends in %s", got, want)
	}
}

// TestSessionsBeyondTheMemory is the benchmark on few sessions and little memory: a
// tenth of them find room.
func TestSessionsBeyondTheMemory(t *testing.T) {
	const keys = 50_000
	j := newJob(t, sessionsPipeline(keys, "2MiB")+"parallelism: 2\ncheckpoint: {every: 200ms}\n")
	j.run("--until", "end")
	checkSessions(t, j, keys)
}

// BenchmarkStateSessions is 5 million open sessions (FRAZIL_BENCH_ROWS: millions)
// under a ceiling of 256 MiB for all state.
func BenchmarkStateSessions(b *testing.B) {
	keys := rowsOf(b, 5_000_000)
	for b.Loop() {
		j := newJob(b, sessionsPipeline(keys, "256MiB"))
		u, _ := j.run("--until", "end")
		checkSessions(b, j, keys)
		reportState(b, j, u, 2*float64(keys))
	}
}

// groupsPipeline counts keys numbers twice, as groups: each of them gets its second
// row when all keys have had their first.
func groupsPipeline(keys int64, memory, sink string) string {
	return fmt.Sprintf(`sources:
  numbers:
    generate: {counter: {count: %d}}
    event_time: {column: ts, out_of_orderness: 0s}
operators:
  keys: {from: numbers, project: {compute: {k: "n %% %d"}, select: [k, ts]}}
  groups: {from: keys, group: {by: [k], aggregate: {rows: count(*), sum: sum(k)}, expire_after: 30d}}
sinks:
  out: {from: groups, %s}
state: {memory: %s}
`, 2*keys, keys, sink, memory)
}

// TestGroupsBeyondTheMemory is the benchmark on few keys and little memory.
func TestGroupsBeyondTheMemory(t *testing.T) {
	const keys = 100_000
	j := newJob(t, groupsPipeline(keys, "4MiB", "files: {path: out}")+"parallelism: 2\ncheckpoint: {every: 200ms}\n")
	j.run("--until", "end")
	last := map[string]bool{}
	for _, row := range j.rows("out") {
		_, rest, _ := strings.Cut(row, `,"k":`)
		switch two := strings.Contains(row, `"rows":2,`); {
		case !two:
		case strings.HasPrefix(row, `{"op":"update_before"`) || last[rest]:
			t.Fatalf("a group goes on behind its last row: %s", row)
		default:
			var k, sum int64
			if _, err := fmt.Sscanf(rest, `%d,"rows":2,"sum":"%d"}`, &k, &sum); err != nil || sum != 2*k {
				t.Fatalf("wrong row: %s", row)
			}
			last[rest] = true
		}
	}
	if len(last) != keys {
		t.Errorf("%d groups have two rows, want %d", len(last), keys)
	}
}

// BenchmarkStateGroups is 10 million groups (FRAZIL_BENCH_ROWS: millions) under a
// ceiling of 256 MiB for all state.
func BenchmarkStateGroups(b *testing.B) {
	keys := rowsOf(b, 10_000_000)
	for b.Loop() {
		j := newJob(b, groupsPipeline(keys, "256MiB", "drop: {}"))
		u, _ := j.run("--until", "end")
		reportState(b, j, u, 2*float64(keys))
	}
}

// reportState reports what a run on so many rows took.
func reportState(b *testing.B, j *job, u usage, rows float64) {
	b.Helper()
	b.ReportMetric(u.cpu().Seconds()/(rows/1e6), "cpu-s/M")
	b.ReportMetric(u.wall.Seconds(), "wall-s")
	b.ReportMetric(float64(u.maxRSS)/1e6, "MB-max-rss")
	b.ReportMetric(float64(j.diskBytes())/1e6, "MB-state-on-disk")
}

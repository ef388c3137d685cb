package bench

import (
	"os"
	"strconv"
	"testing"
)

// cases are the measured pipelines between a source and a sink.
var cases = []struct {
	name      string
	operators string
	from      string
	want      func(n int64) []string
	// kafka: it is measured from Kafka into Iceberg, else from files to drop.
	kafka bool
	// rows that take at least 30 seconds on the machine of docs/benchmarks.md.
	rows int64
}{
	{"FilterProject", filterAndProject, "result", wantFiltered, false, 60_000_000},
	{"TumblingCount", countPerAuction, "result", wantCounts, false, 60_000_000},
	{"Dedup", firstOfKey, "result", wantFirsts, false, 20_000_000},
	{"Append", "", "bids", wantAll, true, 20_000_000},
	{"TumblingCount", countPerAuction, "result", wantCounts, true, 20_000_000},
}

// smallRows is what outputs are checked on: fifteen windows.
const smallRows = 150_000

// TestFilesOutputs compares what the measured pipelines write, row by row.
func TestFilesOutputs(t *testing.T) {
	for _, c := range cases {
		if c.kafka {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			j := newJob(t, fromFiles(bidFiles(t, smallRows))+c.operators+into(c.from, files))
			j.run()
			compareRows(t, j.rows("out"), c.want(smallRows))
		})
	}
}

// TestKafkaOutputs does the same from Kafka into Iceberg.
func TestKafkaOutputs(t *testing.T) {
	for _, c := range cases {
		if !c.kafka {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			broker := brokerOf(t)
			j := newJob(t, fromKafka(broker, bidTopic(t, broker, smallRows))+c.operators+into(c.from, iceberg))
			j.run("--until", "end")
			compareRows(t, j.rows("bench.out"), c.want(smallRows))
		})
	}
}

func BenchmarkFiles(b *testing.B) {
	for _, c := range cases {
		if c.kafka {
			continue
		}
		b.Run(c.name, func(b *testing.B) {
			n := rowsOf(b, c.rows)
			paths := bidFiles(b, n)
			measure(b, n, func() usage {
				u, _ := newJob(b, fromFiles(paths)+c.operators+into(c.from, drop)).run()
				return u
			})
		})
	}
}

func BenchmarkKafka(b *testing.B) {
	for _, c := range cases {
		if !c.kafka {
			continue
		}
		b.Run(c.name, func(b *testing.B) {
			n := rowsOf(b, c.rows)
			broker := brokerOf(b)
			topic := bidTopic(b, broker, n)
			measure(b, n, func() usage {
				u, _ := newJob(b, fromKafka(broker, topic)+c.operators+into(c.from, iceberg)).run("--until", "end")
				return u
			})
		})
	}
}

// rowsOf is how many bids a benchmark reads.
func rowsOf(b *testing.B, usual int64) int64 {
	if s := os.Getenv("FRAZIL_BENCH_ROWS"); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n <= 0 {
			b.Fatalf("FRAZIL_BENCH_ROWS=%s: expected millions of bids, as 10", s)
		}
		return n * fileRows
	}
	return usual
}

// measure reports the run that took the least processor time: on a machine that
// does other work as well the least disturbed one says the most.
func measure(b *testing.B, n int64, run func() usage) {
	b.Helper()
	var best usage
	for b.Loop() {
		if u := run(); best.wall == 0 || u.cpu() < best.cpu() {
			best = u
		}
	}
	million := float64(n) / 1e6
	b.ReportMetric(best.cpu().Seconds()/million, "cpu-s/M")
	b.ReportMetric(best.sys.Seconds()/million, "sys-s/M")
	b.ReportMetric(best.wall.Seconds(), "wall-s")
	b.ReportMetric(float64(best.maxRSS)/(1<<20), "rss-MB")
	b.ReportMetric(million, "Mevents")
	b.ReportMetric(0, "ns/op")
}

package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"frazil/dataflow/flowtest/rig"
)

// nexmarkCases are the pipelines of examples/nexmark, with as many events as
// take 30 seconds and more on the quiet machine of docs/benchmarks.md. Their
// outputs are checked in test/oracle, against Flink's and against models.
var nexmarkCases = []struct {
	name string
	// events in millions, of all kinds.
	events int64
}{
	{"q0", 520}, {"q1", 500}, {"q2", 1050}, {"q5", 800}, {"q11", 440}, {"q12", 540}, {"q14", 300}, {"q15", 200}, {"q16", 21}, {"q17", 200}, {"q18", 68}, {"q19", 95}, {"q21", 100}, {"q22", 200},
}

// BenchmarkNexmark measures each query by itself: generator, operators, drop
// sink, a checkpoint each 10 s. Processor time is for a million bids, which are
// 46 of 50 events: the others are not made, so they do not count.
func BenchmarkNexmark(b *testing.B) {
	for _, c := range nexmarkCases {
		b.Run(c.name, func(b *testing.B) {
			events := c.events * 1e6
			if s := os.Getenv("FRAZIL_BENCH_ROWS"); s != "" {
				n, err := strconv.ParseInt(s, 10, 64)
				if err != nil || n <= 0 {
					b.Fatalf("FRAZIL_BENCH_ROWS=%s: expected millions of events, as 10", s)
				}
				events = n * 1e6
			}
			text := nexmarkText(b, c.name, events)
			measure(b, events/50*46, func() usage {
				u, _ := newFile(b, text).run()
				return u
			})
		})
	}
}

// nexmarkText is an example with another number of events.
func nexmarkText(tb testing.TB, name string, events int64) string {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join(rig.Root(tb), "examples", "nexmark", name+".yaml"))
	if err != nil {
		tb.Fatal(err)
	}
	const was = `"${EVENTS:-10_000_000}"`
	if strings.Count(string(text), was) != 1 {
		tb.Fatalf("%s.yaml does not say events: %s", name, was)
	}
	return strings.Replace(string(text), was, fmt.Sprint(events), 1)
}

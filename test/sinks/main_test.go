package sinks

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"frazil/dataflow/flowtest/program"
)

func TestMain(m *testing.M) { os.Exit(program.Main(m)) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// numbers, a format, is a source of rows with the numbers n from 0 and a key, 2,000 a second.
const numbers = `
sources:
  numbers:
    generate:
      fleet: {events: 100000000, sites: 1, devices: 1, splits: 1, interval: 1ms, disorder: 0s, duplicates: 0, stragglers: 0, future: 0, faults: 0, malformed: 0, rate: 2000}
    decode: {json: {schema: {seq: int64, ts: timestamptz(ms)}, required: [seq, ts]}}
    event_time: {column: ts, out_of_orderness: 1s}
operators:
  rows: {from: numbers, project: {compute: {n: "seq - 1", key: "'k' || (seq %% 50)"}, drop: [seq, ts]}}
`

// kills of each participant in one portion.
const kills = 10

// order is the names of left, each as often as it says, in a random order.
func order(rng *rand.Rand, left map[string]int) (out []string) {
	for name, n := range left {
		for range n {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// numbered says what is wrong unless got are the numbers from 0 to before n, each once,
// in any order.
func numbered(got []int64, n int) string {
	slices.Sort(got)
	for i := range max(len(got), n) {
		switch {
		case i >= len(got):
			return fmt.Sprintf("%d rows, want %d: %d is missing", len(got), n, i)
		case i >= n:
			return fmt.Sprintf("%d rows, want %d: %d is too much", len(got), n, got[i])
		case got[i] < int64(i):
			return fmt.Sprintf("%d rows, want %d: %d is there twice", len(got), n, got[i])
		case got[i] > int64(i):
			return fmt.Sprintf("%d rows, want %d: %d is missing", len(got), n, i)
		}
	}
	return ""
}

// What the tests are for must not get past them.
func TestLossesAndDoublesAreSeen(t *testing.T) {
	if wrong := numbered([]int64{2, 0, 1}, 3); wrong != "" {
		t.Error(wrong)
	}
	for _, got := range [][]int64{{0, 1}, {1, 2}, {0, 2}, {0, 1, 1, 2}, {0, 1, 2, 2}, {0, 1, 2, 3}, {}} {
		if numbered(slices.Clone(got), 3) == "" {
			t.Errorf("%v: not seen", got)
		}
	}
}

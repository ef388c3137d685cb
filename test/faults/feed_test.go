package faults

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"frazil/dataflow/flowtest/program"

	"github.com/cespare/xxhash/v2"
)

// lanes is in how many sequences the fed files are read.
const lanes = 2

// start is the event time of row 0; each further one is a step later.
var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

const step = 10 * time.Millisecond

var sites = []string{"north", "south", "west"}

// feed writes numbered rows into files that appear at once.
type feed struct {
	p     *program.Place
	rng   *rand.Rand
	files int
	rows  int
}

func newFeed(p *program.Place, rng *rand.Rand) *feed {
	p.T.Helper()
	if err := os.Mkdir(p.Path("in"), 0o700); err != nil {
		p.T.Fatal(err)
	}
	return &feed{p: p, rng: rng}
}

func siteOf(n int) string { return sites[n*n%7%len(sites)] }

func timeOf(n int) time.Time { return start.Add(time.Duration(n) * step) }

// put writes a file for each lane.
func (f *feed) put() {
	f.p.T.Helper()
	for lane := range lanes {
		var text bytes.Buffer
		for range 10 + f.rng.IntN(30) {
			fmt.Fprintf(&text, `{"n":%d,"site":%q,"ts":%d}`+"\n", f.rows, siteOf(f.rows), timeOf(f.rows).UnixMilli())
			f.rows++
		}
		f.files++
		name := f.name(uint64(lane))
		f.p.Write("in/.next", text.String())
		if err := os.Rename(f.p.Path("in", ".next"), f.p.Path(name)); err != nil {
			f.p.T.Fatal(err)
		}
	}
}

// name finds the next name that belongs to a lane.
func (f *feed) name(lane uint64) string {
	for i := 0; ; i++ {
		name := fmt.Sprintf("in/%06d-%d.ndjson", f.files, i)
		if xxhash.Sum64String(name)%lanes == lane {
			return name
		}
	}
}

// raw are the rows of the table of all rows: number, site, time in microseconds.
func (f *feed) raw() map[string]bool {
	out := map[string]bool{}
	for n := range f.rows {
		out[fmt.Sprintf("%d|%s|%d", n, siteOf(n), timeOf(n).UnixMicro())] = true
	}
	return out
}

// seconds are the rows of the table of windows: site, start, end, how many.
func (f *feed) seconds() map[string]bool {
	count := map[[2]any]int{}
	for n := range f.rows {
		count[[2]any{siteOf(n), timeOf(n).Truncate(time.Second).UnixMicro()}]++
	}
	out := map[string]bool{}
	for k, c := range count {
		out[fmt.Sprintf("%s|%d|%d|%d", k[0], k[1], k[1].(int64)+1e6, c)] = true
	}
	return out
}

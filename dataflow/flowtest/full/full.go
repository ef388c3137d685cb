// Package full runs suites in two tiers. In the short one, which go test and CI run,
// a suite works through a few of its numbered portions, beginning at a random one.
// In the full one it works through all of them, writes its figures to a file after
// each, and goes on where it stopped, so that figures add up over several runs:
//
//	FRAZIL_FULL=DIR       work through all portions; figures are in DIR/NAME.json
//	FRAZIL_FULL_FOR=80m   start no portion later than so long after the program began
//	FRAZIL_PORTION=N      run only portion N, of every suite
//	FRAZIL_SEED=N         where the short tier begins
package full

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Suite is a test in numbered portions. A portion must depend on its number alone:
// the same number is the same test, today and tomorrow.
type Suite struct {
	// Name of its file of figures: letters, digits and dashes.
	Name string
	// Total is the number of portions in the full tier, Short in the short one.
	Total, Short int
}

// Figures are what a portion counts, by name; they add up over portions. Names that
// begin with "max_" keep the greatest value instead.
type Figures map[string]int64

// Progress is what the file of figures holds.
type Progress struct {
	Suite string `json:"suite"`
	// Total and Done portions; Next is the one to go on with.
	Total int `json:"total"`
	Done  int `json:"done"`
	Next  int `json:"next"`
	// Failed portions are run first next time, and leave when they pass.
	Failed  []int   `json:"failed,omitempty"`
	Figures Figures `json:"figures"`
	// Seconds of wall time; First and Last are when the first portion and the last
	// one ended.
	Seconds float64   `json:"seconds"`
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
}

var began = time.Now()

// Run works through portions of s with f, each as a subtest. f fails it by t as
// usual; then its figures do not count.
func (s Suite) Run(t *testing.T, f func(t *testing.T, portion int) Figures) {
	t.Helper()
	if only := os.Getenv("FRAZIL_PORTION"); only != "" {
		n, err := strconv.Atoi(only)
		if err != nil || n < 0 || n >= s.Total {
			t.Fatalf("FRAZIL_PORTION: want a number from 0 to %d, got %q", s.Total-1, only)
		}
		s.portion(t, n, f)
		return
	}
	if dir := os.Getenv("FRAZIL_FULL"); dir != "" {
		s.all(t, filepath.Join(dir, s.Name+".json"), f)
		return
	}
	first := rand.IntN(s.Total)
	if seed, err := strconv.Atoi(os.Getenv("FRAZIL_SEED")); err == nil {
		first = seed % s.Total
	}
	t.Logf("%s: portions %d to %d of %d (FRAZIL_PORTION=N repeats one)", s.Name, first, first+s.Short-1, s.Total)
	sum := Figures{}
	for i := range s.Short {
		sum.Add(s.portion(t, (first+i)%s.Total, f))
	}
	t.Logf("%s: %s", s.Name, sum)
}

func (s Suite) portion(t *testing.T, n int, f func(t *testing.T, portion int) Figures) (out Figures) {
	t.Run(fmt.Sprintf("portion=%d", n), func(t *testing.T) { out = f(t, n) })
	return out
}

func (s Suite) all(t *testing.T, file string, f func(t *testing.T, portion int) Figures) {
	p, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	p.Suite, p.Total = s.Name, s.Total
	for _, n := range slices.Clone(p.Failed) {
		if ranOut() {
			break
		}
		if s.count(t, p, n, file, f) {
			p.Failed = slices.DeleteFunc(p.Failed, func(k int) bool { return k == n })
			write(t, file, p)
		}
	}
	for p.Next < s.Total && !ranOut() {
		n := p.Next
		p.Next++
		if !s.count(t, p, n, file, f) {
			p.Failed = append(p.Failed, n)
			write(t, file, p)
		}
	}
	t.Logf("%s: %d of %d portions passed, failed: %v; %s", s.Name, p.Done, p.Total, p.Failed, p.Figures)
	if p.Next < s.Total {
		t.Logf("%s goes on with portion %d next time", s.Name, p.Next)
	}
}

// count runs a portion and, if it passed, adds its figures.
func (s Suite) count(t *testing.T, p *Progress, n int, file string, f func(t *testing.T, portion int) Figures) bool {
	start := time.Now()
	var figures Figures
	if !t.Run(fmt.Sprintf("portion=%d", n), func(t *testing.T) { figures = f(t, n) }) {
		return false
	}
	p.Figures.Add(figures)
	p.Done++
	p.Seconds += time.Since(start).Seconds()
	p.Last = time.Now().UTC().Truncate(time.Second)
	if p.First.IsZero() {
		p.First = p.Last
	}
	write(t, file, p)
	return true
}

// ranOut says whether no further portion may begin.
func ranOut() bool {
	d, err := time.ParseDuration(os.Getenv("FRAZIL_FULL_FOR"))
	return err == nil && time.Since(began) > d
}

// Read reads a file of figures; one that is not there is empty.
func Read(file string) (*Progress, error) {
	p := &Progress{Figures: Figures{}}
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, p)
	}
	if err != nil {
		return nil, fmt.Errorf("read figures %s: %w", file, err)
	}
	if p.Figures == nil {
		p.Figures = Figures{}
	}
	return p, nil
}

func write(t *testing.T, file string, p *Progress) {
	t.Helper()
	raw, err := json.MarshalIndent(p, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o755)
	}
	if err == nil {
		err = os.WriteFile(file+".tmp", append(raw, '\n'), 0o644)
	}
	if err == nil {
		err = os.Rename(file+".tmp", file)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Add counts more figures to f.
func (f Figures) Add(more Figures) {
	for k, n := range more {
		if strings.HasPrefix(k, "max_") {
			f[k] = max(f[k], n)
		} else {
			f[k] += n
		}
	}
}

// String lists them by name.
func (f Figures) String() string {
	var out []string
	for k, n := range f {
		out = append(out, fmt.Sprintf("%s %d", k, n))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

package storage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
)

// work is what there is to do: it follows from three numbers.
type work struct {
	// rows of each split of the source pull, and requests to the source push.
	rows, requests int
	seed           uint64
}

const pullSplits = 3

var begin = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)

// pulled is a record of a split: some come twice, some late, some cannot be read.
func pulled(split, i int) []byte {
	switch {
	case i%37 == 36:
		return fmt.Appendf(nil, `{"n": %d`, i)
	case i%11 == 5:
		return pulled(split, i-1)
	}
	at := begin.Add(time.Duration(i) * 200 * time.Millisecond)
	if i%13 == 7 {
		at = at.Add(-time.Duration(i%7) * time.Second)
	}
	return fmt.Appendf(nil, `{"k": "k%d", "et": %q, "n": %d}`, (i*31+split)%7, at.Format(time.RFC3339Nano), split*1_000_000+i)
}

// pushed are the records of a request.
func pushed(r int) (out [][]byte) {
	for i := range 1 + r%4 {
		if (r*7+i)%23 == 0 {
			out = append(out, fmt.Appendf(nil, `{"bad": %d`, r))
			continue
		}
		out = append(out, fmt.Appendf(nil, `{"k": "k%d", "et": %q, "n": %d}`, r%5, begin.Add(time.Duration(r)*time.Second).Format(time.RFC3339), r*10+i))
	}
	return out
}

// sent counts the good records of requests by their number, and the bad ones.
func sent(requests []int) (good map[int64]bool, bad int64) {
	good = map[int64]bool{}
	for _, r := range requests {
		for _, p := range pushed(r) {
			if n, ok := number(string(p)); ok {
				good[n] = true
			} else {
				bad++
			}
		}
	}
	return good, bad
}

// number is the column n of a row or record.
func number(row string) (int64, bool) {
	var x struct{ N *int64 }
	if json.Unmarshal([]byte(row), &x) != nil || x.N == nil {
		return 0, false
	}
	return *x.N, true
}

// world is what a crash leaves as it is.
type world struct {
	work work
	// plant breaks a promise on purpose.
	plant plant

	mu      sync.Mutex
	targets map[string]*target
	// acked are the requests that the producer was told are safe.
	acked map[int]bool
	// silent: the producer is gone and sends nothing more.
	silent bool
	// half of everything is there, and some targets take no more commits.
	half bool
}

// plant is a fault that the tests must find.
type plant int

const (
	noPlant      plant = iota
	doubleCommit       // a target takes the rows of a commit twice
	dropCommit         // a target forgets the rows of a commit
	forgetKeys         // the producer's retries have other keys
)

type target struct {
	held dataflow.Committed
	rows []string
}

func newWorld(w work) *world {
	out := &world{work: w, targets: map[string]*target{}, acked: map[int]bool{}}
	for _, name := range sinkNames {
		out.targets[name] = &target{}
	}
	return out
}

// cloneLocked copies the world as it is now.
func (w *world) cloneLocked() *world {
	out := &world{work: w.work, plant: w.plant, acked: maps.Clone(w.acked), targets: map[string]*target{}}
	for name, t := range w.targets {
		// Both are replaced as a whole or appended to, never changed in place.
		held := t.held
		if held.Positions != nil { // without: nothing was ever committed
			held.Positions = held.Positions.Clone()
		}
		held.Clock = slices.Clone(held.Clock)
		out.targets[name] = &target{held: held, rows: t.rows[:len(t.rows):len(t.rows)]}
	}
	return out
}

func (w *world) ackedRequests() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.acked))
}

func (w *world) allRequests() (out []int) {
	for r := range w.work.requests {
		out = append(out, r)
	}
	return out
}

var errDead = errors.New("the process is dead")

// committer is a target as one process sees it.
type committer struct {
	p    *process
	name string
}

func (c committer) Target() dataflow.Target { return "memory" }
func (c committer) Close() error            { return nil }

func (c committer) Committed(ctxless) (dataflow.Committed, error) {
	w := c.p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.targets[c.name].held
	out.ClockComplete = true
	return out, nil
}

func (c committer) Commit(_ ctxless, k dataflow.Commit) error {
	w := c.p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.p.dead {
		return errDead
	}
	if w.half && (c.name == "minutes" || c.name == "pushed") {
		return errors.New("frozen")
	}
	t := w.targets[c.name]
	switch dataflow.DecideCommit(t.held, k) {
	case dataflow.Done:
		return nil
	case dataflow.Fenced:
		return dataflow.ErrFenced
	}
	times := 1
	if k.Epoch > 3 {
		switch w.plant {
		case doubleCommit:
			times = 2
		case dropCommit:
			times = 0
		}
	}
	for _, p := range k.Parts {
		var rows []string
		if err := json.Unmarshal(p.Data, &rows); err != nil {
			return err
		}
		for range times {
			t.rows = append(t.rows, rows...)
		}
	}
	t.held.Positions = dataflow.MergePositions(t.held.Positions, k.At)
	t.held.Start, t.held.Plan, t.held.Watermarks = k.Start, k.Plan, k.Watermarks
	t.held.Clock = append(t.held.Clock, k.Clock...)
	return nil
}

func (c committer) Claim(_ ctxless, k dataflow.Claim) error {
	w := c.p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.targets[c.name]
	if c.p.dead || dataflow.DecideClaim(t.held.Claim, k) == dataflow.Fenced {
		return dataflow.ErrFenced
	}
	t.held.Claim = k
	return nil
}

// results is what the pipeline gave, by sink: rows in some order, or the table that
// changes make.
type results map[string][]string

func (w *world) results() (results, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := results{}
	for name, t := range w.targets {
		rows := slices.Clone(t.rows)
		if changes[name] {
			var err error
			if rows, err = folded(rows); err != nil {
				return nil, fmt.Errorf("sink %s: %w", name, err)
			}
		}
		sort.Strings(rows)
		out[name] = rows
	}
	return out, nil
}

// folded is the table that changes make. Each must fit what is there.
func folded(rows []string) (out []string, err error) {
	table := map[string]bool{}
	for _, row := range rows {
		var op struct{ Op string }
		if err := json.Unmarshal([]byte(row), &op); err != nil {
			return nil, err
		}
		row = strings.Replace(row, fmt.Sprintf(`"op":%q,`, op.Op), "", 1)
		add := op.Op == "insert" || op.Op == "update_after"
		if table[row] == add {
			return nil, fmt.Errorf("%s of %s does not fit the table", op.Op, row)
		}
		if add {
			table[row] = true
		} else {
			delete(table, row)
		}
	}
	return slices.Collect(maps.Keys(table)), nil
}

// compare fails unless everything that the producer was told is safe is there once,
// and the rest as in a run in which nothing happened. m is the last manifest.
func (w *world) compare(want results, m *checkpoint.Manifest) error {
	got, err := w.results()
	if err != nil {
		return err
	}
	requests := w.allRequests()
	if w.silent {
		requests = w.ackedRequests()
	}
	good, bad := sent(requests)
	seen := map[int64]bool{}
	for _, row := range got["pushed"] {
		n, ok := number(row)
		if !ok || seen[n] {
			return fmt.Errorf("pushed: %s stands there twice or cannot be read", row)
		}
		seen[n] = true
	}
	for n := range good {
		if !seen[n] {
			return fmt.Errorf("pushed: record %d was acknowledged and is not there", n)
		}
	}
	for _, name := range sinkNames {
		if w.silent && (name == "pushed" || name == "totals" || name == "perhour") {
			continue // some requests were never sent
		}
		if d := diff(got[name], want[name]); d != "" {
			return fmt.Errorf("%s: %s", name, d)
		}
	}
	if err := w.compareTotals(got); err != nil {
		return err
	}
	return w.compareLedger(got, m, bad)
}

// compareTotals holds what was counted in the state against the rows.
func (w *world) compareTotals(got results) error {
	want := map[string][2]int64{}
	for _, row := range got["pushed"] {
		var x struct {
			K string
			N int64
		}
		if err := json.Unmarshal([]byte(row), &x); err != nil {
			return err
		}
		t := want[x.K]
		want[x.K] = [2]int64{t[0] + 1, t[1] + x.N}
	}
	for _, row := range got["totals"] {
		var x struct {
			K    string
			Rows int64
			Sum  int64 `json:",string"`
		}
		if err := json.Unmarshal([]byte(row), &x); err != nil {
			return err
		}
		if want[x.K] != [2]int64{x.Rows, x.Sum} {
			return fmt.Errorf("totals: %s, and its rows give %v", row, want[x.K])
		}
		delete(want, x.K)
	}
	if len(want) > 0 {
		return fmt.Errorf("totals: %v are missing", want)
	}
	return nil
}

// compareLedger holds the counters against the rows.
func (w *world) compareLedger(got results, m *checkpoint.Manifest, badPushed int64) error {
	for _, name := range sinkNames {
		if n := m.Ledger.Steps[name].Staged; !changes[name] && n != int64(len(got[name])) {
			return fmt.Errorf("the ledger says that %d rows were staged for %s, which has %d", n, name, len(got[name]))
		}
	}
	late := m.Ledger.Late()
	var badPulled int64
	for i := range w.work.rows {
		if !json.Valid(pulled(0, i)) {
			badPulled += pullSplits
		}
	}
	kept := int64(0)
	if m.Quarantine != nil {
		kept = m.Quarantine.Kept
	}
	bad := kept - late - badPulled
	if bad < badPushed || !w.silent && bad != badPushed {
		return fmt.Errorf("the quarantine has %d rows: %d late, %d bad of pull, so that %d are of push, which has sent %d", kept, late, badPulled, bad, badPushed)
	}
	return nil
}

func diff(got, want []string) string {
	if slices.Equal(got, want) {
		return ""
	}
	count := map[string]int{}
	for _, r := range want {
		count[r]--
	}
	for _, r := range got {
		count[r]++
	}
	var b bytes.Buffer
	n := 0
	for _, r := range slices.Sorted(maps.Keys(count)) {
		if count[r] != 0 && n < 8 {
			fmt.Fprintf(&b, "\n%+d %s", count[r], r)
			n++
		}
	}
	return fmt.Sprintf("%d rows, want %d:%s", len(got), len(want), b.String())
}

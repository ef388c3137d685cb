package filetest

import (
	"encoding/json"
	"fmt"
	"sort"

	"frazil/dataflow"
	"frazil/pipelines"
	"frazil/pipelines/rehearsal"

	"github.com/apache/arrow-go/v18/arrow"
)

// row is one row that came, by column, as dataflow.RowJSON writes it.
type row map[string]json.RawMessage

// Seen is what came out of one variant.
type Seen struct {
	test   pipelines.Test
	outs   []pipelines.TestOutput
	ledger map[string]dataflow.Counts
	// steps are the rows at each step that expects some: the new ones, or a whole
	// table; end are all, rest those after the last such step.
	steps     []map[string][]row
	end, rest map[string][]row
	// anyOrder: rows are compared in no order, whatever is expected: several tasks
	// may have made them.
	anyOrder bool
}

func newSeen(t pipelines.Test, outs []pipelines.TestOutput, got *rehearsal.Outcome) *Seen {
	s := &Seen{test: t, outs: outs, ledger: got.Ledger, rest: map[string][]row{}, end: map[string][]row{}}
	before := map[string]int{}
	for _, show := range got.Shows {
		at := map[string][]row{}
		for _, o := range outs {
			from := before[o.Name]
			if o.Stream.Changelog {
				from = 0
			}
			at[o.Name] = rowsOf(show[o.Name][from:])
			before[o.Name] = len(show[o.Name])
		}
		s.steps = append(s.steps, at)
	}
	for _, o := range outs {
		s.end[o.Name] = rowsOf(got.End[o.Name])
		if !o.Stream.Changelog {
			s.rest[o.Name] = s.end[o.Name][before[o.Name]:]
			continue
		}
		if n := len(got.Shows); n == 0 || !sameTable(got.Shows[n-1][o.Name], got.End[o.Name]) {
			s.rest[o.Name] = s.end[o.Name]
		}
	}
	return s
}

func sameTable(a, b []string) bool {
	x, y := append([]string(nil), a...), append([]string(nil), b...)
	sort.Strings(x)
	sort.Strings(y)
	return fmt.Sprint(x) == fmt.Sprint(y)
}

func rowsOf(lines []string) []row {
	out := []row{}
	for _, l := range lines {
		r := row{}
		if err := json.Unmarshal([]byte(l), &r); err != nil {
			r["row"] = json.RawMessage(fmt.Sprintf("%q", l)) // Never: RowJSON wrote it.
		}
		out = append(out, r)
	}
	return out
}

// compare lists what differs; counters only where they are comparable.
func (s *Seen) compare(ledger bool) []Diff {
	var out []Diff
	i := 0
	for n, st := range s.test.Steps {
		if st.Kind != rehearsal.Show {
			continue
		}
		out = append(out, s.against(st.Expect, s.steps[i], fmt.Sprintf("at step %d (line %d)", n+1, st.Expect.Node.Line))...)
		i++
	}
	switch {
	case s.test.Expect != nil:
		out = append(out, s.against(s.test.Expect, s.end, "at the end")...)
	case len(s.steps) > 0:
		out = append(out, s.against(&pipelines.Expectation{}, s.rest, "after the last step that expects rows")...)
	default:
		out = append(out, s.against(&pipelines.Expectation{}, s.end, "at the end (the test has no expect)")...)
	}
	if !ledger {
		return out
	}
	for _, l := range s.test.Ledger {
		if got := pipelines.CounterOf(s.ledger[l.Step], l.Counter); got != l.Want {
			out = append(out, Diff{Output: "ledger", When: fmt.Sprintf("of step %s (line %d)", l.Step, l.Node.Line),
				Lines: []string{fmt.Sprintf("%s: expected %d, got %d", l.Counter, l.Want, got)}})
		}
	}
	return out
}

func (s *Seen) against(e *pipelines.Expectation, got map[string][]row, when string) []Diff {
	var out []Diff
	for _, o := range s.outs {
		want := pipelines.ExpectedRows{Output: o.Name}
		for _, x := range e.Outputs {
			if x.Output == o.Name {
				want = x
			}
		}
		want.Schema = s.columns(o)
		want.Ordered = want.Ordered && !s.anyOrder
		if lines := compareRows(want, got[o.Name]); len(lines) > 0 {
			out = append(out, Diff{Output: o.Name, When: when, Lines: lines})
		}
	}
	return out
}

func (s *Seen) columns(o pipelines.TestOutput) []arrow.Field {
	return dataflow.UserFields(o.Stream.Schema)
}

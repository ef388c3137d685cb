package filetest

import (
	"fmt"
	"strings"

	"frazil/dataflow/component"
	"frazil/pipelines"

	"github.com/apache/arrow-go/v18/arrow"
)

// Diff is how one output differs from what is expected.
type Diff struct {
	Output, When string
	Lines        []string
}

// String is the difference for people, with a line end.
func (d Diff) String() string {
	return fmt.Sprintf("%s %s:\n  %s\n", d.Output, d.When, strings.Join(d.Lines, "\n  "))
}

// compareRows says how the rows differ, in lines; none: they do not.
func compareRows(want pipelines.ExpectedRows, got []row) []string {
	if want.Ordered && len(want.Rows) == len(got) {
		return inOrder(want, got)
	}
	pairs := match(want, got)
	missing, extra := []int{}, []int{}
	taken := map[int]bool{}
	for i := range want.Rows {
		if pairs[i] < 0 {
			missing = append(missing, i)
		} else {
			taken[pairs[i]] = true
		}
	}
	for j := range got {
		if !taken[j] {
			extra = append(extra, j)
		}
	}
	if len(missing)+len(extra) == 0 {
		return nil
	}
	return explain(want, got, missing, extra)
}

// inOrder compares row by row.
func inOrder(want pipelines.ExpectedRows, got []row) []string {
	var out []string
	for i, w := range want.Rows {
		if same(want, w.Node, got[i]) == len(want.Schema) {
			continue
		}
		out = append(out, changed(want, w.Node, got[i])...)
	}
	if len(out) > 0 {
		out = append([]string{"the rows or their order differ:"}, out...)
	}
	return out
}

// same counts the columns in which a row is as expected: all of them if it is.
func same(want pipelines.ExpectedRows, n *component.Node, got row) int {
	k := 0
	for _, f := range want.Schema {
		if sameColumn(want, f, n, got) {
			k++
		}
	}
	return k
}

func sameColumn(want pipelines.ExpectedRows, f arrow.Field, n *component.Node, got row) bool {
	v := n.Get(f.Name)
	return v == nil && want.Some || pipelines.MatchValue(f.Type, v, got[f.Name])
}

// match pairs expected rows with those that came, as many as possible: with
// columns that may hold anything, a row can fit several. It gives the index of
// the row for each expected one, -1 for none.
func match(want pipelines.ExpectedRows, got []row) []int {
	of := make([]int, len(want.Rows)) // Of expected rows.
	by := make([]int, len(got))       // Of rows that came.
	for i := range of {
		of[i] = -1
	}
	for j := range by {
		by[j] = -1
	}
	var find func(i int, tried []bool) bool
	find = func(i int, tried []bool) bool {
		for j := range got {
			if tried[j] || same(want, want.Rows[i].Node, got[j]) < len(want.Schema) {
				continue
			}
			tried[j] = true
			if by[j] < 0 || find(by[j], tried) {
				by[j], of[i] = i, j
				return true
			}
		}
		return false
	}
	for i := range want.Rows {
		if i < len(got) && by[i] < 0 && same(want, want.Rows[i].Node, got[i]) == len(want.Schema) {
			by[i], of[i] = i, i
		}
	}
	for i := range want.Rows {
		if of[i] < 0 {
			find(i, make([]bool, len(got)))
		}
	}
	return of
}

// shown bounds how many rows of each kind a difference lists.
const shown = 10

// explain pairs what is missing with what is like it and writes the rest.
func explain(want pipelines.ExpectedRows, got []row, missing, extra []int) []string {
	var out []string
	used := map[int]bool{}
	var alone []int
	for _, i := range missing {
		best, score := -1, len(want.Schema)/3
		for _, j := range extra {
			if k := same(want, want.Rows[i].Node, got[j]); !used[j] && k > score {
				best, score = j, k
			}
		}
		if best < 0 {
			alone = append(alone, i)
			continue
		}
		used[best] = true
		out = append(out, changed(want, want.Rows[i].Node, got[best])...)
	}
	counts := fmt.Sprintf("%d rows expected, %d came: %d differ, %d missing, %d unexpected",
		len(want.Rows), len(got), len(missing)-len(alone), len(alone), len(extra)-len(used))
	out = append([]string{counts}, out...)
	for k, i := range alone {
		if k == shown {
			out = append(out, fmt.Sprintf("... and %d more missing", len(alone)-k))
			break
		}
		n := want.Rows[i].Node
		out = append(out, fmt.Sprintf("- missing    %s (line %d)", nodeText(n), n.Line))
	}
	k := 0
	for _, j := range extra {
		if used[j] {
			continue
		}
		if k++; k > shown {
			out = append(out, fmt.Sprintf("... and %d more unexpected", len(extra)-len(used)-shown))
			break
		}
		out = append(out, "+ unexpected "+rowText(want.Schema, got[j], nil))
	}
	return out
}

// changed writes the columns that differ side by side.
func changed(want pipelines.ExpectedRows, n *component.Node, got row) []string {
	var table [][3]string
	var equal []arrow.Field
	for _, f := range want.Schema {
		switch {
		case sameColumn(want, f, n, got):
			if n.Get(f.Name) != nil {
				equal = append(equal, f)
			}
			continue
		case n.Get(f.Name) == nil:
			table = append(table, [3]string{f.Name, "nothing (the row leaves it out)", valueText(f.Type, got[f.Name])})
		default:
			table = append(table, [3]string{f.Name, nodeText(n.Get(f.Name)), valueText(f.Type, got[f.Name])})
		}
	}
	out := []string{fmt.Sprintf("~ line %d: the row %s differs", n.Line, rowText(equal, got, nil))}
	width := [2]int{len("column"), len("expected")}
	for _, t := range table {
		width[0], width[1] = max(width[0], len(t[0])), max(width[1], len(t[1]))
	}
	for _, t := range append([][3]string{{"column", "expected", "got"}}, table...) {
		out = append(out, fmt.Sprintf("    %-*s  %-*s  %s", width[0], t[0], width[1], t[1], t[2]))
	}
	return out
}

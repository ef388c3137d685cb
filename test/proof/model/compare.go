package model

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Diff says how tables differ from what they must be.
type Diff struct {
	// Rows is how many rows were compared: the expected ones.
	Rows int64
	// Lost rows are nowhere, Doubled ones stand more often than they must, Wrong ones
	// have the place of an expected row and other values, Unexpected ones are none
	// that may be there. Damaged rows do not have the checksum of their values; they
	// are counted beside the others.
	Lost, Doubled, Wrong, Unexpected, Damaged int64
	// What names each.
	What []string
}

// Same says that there is no difference.
func (d Diff) Same() bool { return d.Lost+d.Doubled+d.Wrong+d.Unexpected+d.Damaged == 0 }

// String is the counts and the first of what differs.
func (d Diff) String() string {
	first := slices.Sorted(slices.Values(d.What))
	return fmt.Sprintf("%d rows: %d lost, %d doubled, %d wrong, %d unexpected, %d damaged\n%s", d.Rows, d.Lost, d.Doubled, d.Wrong, d.Unexpected, d.Damaged,
		strings.Join(first[:min(len(first), 20)], "\n"))
}

// Keys are the columns that tell the rows of each table apart. Two rows of one key
// never belong into one table.
var Keys = map[string][]string{
	"raw": event, "plain": event, "late": event, "stale": event, "side": event,
	"minutes": {"site", "window_start"}, "best": {"site", "window_start", "place"}, "totals": {"site"},
	"bad": {"source", "position"}, "quarantine": {"step", "port", "source", "position"},
}

var event = []string{"src", "split", "pos"}

// Compare compares tables, row by row. Columns that an expected table does not have
// are left out.
func Compare(want, got Tables) Diff {
	var d Diff
	for name := range Keys {
		d.table(name, want[name], got[name])
	}
	for name, rows := range got {
		if Keys[name] == nil {
			d.Unexpected += int64(len(rows))
			d.note("%s: a table that nobody expects", name)
		}
	}
	return d
}

func (d *Diff) note(format string, args ...any) {
	d.What = append(d.What, fmt.Sprintf(format, args...))
}

func (d *Diff) table(name string, want, got []Row) {
	d.Rows += int64(len(want))
	columns := map[string]bool{}
	missing := map[string]map[string]int{} // by key, then by row: how often it is still wanted
	belongs := map[string]bool{}
	for _, w := range want {
		for c := range w {
			columns[c] = true
		}
		k := text(w, Keys[name])
		if missing[k] == nil {
			missing[k] = map[string]int{}
		}
		t := text(w, nil)
		missing[k][t]++
		belongs[t] = true
	}
	wanted := map[string]int{}
	for k, rows := range missing {
		for _, n := range rows {
			wanted[k] += n
		}
	}
	var extra []Row
	for _, g := range got {
		g = only(g, columns)
		d.checksum(name, g)
		k, t := text(g, Keys[name]), text(g, nil)
		if missing[k][t] == 0 {
			extra = append(extra, g)
			continue
		}
		missing[k][t]--
		if wanted[k]--; wanted[k] == 0 {
			delete(missing, k)
		}
	}
	for _, g := range extra {
		k, t := text(g, Keys[name]), text(g, nil)
		switch {
		case missing[k] != nil && wanted[k] > 0:
			wanted[k]--
			d.Wrong++
			d.note("%s: %s is there, want %v", name, t, missing[k])
		case belongs[t]:
			d.Doubled++
			d.note("%s: %s is there once more", name, t)
		default:
			d.Unexpected++
			d.note("%s: %s does not belong there", name, t)
		}
	}
	for k := range missing {
		if wanted[k] > 0 {
			d.Lost += int64(wanted[k])
			d.note("%s: %v is not there", name, missing[k])
		}
	}
}

// checksum looks whether a row of events still has the checksum of its values.
func (d *Diff) checksum(table string, r Row) {
	sum, has := r["sum"].(string)
	if !has {
		return
	}
	e := Event{Src: fmt.Sprint(r["src"]), ID: fmt.Sprint(r["id"]), Site: fmt.Sprint(r["site"])}
	split, ok1 := r["split"].(int64)
	pos, ok2 := r["pos"].(int64)
	et, ok3 := r["et"].(int64)
	v, ok4 := r["v"].(int64)
	e.Split, e.Pos, e.ET, e.V = int(split), pos, et/1000, v
	if !ok1 || !ok2 || !ok3 || !ok4 || et%1000 != 0 || e.Checksum() != sum {
		d.Damaged++
		d.note("%s: %s has not the checksum of its values", table, text(r, nil))
	}
}

func only(r Row, columns map[string]bool) Row {
	if len(columns) == 0 {
		return r
	}
	out := Row{}
	for c := range columns {
		if v, ok := r[c]; ok {
			out[c] = v
		}
	}
	return out
}

// text is a row, or some columns of it, in one form.
func text(r Row, columns []string) string {
	if columns != nil {
		part := Row{}
		for _, c := range columns {
			part[c] = r[c]
		}
		r = part
	}
	raw, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

package crash_test

import (
	"fmt"
	"math"
	"sort"
	"time"
)

// input is one record where it lies.
type input struct {
	record
	// pos orders the records of a split; where is its place in messages.
	pos   int64
	where string
}

// decision is a decision of the clock that a table tells: from pos on the
// watermark of the split is at least floor (microseconds).
type decision struct {
	Source string `json:"source"`
	Split  string `json:"split"`
	Pos    int64  `json:"pos"`
	Floor  int64  `json:"floor"`
}

// tables are the rows of the pipeline by sink.
type tables map[string][]row

const never = math.MinInt64

// stamped is a row with the watermark, in microseconds, that its own split had
// just before it.
type stamped struct {
	input
	stamp int64
}

// expect works out every table from the records of each split, in their order,
// by the rules and nothing else. order is arrival or event.
func expect(splits map[string][]input, decisions []decision, order string) tables {
	out := tables{"raw": nil, "windows": nil, "late": nil, "stale": nil, "bad": nil}
	rows := stamp(splits, decisions, out)
	if order == "event" {
		sort.SliceStable(rows, func(i, j int) bool {
			a, b := rows[i], rows[j]
			if a.stamp != b.stamp {
				return a.stamp < b.stamp
			}
			if a.split != b.split {
				return a.split < b.split
			}
			return a.pos < b.pos
		})
	}
	// With order arrival the copies of a key are all in one split, and rows is in
	// the order of each split.
	type key struct{ site, id string }
	passed := map[key][]int64{}
	groups := map[string]*group{}
	for _, r := range rows {
		e, t := r.row, *r.row.et*1000
		if edge := minus(r.stamp, within*1000); t < edge {
			out["stale"] = append(out["stale"], e.columns(row{"watermark": instant(r.stamp), "lateness": edge - t}))
			continue
		}
		k := key{text(e.site), text(e.id)}
		if isCopy(passed[k], t) {
			continue
		}
		passed[k] = append(passed[k], t)
		if e.ok == nil || !*e.ok {
			continue
		}
		raw := e.columns(row{"w": nil})
		if e.v != nil {
			raw["w"] = *e.v * 2
		}
		out["raw"] = append(out["raw"], raw)
		start := t - t%(window*1000)
		if end := start + window*1000; end <= r.stamp {
			late := row{"window_start": instant(start), "window_end": instant(end), "watermark": instant(r.stamp), "lateness": r.stamp - end}
			for c, v := range raw {
				late[c] = v
			}
			out["late"] = append(out["late"], late)
			continue
		}
		at := fmt.Sprint(start, text(e.site))
		if groups[at] == nil {
			groups[at] = &group{site: e.site, start: start}
		}
		groups[at].add(e)
	}
	for _, g := range groups {
		out["windows"] = append(out["windows"], g.row())
	}
	return out
}

func text(s *string) string {
	if s == nil {
		return "(null)"
	}
	return "=" + *s
}

func isCopy(passed []int64, t int64) bool {
	for _, p := range passed {
		if d := p - t; -within*1000 <= d && d <= within*1000 {
			return true
		}
	}
	return false
}

// stamp gives every row its stamp and puts the records that are none into bad.
func stamp(splits map[string][]input, decisions []decision, out tables) []stamped {
	var rows []stamped
	for name, records := range splits {
		wm := int64(never)
		mine := ofSplit(decisions, name)
		for _, r := range records {
			if r.none {
				continue
			}
			if r.bad != "" && r.bad != "null_event_time" {
				out["bad"] = append(out["bad"], row{"reason": r.bad, "split": name, "position": r.where, "raw": fmt.Sprintf("%x", r.value)})
				continue
			}
			for len(mine) > 0 && mine[0].Pos <= r.pos {
				wm = max(wm, mine[0].Floor)
				mine = mine[1:]
			}
			if r.bad != "" {
				out["bad"] = append(out["bad"], row{"reason": r.bad, "split": name, "position": r.where})
				continue
			}
			rows = append(rows, stamped{r, wm})
			wm = max(wm, (*r.row.et-bound)*1000)
		}
	}
	return rows
}

func ofSplit(decisions []decision, split string) []decision {
	var out []decision
	for _, d := range decisions {
		if d.Split == split {
			out = append(out, d)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Pos < out[j].Pos })
	return out
}

func minus(t, d int64) int64 {
	if t == never {
		return never
	}
	return t - d
}

// group is one window of one site.
type group struct {
	site        *string
	start       int64
	n, big, sum int64
	values      int64
	lo, hi      int64
	floats      []float64
}

func (g *group) add(e event) {
	g.n++
	if e.f != nil {
		g.floats = append(g.floats, *e.f)
	}
	if e.v == nil {
		return
	}
	if g.values == 0 {
		g.lo, g.hi = *e.v, *e.v
	}
	g.values++
	g.sum += *e.v
	g.lo, g.hi = min(g.lo, *e.v), max(g.hi, *e.v)
	if *e.v >= 50 {
		g.big++
	}
}

func (g *group) row() row {
	r := row{"site": nil, "window_start": instant(g.start), "window_end": instant(g.start + window*1000),
		"n": g.n, "big": g.big, "s": nil, "lo": nil, "hi": nil, "a": nil}
	if g.site != nil {
		r["site"] = *g.site
	}
	if g.values > 0 {
		r["s"], r["lo"], r["hi"] = fmt.Sprint(g.sum), g.lo, g.hi
	}
	if len(g.floats) > 0 {
		sort.Float64s(g.floats)
		sum := 0.0
		for _, f := range g.floats {
			sum += f
		}
		r["a"] = sum / float64(len(g.floats))
	}
	return r
}

// columns are the columns of the input, added to r.
func (e event) columns(r row) row {
	r["id"], r["site"], r["v"], r["f"], r["ok"] = nil, nil, nil, nil, nil
	r["et"] = instant(*e.et * 1000)
	if e.id != nil {
		r["id"] = *e.id
	}
	if e.site != nil {
		r["site"] = *e.site
	}
	if e.v != nil {
		r["v"] = *e.v
	}
	if e.f != nil {
		r["f"] = *e.f
	}
	if e.ok != nil {
		r["ok"] = *e.ok
	}
	return r
}

func instant(us int64) string {
	return time.UnixMicro(us).UTC().Format("2006-01-02T15:04:05.000000Z")
}

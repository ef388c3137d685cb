package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Row is a row by column: numbers are int64, times int64 microseconds, all else text
// or nil.
type Row map[string]any

// Tables are the rows of each table.
type Tables map[string][]Row

// Input are the records of each split, in their order.
type Input map[Split][]Record

// never is the watermark of a split before its first row.
const never = math.MinInt64

// Expected works out, from the records of each split and nothing else, the rows of
// every table of the pipeline (package proof has its text). Nothing in it depends on
// how splits interleave, or on when and how often the program was killed.
func Expected(in Input) Tables {
	out := Tables{}
	w := windows{}
	for s, records := range in {
		if s.Source == "side" { // The part of the pipeline that stands alone.
			for _, r := range records {
				out.source(r, func() { out.add("side", r.columns()) })
			}
			continue
		}
		split(records, out, w)
	}
	w.close(out)
	return out
}

// split plays one split. Copies of a key are all in one.
func split(records []Record, out Tables, w windows) {
	watermark := int64(never)
	passed := map[string][]int64{}
	for _, r := range records {
		stamp := watermark
		out.source(r, func() {
			watermark = max(watermark, (r.ET-bound)*1000)
			out.add("raw", r.columns())
			if r.dedup(stamp, passed, out) && r.V%10 != 0 {
				plain := r.columns()
				plain["w"] = r.V * 2
				out.add("plain", plain)
				w.put(r, plain, stamp, out)
			}
		})
	}
}

// source passes a row on, and puts a record that is none where it belongs: the bad
// ones of files are in a table, all others in the quarantine.
func (t Tables) source(r Record, row func()) {
	if r.Bad == "" {
		row()
		return
	}
	q := Row{"reason": r.Bad, "source": r.Src, "position": r.Where, "raw": fmt.Sprintf("%x", r.Payload)}
	if r.Bad == "null_event_time" { // It was decoded.
		q["raw"] = nil
	}
	if r.Src == "lines" {
		t.add("bad", q)
		return
	}
	q["step"], q["port"] = r.Src, "bad"
	if q["raw"] == nil {
		q["position"] = r.place()
	}
	t.add("quarantine", q)
}

func (t Tables) add(table string, r Row) { t[table] = append(t[table], r) }

func (r Record) columns() Row {
	return Row{"src": r.Src, "split": int64(r.Split), "pos": r.Pos, "id": r.ID, "site": r.Site, "et": r.ET * 1000, "v": r.V, "sum": r.Sum}
}

// place is how rows of the quarantine that were decoded are told apart: by what they
// say themselves.
func (r Record) place() string { return fmt.Sprintf("%s %d %d", r.Src, r.Split, r.Pos) }

// dedup says whether a row passes: the first of its key, unless it is too old for
// its copies to be known.
func (r Record) dedup(stamp int64, passed map[string][]int64, out Tables) bool {
	if stamp != never {
		if edge := stamp - within*1000; r.ET*1000 < edge {
			stale := r.columns()
			stale["watermark"], stale["lateness"] = stamp, edge-r.ET*1000
			out.add("stale", stale)
			return false
		}
	}
	for _, p := range passed[r.ID] {
		if d := p - r.ET; -within <= d && d <= within {
			return false
		}
	}
	passed[r.ID] = append(passed[r.ID], r.ET)
	return true
}

// windows are the groups that are open, by site and beginning in microseconds; those
// of the whole time begin at never.
type windows map[windowKey]*window

type windowKey struct {
	site  string
	start int64
}

type window struct {
	n, sum, most int64
	// rows are those of top, which allows no lateness.
	rows []Record
}

func (w windows) of(site string, start int64) *window {
	k := windowKey{site, start}
	if w[k] == nil {
		w[k] = &window{most: math.MinInt64}
	}
	return w[k]
}

func (g *window) count(r Record) {
	g.n, g.sum, g.most = g.n+1, g.sum+r.V, max(g.most, r.V)
}

// put counts a row in its group, its window and the ranks of its window, as far as
// its split's watermark just before it lets it.
func (w windows) put(r Record, plain Row, stamp int64, out Tables) {
	w.of(r.Site, never).count(r)
	t := r.ET * 1000
	start := t - t%(width*1000)
	end := start + width*1000
	late := func(allowed int64) Row {
		if stamp == never || end+allowed > stamp {
			return nil
		}
		row := Row{"window_start": start, "window_end": end, "watermark": stamp, "lateness": stamp - end - allowed}
		for c, v := range plain {
			row[c] = v
		}
		return row
	}
	if row := late(lateness * 1000); row != nil {
		out.add("late", row)
	} else {
		w.of(r.Site, start).count(r)
	}
	if row := late(0); row != nil {
		out.add("quarantine", Row{"reason": "late", "source": r.Src, "position": r.place(), "raw": nil, "step": "best", "port": "late"})
	} else {
		g := w.of(r.Site, start)
		g.rows = append(g.rows, r)
	}
}

// close gives the results.
func (w windows) close(out Tables) {
	for k, g := range w {
		if k.start == never {
			out.add("totals", Row{"site": k.site, "n": g.n, "s": fmt.Sprint(g.sum)})
			continue
		}
		if g.n > 0 {
			out.add("minutes", Row{"site": k.site, "window_start": k.start, "window_end": k.start + width*1000,
				"n": g.n, "s": fmt.Sprint(g.sum), "hi": g.most})
		}
		slices.SortFunc(g.rows, func(a, b Record) int {
			return cmp.Or(cmp.Compare(b.V, a.V), cmp.Compare(a.ID, b.ID))
		})
		for i, r := range g.rows[:min(len(g.rows), best)] {
			row := r.columns()
			row["w"], row["place"] = r.V*2, int64(i+1)
			row["window_start"], row["window_end"] = k.start, k.start+width*1000
			out.add("best", row)
		}
	}
}

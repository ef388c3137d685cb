package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
)

// Hold is one split that keeps a watermark from rising to a time.
type Hold struct {
	Source string `json:"source"`
	SplitStatus
	// Needs: a row of the split with this event time or a later one lets go.
	Needs Instant `json:"needs_event_time"`
	// Release lists all that would let go, in words.
	Release []string `json:"release"`
}

// Splits returns how the splits of every source stand, by step and name. Any
// goroutine may call it.
func (j *Job) Splits() map[string][]SplitStatus {
	j.mu.Lock()
	p := j.mu.plant
	j.mu.Unlock()
	out := map[string][]SplitStatus{}
	if p == nil {
		return out
	}
	for name, tasks := range p.sources {
		var all []SplitStatus
		for _, t := range tasks {
			all = append(all, t.views.list(p.splits)...)
		}
		slices.SortFunc(all, func(a, b SplitStatus) int { return strings.Compare(string(a.Split), string(b.Split)) })
		out[name] = all
	}
	return out
}

// needsOf returns what the watermark of each source upstream of a step must reach
// for the step's own to reach due: due and the delays of the steps between.
func (g *Graph) needsOf(step string, due dataflow.Time) map[string]dataflow.Time {
	out := map[string]dataflow.Time{}
	for _, s := range g.Sources {
		if s.Name == step {
			out[step] = due
			return out
		}
	}
	for _, op := range g.Operators {
		if op.Name != step {
			continue
		}
		for _, in := range op.Inputs {
			need := due
			for _, up := range g.Operators {
				if up.Name == in.Step {
					need = due.Add(up.Plan.Delay)
				}
			}
			for src, t := range g.needsOf(in.Step, need) {
				if _, ok := out[src]; !ok || t > out[src] {
					out[src] = t
				}
			}
		}
	}
	return out
}

// source returns a source step, or nil.
func (g *Graph) source(name string) *Source {
	for _, s := range g.Sources {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// holdsOf lists the splits of a source whose own watermark is below need, the
// furthest behind first.
func holdsOf(s *Source, splits []SplitStatus, need dataflow.Time, now time.Time) []Hold {
	var out []Hold
	for _, sp := range splits {
		if sp.live() && dataflow.Time(sp.Watermark) < need {
			out = append(out, newHold(s, sp, need, now))
		}
	}
	if len(out) == 0 {
		// Nobody is live: the watermark stands where the last one left it.
		for _, sp := range splits {
			if sp.State == SplitIdle && dataflow.Time(sp.Watermark) < need {
				out = append(out, newHold(s, sp, need, now))
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Hold) int {
		if a.Watermark != b.Watermark {
			if a.Watermark < b.Watermark {
				return -1
			}
			return 1
		}
		return strings.Compare(string(a.Split), string(b.Split))
	})
	return out
}

func newHold(s *Source, sp SplitStatus, need dataflow.Time, now time.Time) Hold {
	h := Hold{Source: s.Name, SplitStatus: sp, Needs: Instant(dataflow.MaxTime)}
	if s.EventTime == nil {
		h.Release = []string{"the end of the source: its rows have no event time"}
		return h
	}
	h.Needs = Instant(need.Add(s.EventTime.OutOfOrderness))
	if s.EventTime.Processing {
		h.Release = []string{fmt.Sprintf("the machine's clock, when it reaches %s", h.Needs)}
		return h
	}
	row := fmt.Sprintf("a row with event time %s or later in split %s", h.Needs, sp.Split)
	switch sp.State {
	case SplitAtUntil:
		h.Release = []string{"the end of the run: it is read up to where it ends, and waits for the other splits"}
		return h
	case SplitPaused:
		row += fmt.Sprintf(", which waits for the slowest split (max_drift %s)", component.Duration(s.EventTime.MaxDrift))
	case SplitReading:
		row += ", which is being read"
		if !sp.LastRow.IsZero() && now.Sub(sp.LastRow) > slowAfter {
			row += fmt.Sprintf(" but has given nothing for %s, nor said that it is caught up: is the outside system reachable?", ago(now, sp.LastRow))
		}
	}
	h.Release = []string{row}
	if after := s.EventTime.IdleAfter; sp.State == SplitCaughtUp {
		if after > 0 {
			h.Release = append(h.Release, fmt.Sprintf("idle_after: it is left out in %s if no row comes until then", component.Duration(max(0, after-now.Sub(sp.CaughtUp)).Round(time.Second))))
		} else {
			h.Release = append(h.Release, "idle_after, which is off: with it a split that is caught up for so long is left out")
		}
	}
	if s.Bounded {
		h.Release = append(h.Release, "the end of the source")
	}
	return h
}

// slowAfter is how long a split that is being read may give nothing.
const slowAfter = 10 * time.Second

func ago(now, then time.Time) time.Duration {
	d := now.Sub(then)
	if d < 10*time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}

// Text is the hold in one sentence for each thing to know.
func (h *Hold) Text(now time.Time) []string {
	state := map[string]string{
		SplitReading: "being read", SplitCaughtUp: "caught up", SplitPaused: "paused, too far ahead of the slowest split",
		SplitIdle: "idle", SplitAtUntil: "read up to where the run ends", SplitEnded: "ended",
	}[h.State]
	if h.State == SplitCaughtUp || h.State == SplitIdle {
		if !h.CaughtUp.IsZero() {
			state += fmt.Sprintf(" for %s", ago(now, h.CaughtUp))
		}
	}
	out := []string{fmt.Sprintf("source %s, split %s: %s, its own watermark %s since %s (%s ago)",
		h.Source, h.Split, state, h.Watermark, clock(h.Since), ago(now, h.Since))}
	switch {
	case h.Top != nil:
		row := string(h.Top.Row)
		if len(row) > rowTextBytes {
			row = strings.ToValidUTF8(row[:rowTextBytes], "") + "..."
		}
		out = append(out, fmt.Sprintf("its greatest event time %s came with %s, read %s ago: %s", h.Top.Time, h.Top.Where, ago(now, h.Top.Read), row))
	case h.MaxTime != Instant(dataflow.MinTime):
		out = append(out, fmt.Sprintf("its greatest event time %s came before this process began", h.MaxTime))
	default:
		out = append(out, "no row of it has come")
	}
	if h.Top != nil && h.LastRow.After(h.Top.Read) {
		out = append(out, fmt.Sprintf("rows with earlier event times came after that, the last %s ago", ago(now, h.LastRow)))
	}
	return append(out, "let go by: "+strings.Join(h.Release, "; or "))
}

// rowTextBytes bounds a row in a text for people.
const rowTextBytes = 300

func clock(t time.Time) string { return t.UTC().Format("15:04:05Z") }

// heldBack says in words which watermarks have stood still while rows moved on.
func (j *Job) heldBack(s Status, now time.Time) []Problem {
	var out []Problem
	all := j.Splits()
	for _, src := range j.g.Sources {
		if src.EventTime == nil || src.EventTime.Processing {
			continue
		}
		wm := dataflow.Time(s.Sources[src.Name].Watermark)
		limit := max(heldFor, 3*j.o.Every, 2*src.EventTime.IdleAfter)
		for _, sp := range all[src.Name] {
			if !sp.live() || sp.State == SplitPaused || sp.State == SplitAtUntil || dataflow.Time(sp.Watermark) > wm || now.Sub(sp.Since) < limit {
				continue
			}
			if !movedOn(all[src.Name], sp) {
				continue
			}
			h := newHold(src, sp, dataflow.Time(sp.Watermark).Add(time.Microsecond), now)
			out = append(out, Problem{src.Name, ProblemWatermarkHeld, fmt.Sprintf("the watermark of source %s is held back: %s", src.Name, strings.Join(h.Text(now), "; "))})
		}
	}
	return append(out, j.heldByASource(s, all, now)...)
}

// heldByASource says which sources keep a step back that others have gone on with.
func (j *Job) heldByASource(s Status, all map[string][]SplitStatus, now time.Time) []Problem {
	var out []Problem
	for _, op := range j.g.Operators {
		up := j.g.upstream(op.Name)
		for _, name := range up {
			src, st := j.g.source(name), s.Sources[name]
			limit := max(heldFor, 3*j.o.Every)
			if src.EventTime != nil {
				limit = max(limit, 2*src.EventTime.IdleAfter)
			}
			since := lastRise(all[name])
			ahead := slices.ContainsFunc(up, func(o string) bool {
				return s.Sources[o].Watermark > st.Watermark && lastRise(all[o]).After(since)
			})
			if !op.Plan.Keyed || !ahead || now.Sub(since) < limit {
				continue
			}
			for _, h := range holdsOf(src, all[name], st.Watermark.Add(time.Microsecond), now) {
				if h.State != SplitAtUntil {
					out = append(out, Problem{op.Name, ProblemWatermarkHeld, fmt.Sprintf("the watermark of step %s is held back: %s", op.Name, strings.Join(h.Text(now), "; "))})
					break
				}
			}
		}
	}
	return out
}

// lastRise is when the watermark of any of the splits rose last.
func lastRise(splits []SplitStatus) time.Time {
	var out time.Time
	for _, sp := range splits {
		if sp.Since.After(out) {
			out = sp.Since
		}
	}
	return out
}

// heldFor is how long a split may stand still while others go on.
const heldFor = time.Minute

// movedOn says whether another split has gone on since sp stands still.
func movedOn(splits []SplitStatus, sp SplitStatus) bool {
	return slices.ContainsFunc(splits, func(o SplitStatus) bool {
		return o.Split != sp.Split && o.Watermark > sp.Watermark && o.Since.After(sp.Since)
	})
}

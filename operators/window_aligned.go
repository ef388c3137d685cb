package operators

import (
	"fmt"
	"math"

	"frazil/dataflow"
	"frazil/dataflow/component"
)

// alignedWindows says in which windows a time lies. A window is known by its
// end, since the ends of all are different. Panes cut the time so that all times
// of a pane lie in the same windows; a row is counted once, in its pane, and the
// panes of a window are put together when it fires. Times are microseconds, and
// ends are not inside.
type alignedWindows interface {
	// pane returns the bounds of the pane that holds t.
	pane(t int64) (start, end int64)
	// first and last return the ends of the first and the last of the windows that
	// hold the pane from start on.
	first(start int64) int64
	last(start int64) int64
	// next returns the end of the window after the one that ends at end.
	next(end int64) int64
	// start returns the beginning of the window that ends at end.
	start(end int64) int64
}

// visitWindows calls visit with each window that holds t, by their ends.
func visitWindows(w alignedWindows, t int64, visit func(start, end int64)) {
	pane, _ := w.pane(t)
	for end, last := w.first(pane), w.last(pane); ; end = w.next(end) {
		visit(w.start(end), end)
		if end >= last {
			return
		}
	}
}

// windowCells cuts the time into numbered cells without gaps.
type windowCells interface {
	// index returns the number of the cell that holds t.
	index(t int64) int64
	// at returns where a cell begins.
	at(index int64) int64
}

// equalCells have one width.
type equalCells struct{ width, origin int64 }

func (c equalCells) index(t int64) int64 { return floorDiv(t-c.origin, c.width) }
func (c equalCells) at(i int64) int64    { return i*c.width + c.origin }

// floorDiv is a / b, rounded down; b is positive.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// hoppingWindows hold size cells each, one begins every slide cells, one of them
// with cell 0. Tumbling ones have a size and a slide of 1.
type hoppingWindows struct {
	cells       windowCells
	size, slide int64
}

func (w hoppingWindows) pane(t int64) (start, end int64) {
	i := w.cells.index(t)
	return w.cells.at(i), w.cells.at(i + 1)
}

func (w hoppingWindows) first(start int64) int64 {
	i := w.cells.index(start)
	return w.cells.at((floorDiv(i-w.size, w.slide)+1)*w.slide + w.size)
}

func (w hoppingWindows) last(start int64) int64 {
	i := w.cells.index(start)
	return w.cells.at(floorDiv(i, w.slide)*w.slide + w.size)
}

func (w hoppingWindows) next(end int64) int64 {
	i := w.endIndex(end)
	for {
		i += w.slide
		if e := w.cells.at(i); e > end {
			return e
		}
	}
}

func (w hoppingWindows) start(end int64) int64 { return w.cells.at(w.endIndex(end) - w.size) }

// endIndex is the cell behind the window that ends at end. A day that a zone
// leaves out is an empty cell: it begins where the next one does, and of the two
// the window has the one that is a whole number of slides from the others.
func (w hoppingWindows) endIndex(end int64) int64 {
	i := w.cells.index(end-1) + 1
	for j := i; w.cells.at(j) == end; j++ {
		if (j-w.size)%w.slide == 0 {
			return j
		}
	}
	return i
}

// cumulativeWindows begin with a period and end with each of its steps. Steps are
// counted from the period's start if they are equal cells, otherwise they are
// cells of the calendar; the period's end cuts the last one.
type cumulativeWindows struct {
	period windowCells
	steps  windowCells // nil: step
	step   int64
}

func (w cumulativeWindows) bounds(t int64) (start, end int64) {
	i := w.period.index(t)
	return w.period.at(i), w.period.at(i + 1)
}

func (w cumulativeWindows) pane(t int64) (start, end int64) {
	from, to := w.bounds(t)
	if w.steps == nil {
		start = from + (t-from)/w.step*w.step
		return start, min(to, start+w.step)
	}
	i := w.steps.index(t)
	return max(from, w.steps.at(i)), min(to, w.steps.at(i+1))
}

func (w cumulativeWindows) first(start int64) int64 {
	_, end := w.pane(start)
	return end
}

func (w cumulativeWindows) last(start int64) int64 {
	_, end := w.bounds(start)
	return end
}

func (w cumulativeWindows) next(end int64) int64 {
	_, next := w.pane(end)
	return next
}

func (w cumulativeWindows) start(end int64) int64 {
	start, _ := w.bounds(end - 1)
	return start
}

// globalWindow is one window of all times.
type globalWindow struct{}

// globalEnd is behind every event time and before the watermark of a source that
// has ended.
const globalEnd = int64(dataflow.MaxEventTime) + 1

func (globalWindow) pane(int64) (start, end int64) { return int64(dataflow.MinEventTime), globalEnd }
func (globalWindow) first(int64) int64             { return globalEnd }
func (globalWindow) last(int64) int64              { return globalEnd }
func (globalWindow) next(int64) int64              { return math.MaxInt64 }
func (globalWindow) start(int64) int64             { return int64(dataflow.MinEventTime) }

// newAlignedWindows reads the windows out of cfg, nil if it has others. text is
// canonical and goes into the fingerprint; single says that a pane has one window,
// so that it is all of it.
func newAlignedWindows(cfg WindowConfig) (w alignedWindows, text string, single bool, problems component.Problems) {
	if cfg.Global != nil {
		return globalWindow{}, "global", true, nil
	}
	b := windowBuilder{zone: cfg.Zone}
	var err error
	if b.offset, err = cfg.Offset.micros(); err != nil {
		b.bad("offset", "%s", err)
	}
	b.findZone()
	switch {
	case cfg.Tumbling != "":
		w, single = b.tumbling(cfg.Tumbling), true
	case cfg.Hopping != nil:
		w = b.hopping(cfg.Hopping)
	case cfg.Cumulative != nil:
		w = b.cumulative(cfg.Cumulative)
	}
	if len(b.problems) > 0 {
		return nil, "", false, b.problems
	}
	return w, b.text + b.suffix(), single, nil
}

// suffix tells of offset and zone, where there are any.
func (b *windowBuilder) suffix() (s string) {
	if b.offset != 0 {
		s += fmt.Sprintf(" offset %dus", b.offset)
	}
	if b.zoned {
		s += " zone " + b.zone
	}
	return s
}

package operators

import (
	"fmt"
	"time"

	"frazil/dataflow/component"
)

// calendarCells are n days, weeks, months or years each, in local time, counted
// from 1970-01-01 (weeks from the Monday before it). A cell begins at midnight,
// moved by offset on the clock on the wall; where the clock leaves that moment
// out, when it goes on, and where it shows it twice, at the first.
type calendarCells struct {
	loc    *time.Location
	unit   windowUnit
	n      int64
	offset int64
}

// weekStart is the Monday before 1970-01-01, in days.
const weekStart = -3

func (c calendarCells) index(t int64) int64 {
	local := t + zoneOffset(c.loc, t) - c.offset
	day := floorDiv(local, dayMicros)
	var i int64
	switch c.unit {
	case unitDays:
		i = day
	case unitWeeks:
		i = floorDiv(day-weekStart, 7)
	default:
		date := time.Unix(day*86400, 0).UTC()
		if i = int64(date.Year()) - 1970; c.unit == unitMonths {
			i = 12*i + int64(date.Month()) - 1
		}
	}
	i = floorDiv(i, c.n)
	// The clock on the wall may have gone back over the bound.
	for c.at(i) > t {
		i--
	}
	for c.at(i+1) <= t {
		i++
	}
	return i
}

func (c calendarCells) at(i int64) int64 {
	i *= c.n
	day := i
	switch c.unit {
	case unitWeeks:
		day = 7*i + weekStart
	case unitMonths:
		day = dayOfMonth(1970, i)
	case unitYears:
		day = dayOfMonth(1970+i, 0)
	}
	return firstMoment(c.loc, day*dayMicros+c.offset)
}

// dayOfMonth counts the days from 1970-01-01 to the first of a month, which is
// counted from January of year.
func dayOfMonth(year, month int64) int64 {
	return time.Date(int(year), time.Month(1+month), 1, 0, 0, 0, 0, time.UTC).Unix() / 86400
}

// zoneOffset is the offset in microseconds east of UTC at a moment.
func zoneOffset(loc *time.Location, t int64) int64 {
	_, off := time.UnixMicro(t).In(loc).Zone()
	return int64(off) * 1000000
}

// firstMoment is when the clock on the wall first shows local or later.
func firstMoment(loc *time.Location, local int64) int64 {
	before := zoneOffset(loc, local-dayMicros)
	after := zoneOffset(loc, local+dayMicros)
	t := local - before
	if before == after || zoneOffset(loc, t) == before {
		return t
	}
	if t = local - after; zoneOffset(loc, t) == after {
		return t
	}
	_, end := time.UnixMicro(t).In(loc).ZoneBounds()
	return end.UnixMicro()
}

// windowBuilder makes windows of a configuration.
type windowBuilder struct {
	problems component.Problems
	offset   int64
	zone     string
	loc      *time.Location
	// zoned: the zone is not UTC.
	zoned bool
	text  string
}

func (b *windowBuilder) bad(path, format string, args ...any) {
	b.problems = append(b.problems, component.Problem{Path: path, Msg: fmt.Sprintf(format, args...)})
}

func (b *windowBuilder) findZone() {
	b.loc = time.UTC
	if b.zone == "" || b.zone == "UTC" {
		return
	}
	loc, err := time.LoadLocation(b.zone)
	if err != nil || b.zone == "Local" {
		b.bad("zone", "unknown time zone %q: expected a name of the IANA database, as Europe/Berlin or America/New_York", b.zone)
		return
	}
	b.loc, b.zoned = loc, true
}

// width parses a width; days and weeks of UTC become microseconds.
func (b *windowBuilder) width(path string, w Width) windowWidth {
	x, err := w.parse()
	if err != nil {
		b.bad(path, "%s", err)
		return windowWidth{1, unitMicros}
	}
	if b.zoned && x.unit == unitMicros {
		b.bad(path, "%s is no calendar unit, so the zone %s has no effect: leave the zone out, or write a number of days (d), weeks (w), months (mo) or years (y)", w, b.zone)
	}
	return x
}

// origin is where cells of a unit begin to be counted.
func (w windowWidth) origin() int64 {
	if w.unit == unitWeeks {
		return weekStart * dayMicros
	}
	return 0
}

// micros is the width of units that are always equally long without a zone; ok is
// false for months and years.
func (w windowWidth) micros() (n int64, ok bool) {
	switch w.unit {
	case unitMicros:
		return w.n, true
	case unitDays:
		return w.n * dayMicros, true
	case unitWeeks:
		return w.n * 7 * dayMicros, true
	}
	return 0, false
}

// cells are those of width w.
func (b *windowBuilder) cells(w windowWidth) windowCells {
	if n, ok := w.micros(); ok && !b.zoned {
		return equalCells{n, w.origin() + b.offset}
	}
	return calendarCells{b.loc, w.unit, w.n, b.offset}
}

func (b *windowBuilder) tumbling(w Width) alignedWindows {
	width := b.width("tumbling", w)
	b.text = "tumbling " + width.String()
	return hoppingWindows{b.cells(width), 1, 1}
}

func (b *windowBuilder) hopping(cfg *HoppingWindow) alignedWindows {
	size, slide := b.width("hopping.size", cfg.Size), b.width("hopping.slide", cfg.Slide)
	b.text = fmt.Sprintf("hopping %s every %s", size, slide)
	n, ok := size.micros()
	m, alike := slide.micros()
	cell := windowWidth{unit: unitMicros}
	if !ok || !alike || b.zoned {
		size, slide = size.inUnitOf(slide), slide.inUnitOf(size)
		if size.unit != slide.unit {
			b.bad("hopping.slide", "size %s and slide %s are numbers of different calendar units, so that no pane fits both: use one unit for both", cfg.Size, cfg.Slide)
			return nil
		}
		n, m, cell.unit = size.n, slide.n, slide.unit
	}
	if m > n {
		b.bad("hopping.slide", "a slide of %s leaves times between windows of %s in no window: at most the size", cfg.Slide, cfg.Size)
		return nil
	}
	cell.n = gcd(n, m)
	cells := b.cells(cell)
	if cell.unit == unitMicros {
		cells = equalCells{cell.n, slide.origin() + b.offset}
	}
	return hoppingWindows{cells, n / cell.n, m / cell.n}
}

// inUnitOf turns weeks into days and years into months where o counts these.
func (w windowWidth) inUnitOf(o windowWidth) windowWidth {
	switch {
	case w.unit == unitWeeks && o.unit == unitDays:
		return windowWidth{7 * w.n, unitDays}
	case w.unit == unitYears && o.unit == unitMonths:
		return windowWidth{12 * w.n, unitMonths}
	}
	return w
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func (b *windowBuilder) cumulative(cfg *CumulativeWindow) alignedWindows {
	size, err := cfg.Size.parse()
	if err != nil {
		b.bad("cumulative.size", "%s", err)
		return nil
	}
	if b.zoned && size.unit == unitMicros {
		b.width("cumulative.size", cfg.Size)
	}
	step, err := cfg.Step.parse()
	if err != nil {
		b.bad("cumulative.step", "%s", err)
		return nil
	}
	b.text = fmt.Sprintf("cumulative %s by %s", size, step)
	w := cumulativeWindows{period: b.cells(size)}
	n, equal := size.micros()
	equal = equal && !b.zoned
	m, ok := step.micros()
	switch {
	case step.about() > size.about():
		b.bad("cumulative.step", "a step of %s is longer than the size %s", cfg.Step, cfg.Size)
	case equal && n%m != 0:
		b.bad("cumulative.step", "the step %s does not divide the size %s", cfg.Step, cfg.Size)
	case ok && (equal || step.unit == unitMicros):
		w.step = m
	default:
		w.steps = b.cells(step)
	}
	return w
}

// about is the width in microseconds, where units differ in length roughly.
func (w windowWidth) about() int64 {
	return w.n * [...]int64{unitMicros: 1, unitDays: dayMicros, unitWeeks: 7 * dayMicros, unitMonths: 30 * dayMicros, unitYears: 365 * dayMicros}[w.unit]
}

// String is canonical.
func (w windowWidth) String() string {
	return fmt.Sprintf("%d%s", w.n, [...]string{unitMicros: "us", unitDays: "d", unitWeeks: "w", unitMonths: "mo", unitYears: "y"}[w.unit])
}

package operators

import (
	"fmt"
	"strings"
	"time"

	"frazil/dataflow/component"
)

// WindowConfig configures the operator window. Exactly one of tumbling,
// hopping, cumulative, session, count and global says what its windows are.
type WindowConfig struct {
	AlignedWindows `yaml:",inline"`
	// Session makes windows of rows that follow one another closely, apart for
	// each group.
	Session *SessionWindow `yaml:"session" choose:"one"`
	// Count makes windows of so many rows each, apart for each group.
	Count *CountWindow `yaml:"count" choose:"one"`
	// Global makes one window of all rows, written as global: {}. It gives its
	// result at the end of the input, unless updates or early results are asked
	// for.
	Global *GlobalWindow `yaml:"global" choose:"one"`
	// By names the groups: each window gives one row per combination of their
	// values, null being a value. An entry is a column, or {name: expression}.
	// Empty: one row per window.
	By []By `yaml:"by"`
	// Aggregate maps result columns to aggregates, in the order of the result, as
	// {n: count(*), buyers: count(distinct buyer), total: sum(price) filter (where paid)}.
	// The guide Aggregates lists all functions.
	Aggregate component.NamedExprs `yaml:"aggregate,required"`
	// AllowedLateness keeps a window open for this long after the watermark has
	// passed its end: rows that arrive meanwhile count, and the final result
	// waits for them. Default 0s.
	AllowedLateness component.Duration `yaml:"allowed_lateness"`
	// Emit is what a window gives. final (default): one row per group, once, when
	// no row can come for it any more. updates: a changelog, with a row when the
	// watermark reaches the window's end and a correction for each row after it;
	// the column timing (early, on_time, late) says which it is.
	Emit string `yaml:"emit" oneof:"final,updates"`
	// Early asks for results before the end of a window; needs emit: updates.
	// Default: none.
	Early *EarlyResults `yaml:"early"`
	// Mode is what a window keeps when it has given a result. accumulating
	// (default): everything, so that each result covers the whole window and takes
	// the place of the one before. discarding: nothing, so that each covers the
	// rows since the one before; the results are then rows, not changes. Needs
	// emit: updates.
	Mode string `yaml:"mode" oneof:"accumulating,discarding"`
}

// AlignedWindows are windows whose bounds follow from the time alone. At most
// one of the first three is set.
type AlignedWindows struct {
	// Tumbling is the width of windows that follow one another without a gap: a
	// duration, at least 1us, or a number of calendar units as 1d, 1w (from
	// Monday), 1mo, 1y. They are aligned to 1970-01-01T00:00:00Z, calendar units
	// to the calendar.
	Tumbling Width `yaml:"tumbling" choose:"up_to_one"`
	// Hopping windows have one size and begin once per slide, so that a row is in
	// several.
	Hopping *HoppingWindow `yaml:"hopping" choose:"up_to_one"`
	// Cumulative windows begin together once per size and end one step apart, so
	// that each holds the one before.
	Cumulative *CumulativeWindow `yaml:"cumulative" choose:"up_to_one"`
	// Offset moves all bounds by a time with a unit, also backwards as -30m.
	// Default 0s.
	Offset Offset `yaml:"offset"`
	// Zone is the time zone of calendar units, as Europe/Berlin: days then begin
	// at midnight there and have 23 or 25 hours when the clocks change. Default
	// UTC.
	Zone string `yaml:"zone"`
}

// HoppingWindow describes hopping windows.
type HoppingWindow struct {
	// Size is the width of a window, as for tumbling ones.
	Size Width `yaml:"size,required"`
	// Slide is the distance between two windows' starts, at most the size. Both
	// are durations, or numbers of the same calendar unit.
	Slide Width `yaml:"slide,required"`
}

// CumulativeWindow describes cumulative windows.
type CumulativeWindow struct {
	// Size is the width of the last of the windows that begin together, as for
	// tumbling ones.
	Size Width `yaml:"size,required"`
	// Step is the distance between two windows' ends. It divides the size.
	Step Width `yaml:"step,required"`
}

// SessionWindow describes sessions.
type SessionWindow struct {
	// Gap without a row of the group ends a session; at least 1us. Two rows
	// exactly one gap apart are in one session.
	Gap component.Duration `yaml:"gap,required"`
}

// CountWindow describes windows of a number of rows.
type CountWindow struct {
	// Rows is how many rows a window has, at least 1.
	Rows int64 `yaml:"rows,required"`
	// ExpireAfter bounds the state: when the watermark has passed the newest row
	// of a group by so much, its window is given with the rows it has.
	ExpireAfter component.Duration `yaml:"expire_after,required"`
}

// GlobalWindow describes the window of all rows; it has no options.
type GlobalWindow struct{}

// EarlyResults says when a window gives results before its end; exactly one of
// the two is set.
type EarlyResults struct {
	// Rows gives a result after every so many new rows of a window and group, at
	// least 1.
	Rows int64 `yaml:"rows" choose:"one"`
	// ProcessingTime gives a result so long after the first new row of a window and
	// group, by the machine's clock, looked at with each batch, watermark and
	// checkpoint. It makes the step not replayable.
	ProcessingTime component.Duration `yaml:"processing_time" choose:"one"`
}

// By is one entry of a list of groups: a column, or an expression with a name.
type By struct {
	// Name is the column of the result.
	Name string
	// Expr is its expression; "": the input's column of that name.
	Expr string
}

// TypeText implements component.TypeTexter.
func (By) TypeText() string { return "column or {name: expression}" }

// UnmarshalNode implements component.Unmarshaler.
func (b *By) UnmarshalNode(n *component.Node) error {
	switch n.Kind {
	case component.Text:
		b.Name = n.Text
		return nil
	case component.Map:
		var e component.NamedExprs
		if problems := component.Decode(n, &e); len(problems) > 0 {
			return problems
		}
		if len(e) == 1 {
			*b = By{Name: e[0].Name, Expr: e[0].Expr}
			return nil
		}
		return fmt.Errorf("expected one name with its expression, got %d: write each as an entry of its own", len(n.Entries))
	}
	return fmt.Errorf("expected a column or {name: expression}, got %s", n.Kind)
}

// Width is the width of windows: a time with a unit, or a number of calendar
// units; "" without one.
type Width string

// TypeText implements component.TypeTexter.
func (Width) TypeText() string { return "duration or calendar units" }

// UnmarshalNode implements component.Unmarshaler.
func (w *Width) UnmarshalNode(n *component.Node) error {
	if n.Kind != component.Text && n.Kind != component.Number {
		return fmt.Errorf("expected a width, as 1m, 1d or 1mo, got %s", n.Kind)
	}
	*w = Width(n.Text)
	_, err := w.parse()
	return err
}

// Offset is a time with a unit that may be negative.
type Offset string

// TypeText implements component.TypeTexter.
func (Offset) TypeText() string { return "duration, also negative" }

// UnmarshalNode implements component.Unmarshaler.
func (o *Offset) UnmarshalNode(n *component.Node) error {
	if n.Kind != component.Text && n.Kind != component.Number {
		return fmt.Errorf("expected a time with a unit, as 8h or -30m, got %s", n.Kind)
	}
	*o = Offset(n.Text)
	_, err := o.micros()
	return err
}

// micros is the offset in microseconds.
func (o Offset) micros() (int64, error) {
	if o == "" {
		return 0, nil
	}
	text, negative := strings.CutPrefix(string(o), "-")
	d, err := component.ParseDuration(text)
	if err != nil {
		return 0, err
	}
	if d.D()%time.Microsecond != 0 {
		return 0, fmt.Errorf("expected whole microseconds, not %s", o)
	}
	if negative {
		d = -d
	}
	return d.D().Microseconds(), nil
}

// byColumns are groups by columns.
func byColumns(names ...string) []By {
	var by []By
	for _, n := range names {
		by = append(by, By{Name: n})
	}
	return by
}

// ordered says whether rows must be taken in the order of their stamps, since
// the results depend on it.
func (c *WindowConfig) ordered() bool {
	return c.Session != nil || c.Count != nil || c.Emit == "updates" || c.Early != nil || c.Mode == "discarding"
}

// checkShapes says what is wrong with the choice of windows.
func (c *WindowConfig) checkShapes() (problems component.Problems) {
	var set []string
	for _, s := range []struct {
		name string
		set  bool
	}{
		{"tumbling", c.Tumbling != ""}, {"hopping", c.Hopping != nil}, {"cumulative", c.Cumulative != nil},
		{"session", c.Session != nil}, {"count", c.Count != nil}, {"global", c.Global != nil},
	} {
		if s.set {
			set = append(set, s.name)
		}
	}
	switch {
	case len(set) == 0:
		return component.Problems{{Msg: "say what the windows are: tumbling: 1m, hopping: {size: 10s, slide: 2s}, cumulative: {size: 1h, step: 5m}, session: {gap: 10s}, count: {rows: 100} or global: {}"}}
	case len(set) > 1:
		return component.Problems{{Path: set[1], Msg: fmt.Sprintf("%s stands beside %s: windows have one kind, so keep one", set[1], set[0])}}
	}
	if c.Tumbling == "" && c.Hopping == nil && c.Cumulative == nil {
		if c.Offset != "" {
			problems = append(problems, component.Problem{Path: "offset", Msg: fmt.Sprintf("windows of the kind %s have no offset: leave it out", set[0])})
		}
		if c.Zone != "" {
			problems = append(problems, component.Problem{Path: "zone", Msg: fmt.Sprintf("windows of the kind %s know no time zone: leave it out", set[0])})
		}
	}
	if late := c.AllowedLateness.D(); late < 0 || late%time.Microsecond != 0 {
		problems = append(problems, component.Problem{Path: "allowed_lateness", Msg: fmt.Sprintf("expected whole microseconds, not %s", c.AllowedLateness)})
	}
	return problems
}

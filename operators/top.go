package operators

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/operators/expr"

	"github.com/apache/arrow-go/v18/arrow"
)

// TopConfig configures the operator top.
type TopConfig struct {
	AlignedWindows `yaml:",inline"`
	// By names the columns of the group: each has its own first rows, null being a
	// value. Empty: the first rows of all.
	By []string `yaml:"by"`
	// OrderBy is the order of the rows: columns or expressions, each with asc
	// (default) or desc and nulls first or nulls last behind it, as in
	// ["price desc", ts]. Rows that are equal by it go by event time, source, split
	// and position.
	OrderBy []string `yaml:"order_by,required"`
	// Limit is how many rows of a group are kept, 1 to 10000.
	Limit int64 `yaml:"limit,required"`
	// Ties says what becomes of rows that are equal to the last one by order_by.
	// row (default): exactly limit rows are kept. rank: those stay as well, and the
	// rank is 1 and how many rows come before by order_by; with windows only.
	Ties string `yaml:"ties" oneof:"row,rank"`
	// Rank is the name of a column with the row's place in its group, from 1 on.
	// Default: none; needed without windows where limit is above 1, since it is
	// part of the key.
	Rank string `yaml:"rank"`
	// AllowedLateness keeps a window open for this long after the watermark has
	// passed its end. Default 0s; with windows only.
	AllowedLateness component.Duration `yaml:"allowed_lateness"`
	// ExpireAfter bounds the state without windows, where it is required: a group
	// that has no row for longer than this, in event time, begins anew with its next
	// one, and a row that is older than its stamp by this leaves by the port late.
	// Not for an input of changes: there a row stays until it is taken away.
	ExpireAfter component.Duration `yaml:"expire_after"`
}

const topDoc = `Keeps the first rows of each group by an order: the ten highest bids of an
auction, the last reading of a device per minute, the busiest item per window.

With windows (tumbling, hopping, cumulative, as for the operator window): the
first rows of each window and group, given when the watermark reaches the window's
end plus the allowed lateness: the columns of the input, window_start and
window_end unless the input has columns of these names, the rank if asked for. The
event time of a result is window_end less 1us. Late rows leave by "late" as those
of a window do.

Without windows: a changelog of the table of first rows, with the key "by" and the
rank. At each checkpoint, and at the end of the input, every row that differs from
the one given before: inserts, deletes, update_before with update_after.

Over a changelog: the first rows of the table that its changes make, as a changelog.
A row that is taken away brings back the one behind the last rank. There is no
expire_after and no port late.

Order: rows that are equal by order_by go by event time, then source, split and
position; rows without an origin (results of a window) by their values, rows of a changelog by
its key. So the result does not depend on the order in which rows come.

State: with windows the first rows per group and open window. Without, those of
each group, bounded by expire_after: rows of a group that follow one another
within it in event time, in whatever order they come, belong together, and where
the gap is longer the group begins anew. When the watermark has passed a group's
last row by about twice expire_after (the next multiple of a quarter of it), the
group's rows are deleted from the table. Over a changelog all rows of its table.

Bad rows: a row for which an order cannot be computed leaves by "bad".
In a changelog the row that it takes the place of is taken away.`

func init() {
	component.RegisterOperator(component.Operator[TopConfig]{
		Name:    "top",
		Summary: "Keeps the first rows of each group by an order, per window or as a changelog.",
		Doc:     topDoc,
		Changes: true,
		Default: func() TopConfig { return TopConfig{Ties: "row"} },
		Plan:    planTop,
		New: func(_ context.Context, env *dataflow.Env, in component.OperatorIn, cfg TopConfig) (dataflow.Operator, error) {
			s, err := newTopShape(in, cfg)
			if err != nil {
				return nil, err
			}
			switch {
			case s.windows != nil:
				return newTopWindow(env, s)
			case s.updates != nil:
				return newTopUpdates(env, s)
			}
			return newTopKeyed(env, s)
		},
		NewBefore: func(_ context.Context, env *dataflow.Env, in component.OperatorIn, cfg TopConfig) (dataflow.Operator, error) {
			s, err := newTopShape(in, cfg)
			if err != nil {
				return nil, err
			}
			if s.updates != nil {
				return newTopUpdatesBefore(env, s)
			}
			return newTopBefore(env, s)
		},
	})
}

// topExchange is the schema between the halves: the hash of the key, the key, the
// bounds of what the rows are of (see topBefore), the first rows in order.
var topExchange = arrow.NewSchema([]arrow.Field{
	{Name: groupHash, Type: arrow.PrimitiveTypes.Uint64},
	{Name: "_key", Type: dataflow.TypeBinary},
	{Name: "_from", Type: dataflow.TypeInt64},
	{Name: "_to", Type: dataflow.TypeInt64},
	{Name: "_items", Type: dataflow.TypeBinary},
}, nil)

// topShape is a checked configuration on its input; dedup has one as well where
// it keeps the last row.
type topShape struct {
	input *arrow.Schema
	users int // number of user columns
	by    *byKeys
	order []expr.Order // empty: the last row by event time
	limit int
	ties  bool
	rank  string

	windows    alignedWindows // nil without
	single     bool           // a pane has one window
	windowText string
	lateness   int64 // microseconds

	updates *topUpdates // nil for an input of rows

	keep int64 // without windows: how long a group goes on, microseconds
	// last: rows of a group belong together however far apart they are, and
	// nothing is given when a group expires (dedup).
	last bool

	// rows is the schema of the result without its system columns.
	rows, out, late *arrow.Schema
}

func planTop(in component.OperatorIn, cfg TopConfig) (component.OperatorPlan, error) {
	s, err := newTopShape(in, cfg)
	if err != nil {
		return component.OperatorPlan{}, err
	}
	if s.updates != nil {
		return s.planUpdates(in), nil
	}
	plan := component.OperatorPlan{
		Ports: []dataflow.Port{
			{Name: dataflow.PortOut, Stream: dataflow.Stream{Schema: s.out}},
			{Name: dataflow.PortLate, Stream: dataflow.Stream{Schema: s.late}},
			dataflow.BadPort(),
		},
		Keyed: true, Exchange: topExchange, RouteBy: groupHash, KeyText: s.by.keyText(),
		Fingerprint: "top/1 " + s.fingerprint(),
	}
	if s.windows != nil {
		plan.Delay = cfg.AllowedLateness.D()
		plan.State = fmt.Sprintf("the first %d rows per group and open window", s.limit)
		return plan, nil
	}
	plan.Ports[0].Stream.Changelog, plan.Ports[0].Stream.Key = true, s.changelogKey()
	plan.Spills = "groups"
	plan.State = fmt.Sprintf("the first %d rows per group, until the watermark is about %s after its last row (twice expire_after)", s.limit, 2*cfg.ExpireAfter)
	return plan, nil
}

// changelogKey names the columns of the result that identify a row.
func (s *topShape) changelogKey() []string {
	key := s.by.names()
	if s.rank != "" {
		key = append(key, s.rank)
	}
	return key
}

// fingerprint covers what the state's bytes mean: rows are kept whole.
func (s *topShape) fingerprint() string {
	var b strings.Builder
	fmt.Fprintf(&b, "limit %d ties %t", s.limit, s.ties)
	switch {
	case s.windows != nil:
		fmt.Fprintf(&b, " %s lateness %dus", s.windowText, s.lateness)
	case s.updates == nil:
		fmt.Fprintf(&b, " expire %dus", s.keep)
	}
	b.WriteString(s.by.fingerprint() + " order")
	for _, o := range s.order {
		fmt.Fprintf(&b, " %s %s%s,", o.By, dataflow.TypeName(o.By.Type()), o.Suffix())
	}
	b.WriteString(" rows")
	for _, f := range s.input.Fields() {
		fmt.Fprintf(&b, " %q %s,", f.Name, dataflow.TypeName(f.Type))
	}
	return b.String()
}

func newTopShape(in component.OperatorIn, cfg TopConfig) (*topShape, error) {
	input := in.Inputs[0].Schema
	s := &topShape{
		input: input, users: len(dataflow.UserFields(input)), limit: int(cfg.Limit), ties: cfg.Ties == "rank", rank: cfg.Rank,
		keep: cfg.ExpireAfter.D().Microseconds(), lateness: cfg.AllowedLateness.D().Microseconds(),
	}
	var problems component.Problems
	changes := in.Inputs[0].Changelog
	if !changes && !dataflow.Timed(input) {
		problems = append(problems, component.Problem{Msg: fmt.Sprintf("rows of %q have no event time, by which they are taken: give %s event_time: {column: ..., out_of_orderness: ...}", in.Names[0], windowSources(in.Sources))})
	}
	if changes {
		problems = append(problems, s.checkUpdates(in, cfg)...)
	} else {
		problems = append(problems, s.checkBounds(cfg)...)
	}
	var by []By
	for _, name := range cfg.By {
		by = append(by, By{Name: name})
	}
	keys, more := newByKeys(input, by)
	s.by, problems = keys, append(problems, more...)
	problems = append(problems, s.parseOrder(cfg.OrderBy)...)
	if cfg.Limit < 1 || cfg.Limit > 10000 {
		problems = append(problems, component.Problem{Path: "limit", Msg: fmt.Sprintf("expected 1 to 10000 rows, not %d", cfg.Limit)})
	}
	if len(problems) > 0 {
		return nil, problems
	}
	if problems = s.makeSchemas(); len(problems) > 0 {
		return nil, problems
	}
	return s, nil
}

// checkBounds reads windows or the bound without them.
func (s *topShape) checkBounds(cfg TopConfig) (problems component.Problems) {
	bad := func(path, format string, args ...any) {
		problems = append(problems, component.Problem{Path: path, Msg: fmt.Sprintf(format, args...)})
	}
	if cfg.Tumbling != "" || cfg.Hopping != nil || cfg.Cumulative != nil {
		w := WindowConfig{AlignedWindows: cfg.AlignedWindows, AllowedLateness: cfg.AllowedLateness}
		if problems = append(problems, w.checkShapes()...); len(problems) > 0 {
			return problems
		}
		var more component.Problems
		s.windows, s.windowText, s.single, more = newAlignedWindows(w)
		problems = append(problems, more...)
		if cfg.ExpireAfter != 0 {
			bad("expire_after", "windows bound the state: leave it out")
		}
		return problems
	}
	if cfg.ExpireAfter == 0 {
		bad("", "say what bounds the state: a window (tumbling: 1m, hopping: {size: 10s, slide: 2s}, cumulative: {size: 1h, step: 5m}) for final results per window, or expire_after: 24h for a changelog of the first rows so far")
		return problems
	}
	problems = append(problems, checkExpire("expire_after", cfg.ExpireAfter)...)
	return append(problems, s.checkChangelog(cfg)...)
}

// checkChangelog checks what a top without windows needs.
func (s *topShape) checkChangelog(cfg TopConfig) (problems component.Problems) {
	bad := func(path, format string, args ...any) {
		problems = append(problems, component.Problem{Path: path, Msg: fmt.Sprintf(format, args...)})
	}
	for path, set := range map[string]bool{"offset": cfg.Offset != "", "zone": cfg.Zone != "", "allowed_lateness": cfg.AllowedLateness != 0} {
		if set {
			bad(path, "it has no effect without windows: leave it out")
		}
	}
	if s.ties {
		bad("ties", "rank goes with windows only: rows of one rank would have one key in the changelog")
	}
	if cfg.Rank == "" && cfg.Limit > 1 {
		bad("rank", "the changelog needs a column that tells the rows of a group apart: write rank: rank_number, or limit: 1")
	}
	return problems
}

func (s *topShape) parseOrder(texts []string) (problems component.Problems) {
	if len(texts) == 0 {
		problems = append(problems, component.Problem{Path: "order_by", Msg: `say by what rows are first, as ["price desc", ts]`})
	}
	for i, text := range texts {
		path := "order_by[" + strconv.Itoa(i) + "]"
		o, err := expr.ParseOrder(s.quoteColumn(text), s.input)
		if err != nil {
			problems = append(problems, expr.Problem(path, err))
			continue
		}
		s.order = append(s.order, o)
	}
	return problems
}

// topOrderWords are what may stand behind a column.
var topOrderWords = regexp.MustCompile(`(?i)(\s+(asc|desc))?(\s+nulls\s+(first|last))?\s*$`)

// quoteColumn lets a column stand as it is called, as it may in by: in an
// expression a name with capital letters would need quotes.
func (s *topShape) quoteColumn(text string) string {
	at := topOrderWords.FindStringIndex(text)[0]
	if slices.Contains(windowUserNames(s.input), text[:at]) {
		return `"` + strings.ReplaceAll(text[:at], `"`, `""`) + `"` + text[at:]
	}
	return text
}

// makeSchemas puts the outputs together.
func (s *topShape) makeSchemas() (problems component.Problems) {
	fields := slices.Clone(dataflow.UserFields(s.input))
	has := func(name string) bool {
		return slices.ContainsFunc(fields, func(f arrow.Field) bool { return f.Name == name })
	}
	sys := []arrow.Field{dataflow.OpField()}
	if s.updates == nil {
		s.late = groupLateSchema(s.input)
	}
	if s.windows != nil {
		for _, name := range []string{"window_start", "window_end"} {
			if !has(name) {
				fields = append(fields, arrow.Field{Name: name, Type: dataflow.TypeTimestampTZ})
			}
		}
		sys = dataflow.TimeFields()
		s.late = windowLateSchema(s.input)
	}
	if s.rank != "" {
		switch {
		case dataflow.IsSystem(s.rank):
			problems = append(problems, component.Problem{Path: "rank", Msg: fmt.Sprintf("names that begin with %q are reserved", dataflow.SysPrefix)})
		case has(s.rank):
			problems = append(problems, component.Problem{Path: "rank", Msg: fmt.Sprintf("the rows have a column %q already: choose another name", s.rank)})
		}
		fields = append(fields, arrow.Field{Name: s.rank, Type: dataflow.TypeInt64})
	}
	s.rows = arrow.NewSchema(fields, nil)
	s.out = arrow.NewSchema(append(slices.Clone(fields), sys...), nil)
	return problems
}

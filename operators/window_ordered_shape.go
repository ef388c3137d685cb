package operators

import (
	"fmt"
	"slices"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
)

// orderedKind is what the windows of an ordered window are.
type orderedKind int

const (
	orderedAligned orderedKind = iota
	orderedSession
	orderedCount
)

// orderedShape is a checked configuration of a window whose results depend on
// the order of rows.
type orderedShape struct {
	*windowShape
	kind orderedKind
	gap  int64 // of sessions, microseconds
	// count is how many rows a count window has.
	count int64
	// keep is how long a window stays behind its end, in microseconds: the allowed
	// lateness, or how long the group of a count window may be quiet.
	keep int64
	// updates: several results per window; discarding: each holds the rows since
	// the one before; changelog: each takes the one before back.
	updates, discarding, changelog bool
	earlyRows                      int64         // 0: none
	earlyAfter                     time.Duration // 0: none

	exchange *arrow.Schema
	cols     orderedColumns
	out      *arrow.Schema
}

// orderedColumns are the places of columns in the exchange between the halves.
// What makes a row's content stands in front of the system columns, so that
// stamp order can tell rows without an origin apart.
type orderedColumns struct {
	key, args, row    int // args: the first of the values of exprs; row: -1 without it
	time, stamp, hash int
}

// Names in that exchange: the canonical key, the values of exprs as value0,
// value1, ..., the whole row where it may be late, the hash of the key.
const (
	orderedKeyColumn = "key"
	orderedArg       = "value"
	orderedRow       = "row"
)

func newOrderedShape(in component.OperatorIn, cfg WindowConfig) (*orderedShape, error) {
	base, err := newWindowShape(in, cfg)
	if err != nil {
		return nil, err
	}
	s := &orderedShape{
		windowShape: base, keep: base.lateness,
		updates: cfg.Emit == emitUpdates, discarding: cfg.Mode == modeDiscarding,
	}
	s.changelog = s.updates && !s.discarding
	problems := s.checkKind(cfg)
	problems = append(problems, s.checkEarly(cfg)...)
	problems = append(problems, s.makeOut()...)
	if len(problems) > 0 {
		return nil, problems
	}
	s.makeExchange()
	return s, nil
}

// Values of emit and mode.
const (
	emitUpdates    = "updates"
	modeDiscarding = "discarding"
)

func (s *orderedShape) checkKind(cfg WindowConfig) (problems component.Problems) {
	problem := func(path, msg string) { problems = append(problems, component.Problem{Path: path, Msg: msg}) }
	switch {
	case cfg.Session != nil:
		s.kind = orderedSession
		gap := cfg.Session.Gap.D()
		s.gap = gap.Microseconds()
		if gap <= 0 || gap%time.Microsecond != 0 {
			problem("session.gap", fmt.Sprintf("a session needs a gap of whole microseconds, as 10s, not %s", cfg.Session.Gap))
		}
	case cfg.Count != nil:
		s.kind, s.count = orderedCount, cfg.Count.Rows
		expire := cfg.Count.ExpireAfter.D()
		s.keep = expire.Microseconds()
		if cfg.Count.Rows < 1 {
			problem("count.rows", fmt.Sprintf("a window needs at least one row, not %d", cfg.Count.Rows))
		}
		if expire <= 0 || expire%time.Microsecond != 0 {
			problem("count.expire_after", fmt.Sprintf("the state needs a bound: how long a group may be quiet before its last window is given, in whole microseconds, as 24h, not %s", cfg.Count.ExpireAfter))
		}
		if cfg.AllowedLateness != 0 {
			problem("allowed_lateness", "a count window ends with its last row, not at a time: leave it out")
		}
		if s.updates {
			problem("emit", "a count window gives one result, with its last row: leave updates out")
		}
	}
	return problems
}

func (s *orderedShape) checkEarly(cfg WindowConfig) (problems component.Problems) {
	problem := func(path, msg string) { problems = append(problems, component.Problem{Path: path, Msg: msg}) }
	if s.discarding && !s.updates {
		problem("mode", "discarding is about the results of a window after its first, and emit: final gives one only: add emit: updates")
	}
	if cfg.Early == nil {
		return problems
	}
	if !s.updates {
		problem("early", "an early result is followed by others, and emit: final gives one only: add emit: updates")
	}
	s.earlyRows, s.earlyAfter = cfg.Early.Rows, cfg.Early.ProcessingTime.D()
	switch {
	case s.earlyRows < 0 || s.earlyAfter < 0:
		problem("early", "expected rows of at least 1, or a processing_time above 0s")
	case (s.earlyRows == 0) == (s.earlyAfter == 0):
		problem("early", "say either rows: 100 (a result after each 100 rows of a window) or processing_time: 10s (a result so long after a row, by the clock)")
	}
	return problems
}

// makeOut adds to the columns of the result: the timing, the change.
func (s *orderedShape) makeOut() (problems component.Problems) {
	s.out = s.windowShape.out
	if !s.updates {
		return nil
	}
	fields := s.out.Fields()
	if i := slices.IndexFunc(fields, func(f arrow.Field) bool { return f.Name == "timing" }); i >= 0 {
		msg := `the result has a column "timing" of its own: choose another name`
		if i < len(s.by) {
			return component.Problems{{Path: fmt.Sprintf("by[%d]", i), Msg: msg}}
		}
		return component.Problems{{Path: "aggregate.timing", Msg: msg}}
	}
	at := len(s.by)
	if s.bounded {
		at += 2
	}
	fields = slices.Insert(slices.Clone(fields), at, arrow.Field{Name: "timing", Type: dataflow.TypeString})
	if s.changelog {
		fields = append(fields, dataflow.OpField())
	}
	s.out = arrow.NewSchema(fields, nil)
	return nil
}

func (s *orderedShape) makeExchange() {
	fields := []arrow.Field{{Name: orderedKeyColumn, Type: dataflow.TypeBinary}}
	s.cols = orderedColumns{args: 1, row: -1}
	for i, e := range s.exprs {
		fields = append(fields, arrow.Field{Name: fmt.Sprintf("%s%d", orderedArg, i), Type: e.Type(), Nullable: true})
	}
	if s.kind != orderedAligned {
		s.cols.row = len(fields)
		fields = append(fields, arrow.Field{Name: orderedRow, Type: dataflow.TypeBinary, Nullable: true})
	}
	fields = append(fields, dataflow.SysFields(s.input)...)
	fields = append(fields, arrow.Field{Name: windowHash, Type: arrow.PrimitiveTypes.Uint64})
	s.exchange = arrow.NewSchema(fields, nil)
	s.cols.time = dataflow.Column(s.exchange, dataflow.SysTime)
	s.cols.stamp = dataflow.Column(s.exchange, dataflow.SysStamp)
	s.cols.hash = len(fields) - 1
}

// eventTime is the event time of the result of a window that ends at end.
func (s *orderedShape) eventTime(end int64) int64 {
	if s.kind == orderedCount {
		return end
	}
	return end - 1
}

// stream is what the main output gives.
func (s *orderedShape) stream(cfg WindowConfig) dataflow.Stream {
	out := dataflow.Stream{Schema: s.out, Changelog: s.changelog}
	if !s.changelog {
		return out
	}
	for i := range s.by {
		out.Key = append(out.Key, s.out.Field(i).Name)
	}
	if s.bounded {
		out.Key = append(out.Key, "window_start")
	}
	if cfg.Cumulative != nil || cfg.Session != nil {
		// A session may begin when another one did that is over for good, but it
		// does not end when that did.
		out.Key = append(out.Key, "window_end")
	}
	return out
}

// bound describes the state for people.
func (s *orderedShape) bound(cfg WindowConfig) string {
	bytes := 8 * newAccLayout(s.funcs).stride
	if s.changelog {
		bytes *= 2
	}
	text := fmt.Sprintf("%d bytes of accumulators per open window and 100 with the key; ", bytes)
	switch s.kind {
	case orderedSession:
		text += fmt.Sprintf("a session is dropped when the watermark is %s past its last row", component.Duration(time.Duration(s.gap+s.keep)*time.Microsecond))
	case orderedCount:
		text += fmt.Sprintf("one window per group, dropped with its last row or when the watermark is %s past its newest", cfg.Count.ExpireAfter)
	default:
		text += fmt.Sprintf("a window is dropped when the watermark is %s past its end", cfg.AllowedLateness)
	}
	return text + "; and the rows that wait for the watermark to pass their stamp"
}

// orderedFingerprint covers what the state's bytes mean.
func (s *orderedShape) orderedFingerprint(cfg WindowConfig) string {
	kind := "aligned"
	switch s.kind {
	case orderedSession:
		kind = fmt.Sprintf("session gap %dus", s.gap)
	case orderedCount:
		kind = fmt.Sprintf("count %d expire %dus", s.count, s.keep)
	}
	mode := "final"
	switch {
	case s.changelog:
		mode = "changelog"
	case s.updates:
		mode = "discarding"
	}
	return fmt.Sprintf("ordered/1 %s %s early %d %s; %s", kind, mode, s.earlyRows, s.earlyAfter, s.windowShape.fingerprint())
}

package world

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/test/simulation/model"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// table is what the catalog holds of one sink.
type table struct {
	name string
	held dataflow.Committed
	// before are some of the states that it has had.
	before []dataflow.Committed
	rows   []string
	// origin is where each row stands in its split, of a table that a source feeds
	// directly.
	origin []origin
	// of is the source that feeds it directly; nil: none.
	of *sourcePlan
	// changes: it holds changes; folded is the table that they make.
	changes bool
	// windows: it holds results of windows.
	windows bool
	folded  map[string]string
	// epochs of the last commit, by process.
	epochs map[int]int64
}

type origin struct {
	split string
	pos   int64
}

// staged is a row that a writer has written.
type staged struct {
	text string
	origin
}

// TableConfig is the config of the sink sim.
type TableConfig struct {
	// Table that is written to.
	Table string `yaml:"table,required"`
}

func init() {
	component.RegisterSink(component.Sink[TableConfig]{
		Name: "sim", Summary: "Writes a simulated table.",
		Default: func() TableConfig { return TableConfig{} },
		Changes: component.ChangesAsRows,
		Plan: func(_ component.SinkIn, cfg TableConfig) (component.SinkPlan, error) {
			return component.SinkPlan{Target: cfg.Table}, nil
		},
		NewWriter: func(context.Context, *dataflow.Env, component.SinkIn, TableConfig) (dataflow.Writer, error) {
			return nil, errUnbound
		},
		NewCommitter: func(context.Context, *dataflow.Env, component.SinkIn, TableConfig) (dataflow.Committer, error) {
			return nil, errUnbound
		},
	})
}

// writer stages rows of one process as objects of the store.
type writer struct {
	p    *process
	t    *table
	env  *dataflow.Env
	rows []string
}

// Write implements dataflow.Writer.
func (k *writer) Write(ctx context.Context, b arrow.RecordBatch) (arrow.RecordBatch, error) {
	if err := k.p.call(ctx, "write", 500*time.Microsecond); err != nil {
		return nil, err
	}
	users := len(dataflow.UserFields(b.Schema()))
	for i := range int(b.NumRows()) {
		var row []string
		for c := range users {
			row = append(row, text(b.Column(c), i))
		}
		line := strings.Join(row, "|")
		if k.t.of != nil {
			line = k.place(b, i) + "|" + line
		}
		k.rows = append(k.rows, line)
	}
	return nil, nil
}

// place says where row i of b stands in its split.
func (k *writer) place(b arrow.RecordBatch, i int) string {
	splits := b.Column(dataflow.Column(b.Schema(), dataflow.SysSplit)).(*array.Int32)
	pos := b.Column(dataflow.Column(b.Schema(), dataflow.SysPos)).(*array.Int64)
	_, split := k.env.Splits.Name(splits.Value(i))
	return fmt.Sprintf("%s|%d", split, pos.Value(i))
}

// text shows a value.
func text(a arrow.Array, i int) string {
	if a.IsNull(i) {
		return "-"
	}
	switch a := a.(type) {
	case *array.Int64:
		return strconv.FormatInt(a.Value(i), 10)
	case *array.Int32:
		return strconv.FormatInt(int64(a.Value(i)), 10)
	case *array.Timestamp:
		return strconv.FormatInt(int64(a.Value(i)), 10)
	case *array.String:
		return a.Value(i)
	case *array.Binary:
		return string(a.Value(i))
	}
	return a.ValueStr(i)
}

// Prepare implements dataflow.Writer.
func (k *writer) Prepare(_ context.Context, e dataflow.Epoch) (dataflow.Pending, error) {
	if len(k.rows) == 0 {
		return nil, nil
	}
	rows := k.rows
	k.rows = nil
	w := k.p.w
	return dataflow.PartFunc(func(ctx context.Context) (dataflow.Part, error) {
		if err := k.p.call(ctx, "upload", 20*time.Millisecond); err != nil {
			return dataflow.Part{}, err
		}
		if w.chance(400) && k.p.mayFail() {
			w.trace("upload_errors", "%s %d", k.t.name, e)
			return dataflow.Part{}, errSimulated
		}
		w.mu.Lock()
		w.staged++
		name := fmt.Sprintf("%s-%d-%d", k.t.name, k.p.n, w.staged)
		w.objects[name] = rows
		w.mu.Unlock()
		w.trace("uploads", "%s %d", name, len(rows))
		return dataflow.Part{Rows: int64(len(rows)), Data: []byte(name)}, nil
	}), nil
}

// Close implements dataflow.Writer.
func (k *writer) Close() error { return nil }

// committer is the catalog as one process sees it.
type committer struct {
	p *process
	t *table
}

// Target implements dataflow.Committer.
func (c committer) Target() dataflow.Target { return dataflow.Target(c.t.name) }

// Close implements dataflow.Committer.
func (c committer) Close() error { return nil }

// Committed implements dataflow.Committer.
func (c committer) Committed(ctx context.Context) (dataflow.Committed, error) {
	if err := c.p.call(ctx, "look", 20*time.Millisecond); err != nil {
		return dataflow.Committed{}, err
	}
	if c.p.w.chance(30) && !c.p.w.o.Threads {
		c.p.w.trace("look_errors", "%s", c.t.name)
		return dataflow.Committed{}, errSimulated
	}
	c.p.w.tab.Lock()
	defer c.p.w.tab.Unlock()
	if n := len(c.t.before); n > 0 && c.p.stale > 0 && c.p.w.chance(6) {
		c.p.stale--
		c.p.w.trace("stale_reads", "%d %s", c.p.n, c.t.name)
		return c.t.before[c.p.w.intn(n)], nil
	}
	return c.t.copy(), nil
}

func (t *table) copy() dataflow.Committed {
	out := t.held
	out.ClockComplete = true
	out.Clock = slices.Clone(out.Clock)
	if out.Positions != nil {
		out.Positions = out.Positions.Clone()
	}
	out.Watermarks = maps.Clone(out.Watermarks)
	out.ID = t.name
	return out
}

// Claim implements dataflow.Claimer.
func (c committer) Claim(ctx context.Context, claim dataflow.Claim) error {
	if err := c.p.call(ctx, "claim", 20*time.Millisecond); err != nil {
		return err
	}
	w := c.p.w
	if w.chance(20) && !w.o.Threads {
		w.trace("claim_errors", "%s", c.t.name)
		return errSimulated
	}
	w.tab.Lock()
	defer w.tab.Unlock()
	switch held := c.t.held.Claim; {
	case claim == held:
	case claim.Token > held.Token:
		c.t.held.Claim = claim
		w.trace("claims", "%s %d by %d", c.t.name, claim.Token, c.p.n)
	default:
		w.trace("claims_refused", "%s %d, %d stands", c.t.name, claim.Token, held.Token)
		return dataflow.ErrFenced
	}
	if w.chance(20) && !w.o.Threads {
		w.trace("claim_answers_lost", "%s", c.t.name)
		return errSimulated
	}
	return nil
}

// Commit implements dataflow.Committer.
func (c committer) Commit(ctx context.Context, k dataflow.Commit) error {
	w := c.p.w
	if err := c.p.call(ctx, "commit", 50*time.Millisecond); err != nil {
		return err
	}
	if w.chance(w.plan.commitErrors) {
		w.trace("commit_errors", "%s %d", c.t.name, k.Epoch)
		return errSimulated
	}
	w.tab.Lock()
	defer w.tab.Unlock()
	switch dataflow.DecideCommit(c.t.held, k) {
	case dataflow.Done:
		w.trace("commits_done", "%s %d", c.t.name, k.Epoch)
		return nil
	case dataflow.Fenced:
		w.trace("fenced", "%d %s %d: from %s at %s, held %s", c.p.n, c.t.name, k.Epoch, k.From, k.At, c.t.held.Positions)
		return dataflow.ErrFenced
	}
	c.apply(k)
	if w.chance(w.plan.commitErrors) {
		w.trace("commit_answers_lost", "%s %d", c.t.name, k.Epoch)
		return errSimulated
	}
	return nil
}

// apply publishes k at once, and checks what is promised of it.
func (c committer) apply(k dataflow.Commit) {
	w, t := c.p.w, c.t
	var rows []string
	for _, p := range k.Parts {
		w.mu.Lock()
		part, ok := w.objects[string(p.Data)]
		w.mu.Unlock()
		if !ok || int64(len(part)) != p.Rows {
			w.fail("commit %d of %s names %s with %d rows; the store has %d", k.Epoch, t.name, p.Data, p.Rows, len(part))
		}
		rows = append(rows, part...)
	}
	w.trace("commits", "%d %s %d %d rows at %s", c.p.n, t.name, k.Epoch, len(rows), k.At)
	w.add("rows_committed", int64(len(rows)))
	w.checkCommit(c.p, t, k, rows)
	if w.o.Bug == "drop_commit" && len(rows) > 0 && k.Epoch%7 == 3 {
		rows = nil
	}
	t.before = append(t.before, t.copy())
	t.before = t.before[max(len(t.before)-3, 0):]
	if t.windows && len(rows) > 0 {
		w.sawWindows()
	}
	t.put(w, rows)
	if w.o.Bug == "double_commit" && k.Epoch%7 == 3 {
		t.put(w, rows)
	}
	if t.held.Positions == nil {
		t.held.Positions = dataflow.Positions{}
	}
	for step, splits := range k.At {
		for s, p := range splits {
			t.held.Positions.Set(step, s, p)
		}
	}
	t.held.Start, t.held.Plan, t.held.Watermarks = k.Start, k.Plan, maps.Clone(k.Watermarks)
	t.held.Clock = append(t.held.Clock, k.Clock...)
	t.epochs[c.p.n] = int64(k.Epoch)
}

// put adds rows to the table.
func (t *table) put(w *World, rows []string) {
	for _, r := range rows {
		if t.of != nil {
			var o origin
			split, rest, _ := strings.Cut(r, "|")
			pos, rest, _ := strings.Cut(rest, "|")
			o.split = split
			o.pos, _ = strconv.ParseInt(pos, 10, 64)
			t.origin = append(t.origin, o)
			r = rest
		}
		t.rows = append(t.rows, r)
	}
	if t.changes {
		if err := model.Fold(t.folded, rows); err != nil {
			w.fail("changes of %s: %v", t.name, err)
		}
	}
}

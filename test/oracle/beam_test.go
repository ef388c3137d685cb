package oracle

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/flowtest/rig"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/goccy/go-yaml"
)

// beamCase is one case of data/beam/cases.yaml.
type beamCase struct {
	ID     string `yaml:"id"`
	Window struct {
		Tumbling   int64 `yaml:"tumbling"`
		SessionGap int64 `yaml:"session_gap"`
	} `yaml:"window"`
	Mode            string     `yaml:"mode"`
	AllowedLateness string     `yaml:"allowed_lateness"`
	EarlyAfterRows  int64      `yaml:"early_after_rows"`
	Steps           []beamStep `yaml:"steps"`
	Late            []beamRow  `yaml:"late"`
}

type beamStep struct {
	Rows      []beamRow    `yaml:"rows"`
	Watermark string       `yaml:"watermark"`
	Expect    []beamResult `yaml:"expect"`
}

type beamRow struct {
	T int64  `yaml:"t"`
	V string `yaml:"v"`
}

type beamResult struct {
	Start  int64    `yaml:"window_start"`
	End    int64    `yaml:"window_end"`
	Values []string `yaml:"values"`
	Timing string   `yaml:"timing"`
}

// reversed is the case with the rows of each step the other way round.
func (c beamCase) reversed() beamCase {
	c.Steps = slices.Clone(c.Steps)
	for i := range c.Steps {
		c.Steps[i].Rows = slices.Clone(c.Steps[i].Rows)
		slices.Reverse(c.Steps[i].Rows)
	}
	return c
}

// String writes a result as the tests compare it.
func (r beamResult) String() string {
	values := slices.Clone(r.Values)
	slices.Sort(values)
	return fmt.Sprintf("[%d,%d) %s %s", r.Start, r.End, r.Timing, strings.Join(values, " "))
}

// beamDiffers lists the cases in which Frazil gives other results than Beam on
// purpose (docs/differences.md): Beam counts rows when a batch is over, Frazil
// after each row, so that batching does not decide; a correction comes with each
// late row; a window without new rows gives nothing when discarding.
var beamDiffers = map[string][]string{
	"beam_sessions_early_late": {
		"[1,12) early 1 2", "[1,14) early 1 2 3 4", "[1,16) early 1 2 3 4 5 6", "[1,16) on_time 1 2 3 4 5 6",
		"[1,16) late 1 1 2 3 4 5 6", "[1,16) late 1 1 2 3 3 4 5 6", "[1,16) late 1 1 2 3 3 4 4 5 6",
	},
	"beam_fixed_early_discarding": {"[0,10) early 1 2", "[0,10) early 3 4", "[10,20) early 14 18", "[0,10) early 5 6"},
	"beam_fixed_early_three":      {"[0,10) early a b", "[0,10) on_time a b c"},
	"beam_sessions_merge_late": {
		"[1,25) early a b c", "[1,25) on_time a b c", "[30,40) on_time d",
		"[1,25) late a b c x", "[1,25) late a b c x y", "[1,40) late a b c d x y z",
	},
	"beam_lateness_then_drop": {
		"[0,300000) on_time 1 2 3", "[0,300000) late 1 2 3 4", "[0,300000) late 1 2 3 4 5",
	},
}

func TestBeamTriggers(t *testing.T) {
	raw, err := os.ReadFile(rig.Shared(t, "data", "beam", "cases.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []beamCase `yaml:"cases"`
	}
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) != 12 {
		t.Errorf("%d cases, want 12", len(file.Cases))
	}
	for _, c := range file.Cases {
		for _, size := range []int{0, 1, 2, 3} {
			t.Run(fmt.Sprintf("%s/size=%d", c.ID, size), func(t *testing.T) { playBeam(t, c, size) })
			if c.ID == "beam_fixed_any_batching" || c.ID == "beam_sessions_two_rows" {
				t.Run(fmt.Sprintf("%s/size=%d/reversed", c.ID, size), func(t *testing.T) { playBeam(t, c.reversed(), size) })
			}
		}
	}
}

// playBeam runs a case in batches as given (size 0) or of so many rows at most.
func playBeam(t *testing.T, c beamCase, size int) {
	var beam []string
	var lastBeam []beamResult
	for _, s := range c.Steps {
		for _, r := range s.Expect {
			beam = append(beam, r.String())
			lastBeam = append(lastBeam, r)
		}
	}
	want, differs := beamDiffers[c.ID]
	if !differs {
		want = beam
	}
	w := newBeamWindow(t, c)
	for _, s := range c.Steps {
		if s.Watermark != "" {
			w.watermark(s.Watermark)
		}
		for rows := s.Rows; len(rows) > 0; {
			n := len(rows)
			if size > 0 {
				n = min(n, size)
			}
			w.rows(rows[:n])
			rows = rows[n:]
		}
	}
	// Every case is over: rows at the last watermark wait for a greater one.
	w.watermark("end")
	var got []string
	for _, r := range w.results {
		got = append(got, r.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("results\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if differs {
		if slices.Equal(got, beam) {
			t.Errorf("the results are Beam's: this is no difference any more")
		}
		if g, b := foldBeam(c, w.results), foldBeam(c, lastBeam); !slices.Equal(g, b) {
			t.Errorf("in the end\n%s\nBeam has\n%s", strings.Join(g, "\n"), strings.Join(b, "\n"))
		}
	}
	var late []string
	for _, r := range c.Late {
		late = append(late, fmt.Sprint(r.T, " ", r.V))
	}
	if !slices.Equal(w.late, late) {
		t.Errorf("late rows %q, want %q", w.late, late)
	}
}

// foldBeam is what the results of a case come to: the last of each window, or
// with discarding the values of all of them. Sessions that a later one covers
// are gone.
func foldBeam(c beamCase, results []beamResult) []string {
	last := map[int64]beamResult{}
	for _, r := range results {
		if have, ok := last[r.Start]; ok && c.Mode == "discarding" {
			r.Values = append(slices.Clone(have.Values), r.Values...)
		}
		r.Timing = ""
		for at, have := range last {
			if c.Window.SessionGap > 0 && r.Start <= have.Start && have.End <= r.End {
				delete(last, at)
			}
		}
		if len(r.Values) > 0 {
			last[r.Start] = r
		}
	}
	var out []string
	for _, r := range last {
		out = append(out, r.String())
	}
	slices.Sort(out)
	return out
}

// beamWindow is a window operator of one task, fed with stamped rows. One unit
// of the cases is a millisecond.
type beamWindow struct {
	t       *testing.T
	schema  *arrow.Schema
	before  dataflow.Operator
	keyed   dataflow.Operator
	wm      dataflow.Time
	pos     int64
	changes bool
	results []beamResult
	late    []string
}

func newBeamWindow(t *testing.T, c beamCase) *beamWindow {
	t.Helper()
	text := fmt.Sprintf("tumbling: %dms\n", c.Window.Tumbling)
	if c.Window.SessionGap > 0 {
		text = fmt.Sprintf("session: {gap: %dms}\n", c.Window.SessionGap)
	}
	text += "aggregate: {values: array_agg(v)}\nemit: updates\nmode: " + c.Mode + "\n"
	lateness := "1000000h"
	if c.AllowedLateness != "unbounded" {
		lateness = c.AllowedLateness + "ms"
	}
	text += "allowed_lateness: " + lateness + "\n"
	if c.EarlyAfterRows > 0 {
		text += fmt.Sprintf("early: {rows: %d}\n", c.EarlyAfterRows)
	}
	spec := component.OperatorNamed("window")
	node, problems := component.Parse("window.yaml", []byte(text), os.LookupEnv)
	cfg := spec.NewConfig()
	if problems = append(problems, component.Decode(node, cfg)...); len(problems) > 0 {
		t.Fatal(problems)
	}
	fields := append([]arrow.Field{{Name: "v", Type: dataflow.TypeString, Nullable: true}}, dataflow.SystemFields(true)...)
	w := &beamWindow{t: t, schema: arrow.NewSchema(fields, nil), wm: dataflow.MinTime}
	in := component.OperatorIn{Inputs: []dataflow.Stream{{Schema: w.schema}}, Names: []string{"rows"}}
	plan, err := spec.Plan(in, cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.changes = plan.Ports[0].Stream.Changelog
	store, err := state.Open(t.TempDir(), state.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	env := func() *dataflow.Env {
		e := &dataflow.Env{
			Step: "win", Tasks: 1, Groups: state.Groups{Hi: state.NumGroups}, Alloc: memory.DefaultAllocator, Now: time.Now,
			Log: slog.New(slog.DiscardHandler), Fates: &dataflow.Fates{}, Splits: &dataflow.SplitTable{}, Closed: dataflow.NewClosedUpTo(dataflow.MinTime),
		}
		e.Splits.ID("rows", "0")
		return e
	}
	keyedEnv := env()
	if keyedEnv.State, err = store.KV("win", keyedEnv.Groups); err != nil {
		t.Fatal(err)
	}
	if w.before, err = spec.NewBefore(context.Background(), env(), in, cfg); err != nil {
		t.Fatal(err)
	}
	if w.keyed, err = spec.New(context.Background(), keyedEnv, in, cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.before.Close(); w.keyed.Close() })
	w.advance()
	return w
}

// rows sends one batch of rows, stamped with the watermark.
func (w *beamWindow) rows(rows []beamRow) {
	w.t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, w.schema)
	defer b.Release()
	for _, r := range rows {
		b.Field(0).(*array.StringBuilder).Append(r.V)
		b.Field(1).(*array.Int64Builder).Append(r.T * 1000)
		b.Field(2).(*array.Int64Builder).Append(int64(w.wm))
		b.Field(3).(*array.Int32Builder).Append(0)
		b.Field(4).(*array.Int64Builder).Append(w.pos)
		w.pos++
	}
	batch := b.NewRecordBatch()
	defer batch.Release()
	err := w.before.Process(context.Background(), 0, batch, dataflow.EmitFunc(func(ctx context.Context, port int, b arrow.RecordBatch) error {
		if port != 0 {
			return w.Emit(ctx, port, b)
		}
		defer b.Release()
		return w.keyed.Process(ctx, 0, b, w)
	}))
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *beamWindow) watermark(to string) {
	w.t.Helper()
	w.wm = dataflow.MaxTime
	if to != "end" {
		n, err := strconv.ParseInt(to, 10, 64)
		if err != nil {
			w.t.Fatal(err)
		}
		w.wm = dataflow.Time(n * 1000)
	}
	w.advance()
}

func (w *beamWindow) advance() {
	w.t.Helper()
	if err := w.keyed.(dataflow.WatermarkHandler).OnWatermark(context.Background(), w.wm, w); err != nil {
		w.t.Fatal(err)
	}
}

// Emit implements dataflow.Emitter. Of changes it keeps what they put.
func (w *beamWindow) Emit(_ context.Context, port int, b arrow.RecordBatch) error {
	defer b.Release()
	for i := range int(b.NumRows()) {
		if w.changes && port == 0 && !dataflow.Op(b.Column(dataflow.Column(b.Schema(), dataflow.SysOp)).(*array.Uint8).Value(i)).Puts() {
			continue
		}
		var row struct {
			Start  time.Time `json:"window_start"`
			End    time.Time `json:"window_end"`
			Timing string    `json:"timing"`
			Values []string  `json:"values"`
			V      string    `json:"v"`
		}
		if err := json.Unmarshal(dataflow.RowJSON(b, i), &row); err != nil {
			return err
		}
		switch port {
		case 0:
			w.results = append(w.results, beamResult{Start: row.Start.UnixMilli(), End: row.End.UnixMilli(), Values: row.Values, Timing: row.Timing})
		case 1:
			at := b.Column(dataflow.Column(b.Schema(), dataflow.SysTime)).(*array.Int64).Value(i)
			w.late = append(w.late, fmt.Sprint(at/1000, " ", row.V))
		default:
			w.t.Errorf("bad row %s", dataflow.RowJSON(b, i))
		}
	}
	return nil
}

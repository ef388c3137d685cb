package oracle

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"frazil/dataflow/checkpoint"
	"frazil/dataflow/engine"
	"frazil/dataflow/flowtest/rig"
	"frazil/pipelines"
	"frazil/state"

	"github.com/goccy/go-yaml"
)

// flinkCase is one case of data/flink/cases.yaml, as far as the driver needs it.
type flinkCase struct {
	ID     string `yaml:"id"`
	Inputs []struct {
		Name    string        `yaml:"name"`
		File    string        `yaml:"file"`
		Columns yaml.MapSlice `yaml:"columns"`
	} `yaml:"inputs"`
	Watermark         string                      `yaml:"watermark"`
	Expected          string                      `yaml:"expected"`
	Late              map[string][]map[string]any `yaml:"late"`
	RestartAfter      int                         `yaml:"restart_after"`
	RowsBeforeRestart int                         `yaml:"rows_before_restart"`
	Script            *flinkScript                `yaml:"script"`
}

// flinkPipelines are the operators of the cases that exist in Frazil. The result
// is that of the step "result", the late rows are those of "late".
var flinkPipelines = map[string]string{
	"flink_tumble_by_name":          flinkByName("tumbling: 5s"),
	"flink_tumble_day_offset_8h":    flinkByName("tumbling: 1d, offset: 8h"),
	"flink_hop_by_name":             flinkByName("hopping: {size: 10s, slide: 5s}"),
	"flink_hop_day_offset_8h":       flinkByName("hopping: {size: 1d, slide: 12h}, offset: 8h"),
	"flink_cumulate_by_name":        flinkByName("cumulative: {size: 15s, step: 5s}"),
	"flink_restart_tumble":          flinkRestart("tumbling: 5s"),
	"flink_restart_tumble_offset":   flinkRestart("tumbling: 5s, offset: 1s"),
	"flink_restart_cumulate_offset": flinkRestart("cumulative: {size: 15s, step: 5s}, offset: 1s"),
	"flink_cascade_tumble": `
  late: {from: window_data, window: {tumbling: 1d, offset: 8h, by: [name], aggregate: {cnt: count(distinct string)}}}
  result: {from: late, window: {tumbling: 1d, offset: 8h, by: [cnt], aggregate: {names: count(*)}}}
`,
	"flink_hop_gcd_ms": `
  result:
    from: ms_data
    window:
      hopping: {size: 5ms, slide: 4ms}
      by: [string]
      aggregate: {cnt: count(*), ints: count("int"), floats: count(distinct "float"), names: array_agg(distinct name order by name) filter (where name is not null)}
`,
	"flink_window_dedup_last": `
  result: {from: window_data, top: {tumbling: 5s, by: [name], order_by: [ts desc], limit: 1}}
`,
	"flink_window_dedup_last_cumulate": `
  result: {from: window_data, top: {cumulative: {size: 15s, step: 5s}, by: [name], order_by: [ts desc], limit: 1}}
`,
	"flink_top2_rows_offset": `
  result: {from: window_data, top: {tumbling: 5s, offset: -1s, by: [name], order_by: ["\"int\" desc"], limit: 2}}
`,
	"flink_top2_tumble": strings.Replace(flinkByName("tumbling: 5s"), "result", "late", 1) + `
  bare: {from: late, project: {drop: [window_start, window_end]}}
  result: {from: bare, top: {tumbling: 5s, order_by: [sum_n desc], limit: 2, rank: rownum}}
`,
	"flink_restart_dedup_first": `
  result: {from: purchases, dedup: {key: [product], within: 24h}}
`,
	"flink_session_out_of_order": `
  result: {from: session_data, window: {session: {gap: 5ms}, by: [string], aggregate: {cnt: count(*), sum_int: sum("int"), names: count(distinct name)}}}
`,
	"flink_tumble_allowed_lateness": `
  result:
    from: late_data
    window:
      tumbling: 5ms
      allowed_lateness: 10ms
      by: [string]
      aggregate: {longs: count(distinct long), cnt: count("int"), avg_int: avg_int("int"), min: min("int"), max: max("int"), sum_int: sum("int")}
      emit: updates
`,
}

// flinkPending says of the others why they do not run.
var flinkPending = map[string]string{
	"flink_window_join_": "joins come later", "flink_interval_": "joins come later", "flink_restart_interval_": "joins come later",
	"flink_temporal_": "joins come later",
}

// flinkByName is the aggregation that most cases have in common.
func flinkByName(windows string) string {
	return `
  result:
    from: window_data
    window: {` + windows + `, by: [name], aggregate: {cnt: count(*), sum_n: "sum(cast(bigdec as numeric(10,2)))", max_d: max("double"), min_f: min("float"),
      uv: count(distinct string), strings: array_agg(distinct string order by string) filter (where string is not null)}}
`
}

func flinkRestart(windows string) string {
	return `
  result: {from: window_data_restart, window: {` + windows + `, by: [name], aggregate: {cnt: count(*), sum_int: sum("int"), uv: count(distinct string)}}}
`
}

func flinkCases(t *testing.T) []flinkCase {
	t.Helper()
	raw, err := os.ReadFile(rig.Shared(t, "data", "flink", "cases.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []flinkCase `yaml:"cases"`
	}
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	return file.Cases
}

// TestFlinkWindows gives Flink's rows, with one task and with three, and over a
// restart where the case has one.
func TestFlinkWindows(t *testing.T) {
	seen := 0
	for _, c := range flinkCases(t) {
		if c.Script != nil {
			continue
		}
		operators, ok := flinkPipelines[c.ID]
		if !ok {
			known := false
			for prefix, reason := range flinkPending {
				if strings.HasPrefix(c.ID, prefix) {
					known = true
					t.Logf("%s: not played, %s", c.ID, reason)
				}
			}
			if !known {
				t.Errorf("%s: no pipeline, and no reason why there is none", c.ID)
			}
			continue
		}
		seen++
		for _, tasks := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/tasks=%d", c.ID, tasks), func(t *testing.T) { c.play(t, operators, tasks) })
		}
	}
	if seen != len(flinkPipelines) {
		t.Errorf("%d cases of %d are there", seen, len(flinkPipelines))
	}
}

// flinkTypes are the types of columns as the cases write them.
var flinkTypes = map[string]string{
	"timestamptz": "timestamptz", "integer": "int32", "bigint": "int64", "double precision": "float64", "real": "float32",
	"numeric(10,2) (given as text)": "string", "text": "string",
}

// source writes the first rows of the input into dir and returns its step.
func (c flinkCase) source(t *testing.T, dir string) string {
	t.Helper()
	in := c.Inputs[0]
	var columns []string
	for _, col := range in.Columns {
		kind, ok := flinkTypes[fmt.Sprint(col.Value)]
		if !ok {
			t.Fatalf("no type for %v", col.Value)
		}
		columns = append(columns, fmt.Sprintf("%v: %s", col.Key, kind))
	}
	disorder, _, _ := strings.Cut(strings.TrimPrefix(c.Watermark, "bounded disorder "), ",")
	return fmt.Sprintf(`
name: flink
http: "off"
sources:
  %s:
    files: {paths: [%q], mode: follow, poll: 1ms}
    decode: {json: {schema: {%s}}}
    event_time: {column: ts, out_of_orderness: %s}
operators:`, in.Name, filepath.Join(dir, "in", "*.ndjson"), strings.Join(columns, ", "), disorder)
}

func (c flinkCase) play(t *testing.T, operators string, tasks int) {
	dir := t.TempDir()
	lines := flinkLines(t, filepath.Join(rig.Shared(t, "data", "flink"), c.Inputs[0].File))
	late := "result"
	if strings.Contains(operators, "\n  late:") {
		late = "late"
	}
	text := c.source(t, dir) + operators + fmt.Sprintf(`
sinks:
  out: {from: result, files: {path: "%[1]s/out"}}
  missed: {from: %[2]s.late, files: {path: "%[1]s/missed"}}
`, dir, late)
	p, problems := pipelines.Parse(filepath.Join(dir, "flink.yaml"), []byte(text), pipelines.Options{Parallelism: tasks})
	if p == nil {
		t.Fatalf("the pipeline is wrong: %v", problems)
	}
	want := golden(t, filepath.Join(rig.Shared(t, "data", "flink"), c.Expected))
	first := lines
	if c.RestartAfter > 0 {
		first = lines[:c.RestartAfter]
	}
	flinkWrite(t, filepath.Join(dir, "in", "1.ndjson"), first)
	if c.RestartAfter > 0 {
		out := flinkRun(t, dir, p, len(first))
		sameValues(t, c.ID+" before the restart", out["out"], want[:c.RowsBeforeRestart])
		flinkWrite(t, filepath.Join(dir, "in", "2.ndjson"), lines[c.RestartAfter:])
	}
	out := flinkRun(t, dir, p, 0)
	sameValues(t, c.ID, folded(t, out["out"]), want)
	missed := []map[string]any{}
	for _, r := range c.Late[c.Inputs[0].Name] {
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		missed = append(missed, decode(t, line))
	}
	sameValues(t, c.ID+" late rows", out["missed"], missed)
}

// flinkRun runs a pipeline: to the end of its input, or until so many rows are
// read and all that follows from them is out, and then stops it, its state kept.
func flinkRun(t *testing.T, dir string, p *pipelines.Pipeline, rows int) map[string][]map[string]any {
	t.Helper()
	s, err := state.Open(filepath.Join(dir, "state"), state.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var j *engine.Job
	o := engine.Options{Store: s, Every: 5 * time.Millisecond, UntilEnd: rows == 0}
	o.OnManifest = func(m *checkpoint.Manifest) {
		if rows > 0 && m.Ledger.Steps[p.Graph.Sources[0].Name].In == int64(rows) {
			j.Stop()
		}
	}
	j = engine.NewJob(p.Graph, o)
	if _, err := j.Run(ctx); err != nil {
		t.Fatal(err)
	}
	return written(t, p)
}

func flinkLines(t *testing.T, path string) []string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(raw)), "\n")
}

func flinkWrite(t *testing.T, path string, lines []string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// flinkScript is a case in single steps.
type flinkScript struct {
	Window struct {
		Tumbling int64 `yaml:"tumbling_ms"`
		Session  int64 `yaml:"session_gap_ms"`
		Hopping  *struct {
			Size  int64 `yaml:"size"`
			Slide int64 `yaml:"slide"`
		} `yaml:"hopping_ms"`
	} `yaml:"window"`
	Lateness int64 `yaml:"allowed_lateness_ms"`
	Steps    []struct {
		Row       *flinkRow        `yaml:"row"`
		Watermark *int64           `yaml:"watermark"`
		Expect    []map[string]any `yaml:"expect"`
	} `yaml:"steps"`
	Late []flinkRow `yaml:"late"`
}

type flinkRow struct {
	Key string `yaml:"key" json:"key"`
	T   int64  `yaml:"t" json:"t"`
	V   int64  `yaml:"v" json:"v"`
}

// TestFlinkLateRowsStepByStep plays the scripts without allowed lateness: a
// watermark is a row that is filtered out before the window, so far ahead that
// no other row moves the watermark.
func TestFlinkLateRowsStepByStep(t *testing.T) {
	played := 0
	for _, c := range flinkCases(t) {
		if c.Script == nil {
			continue
		}
		if c.Script.Lateness > 0 {
			t.Logf("%s: not played here, its results are corrected in between", c.ID)
			continue
		}
		played++
		t.Run(c.ID, func(t *testing.T) {
			windows := fmt.Sprintf("tumbling: %dms", c.Script.Window.Tumbling)
			if h := c.Script.Window.Hopping; h != nil {
				windows = fmt.Sprintf("hopping: {size: %dms, slide: %dms}", h.Size, h.Slide)
			}
			if gap := c.Script.Window.Session; gap > 0 {
				windows = fmt.Sprintf("session: {gap: %dms}", gap)
			}
			var lines []string
			var want []map[string]any
			for _, s := range c.Script.Steps {
				row := s.Row
				if s.Watermark != nil {
					row = &flinkRow{Key: "watermark", T: *s.Watermark + 60_000}
				}
				if row != nil {
					line, _ := json.Marshal(row)
					lines = append(lines, string(line))
				}
				for _, r := range s.Expect {
					line, _ := json.Marshal(r)
					want = append(want, decode(t, line))
				}
			}
			in := filepath.Join(t.TempDir(), "in.ndjson")
			flinkWrite(t, in, lines)
			out := run(t, 2, fmt.Sprintf(`
name: flink
http: "off"
sources:
  rows:
    files: {paths: [%q]}
    decode: {json: {schema: {key: string, t: timestamptz(ms), v: int64}}}
    event_time: {column: t, out_of_orderness: 60s}
operators:
  real: {from: rows, filter: {where: "key <> 'watermark'"}}
  result: {from: real, window: {%s, by: [key], aggregate: {sum: sum(v)}}}
sinks:
  out: {from: result, files: {path: "%%OUT%%/out"}}
  missed: {from: result.late, files: {path: "%%OUT%%/missed"}}
`, in, windows))
			for _, r := range out["out"] {
				r["window_start"], r["window_end"] = millis(t, r["window_start"]), millis(t, r["window_end"])
			}
			sameValues(t, c.ID, out["out"], want)
			var missed []map[string]any
			for _, r := range c.Script.Late {
				line, _ := json.Marshal(r)
				missed = append(missed, decode(t, line))
			}
			for _, r := range out["missed"] {
				r["t"] = millis(t, r["t"])
			}
			sameValues(t, c.ID+" late rows", out["missed"], missed)
		})
	}
	if played != 3 {
		t.Errorf("%d scripts, want 3", played)
	}
}

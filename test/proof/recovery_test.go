package proof

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"frazil/dataflow/flowtest/full"
	"frazil/dataflow/flowtest/program"
)

// recovery is a pipeline whose state is filled with groups and then changed by a
// steady load; what the load reads is copied to files.
const recovery = `sources:
  fill:
    generate: {counter: {count: %[1]d}}
    event_time: {column: ts, out_of_orderness: 0s}
  load:
    generate: {counter: {rate: %[2]d}}
    event_time: {column: ts, out_of_orderness: 0s}
operators:
  filled: {from: fill, project: {compute: {k: "n"}, select: [k, ts]}}
  loaded: {from: load, project: {compute: {k: "n * 7919 %% %[1]d"}, select: [k, ts]}}
  both: {from: [filled, loaded], union: {}}
  long: {from: both, project: {compute: {text: "md5(k::text) || md5((k + 1)::text) || md5((k + 2)::text) || md5((k + 3)::text) || md5((k + 4)::text) || md5((k + 5)::text)"}}}
  groups: {from: long, group: {by: [k, text], aggregate: {n: count(*), last: max(ts)}, expire_after: 10000d}}
sinks:
  changes: {from: groups, %[3]s}
  rows: {from: loaded, files: {path: rows}}
checkpoint: {every: 1s}
`

// TestRecoveryWithAGigabyte measures how long the program takes, after SIGKILL under
// load with 1 GB of state, from its start until the first epoch of the new run is
// committed. It is part of the full tier only.
func TestRecoveryWithAGigabyte(t *testing.T) {
	if os.Getenv("FRAZIL_FULL") == "" && os.Getenv("FRAZIL_PORTION") == "" {
		t.Skip("takes minutes and a gigabyte: part of the full tier (FRAZIL_FULL)")
	}
	full.Suite{Name: "recovery", Total: 1, Short: 1}.Run(t, func(t *testing.T, _ int) full.Figures {
		const groups = 3_500_000
		p := program.New(t, "recovery", fmt.Sprintf(recovery, groups, 2000, "drop: {}"))
		f := recoveries(p, groups, 20)
		if f["state_mb"] < 1000 {
			t.Errorf("the state has only %d MB", f["state_mb"])
		}
		return f
	})
}

// TestRecovery is the same with little state, and looks at the groups as well.
func TestRecovery(t *testing.T) {
	program.Long(t)
	const groups = 20_000
	p := program.New(t, "recovery", fmt.Sprintf(recovery, groups, 2000, "files: {path: changes}"))
	t.Log(recoveries(p, groups, 3))
	there := map[string]int64{}
	for _, r := range program.Objects[struct {
		Op, Text string
		N        int64
	}](t, lines(p, "changes")) {
		there[r.Text] += map[string]int64{"insert": r.N, "update_after": r.N, "update_before": -r.N, "delete": -r.N}[r.Op]
	}
	rows := int64(0)
	for _, n := range there {
		rows += n
	}
	if want := groups + int64(len(strings.Split(strings.TrimSpace(lines(p, "rows")), "\n"))); rows != want || len(there) != groups {
		t.Errorf("%d groups count %d rows, want %d and %d", len(there), rows, groups, want)
	}
}

// recoveries fills the state, kills the program n times under load, and looks that the
// load's rows are all there, in their order.
func recoveries(p *program.Place, groups int64, n int) full.Figures {
	p.T.Helper()
	r := p.Start(nil, "run", p.File)
	for part := range int64(10) {
		r.Until(fmt.Sprintf("%d tenths of the state are filled", part+1), func() bool {
			return number(p, `frazil_step_rows_total{fate="in",pipeline="recovery",step="fill"}`) >= float64(groups*(part+1)/10)
		})
	}
	var ready, committed []time.Duration
	for i := range n {
		<-time.After(time.Duration(700+(i*977)%2300) * time.Millisecond) // anywhere between two epochs
		r.Kill()
		began := time.Now()
		r = p.Start(nil, "run", p.File)
		r.Until("it runs", func() bool { return strings.Contains(r.Stderr.String(), "msg=running") })
		ready = append(ready, time.Since(began))
		r.Until("a new epoch is committed", func() bool {
			epoch := number(p, "frazil_last_epoch_timestamp_seconds")
			return epoch > float64(began.UnixMicro())/1e6 && number(p, `frazil_sink_last_commit_timestamp_seconds{pipeline="recovery",step="rows"}`) >= epoch
		})
		committed = append(committed, time.Since(began))
		p.T.Logf("recovery %d: running after %v, the first new commit after %v", i, ready[i], committed[i])
	}
	state := int64(number(p, "frazil_state_bytes"))
	r.Terminate()
	if state == 0 {
		p.T.Error("the program does not tell the size of its state")
	}
	for i, line := range strings.Split(strings.TrimSpace(lines(p, "rows")), "\n") {
		if want := fmt.Sprintf(`{"k":%d,`, int64(i)*7919%groups); !strings.HasPrefix(line, want) {
			p.T.Fatalf("row %d of the load is %s, want %s", i, line, want)
		}
	}
	slices.Sort(ready)
	slices.Sort(committed)
	return full.Figures{"recoveries": int64(n), "state_mb": state / 1e6, "median_ms": committed[n/2].Milliseconds(), "max_ms": committed[n-1].Milliseconds(),
		"median_running_ms": ready[n/2].Milliseconds(), "max_running_ms": ready[n-1].Milliseconds()}
}

// lines are those of all files of a sink, in the order of their names.
func lines(p *program.Place, dir string) string {
	p.T.Helper()
	files, err := filepath.Glob(p.Path(dir, "*.ndjson"))
	if err != nil {
		p.T.Fatal(err)
	}
	slices.Sort(files)
	var out strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			p.T.Fatal(err)
		}
		out.Write(text)
	}
	return out.String()
}

// number is a metric of the running program; 0 while there is none.
func number(p *program.Place, metric string) float64 {
	n, _ := strconv.ParseFloat(p.Metric(metric), 64)
	return n
}

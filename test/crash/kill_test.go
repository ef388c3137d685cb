package crash_test

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	"frazil/dataflow/flowtest/program"
)

// mainJob is the pipeline under test but for its source.
const mainJob = `
operators:
  once:     {from: readings, dedup: {key: [site, id], within: 20s, order: %s}}
  valid:    {from: once, filter: {where: "ok"}}
  readable: {from: valid, project: {compute: {w: "v * 2"}}}
  windows:
    from: readable
    window:
      tumbling: 10s
      by: [site]
      aggregate: {n: count(*), big: "count(*) filter (where v >= 50)", s: sum(v), lo: min(v), hi: max(v), a: avg(f)}
sinks:
  raw:    {from: readable,     iceberg: {table: t.raw}}
  tumble: {from: windows,      iceberg: {table: t.windows}}
  late:   {from: windows.late, iceberg: {table: t.late}}
  stale:  {from: once.late,    iceberg: {table: t.stale}}
  bad:    {from: readings.bad, iceberg: {table: t.bad}}
checkpoint: {every: 400ms}
`

const schemaOf = `    decode: {json: {schema: {id: string, site: string, et: timestamptz(ms), v: int64, f: float64, ok: bool}}}
`

// mainFlow says which rows the steps of mainJob read.
var mainFlow = flow{
	"once": "readings.passed", "valid": "once.passed", "readable": "valid.passed", "windows": "readable.passed",
	"raw": "readable.passed", "tumble": "windows.created", "late": "windows.late", "stale": "once.late", "bad": "readings.bad",
}

// mainOnTopic reads a topic.
func mainOnTopic(b *broker, topic, order, idleAfter string) string {
	return fmt.Sprintf(`sources:
  readings:
    kafka: {brokers: [%q], topics: [%s], group: %s}
%s    event_time: {column: et, out_of_orderness: 5s, idle_after: %s}
`, b.addr, topic, topic, schemaOf, idleAfter) + fmt.Sprintf(mainJob, order)
}

// mainOnFiles reads what a laneFeeder writes.
func mainOnFiles(lanes int, order string) string {
	return fmt.Sprintf(`sources:
  readings:
    files: {paths: ["in/*.ndjson", "in/*.ndjson.gz"], mode: follow, poll: 50ms, lanes: %d}
%s    event_time: {column: et, out_of_orderness: 5s}
`, lanes, schemaOf) + fmt.Sprintf(mainJob, order)
}

// trial is one pipeline that is killed again and again.
type trial struct {
	*place
	feed  feeder
	rng   *rand.Rand
	order string
	// refusal is why it is not replayable, "" if it is.
	refusal string
	kills   int
	records []record
	// decisions of the clock that the tables told so far.
	decisions map[decision]bool
	hadEpoch  bool
}

func TestKilledOnKafkaWithCopiesInOnePartition(t *testing.T) {
	program.Long(t)
	b := newBroker(t, kafka(t))
	onKafka(t, b, &trial{order: "arrival", kills: 12,
		refusal: "copies of a key in several splits are taken in the order of arrival"}, false)
}

func TestKilledOnKafkaWithCopiesAcrossPartitions(t *testing.T) {
	program.Long(t)
	b := newBroker(t, kafka(t))
	onKafka(t, b, &trial{order: "event", kills: 14}, true)
}

// onKafka reads five partitions, the last of which is empty.
func onKafka(t *testing.T, b *broker, x *trial, across bool) {
	x.rng = program.Random(t)
	topic := b.topic(5)
	x.place = newPlace(t, "main-job", mainOnTopic(b, topic, x.order, "2s"))
	x.feed = &topicFeeder{lying{}, b}
	s := shape{weights: []int{8, 5, 2, 1}, records: 48_000, across: across, tombstones: true}
	for i := range s.weights {
		s.splits = append(s.splits, fmt.Sprintf("%s/%d", topic, i))
	}
	x.records = makeRecords(x.rng, s)
	x.torment()
}

func TestKilledOnFilesWithCopiesInOneLane(t *testing.T) {
	program.Long(t)
	onFiles(t, &trial{order: "arrival", kills: 10}, "0")
}

func TestKilledOnFilesWithCopiesAcrossLanes(t *testing.T) {
	program.Long(t)
	onFiles(t, &trial{order: "event", kills: 14}, "0", "1", "2")
}

func onFiles(t *testing.T, x *trial, lanes ...string) {
	x.rng = program.Random(t)
	x.place = newPlace(t, "main-job", mainOnFiles(len(lanes), x.order))
	x.feed = newLaneFeeder(x.place, len(lanes), x.rng)
	x.records = makeRecords(x.rng, shape{splits: lanes, weights: []int{4, 2, 1}[:len(lanes)], records: 48_000, across: true})
	x.torment()
}

// torment feeds the pipeline while it is killed again and again, gives it an old
// state on the way, takes its state away, and compares its tables at last.
func (x *trial) torment() {
	x.t.Helper()
	x.decisions = map[decision]bool{}
	kept, keptAt := false, ""
	for i := range x.kills {
		x.survive(x.records[i*len(x.records)/x.kills : (i+1)*len(x.records)/x.kills])
		x.look()
		switch i {
		case x.kills / 4:
			x.CopyState("state", "old")
			kept, keptAt = true, fmt.Sprint(x.List())
		case x.kills / 2:
			if kept && fmt.Sprint(x.List()) != keptAt {
				x.loseState("an older state", func() { x.CopyState("old", "state") })
			}
		case x.kills * 3 / 4:
			x.loseState("no state", func() { x.RemoveState("state") })
			x.hadEpoch = x.refusal != ""
		}
		if x.t.Failed() {
			x.t.FailNow()
		}
	}
	x.ToEnd()
	x.checkEnd()
	before, contents := fmt.Sprint(x.List()), fmt.Sprint(x.Contents())
	if out := x.ToEnd(); !strings.Contains(out, "nothing more to do") {
		x.t.Errorf("a second run does not say that there is nothing to do:\n%s", out)
	}
	if now := fmt.Sprint(x.List()); now != before {
		x.t.Errorf("a second run changed the tables from\n%s to\n%s", before, now)
	}
	same := func(what string) {
		x.t.Helper()
		if now := fmt.Sprint(x.Contents()); now != contents {
			x.t.Errorf("%s changed the tables from\n%s to\n%s", what, contents, now)
		}
	}
	x.loseState("an older state at the end", func() { x.CopyState("old", "state") })
	if x.refusal == "" {
		x.ToEnd()
	}
	same("a run on an older state")
	x.loseState("no state at the end", func() { x.RemoveState("state") })
	if x.refusal == "" {
		x.ToEnd()
	}
	same("a run without the state")
	x.checkEnd()
	x.readers("t.raw", "t.windows", "t.late")
}

// survive runs the pipeline once, feeds it chunk meanwhile, and kills it: at a
// random moment, or at a step of a checkpoint.
func (x *trial) survive(chunk []record) {
	x.t.Helper()
	lives := time.Duration(x.rng.Int63n(int64(2500 * time.Millisecond)))
	var env []string
	how := fmt.Sprintf("after %s", lives.Round(time.Millisecond))
	if x.rng.Intn(5) < 2 {
		points := []string{"barrier", "aligned", "before_manifest", "after_manifest", "before_commit", "after_commit"}
		how = fmt.Sprintf("%s:%d", points[x.rng.Intn(len(points))], 1+x.rng.Intn(6))
		env, lives = []string{"FRAZIL_FAILPOINT=" + how}, 4*time.Second
	}
	p := x.Start(env, "run", x.File)
	const beat = 20 * time.Millisecond
	tick := time.NewTicker(beat)
	defer tick.Stop()
	steps := max(1, int(min(lives, 2*time.Second)/beat))
	fed, started := 0, time.Now()
	for step := 1; time.Since(started) < lives && !p.Killed(); step++ {
		upTo := min(step*len(chunk)/steps, len(chunk))
		x.feed.put(chunk[fed:upTo])
		fed = upTo
		<-tick.C
	}
	select {
	case <-p.Ended:
	default:
		p.Kill()
	}
	x.feed.put(chunk[fed:])
	if !p.Killed() || strings.Contains(p.Stderr.String(), "level=ERROR") {
		x.t.Fatalf("killed %s: it ended by itself or failed:\n%s", how, program.Tail(p.Stderr.String(), 5000))
	}
	x.t.Logf("killed %s", how)
}

// look looks at the ledger and the clock decisions between two runs.
func (x *trial) look() {
	x.t.Helper()
	if !x.hadEpoch {
		r := x.Start(nil, "ledger", "--file", x.File, "--format", "ndjson")
		if r.Wait() != 0 {
			return // Killed before the first one.
		}
		x.hadEpoch = true
	}
	program.Balanced(x.t, x.Ledger(), mainFlow)
	x.noteDecisions()
}

// noteDecisions remembers what the tables say about the clock.
func (x *trial) noteDecisions() {
	x.t.Helper()
	for _, l := range x.List() {
		if l.Snapshot == "" {
			continue
		}
		for _, summary := range x.Snapshots(l.Table) {
			var ds []decision
			if text := summary["frazil.clock"]; text != "" {
				if err := json.Unmarshal([]byte(text), &ds); err != nil {
					x.t.Fatalf("%q: %v", text, err)
				}
			}
			for _, d := range ds {
				x.decisions[d] = true
			}
		}
	}
}

// loseState puts another state into place. A pipeline that is not replayable
// must refuse it, and gets its own back.
func (x *trial) loseState(what string, lose func()) {
	x.t.Helper()
	x.t.Logf("with %s", what)
	if x.refusal == "" {
		lose()
		return
	}
	x.CopyState("state", "own")
	lose()
	x.Fail(1, []string{x.refusal, "ahead of the state"}, "run", x.File, "--until", "end")
	x.CopyState("own", "state")
}

// checkEnd compares tables and ledger with the model.
func (x *trial) checkEnd() {
	x.t.Helper()
	x.noteDecisions()
	var ds []decision
	for d := range x.decisions {
		ds = append(ds, d)
	}
	want := expect(x.feed.inputs(), ds, x.order)
	var counts []string
	for name, rows := range want {
		counts = append(counts, fmt.Sprintf("%s %d", name, len(rows)))
	}
	x.t.Logf("%d records, %d clock decisions; rows: %s", len(x.records), len(ds), strings.Join(counts, ", "))
	for _, name := range []string{"raw", "windows", "late", "stale", "bad"} {
		if len(want[name]) < 20 {
			x.t.Errorf("the model has only %d rows for %s: the input shows nothing", len(want[name]), name)
		}
	}
	x.compareTables("t", want)
	l := x.Ledger()
	program.Balanced(x.t, l, mainFlow)
	records := 0
	for _, r := range x.records {
		if !r.none {
			records++
		}
	}
	for _, c := range []struct {
		step, counter string
		want          int
	}{
		{"readings", "in", records}, {"readings", "bad", len(want["bad"])}, {"once", "late", len(want["stale"])},
		{"readable", "passed", len(want["raw"])}, {"windows", "late", len(want["late"])}, {"windows", "created", len(want["windows"])},
		{"once", "held", 0}, {"windows", "held", 0},
	} {
		if got := l[c.step][c.counter]; got != int64(c.want) {
			x.t.Errorf("ledger: %s of %s is %d, want %d", c.counter, c.step, got, c.want)
		}
	}
	for name, table := range x.List() {
		if table.Snapshot != "" {
			x.checkFiles(name, table)
		}
	}
}

// checkFiles looks that no data file is live twice and that files and table
// agree about the rows.
func (p *place) checkFiles(name string, table program.Listed) {
	p.t.Helper()
	seen, rows := map[string]bool{}, int64(0)
	for _, f := range program.Objects[struct {
		Path string `json:"path"`
		Rows int64  `json:"rows"`
	}](p.t, p.Run("table", "files", name, "--file", p.File, "--format", "ndjson")) {
		if seen[f.Path] {
			p.t.Errorf("%s: the file %s is live twice", name, f.Path)
		}
		seen[f.Path] = true
		rows += f.Rows
	}
	if fmt.Sprint(rows) != table.Rows.String() {
		p.t.Errorf("%s: its files have %d rows, the table %s", name, rows, table.Rows)
	}
}

package proof

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"frazil/dataflow/flowtest/full"
	"frazil/dataflow/flowtest/program"
	"frazil/dataflow/flowtest/rig"
)

// A portion kills so many pipelines side by side, each so often while it is fed so many
// records a split.
const (
	pipelinesPerPortion = 2
	killsPerPipeline    = 25
	recordsToKill       = 5000
)

// TestKills kills the real program at any moment, also while it starts and recovers,
// and twice within a moment, while files, a topic and posts are fed to it; in the end
// every row of every table and every count must be right. Every fifth pipeline has
// its tables in a REST catalog and an S3 store, the others in SQLite and on disk; every
// fourth loses its state on the way, or gets an older one back.
func TestKills(t *testing.T) {
	program.Long(t)
	full.Suite{Name: "kills", Total: 24, Short: 1}.Run(t, func(t *testing.T, portion int) full.Figures {
		kafka := rig.Kafka(t)
		var mu sync.Mutex
		sum := full.Figures{}
		t.Run("pipelines", func(t *testing.T) {
			for i := range pipelinesPerPortion {
				n := portion*pipelinesPerPortion + i
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					t.Parallel()
					f := kills(t, kafka, n)
					mu.Lock()
					defer mu.Unlock()
					sum.Add(f)
				})
			}
		})
		return sum
	})
}

// kills kills pipeline n.
func kills(t *testing.T, kafka string, n int) full.Figures {
	rng := rand.New(rand.NewPCG(uint64(n), 2))
	c := Config{Seed: int64(n), Records: recordsToKill, HTTP: true, Kafka: kafka, Order: []string{"arrival", "event"}[n%2],
		Every: []string{"50ms", "100ms", "200ms"}[n%3]}
	if n%5 == 4 {
		lake := rig.REST(t)
		c.Catalog = &lake
	}
	lose := n%4 == 1
	if lose { // What is replayed must be there still: posts are not, without the state.
		c.HTTP = false
	}
	x := New(t, c)
	f := full.Figures{"pipelines": 1}
	earlier := int64(0) // epochs of a state that was lost
	for i := range killsPerPipeline {
		if lose && i == 2*killsPerPipeline/3 {
			earlier = x.epoch(0)
		}
		switch {
		case lose && i == killsPerPipeline/3:
			x.CopyState("state", "old")
		case lose && i == 2*killsPerPipeline/3 && n%8 == 1:
			x.RemoveState("state")
			f["states_lost"]++
		case lose && i == 2*killsPerPipeline/3:
			x.CopyState("old", "state")
			f["older_states"]++
		}
		x.killOnce(rng, f, float64(i)/killsPerPipeline, float64(i+1)/killsPerPipeline)
	}
	x.Finish()
	f["kills"]++ // Finish kills as well.
	r := x.Verify()
	f["epochs"] = earlier + x.epoch(0)
	f["rows"], f["lost"], f["doubled"], f["wrong"], f["uncounted"] = r.Rows, r.Lost, r.Doubled, r.Wrong+r.Unexpected+r.Damaged, r.Uncounted
	if f["kills_before_ready"] == 0 || f["kills_after_ready"] == 0 || f["epochs"] < 2 {
		t.Errorf("it was not killed in every way: %s", f)
	}
	if c.Catalog != nil {
		f["kills_on_rest_and_s3"] = f["kills"]
	}
	return f
}

// killOnce starts the program, feeds it from one fraction to another while it lives,
// and kills it: some seconds after it has come up, or at once while it starts.
func (x *Trial) killOnce(rng *rand.Rand, f full.Figures, from, to float64) {
	x.T.Helper()
	r := x.Start(nil, "run", x.File)
	running := func() bool { return strings.Contains(r.Stderr.String(), "msg=running") }
	lives := time.Duration(rng.Int64N(int64(400 * time.Millisecond)))
	if rng.IntN(3) > 0 {
		r.Until("it runs", running)
		lives = time.Duration(rng.Int64N(int64(1500 * time.Millisecond)))
		if x.config.Catalog != nil { // Its commits take longer.
			lives *= 4
		}
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < lives && !r.HasEnded(); <-tick.C {
		x.Allow(from + (to-from)*min(1, float64(time.Since(began))/float64(lives)))
	}
	ready := running()
	r.Kill()
	x.Allow(to)
	if !r.Killed() || strings.Contains(r.Stderr.String(), "level=ERROR") {
		x.T.Fatalf("it ended by itself or failed before it was killed after %v:\n%s", lives, program.Tail(r.Stderr.String(), 5000))
	}
	f["kills"]++
	if ready {
		f["kills_after_ready"]++
	} else {
		f["kills_before_ready"]++
	}
	if before := f["epochs"]; rng.IntN(3) == 0 && f["states_lost"]+f["older_states"] == 0 {
		if f["epochs"] = x.epoch(before); f["epochs"] < before {
			x.T.Errorf("epoch %d was durable, and the last one is %d", before, f["epochs"])
		}
	}
}

// epoch is the last one that is durable; before is an earlier one.
func (x *Trial) epoch(before int64) int64 {
	x.T.Helper()
	r := x.Start(nil, "ledger", "--file", x.File, "--format", "ndjson")
	if r.Wait() != 0 {
		if before > 0 {
			x.T.Errorf("epoch %d was durable, and now there is none:\n%s", before, r.Stderr.String())
		}
		return before
	}
	return program.Objects[struct{ Epoch int64 }](x.T, r.Stdout.String())[0].Epoch
}

// TestTheProofFindsWhatIsPlanted changes real tables behind the back of the program,
// one row each, and the ledger: the verifier must report each.
func TestTheProofFindsWhatIsPlanted(t *testing.T) {
	program.Long(t)
	x := New(t, Config{Seed: 2, Records: 600})
	x.Finish()
	ledger, quarantine := x.Ledger(), x.quarantineCounts()
	if r := x.Judge(x.Read(), ledger, quarantine); !r.Same() || r.Uncounted != 0 {
		t.Fatal("it is not right to begin with")
	}
	judge := func(ledger map[string]program.Fates) Result {
		silent := *x
		place := *x.Place
		place.T = &mute{TB: t}
		silent.Place = &place
		return silent.Judge(x.Read(), ledger, quarantine)
	}
	for _, c := range []struct {
		what, do string
		found    func(Result) bool
	}{
		{"lost", `t.delete("pos = 17")`, func(r Result) bool { return r.Lost == 1 && r.Doubled+r.Wrong+r.Unexpected == 0 }},
		{"doubled", `t.append(t.scan(row_filter="pos = 18").to_arrow())`, func(r Result) bool { return r.Lost == 1 && r.Doubled == 1 }},
		{"altered", `t.overwrite(put(t.scan(row_filter="pos = 19").to_arrow(), "v", 5000), overwrite_filter="pos = 19")`,
			func(r Result) bool { return r.Wrong == 1 && r.Damaged == 1 }},
		{"a wrong checksum", `t.overwrite(put(t.scan(row_filter="pos = 20").to_arrow(), "sum", "00"), overwrite_filter="pos = 20")`,
			func(r Result) bool { return r.Wrong == 2 && r.Damaged == 2 }},
	} {
		x.python(tamper+c.do, map[string]string{"catalog": "sqlite:///" + x.Path("lake.db"), "table": x.namespace + ".side"})
		if r := judge(ledger); !c.found(r) {
			t.Errorf("%s: it finds %s", c.what, r.Diff)
		}
	}
	ledger["minutes"]["absorbed"]--
	if r := judge(ledger); r.Uncounted != 1 {
		t.Errorf("a row that is not counted: it finds %d", r.Uncounted)
	}
	ledger["plain_table"]["in"], ledger["plain_table"]["staged"] = ledger["plain_table"]["in"]-1, ledger["plain_table"]["staged"]-1
	if r := judge(ledger); r.Uncounted < 3 {
		t.Errorf("a row that was sent and never received: it finds %d", r.Uncounted)
	}
}

// tamper has a table t and a function that puts a value into a column.
const tamper = `
import json, sys
import pyarrow as pa
from pyiceberg.catalog import load_catalog
ask = json.load(sys.stdin)
t = load_catalog("local", type="sql", uri=ask["catalog"]).load_table(ask["table"])
def put(rows, column, value):
    i = rows.schema.get_field_index(column)
    return rows.set_column(i, rows.schema.field(i), pa.array([value] * len(rows), rows.schema.field(i).type))
`

// mute is a test that what fails in it does not fail.
type mute struct{ testing.TB }

func (m *mute) Errorf(string, ...any) {}
func (m *mute) Helper()               {}

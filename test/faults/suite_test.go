package faults

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"frazil/dataflow/flowtest/full"
	"frazil/dataflow/flowtest/program"
	"frazil/dataflow/flowtest/rig"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Pipelines wait far more than they work.
	if err := flag.Set("test.parallel", strconv.Itoa(max(runtime.GOMAXPROCS(0), trialsEach))); err != nil {
		panic(err)
	}
	os.Exit(program.Main(m))
}

// A portion is so many pipelines side by side, each with so many faults.
const (
	trialsEach = 4
	faultsEach = 50
)

// Requests to the catalog and the store, and their answers, are spoilt, several of
// them to most commits, while pipelines run; some are killed, and lose their state or
// get an older one back. Then every row is in each table once, and every file that a
// snapshot names is there.
func TestFaultsOfCatalogAndStore(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the program many times: left out with -short")
	}
	w := newWorld(t)
	full.Suite{Name: "catalog-faults", Total: 50, Short: 1}.Run(t, func(t *testing.T, portion int) full.Figures {
		sum := full.Figures{}
		var mu sync.Mutex
		t.Run("side by side", func(t *testing.T) {
			for i := range trialsEach {
				number := portion*trialsEach + i
				t.Run(strconv.Itoa(number), func(t *testing.T) {
					t.Parallel()
					figures := newTrial(t, w, number).run()
					mu.Lock()
					defer mu.Unlock()
					for k, n := range figures {
						sum[k] += n
					}
				})
			}
		})
		return sum
	})
}

// world is what portions share: the servers, and those who use them directly.
type world struct {
	catalog      rig.Catalog
	judge, rival *judge
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c := rig.REST(t)
	return &world{c, newJudge(t, c), newJudge(t, c)}
}

// trial is one pipeline of a portion.
type trial struct {
	t       *testing.T
	w       *world
	number  int
	rng     *rand.Rand
	plan    *plan
	catalog *proxy
	store   *proxy
	place   *program.Place
	feed    *feed
	tables  []string
	figures full.Figures

	mu     sync.Mutex
	rivals int64
	sure   map[string][]int64 // rows of the rival, by table
	unsure map[string][]int64
	aged   bool
}

// expireEvery is how many more snapshots than it keeps a table may have.
const expireEvery = 50

// newTrial makes the place of a trial; what it does follows from its number.
func newTrial(t *testing.T, w *world, number int) *trial {
	t.Helper()
	x := &trial{t: t, w: w, number: number, rng: rand.New(rand.NewPCG(uint64(number), 7)), plan: newPlan(uint64(number), faultsEach),
		figures: full.Figures{}, sure: map[string][]int64{}, unsure: map[string][]int64{}}
	x.plan.login = number%2 == 1
	x.plan.rival = x.compete
	x.catalog = newProxy(t, "catalog", w.catalog.URI, x.plan)
	x.store = newProxy(t, "store", w.catalog.Store.Endpoint, x.plan)
	space := fmt.Sprintf("faults%d_%d", number, time.Now().UnixNano())
	sinks := `  raw: {from: in, iceberg: {catalog: lake, table: ` + space + `.raw, partition_by: [site], properties: {history.expire.min-snapshots-to-keep: "3"}}}
`
	x.tables = []string{space + ".raw"}
	if number%3 == 0 {
		sinks += "  seconds: {from: second, drop: {}}\n"
	} else { // With several targets, each start claims them.
		sinks += `  seconds: {from: second, iceberg: {catalog: lake, table: ` + space + `.seconds}}
`
		x.tables = append(x.tables, space+".seconds")
	}
	x.place = program.New(t, "faults", `memory: 256MiB
connections:
  lake: {iceberg_catalog: `+lake(w.catalog, x.catalog, x.store, x.plan.login)+`}
sources:
  in:
    files: {paths: ["in/*.ndjson"], mode: follow, poll: 50ms, lanes: 2}
    decode: {json: {schema: {n: int64, site: string, ts: timestamptz(ms)}}}
    event_time: {column: ts, out_of_orderness: 1s}
operators:
  second: {from: in, window: {tumbling: 1s, by: [site], aggregate: {c: count(*)}}}
sinks:
`+sinks+`checkpoint: {every: 200ms}
`)
	x.feed = newFeed(x.place, x.rng)
	return x
}

// lake is the connection by way of the proxies.
func lake(c rig.Catalog, catalog, store *proxy, login bool) string {
	credential := ""
	if login {
		credential = `credential: "frazil:secret", `
	}
	return fmt.Sprintf("{type: rest, uri: %q, warehouse: %q, %ss3: {endpoint: %q, region: us-east-1, access_key: %q, secret_key: %q}}",
		catalog.URL, c.Warehouse, credential, store.URL, c.Store.AccessKey, c.Store.SecretKey)
}

// compete commits a row to the table of a request, by the direct way.
func (x *trial) compete(request string) { x.append(tableOf(request), 1) }

// append commits rows to a table by the direct way, each in a snapshot of its own.
func (x *trial) append(table string, snapshots int) {
	x.mu.Lock()
	first := -x.rivals - 1
	x.rivals += int64(snapshots)
	x.mu.Unlock()
	err := x.w.rival.append(table, first, snapshots)
	x.mu.Lock()
	defer x.mu.Unlock()
	if err != nil {
		x.t.Logf("the rival: %v", err)
	}
	for n := first; n > first-int64(snapshots); n-- {
		if err != nil {
			x.unsure[table] = append(x.unsure[table], n)
			continue
		}
		x.sure[table] = append(x.sure[table], n)
	}
}

// age makes a table old enough that snapshots expire.
func (x *trial) age() {
	table := x.tables[0]
	var f files
	if x.w.judge.ask(&f, "files", table, nil) != nil || f.Snapshots == 0 {
		return // It is not there yet.
	}
	x.aged = true
	x.append(table, expireEvery)
}

// tableOf reads NAMESPACE.NAME from the path of a request to a catalog.
func tableOf(request string) string {
	space, name := path.Split(strings.TrimSuffix(request, "/"))
	return path.Base(strings.TrimSuffix(space, "/tables/")) + "." + name
}

// rivalRow is a row of the rival as text.
func rivalRow(table string, n int64) string {
	if strings.HasSuffix(table, ".raw") {
		return fmt.Sprintf("%d|rival|0", n)
	}
	return fmt.Sprintf("rival|0|0|%d", n)
}

// run is the whole trial.
func (x *trial) run() full.Figures {
	x.t.Helper()
	defer func() {
		if x.t.Failed() {
			x.t.Logf("the last requests:\n%s", x.plan.traced())
		}
	}()
	x.spoil()
	x.plan.turn(false)
	x.place.ToEnd()
	program.Balanced(x.t, x.place.Ledger(), map[string]string{"second": "in.passed", "raw": "in.passed", "seconds": "second.created"})
	for _, table := range x.tables {
		x.check(table)
	}
	x.tally()
	return x.figures
}

// spoil runs the program while there are faults to come.
func (x *trial) spoil() {
	x.t.Helper()
	x.plan.turn(true)
	r := x.place.Start(nil, "run", x.place.File)
	hurts := x.hurts()
	tick := time.NewTicker(150 * time.Millisecond)
	defer tick.Stop()
	late := time.After(10 * time.Minute)
	for x.plan.remaining() > 0 {
		select {
		case <-r.Ended:
			x.t.Fatalf("the program ended with %d faults to come: exit code %d\n%s", x.plan.remaining(), r.Cmd.ProcessState.ExitCode(), program.Tail(r.Stderr.String(), 6000))
		case <-late:
			x.t.Fatalf("%d faults are still to come after ten minutes\n%s", x.plan.remaining(), program.Tail(r.Stderr.String(), 6000))
		case <-tick.C:
			x.feed.put()
			if x.number%4 == 2 && !x.aged {
				x.age()
			}
		}
		if len(hurts) > 0 && x.plan.remaining() <= hurts[0].at {
			r.Kill()
			x.figures["kills"]++
			hurts[0].do()
			hurts = hurts[1:]
			r = x.place.Start(nil, "run", x.place.File)
		}
	}
	if x.number%4 < 2 {
		r.Kill()
		x.figures["kills"]++
		return
	}
	x.plan.end()
	r.Terminate()
}

// hurt is what is done to a program that was killed with so many faults to come.
type hurt struct {
	at int
	do func()
}

func (x *trial) hurts() []hurt {
	nothing := func() {}
	switch x.number % 8 {
	case 1:
		return []hurt{{33, nothing}, {16, nothing}}
	case 3:
		return []hurt{{33, func() { x.place.CopyState("state", "old") }}, {16, func() {
			x.place.CopyState("old", "state")
			x.figures["older states"]++
		}}}
	case 5:
		return []hurt{{20, func() {
			x.place.RemoveState("state")
			x.figures["lost states"]++
		}}}
	}
	return nil
}

// check compares a table with what it must hold.
func (x *trial) check(table string) {
	x.t.Helper()
	want, may := x.feed.raw(), map[string]bool{}
	if strings.HasSuffix(table, ".seconds") {
		want = x.feed.seconds()
	}
	for _, n := range x.sure[table] {
		want[rivalRow(table, n)] = true
	}
	for _, n := range x.unsure[table] {
		may[rivalRow(table, n)] = true
	}
	v, err := x.w.judge.compare(table, want, may)
	if err != nil {
		x.t.Fatal(err)
	}
	if !v.good() {
		x.t.Errorf("%s: %d rows lost, %d doubled, %d foreign, %d files missing\n%s\n%s", table, v.lost, v.doubled, v.foreign, len(v.files.Missing),
			strings.Join(v.what, "\n"), strings.Join(v.files.Missing[:min(20, len(v.files.Missing))], "\n"))
	}
	x.figures["rows"] += int64(len(want))
	x.figures["snapshots"] += int64(v.files.Snapshots)
	if v.files.Snapshots < v.files.Sequence {
		x.figures["tables with expired snapshots"]++
	}
	x.figures["commits"] += int64(v.files.Sequence)
	x.figures["files"] += int64(v.files.Named)
	x.figures["orphans"] += int64(v.files.Orphans)
}

// tally counts what happened; nothing must not.
func (x *trial) tally() {
	x.t.Helper()
	count, ops := x.plan.counts()
	total := 0
	for f, n := range count {
		x.figures["fault "+string(f)] += int64(n)
		total += n
	}
	x.figures["faults"] += int64(total)
	x.figures["pipelines"]++
	x.figures["rivals"] += x.rivals
	if total != faultsEach {
		x.t.Errorf("%d faults happened, want %d", total, faultsEach)
	}
	x.t.Logf("faults: %s", list(count))
	x.t.Logf("requests: %s", list(ops))
}

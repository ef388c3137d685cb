package operators

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

var updatesSchema = arrow.NewSchema([]arrow.Field{
	{Name: "id", Type: dataflow.TypeInt64}, {Name: "k", Type: dataflow.TypeInt64, Nullable: true}, {Name: "v", Type: dataflow.TypeInt64, Nullable: true},
	dataflow.OpField(),
}, nil)

type updatesRow struct{ id, k, v int64 }

type updatesChange struct {
	row updatesRow
	op  dataflow.Op
}

// updatesCase is one random top over a changelog.
type updatesCase struct {
	cfg     TopConfig
	forgets bool
	less    func(a, b updatesRow) int
	ranked  func(updatesRow) bool
}

func newUpdatesCase(rng *rand.Rand) updatesCase {
	c := updatesCase{
		cfg:     TopConfig{Limit: int64(1 + rng.IntN(4)), Rank: "r", Ties: "row"},
		forgets: rng.IntN(2) == 0,
		ranked:  func(updatesRow) bool { return true },
	}
	c.cfg.By = [][]string{nil, {"k"}, {"id"}}[rng.IntN(3)]
	switch rng.IntN(3) {
	case 0:
		c.cfg.OrderBy, c.less = []string{"v desc"}, func(a, b updatesRow) int { return cmp.Compare(b.v, a.v) }
	case 1:
		c.cfg.OrderBy = []string{"v % 3", "v"}
		c.less = func(a, b updatesRow) int { return cmp.Or(cmp.Compare(a.v%3, b.v%3), cmp.Compare(a.v, b.v)) }
	default: // A row with v = 0 is bad.
		c.cfg.OrderBy = []string{"60 / v"}
		c.less = func(a, b updatesRow) int { return cmp.Compare(60/a.v, 60/b.v) }
		c.ranked = func(r updatesRow) bool { return r.v != 0 }
	}
	return c
}

// want is the table of the first rows, by key.
func (c *updatesCase) want(table map[int64]updatesRow) string {
	groups := map[string][]updatesRow{}
	for _, r := range table {
		if !c.ranked(r) {
			continue
		}
		key := ""
		if len(c.cfg.By) > 0 {
			key = changeKey(r.k)
			if c.cfg.By[0] == "id" {
				key = fmt.Sprint(r.id)
			}
		}
		groups[key] = append(groups[key], r)
	}
	var out []string
	for _, rows := range groups {
		slices.SortFunc(rows, func(a, b updatesRow) int { return cmp.Or(c.less(a, b), cmp.Compare(a.id, b.id)) })
		for i, r := range rows[:min(len(rows), int(c.cfg.Limit))] {
			out = append(out, fmt.Sprintf(`{"id":%d,"k":%s,"v":%d,"r":%d}`, r.id, changeKey(r.k), r.v, i+1))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// next makes a change, and does it to the table.
func (c *updatesCase) next(rng *rand.Rand, table map[int64]updatesRow, ids int) []updatesChange {
	r := updatesRow{int64(rng.IntN(ids)), int64(rng.IntN(4)) - 1, int64(rng.IntN(30))}
	old, there := table[r.id]
	if there && rng.IntN(3) == 0 {
		delete(table, r.id)
		if c.forgets {
			old.k, old.v = int64(rng.IntN(4))-1, 0
		}
		return []updatesChange{{old, dataflow.OpDelete}}
	}
	table[r.id] = r
	switch {
	case !there || c.forgets && rng.IntN(2) == 0:
		return []updatesChange{{r, dataflow.OpInsert}}
	default:
		return []updatesChange{{old, dataflow.OpUpdateBefore}, {r, dataflow.OpUpdateAfter}}
	}
}

func updatesBatch(alloc memory.Allocator, changes []updatesChange) arrow.RecordBatch {
	b := array.NewRecordBuilder(alloc, updatesSchema)
	defer b.Release()
	for _, x := range changes {
		b.Field(0).(*array.Int64Builder).Append(x.row.id)
		if x.row.k < 0 {
			b.Field(1).AppendNull()
		} else {
			b.Field(1).(*array.Int64Builder).Append(x.row.k)
		}
		b.Field(2).(*array.Int64Builder).Append(x.row.v)
		b.Field(3).(*array.Uint8Builder).Append(uint8(x.op))
	}
	return b.NewRecordBatch()
}

// TestTopOverUpdatesIsThatOfTheTable: at every barrier, whatever changes, batches,
// barriers, kills, restarts and tasks there were (I8).
func TestTopOverUpdatesIsThatOfTheTable(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if v := os.Getenv("FRAZIL_SEED"); v != "" {
		seed, _ = strconv.ParseUint(v, 10, 64)
	}
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 11))
	for range 60 {
		playUpdates(t, rng)
		if t.Failed() {
			return
		}
	}
}

func playUpdates(t *testing.T, rng *rand.Rand) {
	alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer alloc.AssertSize(t, 0)
	c := newUpdatesCase(rng)
	r := newUpdatesRig(t, alloc, c)
	defer r.close()
	r.start(1 + rng.IntN(3))
	ids := 1 + rng.IntN(200)
	table := map[int64]updatesRow{}
	save := func() (map[int64]updatesRow, map[string]string, *windowTestKV) {
		return maps.Clone(table), maps.Clone(r.table), r.kv.clone()
	}
	wasTable, wasOut, wasKV := save()
	for range 80 {
		var batch []updatesChange
		for range 1 + rng.IntN(40) {
			batch = append(batch, c.next(rng, table, ids)...)
		}
		for len(batch) > 0 { // An update may be cut in two.
			n := 1 + rng.IntN(len(batch))
			b := updatesBatch(alloc, batch[:n])
			r.process(b)
			b.Release()
			batch = batch[n:]
		}
		switch rng.IntN(5) {
		case 0: // A kill: everything is as at the last barrier.
			table, r.table, r.kv = wasTable, wasOut, wasKV
			wasTable, wasOut, wasKV = save()
			r.start(1 + rng.IntN(3))
		case 1, 2:
			r.barrier()
			if got, want := r.rows(), c.want(table); got != want {
				t.Fatalf("%+v, forgets %t:\ngot\n%s\nwant\n%s", c.cfg, c.forgets, got, want)
			}
			wasTable, wasOut, wasKV = save()
			if rng.IntN(4) == 0 {
				r.start(1 + rng.IntN(3))
			}
		}
	}
}

func newUpdatesRig(t testing.TB, alloc memory.Allocator, c updatesCase) *changeRig {
	r := &changeRig{
		t: t, alloc: alloc, name: "top", cfg: &c.cfg, splits: &dataflow.SplitTable{}, kv: &windowTestKV{}, table: map[string]string{},
		in: component.OperatorIn{
			Inputs: []dataflow.Stream{{Schema: updatesSchema, Changelog: true, Key: []string{"id"}, Forgets: c.forgets}}, Names: []string{"rows"},
		},
	}
	var err error
	if r.plan, err = component.OperatorNamed("top").Plan(r.in, r.cfg); err != nil {
		t.Fatal(err)
	}
	for _, k := range r.plan.Ports[0].Stream.Key {
		r.key = append(r.key, dataflow.Column(r.plan.Ports[0].Stream.Schema, k))
	}
	return r
}

// TestTopOverUpdatesIsRefused where it would have no effect or no bound, with what
// to write instead.
func TestTopOverUpdatesIsRefused(t *testing.T) {
	in := component.OperatorIn{Inputs: []dataflow.Stream{{Schema: updatesSchema, Changelog: true, Key: []string{"id"}}}, Names: []string{"sums"}}
	for want, cfg := range map[string]TopConfig{
		`tumbling: "sums" gives changes, and a window gives its rows once: leave tumbling out for a changelog of the first rows, or ask step "sums" for final results only (a window's emit: final)`: {
			AlignedWindows: AlignedWindows{Tumbling: "1m"}, Limit: 1,
		},
		`expire_after: "sums" gives changes: a row stays until it is taken away, so leave expire_after out`:             {Limit: 1, ExpireAfter: component.Duration(time.Hour)},
		`rank: the changelog needs a column that tells the rows of a group apart: write rank: rank_number, or limit: 1`: {Limit: 2},
		`ties: rank goes with windows only: rows of one rank would have one key in the changelog`:                       {Limit: 2, Rank: "r", Ties: "rank"},
		`allowed_lateness: it has no effect without windows: leave it out`:                                              {Limit: 1, AllowedLateness: component.Duration(time.Hour)},
		`limit: expected 1 to 10000 rows, not 0`:                                                                        {},
		`by[0]: unknown column "idd"; did you mean "id"?; columns: id, k, v`:                                            {Limit: 1, By: []string{"idd"}},
	} {
		cfg.OrderBy = []string{"v"}
		_, err := component.OperatorNamed("top").Plan(in, &cfg)
		if got := fmt.Sprint(err); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

package expressions

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/flowtest/rig"
	"frazil/operators/expr"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	other "github.com/expr-lang/expr"
	"github.com/expr-lang/expr/vm"
)

// The same filter and three expressions, as each of the three writes them. All are
// computed for all rows.
var (
	oursTexts   = []string{"price > 1000 and temp < 80", "price * 2 + auction", "upper(channel)", "channel || '-' || url"}
	othersTexts = []string{"price > 1000 && temp < 80", "price * 2 + auction", "upper(channel)", `channel + "-" + url`}
)

const duckdbTexts = "price > 1000 and temp < 80, price * 2 + auction, upper(channel), channel || '-' || url"

// bid is a row, as expr-lang sees it.
type bid struct {
	Price   int     `expr:"price"`
	Auction int     `expr:"auction"`
	Temp    float64 `expr:"temp"`
	Channel string  `expr:"channel"`
	URL     string  `expr:"url"`
}

func bids(n int) []bid {
	x := uint64(1)
	out := make([]bid, n)
	for i := range out {
		x = x*6364136223846793005 + 1442695040888963407
		out[i] = bid{int(x>>33) % 2000, int(x >> 50), float64(x>>40%1000) / 10, []string{"apple", "google", "baidu", "facebook"}[x>>40%4],
			fmt.Sprintf("https://www.nexmark.com/item.htm?query=%d", i%100)}
	}
	return out
}

func bidBatch(rows []bid) arrow.RecordBatch {
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema([]arrow.Field{
		{Name: "price", Type: dataflow.TypeInt64}, {Name: "auction", Type: dataflow.TypeInt64}, {Name: "temp", Type: dataflow.TypeFloat64},
		{Name: "channel", Type: dataflow.TypeString}, {Name: "url", Type: dataflow.TypeString},
	}, nil))
	defer b.Release()
	for _, r := range rows {
		b.Field(0).(*array.Int64Builder).Append(int64(r.Price))
		b.Field(1).(*array.Int64Builder).Append(int64(r.Auction))
		b.Field(2).(*array.Float64Builder).Append(r.Temp)
		b.Field(3).(*array.StringBuilder).Append(r.Channel)
		b.Field(4).(*array.StringBuilder).Append(r.URL)
	}
	return b.NewRecordBatch()
}

// answered are the results of one run, by column.
type answered struct {
	pass   []bool
	sum    []int64
	upper  []string
	joined []string
}

func (a answered) lines() []string {
	out := make([]string, len(a.pass))
	for i := range out {
		out[i] = fmt.Sprintf("%t|%d|%s|%s", a.pass[i], a.sum[i], a.upper[i], a.joined[i])
	}
	return out
}

type exprLang struct {
	programs []*vm.Program
	machine  vm.VM
	out      answered
}

func newExprLang(t testing.TB) *exprLang {
	e := &exprLang{}
	for _, text := range othersTexts {
		p, err := other.Compile(text, other.Env(bid{}))
		if err != nil {
			t.Fatal(err)
		}
		e.programs = append(e.programs, p)
	}
	return e
}

func (e *exprLang) run(t testing.TB, rows []bid) {
	e.out = answered{e.out.pass[:0], e.out.sum[:0], e.out.upper[:0], e.out.joined[:0]}
	for i := range rows {
		var v [4]any
		for k, p := range e.programs {
			var err error
			if v[k], err = e.machine.Run(p, rows[i]); err != nil {
				t.Fatal(err)
			}
		}
		e.out.pass = append(e.out.pass, v[0].(bool))
		e.out.sum = append(e.out.sum, int64(v[1].(int)))
		e.out.upper = append(e.out.upper, v[2].(string))
		e.out.joined = append(e.out.joined, v[3].(string))
	}
}

type frazil struct{ evs []*expr.Evaluator }

func newFrazil(t testing.TB, schema *arrow.Schema) *frazil {
	f := &frazil{}
	for _, text := range oursTexts {
		e, err := expr.Compile(text, schema)
		if err != nil {
			t.Fatal(err)
		}
		f.evs = append(f.evs, e.NewEvaluator(memory.DefaultAllocator))
	}
	return f
}

func (f *frazil) run(t testing.TB, b arrow.RecordBatch, keep func(k int, a arrow.Array)) {
	for k, ev := range f.evs {
		a, bad, err := ev.Eval(b)
		if err != nil || len(bad) > 0 {
			t.Fatal(err, bad)
		}
		keep(k, a)
		a.Release()
	}
}

func frazilAnswers(t testing.TB, rows []bid) (out answered) {
	b := bidBatch(rows)
	defer b.Release()
	newFrazil(t, b.Schema()).run(t, b, func(k int, a arrow.Array) {
		for i := range a.Len() {
			switch k {
			case 0:
				out.pass = append(out.pass, a.(*array.Boolean).Value(i))
			case 1:
				out.sum = append(out.sum, a.(*array.Int64).Value(i))
			case 2:
				out.upper = append(out.upper, strings.Clone(a.(*array.String).Value(i)))
			case 3:
				out.joined = append(out.joined, strings.Clone(a.(*array.String).Value(i)))
			}
		}
	})
	return out
}

// duckdbProgram makes the rows of a file a table and selects the expressions again and
// again, on one thread; the results go to another file, the nanoseconds of processor time
// for a row to standard output.
const duckdbProgram = `
import duckdb, sys, time
rows, results, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
db = duckdb.connect()
db.execute("set threads = 1")
db.execute(f"create table bids as select * from read_csv('{rows}', header = true, columns = {{'price': 'bigint', 'auction': 'bigint', 'temp': 'double', 'channel': 'varchar', 'url': 'varchar'}})")
db.execute("prepare q as select ` + duckdbTexts + ` from bids")
n = db.execute("select count(*) from bids").fetchone()[0]
with open(results, "w") as f:
    for r in db.execute("execute q").fetchall():
        f.write(f"{'true' if r[0] else 'false'}|{r[1]}|{r[2]}|{r[3]}\n")
db.execute("execute q").to_arrow_table()
start, end, runs = time.process_time(), time.time() + seconds, 0
while time.time() < end:
    db.execute("execute q").to_arrow_table()
    runs += 1
if runs: print((time.process_time() - start) * 1e9 / runs / n)
`

// duckdb returns the results and the nanoseconds for a row.
func duckdb(t testing.TB, rows []bid, seconds float64) (lines []string, ns float64) {
	python := rig.Readers(t)
	dir := t.TempDir()
	var csv strings.Builder
	csv.WriteString("price,auction,temp,channel,url\n")
	for _, r := range rows {
		fmt.Fprintf(&csv, "%d,%d,%v,%s,%s\n", r.Price, r.Auction, r.Temp, r.Channel, r.URL)
	}
	in, out := filepath.Join(dir, "rows.csv"), filepath.Join(dir, "results")
	if err := os.WriteFile(in, []byte(csv.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-c", duckdbProgram, in, out, fmt.Sprint(seconds))
	cmd.Stderr = os.Stderr
	said, err := cmd.Output()
	if err != nil {
		t.Fatalf("DuckDB: %v", err)
	}
	raw, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	ns, _ = strconv.ParseFloat(strings.TrimSpace(string(said)), 64)
	return strings.Split(strings.TrimSpace(string(raw)), "\n"), ns
}

// TestOthersGiveTheSame: what BenchmarkOthers measures gives the same results.
func TestOthersGiveTheSame(t *testing.T) {
	rows := bids(5000)
	want := frazilAnswers(t, rows).lines()
	e := newExprLang(t)
	e.run(t, rows)
	if got := e.out.lines(); !slices.Equal(got, want) {
		t.Error("expr-lang gives other results")
	}
	if got, _ := duckdb(t, rows, 0); !slices.Equal(got, want) {
		t.Error("DuckDB gives other results")
	}
}

// BenchmarkOthers gives the nanoseconds of processor time for a row of Frazil, expr-lang
// and DuckDB, with the same filter and expressions on the same rows.
func BenchmarkOthers(b *testing.B) {
	defer runtime.KeepAlive(make([]byte, 64<<20)) // a program has a heap: less garbage collection than with an empty one
	for _, n := range []int{1024, 8192, 65536} {
		rows := bids(n)
		batch := bidBatch(rows)
		measure := func(name string, run func(b *testing.B)) {
			b.Run(fmt.Sprintf("%s/rows=%d", name, n), func(b *testing.B) {
				before := processorTime()
				for b.Loop() {
					run(b)
				}
				b.ReportMetric(float64(processorTime()-before)/float64(b.N)/float64(n), "cpu-ns/row")
			})
		}
		f, e := newFrazil(b, batch.Schema()), newExprLang(b)
		measure("Frazil", func(b *testing.B) { f.run(b, batch, func(int, arrow.Array) {}) })
		measure("expr-lang", func(b *testing.B) { e.run(b, rows) })
		b.Run(fmt.Sprintf("DuckDB/rows=%d", n), func(b *testing.B) {
			_, ns := duckdb(b, rows, 2)
			b.ReportMetric(ns, "cpu-ns/row")
		})
		batch.Release()
	}
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

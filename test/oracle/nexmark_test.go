package oracle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"frazil/dataflow/flowtest/rig"
)

// nexmarkCase is one golden of data/nexmark. Inputs, watermark delay, types of
// columns and which orders of the input give it stand in its index.
type nexmarkCase struct {
	golden string
	// file is a pipeline of examples/nexmark, whose operators are run as they
	// are; or operators are some, whose result the step from gives.
	file            string
	operators, from string
	// as names columns of ours that have another name than in the golden.
	as map[string]string
	// lastEnd is the end of the last window of a time, where a row has several and
	// the golden lists dropped rows once per window; see droppedRows.
	lastEnd func(ms int64) int64
	// lacks names columns of the golden that are not computed yet.
	lacks []string
}

var nexmarkCases = []nexmarkCase{
	{golden: "q00", file: "q0"},
	{golden: "q01", file: "q1", as: map[string]string{"price": "euro"}},
	{golden: "q02", file: "q2"},
	{golden: "q05", file: "q5"},
	{golden: "q11", file: "q11", as: map[string]string{"starttime": "window_start", "endtime": "window_end"}},
	{golden: "q14", file: "q14"},
	{golden: "q15", file: "q15"},
	{golden: "q16", file: "q16"},
	{golden: "q17", file: "q17"},
	{golden: "q18", file: "q18"},
	{golden: "q19", file: "q19"},
	{golden: "q21", file: "q21"},
	{golden: "q22", file: "q22"},
}

// nexmarkKeep is for how long the queries remember what gets no more bids: by
// the goldens for ever, and their two runs lie eight hours apart.
var nexmarkKeep = strings.NewReplacer("${KEEP:-1m}", "24h")

// TestNexmark gives Flink's rows, by the source files and its JSON decoder. What Flink
// drops as late leaves by "late".
func TestNexmark(t *testing.T) {
	for _, c := range slices.Concat(nexmarkCases, nexmarkShapes, nexmarkSessions, nexmarkGroups, nexmarkOver) {
		t.Run(c.golden, func(t *testing.T) {
			t.Parallel()
			index := nexmarkIndex(t, c.golden)
			for _, column := range c.lacks {
				delete(index.types, column)
			}
			want := golden(t, rig.Shared(t, "data", "nexmark", "golden", index.result))
			for _, order := range index.orders {
				for _, tasks := range nexmarkTasks(order) {
					t.Run(fmt.Sprintf("%s/tasks=%d", order, tasks), func(t *testing.T) {
						t.Parallel()
						operators, from := c.steps(t)
						out := run(t, tasks, nexmarkSources(t, index, order)+operators+nexmarkSinks(from, index.dropped))
						sameRows(t, c.golden, index.types, c.as, folded(t, out["out"]), want)
						if index.dropped == "" {
							if n := len(out["late"]); n != 0 {
								t.Errorf("%d rows are late, want none", n)
							}
							return
						}
						dropped := golden(t, rig.Shared(t, "data", "nexmark", "golden", index.dropped))
						types := droppedTypes(dropped[0])
						if c.lastEnd != nil {
							dropped = droppedRows(t, dropped, c.lastEnd)
						}
						sameRows(t, c.golden+" dropped", types, nil, out["late"], dropped)
					})
				}
			}
		})
	}
}

// nexmarkTasks are the numbers of tasks that an order is run with: one in order
// and three in disorder, and with FRAZIL_LONG set both either way.
func nexmarkTasks(order string) []int {
	switch {
	case os.Getenv("FRAZIL_LONG") != "":
		return []int{1, 3}
	case order == "ordered":
		return []int{1}
	}
	return []int{3}
}

// steps are the operators and the step that gives the result.
func (c nexmarkCase) steps(t *testing.T) (operators, from string) {
	t.Helper()
	if c.file == "" {
		return c.operators, c.from
	}
	_, operators, sinks := nexmarkFile(t, c.file)
	return operators, nexmarkResult(t, sinks)
}

// nexmarkFile takes a pipeline of the examples apart.
func nexmarkFile(t *testing.T, name string) (sources, operators, sinks string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(rig.Root(t), "examples", "nexmark", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), "\noperators:\n")
	operators, sinks, also := strings.Cut(rest, "\nsinks:\n")
	if !ok || !also {
		t.Fatalf("%s.yaml has not the sections sources, operators, sinks in this order", name)
	}
	return before + "\n", nexmarkKeep.Replace("\noperators:\n" + operators), "\nsinks:\n" + sinks
}

// nexmarkResult is the step whose rows the sink out takes.
func nexmarkResult(t *testing.T, sinks string) string {
	t.Helper()
	m := regexp.MustCompile(`out: \{from: (\w+), drop: \{\}\}`).FindStringSubmatch(sinks)
	if m == nil {
		t.Fatalf("no sink %q that drops rows in %s", "out", sinks)
	}
	return m[1]
}

func nexmarkSinks(from, dropped string) string {
	text := fmt.Sprintf("\nsinks:\n  out: {from: %s, files: {path: \"%%OUT%%/out\"}}\n", from)
	if dropped != "" {
		text += fmt.Sprintf("  late: {from: %s.late, files: {path: \"%%OUT%%/late\"}}\n", from)
	}
	return text
}

var nexmarkSchemas = map[string]string{
	"bid":     "{auction: int64, bidder: int64, price: int64, channel: string, url: string, dateTime: timestamptz(ms), extra: string}",
	"auction": "{id: int64, itemName: string, description: string, initialBid: int64, reserve: int64, dateTime: timestamptz(ms), expires: timestamptz(ms), seller: int64, category: int64, extra: string}",
	"person":  "{id: int64, name: string, emailAddress: string, creditCard: string, city: string, state: string, dateTime: timestamptz(ms), extra: string}",
}

func nexmarkSources(t *testing.T, index nexmarkEntry, order string) string {
	text := "name: nexmark\nhttp: \"off\"\nsources:\n"
	for _, in := range index.inputs {
		text += fmt.Sprintf(`  %s:
    files: {paths: [%q], metadata: {line: line}}
    decode: {json: {schema: %s}}
    event_time: {column: dateTime, out_of_orderness: %s}
`, in, nexmarkInput(t, order, in), nexmarkSchemas[in], index.delay)
	}
	return text
}

// nexmarkInput finds an input file, which is compressed if it is large.
func nexmarkInput(t *testing.T, order, name string) string {
	t.Helper()
	path := filepath.Join(rig.Shared(t, "data", "nexmark", "in", order), name+".ndjson")
	if _, err := os.Stat(path); err != nil {
		path += ".gz"
	}
	return path
}

// nexmarkEntry is a line of the index of goldens.
type nexmarkEntry struct {
	inputs, orders         []string
	delay, result, dropped string
	types                  map[string]string
}

func nexmarkIndex(t *testing.T, golden string) nexmarkEntry {
	t.Helper()
	text, err := os.ReadFile(rig.Shared(t, "data", "nexmark", "index.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		f := strings.Split(line, "\t")
		if f[0] != golden || len(f) != 9 {
			continue
		}
		e := nexmarkEntry{inputs: strings.Split(f[1], ","), delay: strings.ReplaceAll(f[2], " ", ""), result: f[6], dropped: f[7], types: map[string]string{}}
		if e.delay == "0.5s" {
			e.delay = "500ms"
		}
		for _, order := range []string{"ordered", "disordered"} {
			if strings.Contains(f[5], "streaming/"+order) {
				e.orders = append(e.orders, order)
			}
		}
		for _, column := range regexp.MustCompile(`(\w+) ([A-Z]+)(\([0-9, ]+\))?( NOT NULL)?`).FindAllStringSubmatch(f[8], -1) {
			e.types[column[1]] = column[2]
		}
		return e
	}
	t.Fatalf("data/nexmark/index.tsv has no line for %s", golden)
	return nexmarkEntry{}
}

// droppedTypes are the columns of a list of dropped rows that the port "late" has
// as well.
func droppedTypes(row map[string]any) map[string]string {
	types := map[string]string{
		"line": "BIGINT", "auction": "BIGINT", "bidder": "BIGINT", "price": "BIGINT", "channel": "STRING",
		"dateTime": "TIMESTAMP", "watermark": "TIMESTAMP", "window_start": "TIMESTAMP", "window_end": "TIMESTAMP",
	}
	maps.DeleteFunc(types, func(column, _ string) bool { _, ok := row[column]; return !ok })
	return types
}

// folded is the table that a changelog stands for: rows that are put and not
// taken away again. Rows without the column "op" are returned as they are.
func folded(t *testing.T, rows []map[string]any) []map[string]any {
	t.Helper()
	count, first := map[string]int{}, map[string]map[string]any{}
	var order []string
	for _, r := range rows {
		op, ok := r["op"].(string)
		if !ok {
			return rows
		}
		delete(r, "op")
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		k := string(text)
		if first[k] == nil {
			first[k], order = r, append(order, k)
		}
		switch {
		case op == "insert" || op == "update_after":
			count[k]++
		case op == "delete" && count[k] == 0:
			// A filter behind a step that forgets says which key has no row, whether it
			// had one or not (dataflow.Stream.Forgets).
		default:
			count[k]--
		}
	}
	out := []map[string]any{}
	for _, k := range order {
		if count[k] < 0 {
			t.Fatalf("the changelog takes away a row that it never put: %s", k)
		}
		for range count[k] {
			out = append(out, first[k])
		}
	}
	return out
}

// sameRows compares rows of ours with rows of Flink as multisets, column by
// column of the type that Flink gives it.
func sameRows(t *testing.T, what string, types, as map[string]string, got, want []map[string]any) {
	t.Helper()
	columns := make([]string, 0, len(types))
	for c := range types {
		columns = append(columns, c)
	}
	slices.Sort(columns)
	ours := make([]map[string]any, len(got))
	for i, r := range got {
		ours[i] = map[string]any{}
		for _, c := range columns {
			name := c
			if as[c] != "" {
				name = as[c]
			}
			v, ok := r[name]
			if !ok {
				t.Fatalf("%s: a row has no column %q: %v", what, name, r)
			}
			ours[i][c] = asFlink(t, c, types[c], v)
		}
	}
	for _, r := range want {
		for c, kind := range types {
			if kind == "DOUBLE" {
				r[c] = asFlink(t, c, kind, r[c])
			}
		}
	}
	same(t, what, ours, want, columns...)
}

// asFlink brings a value of ours into the form of the goldens: times in
// milliseconds, sums as numbers, averages of whole numbers cut toward zero as
// Flink's are, floats with 11 digits.
func asFlink(t *testing.T, column, kind string, v any) any {
	t.Helper()
	switch {
	case v == nil:
		return nil
	case kind == "TIMESTAMP":
		return millis(t, v)
	case kind == "DOUBLE":
		f, err := strconv.ParseFloat(fmt.Sprint(v), 64)
		if err != nil {
			t.Fatalf("column %s: %v is no number", column, v)
		}
		return json.Number(strconv.FormatFloat(f, 'g', 11, 64))
	case kind != "BIGINT" && kind != "INT":
		return v
	}
	n, ok := new(big.Rat).SetString(fmt.Sprint(v))
	if !ok || !n.IsInt() && !strings.HasPrefix(column, "avg") {
		t.Fatalf("column %s: %v is no whole number", column, v)
	}
	return json.Number(new(big.Int).Quo(n.Num(), n.Denom()).String())
}

// TestNexmarkExamplesDifferInTheirOperatorsOnly: all read the same generator, as
// many events as asked for.
func TestNexmarkExamplesDifferInTheirOperatorsOnly(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(rig.Root(t), "examples", "nexmark", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	source := regexp.MustCompile(`(?s)sources:\n  bid:\n    generate: \{nexmark: \{only: bid, columns: \[[\w, ]+\], events: "\$\{EVENTS:-[\d_]+\}"\}\}\n    event_time: \{(column: dateTime, out_of_orderness: 4s|processing_time: true)\}\s*$`)
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".yaml")
		sources, _, sinks := nexmarkFile(t, name)
		if !source.MatchString(sources) {
			t.Errorf("%s has another source:\n%s", name, sources)
		}
		if !bytes.Contains([]byte(sources), []byte("name: nexmark-"+name+"\n")) {
			t.Errorf("%s is not named nexmark-%s", name, name)
		}
		nexmarkResult(t, sinks)
	}
}

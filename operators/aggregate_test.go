package operators

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
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

// sharedFile opens outside data, or skips the test (fails in CI).
func sharedFile(t *testing.T, path string) io.Reader {
	t.Helper()
	root := os.Getenv("FRAZIL_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "shared")
	}
	file := filepath.Join(root, path)
	// Another folder of the same form as data/postgres.
	if name, ok := strings.CutPrefix(path, "data/postgres/"); ok && os.Getenv("FRAZIL_DATA") != "" {
		file = filepath.Join(os.Getenv("FRAZIL_DATA"), name)
	}
	f, err := os.Open(file)
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("outside data is missing: %v", err)
		}
		t.Skipf("outside data is not here (FRAZIL_SHARED): %v", err)
	}
	t.Cleanup(func() { f.Close() })
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

type oracleCase struct {
	ID      int
	Agg     string
	Data    string
	GroupBy []string `json:"group_by"`
	Type    string
	Rows    []struct{ K, Value *string }
	Error   *string
}

var oracleFields = []arrow.Field{
	{Name: "k", Type: dataflow.TypeString, Nullable: true},
	{Name: "b", Type: dataflow.TypeBool, Nullable: true},
	{Name: "i2", Type: dataflow.TypeInt32, Nullable: true},
	{Name: "i4", Type: dataflow.TypeInt32, Nullable: true},
	{Name: "i8", Type: dataflow.TypeInt64, Nullable: true},
	{Name: "f4", Type: dataflow.TypeFloat32, Nullable: true},
	{Name: "f8", Type: dataflow.TypeFloat64, Nullable: true},
	{Name: "n", Type: &arrow.Decimal128Type{Precision: 38, Scale: 6}, Nullable: true},
	{Name: "d", Type: &arrow.Decimal128Type{Precision: 9, Scale: 2}, Nullable: true},
	{Name: "s", Type: dataflow.TypeString, Nullable: true},
	{Name: "ts", Type: dataflow.TypeTimestamp, Nullable: true},
	{Name: "tz", Type: dataflow.TypeTimestampTZ, Nullable: true},
	{Name: "dt", Type: dataflow.TypeDate, Nullable: true},
	{Name: "o", Type: dataflow.TypeInt32, Nullable: true},
}

// oracleValue turns PostgreSQL's text into what windowTestAppend takes; ok is
// false where our types cannot hold it (NaN as numeric, infinite times).
func oracleValue(f arrow.Field, text string) (v any, ok bool) {
	switch f.Type.ID() {
	case arrow.STRING:
		return text, true
	case arrow.BOOL:
		return text == "true", true
	case arrow.INT32, arrow.INT64:
		n, err := strconv.ParseInt(text, 10, 64)
		if f.Type.ID() == arrow.INT32 {
			return int32(n), err == nil
		}
		return n, err == nil
	case arrow.FLOAT32, arrow.FLOAT64:
		n, err := strconv.ParseFloat(text, 64)
		if f.Type.ID() == arrow.FLOAT32 {
			return float32(n), err == nil
		}
		return n, err == nil
	case arrow.DECIMAL128:
		_, ok := new(big.Rat).SetString(text)
		return text, ok
	case arrow.DATE32:
		d, err := time.Parse("2006-01-02", text)
		return int32(d.Unix() / 86400), err == nil
	}
	d, err := time.Parse("2006-01-02 15:04:05.999999", strings.TrimSuffix(text, "+00"))
	return d.UnixMicro(), err == nil
}

// oracleData is a data set; values that our types cannot hold are null, and
// their columns in lost.
type oracleData struct {
	rows []windowTestRow
	lost map[string]bool
}

func oracleInputs(t *testing.T) map[string]oracleData {
	t.Helper()
	var in struct {
		Data map[string][]map[string]*string
	}
	if err := json.NewDecoder(sharedFile(t, "data/postgres/aggregate_inputs.json.gz")).Decode(&in); err != nil {
		t.Fatal(err)
	}
	out := map[string]oracleData{}
	for name, rows := range in.Data {
		mine := oracleData{lost: map[string]bool{}}
		for _, row := range rows {
			r := windowTestRow{time: windowT, cols: make([]any, len(oracleFields))}
			for c, f := range oracleFields {
				if row[f.Name] == nil {
					continue
				}
				if v, ok := oracleValue(f, *row[f.Name]); ok {
					r.cols[c] = v
				} else {
					mine.lost[f.Name] = true
				}
			}
			mine.rows = append(mine.rows, r)
		}
		out[name] = mine
	}
	return out
}

// TestAggregatesLikePostgres compares with a real server's answers: every
// aggregate that exists here, on every data set that our types can hold.
func TestAggregatesLikePostgres(t *testing.T) {
	data := oracleInputs(t)
	lines := bufio.NewScanner(sharedFile(t, "data/postgres/aggregates.ndjson.gz"))
	compared, left := 0, map[string]int{}
	for lines.Scan() {
		var c oracleCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		set, ok := data[c.Data]
		if !ok {
			t.Fatalf("case %d: no data set %q", c.ID, c.Data)
		}
		if why := oracleLeftOut(c, set.lost); why != "" {
			left[why]++
			continue
		}
		compared++
		oracleRun(t, c, set.rows)
	}
	t.Logf("%d compared, left out: %v", compared, left)
	if os.Getenv("FRAZIL_DATA") == "" && compared < 205 || compared == 0 {
		t.Errorf("only %d cases compared", compared)
	}
}

func oracleLeftOut(c oracleCase, lost map[string]bool) string {
	fn, _, _ := strings.Cut(c.Agg, "(")
	switch {
	case slices.Contains([]string{"corr", "covar_pop", "covar_samp", "regr_slope", "jsonb_agg"}, fn):
		return "other aggregates"
	case strings.Contains(c.Agg, "(iv)") || strings.Contains(c.Agg, ")::") || strings.Contains(c.Agg, ") + ") || strings.Contains(c.Agg, ") - ") || strings.Contains(c.Agg, ") >") || fn == "round" || fn == "coalesce" || strings.Contains(c.Agg, "sum(sum("):
		return "intervals and expressions of aggregates"
	case strings.Contains(c.Agg, "array["):
		return "several quantiles at once"
	}
	for _, word := range regexp.MustCompile("[a-z0-9]+").FindAllString(c.Agg, -1) {
		if lost[word] {
			return "values that our types do not have"
		}
	}
	return ""
}

func oracleRun(t *testing.T, c oracleCase, rows []windowTestRow) {
	t.Helper()
	feed := newWindowFeed(oracleFields, 0, 1)
	cfg := WindowConfig{AlignedWindows: testTumbling(component.Duration(time.Minute)), By: byColumns(c.GroupBy...), Aggregate: component.NamedExprs{{Name: "x", Expr: c.Agg}}}
	in := component.OperatorIn{Inputs: []dataflow.Stream{{Schema: feed.schema}}, Names: []string{"rows"}}
	plan, err := planWindow(in, cfg)
	if c.Error != nil && c.Rows == nil && err != nil {
		return
	}
	if err != nil {
		t.Errorf("case %d %s: %v", c.ID, c.Agg, err)
		return
	}
	if got := oracleTypeName(plan); got != c.Type && c.Type != "smallint" {
		t.Errorf("case %d %s: type %s, want %s", c.ID, c.Agg, got, c.Type)
	}
	r := newWindowRig(t, memory.DefaultAllocator, feed.schema, cfg)
	r.start(2)
	for i := 0; i < len(rows); i += 3 { // several batches, so that accumulators merge
		b := feed.batch(r.alloc, 0, rows[i:min(i+3, len(rows))])
		r.rows(b)
		b.Release()
	}
	r.barrier()
	r.stop()
	r.start(1)
	r.watermark(dataflow.MaxTime)
	r.stop()
	oracleCompare(t, c, r)
}

func oracleTypeName(plan component.OperatorPlan) string {
	s := plan.Ports[0].Stream.Schema
	return oracleType(s.Field(dataflow.Column(s, "x")).Type)
}

func oracleType(ty arrow.DataType) string {
	switch ty.ID() {
	case arrow.BOOL:
		return "boolean"
	case arrow.LIST:
		return oracleType(ty.(*arrow.ListType).Elem()) + "[]"
	case arrow.INT32:
		return "integer"
	case arrow.INT64:
		return "bigint"
	case arrow.FLOAT32:
		return "real"
	case arrow.FLOAT64:
		return "double precision"
	case arrow.DECIMAL128:
		return "numeric"
	case arrow.STRING:
		return "text"
	case arrow.DATE32:
		return "date"
	case arrow.TIMESTAMP:
		if ty.(*arrow.TimestampType).TimeZone == "" {
			return "timestamp without time zone"
		}
		return "timestamp with time zone"
	default:
		return ty.String()
	}
}

func oracleCompare(t *testing.T, c oracleCase, r *windowRig) {
	t.Helper()
	if c.Error != nil {
		if len(r.out[windowBad]) == 0 {
			t.Errorf("case %d %s on %s: no bad row, want error %s", c.ID, c.Agg, c.Data, *c.Error)
		}
		return
	}
	got := map[string]*string{}
	for _, line := range r.out[windowOut] {
		var row map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		key := string(row["k"])
		if row["x"] != nil && string(row["x"]) != "null" {
			text := oracleJSON(row["x"])
			got[key] = &text
		} else {
			got[key] = nil
		}
	}
	want := c.Rows
	if len(c.GroupBy) == 0 && len(r.out[windowOut]) == 0 {
		return // a window without rows gives no result; PostgreSQL gives one row
	}
	if len(got) != len(want) {
		t.Errorf("case %d %s on %s: %d rows, want %d", c.ID, c.Agg, c.Data, len(got), len(want))
	}
	for _, w := range want {
		key := ""
		if len(c.GroupBy) > 0 {
			j, _ := json.Marshal(w.K)
			key = string(j)
		}
		g, ok := got[key]
		if !ok || !oracleSame(c.Type, g, w.Value) {
			t.Errorf("case %d %s on %s, k %s: got %s, want %s", c.ID, c.Agg, c.Data, key, oracleText(g), oracleText(w.Value))
		}
	}
}

// oracleJSON is a value as oracleSame takes it: text without quotes, a list as
// JSON.
func oracleJSON(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) == nil {
		return s
	}
	return string(v)
}

// oracleArray reads PostgreSQL's text of an array.
func oracleArray(text string) (out []*string) {
	text = strings.TrimSuffix(strings.TrimPrefix(text, "{"), "}")
	for len(text) > 0 {
		var e string
		if strings.HasPrefix(text, `"`) {
			e, text, _ = strings.Cut(text[1:], `"`)
			_, text, _ = strings.Cut(text, ",")
			out = append(out, &e)
			continue
		}
		e, text, _ = strings.Cut(text, ",")
		if e == "NULL" {
			out = append(out, nil)
		} else {
			out = append(out, &e)
		}
	}
	return out
}

func oracleSameArray(typ string, got, want string) bool {
	var mine []json.RawMessage
	if json.Unmarshal([]byte(got), &mine) != nil {
		return false
	}
	theirs := oracleArray(want)
	if len(mine) != len(theirs) {
		return false
	}
	for i, v := range mine {
		var g *string
		if string(v) != "null" {
			text := oracleJSON(v)
			g = &text
		}
		if !oracleSame(typ, g, theirs[i]) {
			return false
		}
	}
	return true
}

func oracleText(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

// oracleSame compares values, decimals on the digits that both have.
func oracleSame(typ string, got, want *string) bool {
	if got == nil || want == nil {
		return got == want
	}
	if of, ok := strings.CutSuffix(typ, "[]"); ok {
		return oracleSameArray(of, *got, *want)
	}
	switch typ {
	case "numeric":
		g, _ := new(big.Rat).SetString(*got)
		w, _ := new(big.Rat).SetString(*want)
		_, gd, _ := strings.Cut(*got, ".")
		_, wd, _ := strings.Cut(*want, ".")
		digits := min(len(gd), len(wd))
		return g.FloatString(digits) == w.FloatString(digits)
	case "double precision", "real":
		g, _ := strconv.ParseFloat(*got, 64)
		w, _ := strconv.ParseFloat(*want, 64)
		return g == w || g != g && w != w || math.Abs(g-w) <= 1e-12*math.Abs(w)
	case "timestamp without time zone", "timestamp with time zone":
		g := strings.TrimSuffix(strings.NewReplacer("T", " ", "Z", "").Replace(*got), ".000000")
		return g == strings.TrimSuffix(*want, "+00")
	}
	return *got == *want
}

// TestWideDivision holds timesOver against big numbers.
func TestWideDivision(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	word := func() uint64 { return rng.Uint64() >> rng.IntN(64) }
	for range 20000 {
		w := [3]uint64{rng.Uint64(), word(), word() >> 1}
		if rng.IntN(2) == 0 {
			w[2] = 0
		}
		if rng.IntN(2) == 0 {
			w[2] = ^w[2] // negative
		}
		mul, div := pow10[rng.IntN(len(pow10))], max(1, word())
		abs, negative := wideAbs(w[0], w[1], w[2])
		x := new(big.Int)
		for i := 2; i >= 0; i-- {
			x.Lsh(x, 64).Or(x, new(big.Int).SetUint64(w[i]))
		}
		if negative {
			x.Sub(x, new(big.Int).Lsh(big.NewInt(1), 192))
		}
		if got := abs.text(negative, 0); got != x.String() {
			t.Fatalf("%v: got %s, want %s", w, got, x)
		}
		q := new(big.Rat).SetFrac(x.Mul(x, new(big.Int).SetUint64(mul)), new(big.Int).SetUint64(div))
		want := strings.TrimPrefix(q.FloatString(0), "-")
		quo := abs.timesOver(mul, div)
		if got := quo.text(false, 0); got != want {
			t.Fatalf("%v * %d / %d: got %s, want %s", w, mul, div, got, want)
		}
		d, ok := quo.decimal(negative)
		if fits := len(want) <= 38; ok != fits || ok && strings.TrimPrefix(d.BigInt().String(), "-") != want {
			t.Fatalf("%s as a decimal: %v %v", want, d, ok)
		}
	}
}

func TestWideText(t *testing.T) {
	for _, c := range []struct {
		n        uint64
		negative bool
		scale    int
		want     string
	}{{0, false, 2, "0.00"}, {5, true, 3, "-0.005"}, {12345, false, 2, "123.45"}, {7, false, 0, "7"}} {
		if got := (wide{c.n}).text(c.negative, c.scale); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

// taken is what a builder holds; both go with the test.
func taken(t *testing.T, b array.Builder) arrow.Array {
	v := b.NewArray()
	t.Cleanup(func() {
		v.Release()
		b.Release()
	})
	return v
}

// TestFloatSumsDoNotDependOnOrder: sums that naive addition gets wrong, in any
// order and grouping.
func TestFloatSumsDoNotDependOnOrder(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	f := floatSumFunc{}
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{1e16, 1, -1e16, 1, 1e-3}, 2.001},
		{[]float64{1, 1e100, 1, -1e100}, 2},
		{[]float64{math.Inf(1), 1, 2}, math.Inf(1)},
		{[]float64{math.Inf(1), math.Inf(-1), 2}, math.NaN()},
		{[]float64{math.NaN(), 1}, math.NaN()},
		{slices.Repeat([]float64{0.1}, 10000), 1000},
	} {
		for range 30 {
			rng.Shuffle(len(c.values), func(i, j int) { c.values[i], c.values[j] = c.values[j], c.values[i] })
			total := make([]uint64, 4)
			for rest := c.values; len(rest) > 0; {
				n := 1 + rng.IntN(len(rest))
				part := make([]uint64, 8) // group 0 and 1
				sumFloats(accColumn{rows: part, stride: 4}, slices.Repeat([]uint32{1}, n), rest[:n])
				f.merge(total, part[4:])
				rest = rest[n:]
			}
			b := array.NewFloat64Builder(memory.DefaultAllocator)
			if bad := f.result(b, total); bad != nil {
				t.Fatal(bad)
			}
			got := taken(t, b).(*array.Float64).Value(0)
			if !(got == c.want || got != got && c.want != c.want || math.Abs(got-c.want) <= 1e-12*math.Abs(c.want)) {
				t.Fatalf("%v: got %v, want %v", c.values[:min(5, len(c.values))], got, c.want)
			}
		}
	}
}

// TestResultsThatDoNotFit: each type's largest results, and one more.
func TestResultsThatDoNotFit(t *testing.T) {
	max64 := array.NewInt64Builder(memory.DefaultAllocator)
	max64.AppendValues([]int64{math.MaxInt64, math.MinInt64}, nil)
	ints := taken(t, max64)
	f, err := newSumFunc("sum", dataflow.TypeInt32, dataflow.TypeInt64)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		groups []uint32
		want   string
	}{
		{[]uint32{1, 0}, "9223372036854775807"}, {[]uint32{0, 1}, "-9223372036854775808"}, {[]uint32{1, 1}, "-1"},
	} {
		acc := make([]uint64, 6)
		f.update(accColumn{rows: acc, stride: 3}, c.groups, ints)
		b := array.NewInt64Builder(memory.DefaultAllocator)
		if bad := f.result(b, acc[3:]); bad != nil {
			t.Fatal(bad)
		}
		if got := taken(t, b).ValueStr(0); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
		f.merge(acc[3:], slices.Clone(acc[3:])) // twice as much
		bad := f.result(b, acc[3:])
		if fits := c.want == "-1"; (bad == nil) != fits {
			t.Errorf("twice %s: %v", c.want, bad)
		}
	}
	for _, typ := range []arrow.DataType{dataflow.TypeFloat32, dataflow.TypeFloat64} {
		f := floatSumFunc{}
		acc := []uint64{math.Float64bits(math.MaxFloat64), 0, 0, 1}
		f.merge(acc, slices.Clone(acc))
		b := array.NewBuilder(memory.DefaultAllocator, typ)
		bad := f.result(b, acc)
		if bad == nil || bad.Reason != aggregateOverflow || taken(t, b).IsValid(0) {
			t.Errorf("%s: %v", typ, bad)
		}
	}
}

// TestExtremesOfTheExtreme: the least and greatest values of each type are found
// although their words are all zeros or ones.
func TestExtremesOfTheExtreme(t *testing.T) {
	fields := []arrow.Field{
		{Name: "k", Type: dataflow.TypeString}, {Name: "i", Type: dataflow.TypeInt64}, {Name: "f", Type: dataflow.TypeFloat64},
		{Name: "d", Type: &arrow.Decimal128Type{Precision: 38}}, {Name: "s", Type: dataflow.TypeString},
	}
	feed := newWindowFeed(fields, 0, 1)
	var aggs component.NamedExprs
	for _, c := range []string{"i", "f", "d", "s"} {
		aggs = append(aggs, component.NamedExpr{Name: "lo_" + c, Expr: "min(" + c + ")"}, component.NamedExpr{Name: "hi_" + c, Expr: "max(" + c + ")"})
	}
	r := newWindowRig(t, memory.DefaultAllocator, feed.schema, WindowConfig{AlignedWindows: testTumbling(component.Duration(time.Minute)), By: byColumns("k"), Aggregate: aggs})
	r.start(1)
	nines := strings.Repeat("9", 38)
	b := feed.batch(r.alloc, 0, []windowTestRow{
		{windowT, []any{"high", int64(math.MaxInt64), math.NaN(), nines, "~"}},
		{windowT, []any{"low", int64(math.MinInt64), math.Inf(-1), "-" + nines, ""}},
		{windowT, []any{"both", int64(math.MinInt64), math.NaN(), nines, ""}},
		{windowT, []any{"both", int64(math.MaxInt64), math.Inf(-1), "-" + nines, "a"}},
	})
	r.rows(b)
	b.Release()
	r.watermark(dataflow.MaxTime)
	r.stop()
	at := `"window_start":"2026-03-01T10:00:00.000000Z","window_end":"2026-03-01T10:01:00.000000Z",`
	line := func(k, i1, i2, f1, f2, d1, d2, s1, s2 string) string {
		return `{"k":"` + k + `",` + at + `"lo_i":` + i1 + `,"hi_i":` + i2 + `,"lo_f":"` + f1 + `","hi_f":"` + f2 + `","lo_d":"` + d1 + `","hi_d":"` + d2 + `","lo_s":"` + s1 + `","hi_s":"` + s2 + `"}`
	}
	lo, hi := "-9223372036854775808", "9223372036854775807"
	r.check(windowOut, []string{
		line("both", lo, hi, "-Inf", "NaN", "-"+nines, nines, "", "a"),
		line("high", hi, hi, "NaN", "NaN", nines, nines, "~", "~"),
		line("low", lo, lo, "-Inf", "-Inf", "-"+nines, "-"+nines, "", ""),
	})
}

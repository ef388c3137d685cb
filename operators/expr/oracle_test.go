package expr

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// sharedFile opens a file of the outside data, or skips (fails under CI).
func sharedFile(t *testing.T, path string) *os.File {
	t.Helper()
	root, err := os.Getwd()
	for ; err == nil; root = filepath.Dir(root) {
		if _, e := os.Stat(filepath.Join(root, "go.mod")); e == nil || root == filepath.Dir(root) {
			break
		}
	}
	dir := os.Getenv("FRAZIL_SHARED")
	if dir == "" {
		dir = filepath.Join(root, "..", "shared")
	}
	file := filepath.Join(dir, path)
	// Another folder of the same form as data/postgres.
	if name, ok := strings.CutPrefix(path, "data/postgres/"); ok && os.Getenv("FRAZIL_DATA") != "" {
		file = filepath.Join(os.Getenv("FRAZIL_DATA"), name)
	}
	f, err := os.Open(file)
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("outside data is missing: %v", err)
		}
		t.Skipf("outside data is missing, set FRAZIL_SHARED: %v", err)
	}
	return f
}

type oracleCase struct {
	ID     int                `json:"id"`
	Group  string             `json:"group"`
	Expr   string             `json:"expr"`
	Row    map[string]*string `json:"row"`
	Type   *string            `json:"type"`
	Value  *string            `json:"value"`
	Error  *string            `json:"error"`
	Phase  *string            `json:"phase"`
	Approx bool               `json:"approx"`
}

var oracleColumns = map[string]typ{
	"i2": tInt16, "js": tJSON, "ai": listOf(tInt32), "aj": listOf(tInt32), "at": tTexts, "i4": tInt32, "j4": tInt32, "i8": tInt64, "j8": tInt64, "f4": tFloat32, "f8": tFloat64, "g8": tFloat64,
	"n": decimalType(20, 6), "m": decimalType(20, 6), "d": decimalType(9, 2), "b": tBool, "c": tBool,
	"s": tString, "t": tString, "y": {k: kBinary}, "dt": {k: kDate}, "du": {k: kDate}, "tm": {k: kTime},
	"ts": tTimestamp, "tu": tTimestamp, "tz": {k: kTimestampTZ}, "tv": {k: kTimestampTZ},
	"iv": {k: kInterval}, "iw": {k: kInterval}, "u": {k: kUUID},
}

var oracleTypes = map[string]kind{
	"smallint": kInt16, "jsonb": kJSON, "json": kJSON, "integer[]": kList, "text[]": kList, "bigint[]": kList, "numeric[]": kList,
	"boolean": kBool, "integer": kInt32, "bigint": kInt64, "real": kFloat32, "double precision": kFloat64,
	"numeric": kDecimal, "text": kString, "character varying": kString, "character": kString, "bytea": kBinary, "date": kDate,
	"time without time zone": kTime, "timestamp without time zone": kTimestamp,
	"timestamp with time zone": kTimestampTZ, "interval": kInterval, "uuid": kUUID,
}

// oracleBefore is the difference on purpose that keeps a case from being asked here; nil
// if there is none.
func oracleBefore(c *oracleCase) *oracleRule {
	for name, v := range c.Row {
		if v == nil {
			continue
		}
		switch ct := oracleColumns[name]; ct.k {
		case kList:
			if _, bad := parseList(*v); bad != nil {
				return &oracleLists
			}
		case kDecimal:
			if _, _, bad := parseDecimal(*v); bad != nil || strings.ContainsAny(*v, "NI") {
				return &oracleDigits
			}
		case kInterval:
			if iv, bad := parseInterval(*v); bad != nil || iv.us > math.MaxInt64/1000 || iv.us < math.MinInt64/1000 {
				return &oracleSpan
			}
		case kDate, kTimestamp, kTimestampTZ:
			if _, err := newBinder("", nil).literal(&node{unknown: true, text: *v}, ct); err != nil {
				return &oracleTimes
			}
		}
	}
	toks, err := lex(c.Expr)
	if err != nil {
		return nil
	}
	for _, t := range toks {
		if t.kind == tokIdent && t.text == "timetz" {
			return &oracleTimeTZ
		}
	}
	switch {
	case c.Type != nil && *c.Type == "time with time zone":
		return &oracleTimeTZ
	case strings.Contains(c.Expr, "jsonb_path_") || strings.Contains(c.Expr, "@@") || strings.Contains(c.Expr, "@?"):
		return &oraclePath
	}
	return nil
}

// oracleBatch makes the one row of a case.
func oracleBatch(t *testing.T, c *oracleCase) arrow.RecordBatch {
	var fields []arrow.Field
	var cols []arrow.Array
	var names []string
	for n := range oracleColumns {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		ct := oracleColumns[n]
		v := c.Row[n]
		node := &node{unknown: true, null: v == nil}
		if v != nil {
			node.text = *v
			if ct.k == kDecimal && n != "d" {
				_, ct, _ = parseDecimal(*v)
			}
		}
		x, err := newBinder("", nil).literal(node, ct)
		if err != nil {
			t.Fatalf("case %v: column %s: %v", c.ID, n, err)
		}
		a, err := toArrow(x.konst, ct, 1, memory.DefaultAllocator)
		if err != nil {
			t.Fatal(err)
		}
		if ct.k == kInt16 { // leaves as int32
			b := array.NewInt16Builder(memory.DefaultAllocator)
			if a.IsNull(0) {
				b.AppendNull()
			} else {
				b.Append(int16(a.(*array.Int32).Value(0)))
			}
			a.Release()
			a = b.NewArray()
		}
		fields = append(fields, arrow.Field{Name: n, Type: a.DataType(), Nullable: true})
		defer a.Release()
		cols = append(cols, a)
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, 1)
}

// oracleReason maps SQLSTATEs to reasons.
func oracleReason(state string) string {
	switch state {
	case "22012":
		return badZero
	case "22003", "22008", "22015", "54000":
		return badRange
	case "22P02", "22007", "22009":
		return badCast
	}
	return badArgument
}

// oracleRun returns what differs, "" if nothing does; more is what is known of it beside.
func oracleRun(t *testing.T, c *oracleCase) (diff string, more *oracleDiff) {
	more = &oracleDiff{c: c}
	b := oracleBatch(t, c)
	defer b.Release()
	e, err := Compile(c.Expr, b.Schema())
	if err != nil {
		more.refused, more.detail = true, err.Error()
		if c.Error != nil { // also a constant that fails
			return "", more
		}
		return "refused: " + err.Error(), more
	}
	more.typ = e.root.typ
	a, errs, err := e.NewEvaluator(memory.DefaultAllocator).Eval(b)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Release()
	if len(errs) > 0 {
		more.reason, more.detail = errs[0].Bad.Reason, errs[0].Bad.Detail
	} else {
		more.got, more.null, more.value = true, a.IsNull(0), oracleText(a, e.root.typ)
	}
	if c.Error != nil {
		want := oracleReason(*c.Error)
		switch {
		case *c.Phase == "analyze":
			return fmt.Sprintf("compiles to %s, PostgreSQL refuses it (%s)", e.root.typ, *c.Error), more
		case len(errs) == 0:
			return "no error, PostgreSQL has " + *c.Error + ", value " + more.value, more
		case more.reason != want:
			return "reason " + more.reason + ", expected " + want + " (" + *c.Error + ")", more
		}
		return "", more
	}
	if want := oracleTypes[*c.Type]; e.root.typ.k != want || want == kList && e.root.typ.e != oracleTypes[strings.TrimSuffix(*c.Type, "[]")] {
		return fmt.Sprintf("type %s, expected %s", e.root.typ, *c.Type), &oracleDiff{c: c} // never on purpose
	}
	if len(errs) > 0 {
		return fmt.Sprintf("row fails with %s (%s), expected %s", more.reason, more.detail, text(c.Value)), more
	}
	if (c.Value == nil) != more.null || c.Value != nil && !oracleEqual(c, e.root.typ, more.value) {
		return fmt.Sprintf("%s, expected %s", more.value, text(c.Value)), more
	}
	return "", more
}

func text(s *string) string {
	if s == nil {
		return "null"
	}
	return strconv.Quote(*s)
}

func oracleText(a arrow.Array, t typ) string {
	if a.IsNull(0) {
		return "null"
	}
	var v vec
	v.borrow(a, t)
	return string(textOf(t, &v)(nil, 0))
}

// oracleEqual compares texts: numerics by value, at our places if those are
// fewer; approximate floats to 1e-14.
func oracleEqual(c *oracleCase, t typ, got string) bool {
	if got == *c.Value {
		return true
	}
	switch t.k {
	case kDecimal:
		g, ok1 := new(big.Rat).SetString(got)
		w, ok2 := new(big.Rat).SetString(*c.Value)
		if !ok1 || !ok2 {
			return false
		}
		if g.Cmp(w) == 0 {
			return true
		}
		// Places that depend on the value in PostgreSQL are fixed here: equal when
		// rounded to the fewer ones.
		if _, frac, _ := strings.Cut(*c.Value, "."); t.s >= wideScale && len(frac) < int(t.s) {
			x, bad := parseDecimalAs(got, decimalType(38, int32(len(frac))))
			return bad == nil && string(appendDec(nil, x, int32(len(frac)))) == *c.Value
		}
		d, bad := parseDecimalAs(*c.Value, decimalType(38, t.s))
		return bad == nil && string(appendDec(nil, d, t.s)) == got && t.s >= wideScale
	case kFloat32, kFloat64:
		g, _ := strconv.ParseFloat(got, 64)
		w, _ := strconv.ParseFloat(*c.Value, 64)
		return c.Approx && math.Abs(g-w) <= 1e-14*math.Abs(w)
	}
	return false
}

// oracleFloor is how many cases of the data that everybody has must pass; raise it when
// more do.
const oracleFloor = 8030

// TestExpressionsAgreeWithARealPostgres: each case gives PostgreSQL's value, type and class
// of failure, or differs by a rule that docs/differences.md has.
func TestExpressionsAgreeWithARealPostgres(t *testing.T) {
	f := sharedFile(t, "data/postgres/expressions.ndjson.gz")
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(z)
	sc.Buffer(nil, 1<<20)
	passed, total := 0, 0
	known := map[string]int{}
	for sc.Scan() {
		var c oracleCase
		if err := json.Unmarshal(sc.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		total++
		rule := oracleBefore(&c)
		if rule == nil {
			diff, more := oracleRun(t, &c)
			if diff == "" {
				passed++
				continue
			}
			if rule = oracleDifference(more); rule == nil {
				row, _ := json.Marshal(c.Row)
				t.Errorf("case %v (%s): %s  %s: %s", c.ID, c.Group, c.Expr, row, diff)
				continue
			}
		}
		if known[rule.name]++; known[rule.name] == 1 && !bytes.Contains(page, []byte(rule.says)) {
			t.Errorf("docs/differences.md does not say: %s", rule.name)
		}
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d cases pass", passed, total)
	logCounts(t, "different on purpose", known)
	if os.Getenv("FRAZIL_DATA") == "" && passed < oracleFloor || passed == 0 {
		t.Errorf("%d cases pass, at least %d did before", passed, oracleFloor)
	}
}

func logCounts(t *testing.T, what string, m map[string]int) {
	var keys []string
	n := 0
	for k, v := range m {
		keys = append(keys, k)
		n += v
	}
	sort.Slice(keys, func(i, j int) bool {
		return m[keys[i]] > m[keys[j]] || m[keys[i]] == m[keys[j]] && keys[i] < keys[j]
	})
	t.Logf("%s: %d", what, n)
	for _, k := range keys {
		t.Logf("  %5d  %s", m[k], k)
	}
}

// Differences for which a case is not asked at all.
var (
	oracleDigits = oracleRules[0]
	oracleLists  = oracleRule{name: "lists have one dimension and begin with element 1", says: "| arrays have dimensions and bounds of their own |"}
	oracleTimes  = oracleRule{name: "timestamps end in the year 294247", says: "to the year 294247;"}
	oracleSpan   = oracleRule{name: "an interval has at most 292 years of hours", says: "| intervals of 178 million years of hours |"}
	oracleTimeTZ = oracleRule{name: "there is no time with time zone", says: "`timetz`"}
	oraclePath   = oracleRule{name: "there is no jsonpath", says: "| jsonpath ("}
)

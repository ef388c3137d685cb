package codec

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// everyType is a schema with a column of each type, named after it.
var everyType = JSONConfig{
	Schema: types("bool", "bool", "i4", "int32", "i8", "int64", "f4", "float32", "f8", "float64",
		"dec", "decimal(12,3)", "big", "decimal(38,2)", "text", "string", "bin", "binary", "day", "date", "clock", "time",
		"ts", "timestamp", "tz", "timestamptz", "s", "timestamptz(s)", "ms", "timestamptz(ms)", "us", "timestamp(us)",
		"ns", "timestamptz(ns)", "id", "uuid", "doc", "json", "list", "list<int64>",
		"obj", "struct{a: int64, b: string, c: struct{d: list<string>}}", "objs", "list<struct{x: decimal(38,10), y: json}>"),
	Required: []string{"text"},
	Depth:    8,
	Whole:    "whole",
}

// agree decodes docs one after another with both decoders, and holds every row
// and every reason against each other.
func agree(t *testing.T, cfg JSONConfig, docs [][]byte) (taken, byFast int64) {
	t.Helper()
	fast, ref := decoder(t, cfg), decoder(t, cfg)
	ref.viaReference = true
	for _, doc := range docs {
		got, want := fast.Append(doc), ref.Append(doc)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%q:\nfast      %v\nreference %v", doc, got, want)
		}
		if got != nil {
			continue
		}
		if at, f := validate(doc, maxDepth); f != fine {
			t.Fatalf("%q was taken, fault %d at %d", doc, f, at)
		}
	}
	taken, byFast = int64(fast.Rows()), fast.fastRows
	rows, want := rowsOf(fast), rowsOf(ref)
	for i := range want {
		if rows[i] != want[i] {
			t.Fatalf("row %d:\nfast      %s\nreference %s", i, rows[i], want[i])
		}
	}
	if fmt.Sprint(fast.Extra()) != fmt.Sprint(ref.Extra()) {
		t.Fatalf("extra fields: fast %v, reference %v", fast.Extra(), ref.Extra())
	}
	return taken, byFast
}

func FuzzFastPassAgreesWithTheReference(f *testing.F) {
	rnd := rand.New(rand.NewSource(1))
	for range 200 {
		f.Add(randomDoc(rnd, 10), randomDoc(rnd, 10))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		agree(t, everyType, [][]byte{first, second, first, second, second})
	})
}

func FuzzValidateAgreesWithTheStandardLibrary(f *testing.F) {
	rnd := rand.New(rand.NewSource(2))
	for range 200 {
		f.Add(randomDoc(rnd, 5))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		_, fault := validate(doc, maxDepth)
		if fault == faultDepth {
			return
		}
		// The standard library takes invalid UTF-8 and lone surrogates.
		want := json.Valid(doc) && utf8.Valid(doc)
		if want && fault == faultUTF8 {
			want = strings.Contains(strings.ToLower(string(doc)), `\ud`) == false
		}
		if (fault == fine) != want {
			t.Fatalf("%q: fault %d, the standard library says %t", doc, fault, want)
		}
		if fault != fine {
			return
		}
		compact := appendCompact(nil, doc)
		if _, again := validate(compact, maxDepth); again != fine {
			t.Fatalf("%q became %q, fault %d", doc, compact, again)
		}
	})
}

// seed returns a random source whose seed is printed and can be given.
func seed(t *testing.T) *rand.Rand {
	s := time.Now().UnixNano()
	if v := os.Getenv("FRAZIL_SEED"); v != "" {
		s, _ = strconv.ParseInt(v, 10, 64)
	}
	t.Logf("seed %d: repeat with FRAZIL_SEED=%d go test -run '^%s$'", s, s, t.Name())
	return rand.New(rand.NewSource(s))
}

func TestFastPassAgreesWithTheReferenceOnRandomDocuments(t *testing.T) {
	rnd := seed(t)
	var taken, byFast int64
	for range 100 {
		var docs [][]byte
		odd := 2 + rnd.Intn(40)
		for range 50 {
			docs = append(docs, randomDoc(rnd, odd))
		}
		n, m := agree(t, everyType, docs)
		taken += n
		byFast += m
	}
	if taken < 500 {
		t.Errorf("only %d documents were rows: the generator is off", taken)
	}
	// Left to the reference are repeated keys, which these documents have far more
	// often than real ones: those of lists and structs, and those mistyped at first.
	if byFast*100 < taken*55 {
		t.Errorf("the fast pass took %d of %d rows", byFast, taken)
	}
}

// randomDoc makes a document of everyType in which about one value in odd is not
// as it should be.
func randomDoc(rnd *rand.Rand, odd int) []byte {
	g := &generator{rnd: rnd, odd: odd}
	names := rnd.Perm(len(everyType.Schema))
	if rnd.Intn(2) == 0 {
		for i := range names {
			names[i] = i
		}
	}
	var fields []string
	for _, i := range names {
		f := everyType.Schema[i]
		if f.Name != "text" && rnd.Intn(6) == 0 {
			continue
		}
		fields = append(fields, g.key(f.Name)+":"+g.space()+g.value(f.Name))
		if rnd.Intn(40) == 0 {
			fields = append(fields, g.key(f.Name)+":"+g.value(f.Name))
		}
		if rnd.Intn(20) == 0 {
			fields = append(fields, g.key([]string{"x", "y", "other"}[rnd.Intn(3)])+":"+g.any(3))
		}
	}
	doc := []byte("{" + g.space() + strings.Join(fields, g.space()+",") + "}" + g.space())
	if g.strange() {
		i := rnd.Intn(len(doc))
		switch rnd.Intn(3) {
		case 0:
			doc = append(doc[:i:i], doc[i+1:]...)
		case 1:
			doc[i] = `{}[]",:\0eE.-+tnu `[rnd.Intn(18)]
		default:
			doc[i] = byte(rnd.Intn(256))
		}
	}
	return doc
}

type generator struct {
	rnd *rand.Rand
	odd int
}

func (g *generator) strange() bool { return g.rnd.Intn(g.odd*20) == 0 }

func (g *generator) pick(s ...string) string { return s[g.rnd.Intn(len(s))] }

func (g *generator) space() string {
	if g.rnd.Intn(4) > 0 {
		return ""
	}
	return g.pick(" ", "  ", "\t", "\n", "\r\n")
}

func (g *generator) key(name string) string {
	if g.rnd.Intn(50) == 0 {
		return fmt.Sprintf(`"\u%04x%s"`, name[0], name[1:])
	}
	return `"` + name + `"`
}

func (g *generator) digits(n int) string {
	b := []byte{'1' + byte(g.rnd.Intn(9))}
	for range g.rnd.Intn(n) {
		b = append(b, '0'+byte(g.rnd.Intn(10)))
	}
	return string(b)
}

func (g *generator) number() string {
	s := g.pick("", "", "-") + g.pick("0", g.digits(4), g.digits(18), g.digits(20), g.digits(45))
	if g.rnd.Intn(3) == 0 {
		s += "." + g.pick("0", "5", "00", g.digits(3), g.digits(25))
	}
	if g.rnd.Intn(4) == 0 {
		s += g.pick("e", "E") + g.pick("", "+", "-") + g.pick("0", "1", "2", "5", "20", "310", "99999999999999999999")
	}
	return s
}

func (g *generator) text() string {
	var s strings.Builder
	for range g.rnd.Intn(20) {
		s.WriteString(g.pick("a", "bc", "0", " ", "long enough for words", `\n`, `\"`, `\\`, `\/`, `\u0000`, `\u00e4`, `\ud83d\ude00`,
			"\u00e4", "\u6f22", "\U0001F600"))
		if g.strange() {
			s.WriteString(g.pick(`\ud83d`, `\ude00`, "\xff", "\x01", `\x`, `\u12`))
		}
	}
	return `"` + s.String() + `"`
}

func (g *generator) time() string {
	s := fmt.Sprintf("%02d:%02d:%02d", g.rnd.Intn(24), g.rnd.Intn(60), g.rnd.Intn(60))
	if g.rnd.Intn(2) == 0 {
		s += "." + g.digits(10)
	}
	return s
}

func (g *generator) date() string {
	return fmt.Sprintf("%04d-%02d-%02d", g.rnd.Intn(10000), 1+g.rnd.Intn(12), 1+g.rnd.Intn(30))
}

// value makes a value for a column of everyType.
func (g *generator) value(name string) string {
	if g.strange() {
		return g.any(3)
	}
	if name != "text" && g.rnd.Intn(15) == 0 {
		return "null"
	}
	switch name {
	case "bool":
		return g.pick("true", "false")
	case "i4":
		return g.pick("", "-") + g.digits(9)
	case "i8":
		return g.pick(g.digits(18), "-"+g.digits(18), g.digits(4)+".0", "1e3", "-0")
	case "f4", "f8":
		return g.pick(g.digits(3)+"."+g.digits(20), "-"+g.digits(2)+"e"+g.digits(2), g.digits(20))
	case "dec", "big":
		return g.pick(g.digits(6), g.digits(6)+".25", `"`+g.digits(5)+`.5"`, "-"+g.digits(7)+".10")
	case "text":
		return g.text()
	case "bin":
		return g.pick(`""`, `"AP8="`, `"AAECAw=="`, `"\u0041AEC"`)
	case "day":
		return `"` + g.date() + `"`
	case "clock":
		return `"` + g.time() + `"`
	case "ts":
		return `"` + g.date() + g.pick("T", "t", " ") + g.time() + `"`
	case "tz":
		return `"` + g.date() + "T" + g.time() + g.pick("Z", "z", "+01:00", "-23:59", "+05:30", "+00:00") + `"`
	case "s":
		return g.pick(g.digits(9), "-"+g.digits(8), g.digits(9)+"."+g.digits(9))
	case "ms", "us", "ns":
		return g.pick(g.digits(13), "-"+g.digits(10), g.digits(9)+".5", "1.5e12")
	case "id":
		return g.pick(`"123E4567-e89b-12d3-a456-426614174000"`, `"00000000-0000-0000-0000-000000000000"`)
	case "list":
		return "[" + g.space() + g.pick("", "1", "1,2", "1, null ,3", g.digits(18)) + "]"
	case "obj":
		return g.pick("{}", `{"a":1}`, `{"b":"x","a":2}`, `{"c":{"d":["a",null,"\n"]},"z":1}`, `{"a":1,"a":2}`, `{"c":{"d":[]},"c":{}}`)
	case "objs":
		return g.pick("[]", "[{}]", `[{"x":1.5},null,{"y":[1, 2]}]`, `[{"x":"12345678901234567890.5"}]`)
	}
	return g.any(4)
}

// any makes a value of any type.
func (g *generator) any(depth int) string {
	n := 7
	if depth == 0 {
		n = 5
	}
	switch g.rnd.Intn(n) {
	case 0:
		return g.pick("true", "false", "null")
	case 1, 2:
		return g.number()
	case 3, 4:
		return g.text()
	case 5:
		var s []string
		for range g.rnd.Intn(4) {
			s = append(s, g.any(depth-1)+g.space())
		}
		return "[" + strings.Join(s, ",") + "]"
	}
	var s []string
	for range g.rnd.Intn(4) {
		s = append(s, g.text()+g.space()+":"+g.any(depth-1))
	}
	return "{" + strings.Join(s, ",") + "}"
}

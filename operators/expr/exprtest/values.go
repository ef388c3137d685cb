package exprtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// valueType is a type that columns and literals have.
type valueType struct {
	// name is the registry's, sql PostgreSQL's, column that of columns.
	name, sql, column string
	// edges are texts of values; random makes one more.
	edges  []string
	random func(rng *rand.Rand) string
}

var zones = []string{"UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "America/Sao_Paulo"}

var words = []string{
	"", " ", "a", "abc", "ABC", "aBc", "abcabc", "hello world", "Hello, World!", "  padded  ", "a,b,,c", "x|y|z", "äöü", "ß", "日本語", "e\u0301", "\U0001F600",
	"a_b%c", "100%", "\\", "a\\b", "line\nbreak", "tab\there", "'quoted'", "\"double\"", "42", "-7", " 12 ", "3.14", "1e3", "NaN", "true", "no", "2024-02-29", "12:34:56.789", "1 day",
	"00000000-0000-0000-0000-000000000001", "\\xdeadbeef", "{1,2}", "{\"a\": 1}", "[1, 2]", "null",
}

var smallInts = []string{"0", "1", "-1", "2", "3", "-3", "7", "10", "12", "31", "63", "64", "100", "-100"}

var jsons = []string{
	`{}`, `[]`, `null`, `true`, `1`, `-2.50`, `"text"`, `""`, `{"a": 1, "b": "x", "c": null}`, `{"a": {"b": [1, 2, {"c": "deep"}]}}`,
	`[1, 2, 3]`, `[1, "a", null, true, {"a": 2}, [3]]`, `{"a": [true, false], "b": 1.5e2, "A": "upper"}`, `{"ü": "日本", "a": "b\nc"}`,
	`["a", "b"]`, `{"a": "1", "b": "2"}`, `[{"a": 1}, {"a": 2}]`, `12345678901234567890`, `[[1, 2], [3, 4]]`,
}

// types are all that there are values of. Types of the registry that are not among
// them are not generated.
var types []valueType

func init() {
	types = []valueType{
		{"bool", "boolean", "", []string{"true", "false"}, func(rng *rand.Rand) string { return strconv.FormatBool(rng.IntN(2) == 0) }},
		{"int16", "smallint", "", append([]string{"32767", "-32768", "181", "182"}, smallInts...), ints(16)},
		{"int32", "integer", "", append([]string{"2147483647", "-2147483648", "46340", "46341", "1700000000"}, smallInts...), ints(32)},
		{"int64", "bigint", "", append([]string{"9223372036854775807", "-9223372036854775808", "2147483648", "-2147483649", "3037000500", "1700000000000"}, smallInts...), ints(64)},
		{"decimal", "numeric", "numeric(20,6)", []string{"0", "1", "-1", "0.5", "-0.5", "1.5", "2.5", "-2.5", "0.000001", "99999999999999.999999", "-99999999999999.999999", "0.1", "3.14", "100", "12345.678901", "1000000"}, decimals},
		{"float32", "real", "", []string{"0", "-0", "1", "-1", "0.1", "1.5", "2.5", "-2.5", "3.4028235e38", "1e-45", "1.1754944e-38", "NaN", "Infinity", "-Infinity", "16777217", "123456.79"}, floats(32)},
		{"float64", "double precision", "", []string{"0", "-0", "1", "-1", "0.1", "0.5", "1.5", "2.5", "-2.5", "1.7976931348623157e308", "5e-324", "2.2250738585072014e-308", "NaN", "Infinity", "-Infinity", "9007199254740993", "1e15", "1e-5", "123456789.125"}, floats(64)},
		{"string", "text", "", words, text},
		{"binary", "bytea", "", []string{`\x`, `\x00`, `\xff`, `\xdeadbeef`, `\x616263`, `\xc3a4`, `\x0001020304050607`}, func(rng *rand.Rand) string { return `\x` + hexes(rng, rng.IntN(12)) }},
		{"date", "date", "", []string{"1970-01-01", "2000-02-29", "2024-02-29", "2023-02-28", "1999-12-31", "2024-12-30", "2021-01-03", "0001-01-01", "9999-12-31", "infinity", "-infinity", "1900-03-01", "2024-03-31", "2024-10-27"}, date},
		{"time", "time", "", []string{"00:00:00", "23:59:59.999999", "12:00:00", "01:02:03.5", "24:00:00"}, clock},
		{"timestamp", "timestamp", "", []string{"1970-01-01 00:00:00", "2024-02-29 12:34:56.789012", "2024-03-31 02:30:00", "2024-10-27 02:30:00", "1999-12-31 23:59:59.999999", "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "infinity", "-infinity", "1969-12-31 23:59:59.999999", "2024-03-10 02:30:00"}, moment("")},
		{"timestamptz", "timestamptz", "", []string{"1970-01-01 00:00:00+00", "2024-03-31 00:59:59.999999+00", "2024-03-31 01:00:00+00", "2024-10-27 00:30:00+00", "2024-10-27 01:30:00+00", "2024-02-29 23:30:00-05", "1999-12-31 23:59:59.999999+00", "0001-01-02 00:00:00+00", "9999-12-30 00:00:00+00", "infinity", "-infinity", "1883-11-18 12:00:00+00"}, moment("+00")},
		{"interval", "interval", "", []string{"0", "1 day", "-1 day", "1 mon", "1 year 2 mons 3 days 04:05:06.789", "-1 mons +2 days -03:00:00", "30 days", "24:00:00", "36:00:00", "00:00:00.000001", "-00:00:00.000001", "1 mon -30 days", "12 mons", "100 years"}, span},
		{"uuid", "uuid", "", []string{"00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}, func(rng *rand.Rand) string { return hexes(rng, 16) }},
		{"int32[]", "integer[]", "", []string{"{}", "{1,2,3}", "{NULL}", "{1,NULL,3}", "{2147483647,-2147483648}", "{1,1,2}"}, lists("int32")},
		{"string[]", "text[]", "", []string{"{}", "{a,b,c}", "{NULL}", "{a,NULL}", `{"",""}`, `{"a,b","c\"d","\\"}`, `{"NULL",null}`, "{ä,日本}", `{" a","b "}`}, lists("string")},
		{"float64[]", "double precision[]", "", []string{"{}", "{1,2.5}", "{NULL}", "{NaN,Infinity,-0}"}, lists("float64")},
		{"json", "jsonb", "", jsons, func(rng *rand.Rand) string { return jsons[rng.IntN(len(jsons))] }},
	}
	for i := range types {
		if types[i].column == "" {
			types[i].column = types[i].sql
		}
	}
}

// lists makes arrays of up to four values.
func lists(elem string) func(*rand.Rand) string {
	return func(rng *rand.Rand) string {
		parts := make([]string, rng.IntN(5))
		for i := range parts {
			parts[i] = "NULL"
			if rng.IntN(6) > 0 {
				v := typeNamed(elem).value(rng)
				parts[i] = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(v) + `"`
			}
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
}

func typeNamed(name string) *valueType {
	for i := range types {
		if types[i].name == name {
			return &types[i]
		}
	}
	return nil
}

// value is the text of a random value of t.
func (t *valueType) value(rng *rand.Rand) string {
	if rng.IntN(2) == 0 {
		return t.edges[rng.IntN(len(t.edges))]
	}
	return t.random(rng)
}

func ints(bits int) func(*rand.Rand) string {
	return func(rng *rand.Rand) string {
		x := int64(rng.Uint64()) >> (64 - bits)
		return strconv.FormatInt(x>>rng.IntN(bits), 10)
	}
}

func decimals(rng *rand.Rand) string {
	x := int64(rng.Uint64N(2e6)) - 1e6
	places := rng.IntN(7)
	s := strconv.FormatFloat(float64(x)/math.Pow10(places), 'f', places, 64)
	return s
}

func floats(bits int) func(*rand.Rand) string {
	return func(rng *rand.Rand) string {
		x := rng.NormFloat64() * math.Pow(10, float64(rng.IntN(9)-3))
		if rng.IntN(3) == 0 {
			x = math.Round(x*4) / 4
		}
		return strconv.FormatFloat(x, 'g', -1, bits)
	}
}

func text(rng *rand.Rand) string {
	letters := []rune("abcABC xyz,.%_-0123456789äß日")
	var b strings.Builder
	for range rng.IntN(12) {
		b.WriteRune(letters[rng.IntN(len(letters))])
	}
	return b.String()
}

func hexes(rng *rand.Rand, bytes int) string {
	var b strings.Builder
	for range bytes {
		fmt.Fprintf(&b, "%02x", rng.IntN(256))
	}
	return b.String()
}

func date(rng *rand.Rand) string {
	year := 1970 + rng.IntN(80) - 20
	if rng.IntN(8) == 0 {
		year = 1 + rng.IntN(9998)
	}
	return fmt.Sprintf("%04d-%02d-%02d", year, 1+rng.IntN(12), 1+rng.IntN(28))
}

func clock(rng *rand.Rand) string {
	s := fmt.Sprintf("%02d:%02d:%02d", rng.IntN(24), rng.IntN(60), rng.IntN(60))
	if rng.IntN(2) == 0 {
		s += fmt.Sprintf(".%06d", rng.IntN(1e6))
	}
	return s
}

func moment(zone string) func(*rand.Rand) string {
	return func(rng *rand.Rand) string { return date(rng) + " " + clock(rng) + zone }
}

func span(rng *rand.Rand) string {
	s := fmt.Sprintf("%d mons %d days", rng.IntN(40)-20, rng.IntN(80)-40)
	if rng.IntN(2) == 0 {
		s += fmt.Sprintf(" %d.%06d seconds", rng.IntN(200000)-100000, rng.IntN(1e6))
	}
	return s
}

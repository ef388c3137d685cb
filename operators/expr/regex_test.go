package expr

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// TestRegularExpressionsWherePostgresAndRE2Differ holds cases in which RE2 gives
// another answer: PostgreSQL's comes out, or the pattern is refused.
func TestRegularExpressionsWherePostgresAndRE2Differ(t *testing.T) {
	f := sharedFile(t, "data/postgres/regex_differences.ndjson.gz")
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	sc := bufio.NewScanner(z)
	for sc.Scan() {
		var c oracleCase
		if err := json.Unmarshal(sc.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		counts[regexCase(t, &c)]++
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	t.Log(counts)
	if counts["same"] < 128 {
		t.Errorf("%d cases are the same, expected at least 128", counts["same"])
	}
}

// regexCase says how a case came out, and reports what may not be.
func regexCase(t *testing.T, c *oracleCase) string {
	b := oracleBatch(t, c)
	defer b.Release()
	e, err := Compile(c.Expr, b.Schema())
	switch {
	case err != nil && c.Error != nil:
		return "an error in both"
	case err != nil && strings.Contains(err.Error(), "in regular expressions"):
		if !strings.Contains(c.Expr, `\1`) && !strings.Contains(c.Expr, "(?=") {
			t.Errorf("%s is refused: %v", c.Expr, err)
		}
		return "refused"
	case err != nil:
		t.Errorf("%s: %v", c.Expr, err)
		return "wrong"
	}
	a, errs, err := e.NewEvaluator(memory.DefaultAllocator).Eval(b)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Release()
	want := "null"
	if c.Value != nil {
		want = *c.Value
	}
	if got := oracleText(a, e.root.typ); len(errs) > 0 || c.Error != nil || got != want {
		t.Errorf("%s %v is %s %v, expected %s", c.Expr, *c.Row["s"], got, errs, want)
		return "wrong"
	}
	return "same"
}

// TestCodesOfCharacters: PostgreSQL's codes have 32 bits, and only few of them are characters.
func TestCodesOfCharacters(t *testing.T) {
	for pattern, want := range map[string]string{
		`\x61abab`: "false", `\x7ffffffe`: "false", `\x100000061`: "true", `^[^\x110000]`: "true", `[b-\x110000]`: "true", `[\x10fffe-\x200000]`: "false",
		`^\x110000*x`: "true", `\U00110000`: "false", `(?i)\x110000`: "false", `\x110000|a`: "true",
	} {
		e, err := Compile("'xa' ~ '"+pattern+"'", testSchema)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(e.root.konst.bits.get(0)); got != want {
			t.Errorf("%s: got %s, want %s", pattern, got, want)
		}
	}
}

func TestBadRegularExpressions(t *testing.T) {
	for pattern, want := range map[string]string{
		`\x7fffffff`:           "invalid escape",
		"(":                    "parentheses () not balanced",
		"a)":                   "parentheses () not balanced",
		"[a":                   "brackets [] not balanced",
		"a{2":                  "braces {} not balanced",
		"a{3,2}":               "invalid repetition count(s)",
		"a{256}":               "invalid repetition count(s)",
		"a**":                  "quantifier operand invalid",
		"(?i:a)":               "invalid embedded option",
		"(?<n>a)":              "quantifier operand invalid",
		"[b-a]":                "invalid character range",
		"[[:foo:]]":            "invalid character class",
		`\`:                    "invalid escape",
		`\p{L}`:                "invalid escape",
		"(?z)a":                "invalid embedded option",
		"(((a{255}){255}){9})": "too large",
		`(a)\1`:                "back references",
		"a(?=b)":               "look-around",
		"(?<!b)a":              "look-around",
		"(?e)a":                "option 'e'",
	} {
		_, err := Compile("channel ~ '"+pattern+"'", testSchema)
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(e.Msg, want) || e.Offset != len("channel ~ ") {
			t.Errorf("%s: %v, expected %q at the pattern", pattern, err, want)
		}
	}
	for text, want := range map[string]string{
		"regexp_replace(channel, 'a', 'b', 'z')": `invalid regular expression option 'z'`,
		"regexp_like(channel, 'a', 'g')":         "does not support the option g",
		"regexp_count('a', 'a', 0)":              "the place to start at is 0",
		"regexp_replace(channel, 'a', 'b', '1')": "cast it to int32",
		"channel similar to 'a' escape 'xy'":     "one character",
	} {
		if _, err := Compile(text, testSchema); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", text, err, want)
		}
	}
}

// TestRegularExpressionsTakeTimeOfTheText runs what takes others seconds: a try at
// each place, each to the end of the text.
func TestRegularExpressionsTakeTimeOfTheText(t *testing.T) {
	s := strings.Repeat("a", 1<<18)
	for _, pattern := range []string{"a*b|x", "(a*)*b|x", "(a|aa)+$|x", "a.*b.*c|x"} {
		re, err := newRegex(pattern, rxFlags{})
		if err != nil {
			t.Fatal(err)
		}
		begin, end, ok := re.find(s+"x", 0)
		if !ok || begin != len(s) || end != len(s)+1 {
			t.Errorf("%s: match %d to %d, %v", pattern, begin, end, ok)
		}
	}
}

func TestStatesOfRegularExpressionsAreBounded(t *testing.T) {
	re, err := newRegex("(a|b)*a(a|b){14}c", rxFlags{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for x, i := uint32(1), 0; i < 1<<16; i++ {
		x = x*1664525 + 1013904223
		b.WriteByte("ab"[x>>31])
	}
	if re.matches(b.String()) || !re.matches(b.String()+"aaaaaaaaaaaaaaac") {
		t.Error("wrong answer")
	}
	if n := len(re.any.states); n > rxMostStates+1 {
		t.Errorf("%d states, at most %d are kept", n, rxMostStates)
	}
}

package expr

import (
	"encoding/json"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// oracleDiff is a case on which this package and PostgreSQL differ.
type oracleDiff struct {
	c *oracleCase
	// reason and detail are of a row that fails here; refused: the text does not compile,
	// detail says why.
	reason, detail string
	refused        bool
	// value is the text of the value here, null that it is null; got says whether there is one.
	value     string
	null, got bool
	typ       typ
}

// A difference on purpose: its name, what docs/differences.md says of it, and what must
// hold of a case to be one.
type oracleRule struct {
	name, says string
	holds      func(d *oracleDiff) bool
}

var (
	tooManyDigits = regexp.MustCompile(`more than 38 digits|at most 38 digits|the value is infinite, a decimal is not|does not fit decimal\(38,|at most 38 fit|is no value of decimal|of decimal$`)
	anyOrder      = regexp.MustCompile(`: "\s*\d{1,2}[-/. ]\d{1,2}[-/. ]\d{1,4}\b`)
	quotients     = regexp.MustCompile(`/|\b(sqrt|exp|ln|log|log10|power|pow|avg)\(|\^`)
	lateYear      = regexp.MustCompile(`^"?\d{6,}-|29424[7-9]|2942[5-9]\d|29427`)
	jsonWord      = regexp.MustCompile(`\bjson\b`)
)

var oracleRules = []oracleRule{
	{"a decimal has at most 38 digits and no NaN or infinity", "| `numeric` has any number of digits, NaN and infinity |", func(d *oracleDiff) bool {
		special := d.c.Value != nil && (*d.c.Value == "NaN" || strings.HasSuffix(*d.c.Value, "Infinity")) && *d.c.Type == "numeric"
		return d.fails() && (tooManyDigits.MatchString(d.detail) || special && d.reason == badRange)
	}},
	{"a quotient has 16 decimal places or the operands', not 16 significant digits", "| `numeric / numeric` keeps 16 significant digits |", func(d *oracleDiff) bool {
		return d.got && !d.null && d.c.Value != nil && quotients.MatchString(d.c.Expr) && closeTo(d.value, *d.c.Value, 1e-9)
	}},
	{"the places of a numeric depend on the types", "| the places of a numeric depend on the value |", func(d *oracleDiff) bool {
		return d.got && !d.null && d.c.Value != nil && d.typ.k == kList && d.typ.e == kDecimal && sameElements(d.value, *d.c.Value)
	}},
	{"timestamps end in the year 294247", "to the year 294247;", func(d *oracleDiff) bool {
		return d.fails() && strings.Contains(d.detail, "out of range") && d.c.Value != nil && lateYear.MatchString(*d.c.Value)
	}},
	{"dates and times are read where they mean one thing", "| texts of dates in any order, years of two digits |", func(d *oracleDiff) bool {
		return d.fails() && (d.reason == badCast || d.reason == badRange || d.refused) && anyOrder.MatchString(d.detail)
	}},
	{"extract of a field that the type does not have is refused before anything runs", "| `extract(dow from interval)` fails each row |", func(d *oracleDiff) bool {
		return d.refused && strings.Contains(d.detail, "has no field")
	}},
	{"lists have one dimension and begin with element 1", "| arrays have dimensions and bounds of their own |", func(d *oracleDiff) bool {
		return d.fails() && (strings.Contains(d.detail, "lists of lists") || strings.Contains(d.detail, "lists have one dimension") || strings.Contains(d.detail, "lists begin with element 1"))
	}},
	{"json is jsonb", "| `json` keeps its text, `jsonb` does not |", func(d *oracleDiff) bool {
		return d.got && d.c.Value != nil && jsonWord.MatchString(d.c.Expr) && sameDocument(d.value, *d.c.Value)
	}},
	{"a null operand makes a null before the others are looked at", "| a strict function looks at all operands", func(d *oracleDiff) bool {
		if !d.got || !d.null || d.c.Error == nil {
			return false
		}
		for _, v := range d.c.Row {
			if v == nil {
				return true
			}
		}
		return strings.Contains(d.c.Expr, "null")
	}},
	{"a bad constant pattern is refused before anything runs", "| a bad pattern fails the rows that meet it", func(d *oracleDiff) bool {
		return d.refused && strings.Contains(d.detail, "regular expression") && !strings.Contains(d.detail, "not supported")
	}},
	{"there are no back references and no look-around", "| back references and look-around in regular expressions |", func(d *oracleDiff) bool {
		return d.fails() && (strings.Contains(d.detail, "back reference") || strings.Contains(d.detail, "look"))
	}},
	{"encodings are UTF8 and LATIN1", "| texts in all encodings of the server |", func(d *oracleDiff) bool {
		return d.fails() && strings.Contains(d.detail, "unknown encoding")
	}},
	{"a literal that nothing decides is a string", "| a literal that nothing gives a type may be ambiguous", func(d *oracleDiff) bool {
		return d.got && d.c.Phase != nil && *d.c.Phase == "analyze" && (*d.c.Error == "42725" || *d.c.Error == "42P18" || *d.c.Error == "42804") && strings.Contains(d.c.Expr, "'")
	}},
	{"now() and its like are refused", "| `now()`, `current_timestamp`, `random()` |", func(d *oracleDiff) bool {
		return d.refused && strings.Contains(d.detail, "reads the clock")
	}},
	{"zones have names and offsets", "| any rule of POSIX or offset is a time zone", func(d *oracleDiff) bool {
		return d.fails() && strings.Contains(d.detail, "unknown time zone") && d.c.Error == nil
	}},
}

func (d *oracleDiff) fails() bool { return d.refused || d.reason != "" }

// oracleDifference names the difference on purpose that a case shows; nil for a mistake.
func oracleDifference(d *oracleDiff) *oracleRule {
	for i := range oracleRules {
		if oracleRules[i].holds(d) {
			return &oracleRules[i]
		}
	}
	return nil
}

// closeTo compares numbers to a relative difference.
func closeTo(got, want string, most float64) bool {
	g, err := strconv.ParseFloat(got, 64)
	w, err2 := strconv.ParseFloat(want, 64)
	return err == nil && err2 == nil && math.Abs(g-w) <= most*math.Abs(w)
}

// sameElements compares lists of numbers by value.
func sameElements(a, b string) bool {
	x, y := strings.Split(strings.Trim(a, "{}"), ","), strings.Split(strings.Trim(b, "{}"), ",")
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		g, ok := new(big.Rat).SetString(x[i])
		w, ok2 := new(big.Rat).SetString(y[i])
		if x[i] != y[i] && (!ok || !ok2 || g.Cmp(w) != 0) {
			return false
		}
	}
	return true
}

func sameDocument(a, b string) bool {
	if !json.Valid([]byte(a)) || !json.Valid([]byte(b)) {
		return false
	}
	var w jsonWriter
	x := string(w.canonical(nil, []byte(a)))
	return x == string(w.canonical(nil, []byte(b)))
}

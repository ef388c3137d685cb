package expressions

import (
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"frazil/operators/expr/exprtest"
)

// difference is a part on whose operands both sides agree and on whose value they
// do not.
type difference struct {
	part         *exprtest.Tree
	theirs, ours answer
	// theirType is PostgreSQL's name of the type, ourType the same with modifiers.
	theirType, ourType string
	// refusedPart: a part is refused here and fails there.
	refusedPart bool
	// operands are the answers for the operands here.
	operands []answer
}

// rules are the differences on purpose, as docs/differences.md lists them, each as
// what must hold of a part for it to be one.
var rules = []struct {
	name  string
	holds func(d *difference) bool
}{
	{"the places of a numeric depend on types", func(d *difference) bool {
		return d.values() && d.theirType == "numeric" && compareNumbers(d.theirs.text, d.ours.text) == 0
	}},
	{"quotients and casts to numeric have 16 places", func(d *difference) bool {
		return d.values() && d.theirType == "numeric" && inexact[d.part.Name] && closeNumbers(d.theirs.text, d.ours.text)
	}},
	{"a decimal has at most 38 digits", func(d *difference) bool {
		if d.ours.reason == refused {
			return d.theirs.reason != refused && strings.Contains(d.ours.detail, "38")
		}
		if d.ours.reason == "out_of_range" && d.theirs.reason == "" && (d.theirType != "numeric" || d.part.Name == "chain") {
			return strings.Contains(d.ours.detail, "decimal(38,") || strings.Contains(d.ours.detail, "at most 38 digits")
		}
		long := func(a answer) bool { return tooLong(a.text, d.ourType) }
		return d.ours.reason == "out_of_range" && d.theirs.reason == "" && d.theirType == "numeric" && (long(d.theirs) || slices.ContainsFunc(d.operands, long))
	}},
	{"varchar is text, also in lists", func(d *difference) bool {
		return d.theirs.state == "42883" && strings.Contains(d.theirs.detail, "character varying[]") && strings.Contains(d.theirs.detail, "text[]")
	}},
	{"a sign without a number has no place in an interval", func(d *difference) bool {
		return d.cast() && looseInterval.MatchString(d.ours.detail)
	}},
	{"a unit of an interval and a number may stand together", func(d *difference) bool {
		return d.cast() && d.theirs.state == "22007" && strings.Contains(d.theirs.detail, "type interval") && unitAndNumber.MatchString(d.theirs.detail) && d.ours.reason == ""
	}},
	{"an interval that cannot be read is told in one way", func(d *difference) bool {
		return d.cast() && d.theirs.state == "22015" && strings.Contains(d.ours.detail, "invalid input for interval")
	}},
	{"brackets that are not closed in a pattern of similar to", func(d *difference) bool {
		return d.values() && d.part.Name == "similar_to_escape" && strings.Contains(d.theirs.text, "[]")
	}},
	{"all operands of overlaps are looked at", func(d *difference) bool {
		return d.part.Name == "overlaps" && d.theirs.null && d.failing(d.ours.reason)
	}},
	{"extract of a field that the type does not have is refused", func(d *difference) bool {
		return strings.Contains(d.ours.detail, "has no field") && (d.ours.reason == refused || d.theirs.null) // null: of infinity
	}},
	{"a null operand makes a null before the escape of a pattern is looked at", func(d *difference) bool {
		return d.theirs.state == "22025" && d.ours.null && escapes[d.part.Name]
	}},
	{"a decimal has no NaN and no infinity", func(d *difference) bool {
		return d.theirType == "numeric" && (d.theirs.text == "NaN" || strings.HasSuffix(d.theirs.text, "Infinity")) && (d.ours.reason == "out_of_range" || d.ours.reason == refused)
	}},
	{"dates and times are read in ISO 8601", func(d *difference) bool {
		return d.cast() && notISO(d.ours.detail)
	}},
	{"which of two failures is told", func(d *difference) bool {
		return d.theirs.reason != "" && (d.failing(d.ours.reason) || d.failing(d.theirs.reason) && strings.Contains(d.ours.detail, "does not fit decimal"))
	}},
	{"constants that fail are refused before anything runs", func(d *difference) bool {
		return d.ours.reason == refused && d.refusedPart
	}},
	{"there are fewer types, so that a literal is not ambiguous; one that nothing decides is a string", func(d *difference) bool {
		return (d.theirs.state == "42725" || strings.Contains(d.theirs.detail, "input has type unknown")) && d.ours.reason == "" && d.untyped() || strings.Contains(d.theirs.detail, "not a valid binary digit") && d.untyped()
	}},
	{"a constant pattern or option that makes no sense is refused", func(d *difference) bool {
		return d.ours.reason == refused && d.theirs.null && strings.Contains(d.ours.detail, "regular expression")
	}},
	{"older kinds of regular expressions are not supported", func(d *difference) bool {
		return d.theirs.reason == "" && strings.Contains(d.ours.detail, "an older kind of regular expression, is not supported")
	}},
	{"a text made by convert_from has no collation of its own", func(d *difference) bool {
		return d.values() && strings.Contains(d.part.String(), "convert_from(") && names("upper lower initcap")[d.part.Name] && strings.EqualFold(d.theirs.text, d.ours.text)
	}},
	{"hexadecimal escapes of a pattern that name no character are refused", func(d *difference) bool {
		return d.theirs.reason == "" && strings.Contains(d.ours.detail, "invalid escape") &&
			slices.ContainsFunc(d.operands, func(a answer) bool { return strings.Contains(a.text, `\x`) })
	}},
	{"of the fields of a format that contradict each other the last one counts", func(d *difference) bool {
		return strings.HasPrefix(d.theirs.detail, "conflicting values") && strings.HasPrefix(d.part.Name, "to_")
	}},
	{"1c2 is a century and two seconds", func(d *difference) bool {
		return d.cast() && d.theirs.state == "22007" && strings.Contains(d.theirs.detail, "interval") && century.MatchString(d.theirs.detail)
	}},
	{"a value between the bounds of buckets is in one of them, however it rounds", func(d *difference) bool {
		return d.part.Name == "width_bucket" && d.values() && len(d.operands) == 4 && d.ours.text == d.operands[3].text
	}},
	{"the age of an infinite timestamp is out of range", func(d *difference) bool {
		return d.part.Name == "age" && strings.HasSuffix(d.ours.detail, "the age of an infinite timestamp is out of range")
	}},
	{"encodings are UTF8 and LATIN1", func(d *difference) bool {
		return d.theirs.reason == "" && strings.Contains(d.ours.detail, "unknown encoding")
	}},
	{"make_interval fails where its parts overflow", func(d *difference) bool {
		return d.part.Name == "make_interval" && strings.HasSuffix(d.ours.detail, "interval out of range") && d.theirs.reason == ""
	}},
	{"zones have names, no rules of their own", func(d *difference) bool {
		return d.theirs.reason == "" && strings.Contains(d.ours.detail, "unknown time zone")
	}},
	{"the last digits of transcendental functions decide whether a value is in range", func(d *difference) bool {
		// The greatest and the smallest values, as far as their last digits go.
		edge := func(a, b answer) bool {
			x, err := strconv.ParseFloat(a.text, 64)
			return err == nil && b.reason == "out_of_range" && (max(x, -x) > 1.797693134862e308 || max(x, -x) < 2.3e-308)
		}
		return transcendental[d.part.Name] && (edge(d.theirs, d.ours) || edge(d.ours, d.theirs))
	}},
	{"the last digits of transcendental functions", func(d *difference) bool {
		return d.values() && transcendental[d.part.Name] && (d.theirType == "double precision" || d.theirType == "real") && closeFloats(d.theirs.text, d.ours.text)
	}},
}

// inexact are the functions with numeric results that have as many places as the
// types say.
var inexact = names("/ cast sqrt exp ln log log10 power pow ^")

// escapes are the patterns with an escape of their own, which PostgreSQL looks at apart.
var escapes = names("like ilike substring similar_to")

// transcendental are the functions of floats whose last digits depend on the library.
var transcendental = names("sqrt cbrt exp ln log log10 power pow ^ sin cos tan cot asin acos atan atan2 " +
	"sind cosd tand cotd asind acosd atand atan2d sinh cosh tanh asinh acosh atanh radians degrees")

func init() { transcendental["unary ||/"], transcendental["unary |/"] = true, true }

func names(list string) map[string]bool {
	out := map[string]bool{}
	for _, n := range strings.Fields(list) {
		out[n] = true
	}
	return out
}

// rule names the rule that holds; "" for a fault.
func (d *difference) rule() string {
	for _, r := range rules {
		if r.holds(d) {
			return r.name
		}
	}
	return ""
}

// values says whether both sides have one.
func (d *difference) values() bool {
	return d.theirs.reason == "" && d.ours.reason == "" && !d.theirs.null && !d.ours.null
}

// cast says whether the part is a cast or a literal of a type.
func (d *difference) cast() bool { return d.part.Name == "cast" || len(d.part.Args) == 0 }

// untyped says whether an operand is a literal without a type.
func (d *difference) untyped() bool {
	return slices.ContainsFunc(d.part.Args, func(t *exprtest.Tree) bool { return len(t.Args) == 0 && strings.HasPrefix(t.String(), "'") })
}

// failing says whether an operand fails so.
func (d *difference) failing(reason string) bool {
	return slices.ContainsFunc(d.operands, func(a answer) bool { return a.reason == reason })
}

var (
	unitAndNumber = regexp.MustCompile(`interval: ".*[A-Za-z]\d.*"`)
	looseInterval = regexp.MustCompile(`invalid input for interval: ".*\d *[-+]+ *"`)

	unread = regexp.MustCompile(`(?:invalid input for )?(date|time|timestamp|timestamptz|interval)(?: out of range)?: "(.*?)"(?:$|: )`)
	iso    = map[string]*regexp.Regexp{
		"date": regexp.MustCompile(`^ *\d{4}-\d\d-\d\d *$`), "time": regexp.MustCompile(`^ *\d\d:\d\d(:\d\d(\.\d+)?)? *$`),
		"interval": regexp.MustCompile(`^ *@? *(P[\w.]*|[-+]?\d[-+ .:\w]*)$`),
	}
	century   = regexp.MustCompile(`\dc\d`)
	isoMoment = regexp.MustCompile(`^ *\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?)? *([+-]\d\d(:\d\d)?|Z)? *$`)
)

// notISO says whether a message tells of a text that is not of the forms that are read.
func notISO(detail string) bool {
	m := unread.FindStringSubmatch(detail)
	if m == nil {
		return false
	}
	form := iso[m[1]]
	if form == nil {
		form = isoMoment
	}
	return !form.MatchString(m[2])
}

func compareNumbers(a, b string) int {
	x, ok := new(big.Rat).SetString(a)
	y, ok2 := new(big.Rat).SetString(b)
	if !ok || !ok2 {
		return 1
	}
	return x.Cmp(y)
}

// closeNumbers says whether numbers differ by at most one in the last place that both
// have, and that is the sixteenth at least or the sixteenth digit.
func closeNumbers(a, b string) bool {
	x, ok := new(big.Rat).SetString(a)
	y, ok2 := new(big.Rat).SetString(b)
	if !ok || !ok2 {
		return false
	}
	_, fa, _ := strings.Cut(a, ".")
	_, fb, _ := strings.Cut(b, ".")
	places := min(len(fa), len(fb))
	unit := new(big.Rat).SetFrac(big.NewInt(1), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil))
	return x.Sub(x, y).Abs(x).Cmp(unit) <= 0 && (places >= 16 || digits(a) >= 16)
}

func digits(s string) (n int) {
	s = strings.TrimLeft(s, "-0.")
	for _, c := range s {
		if c >= '0' && c <= '9' {
			n++
		}
	}
	return n
}

// tooLong says whether a number needs more digits than the decimal type has.
func tooLong(number, sql string) bool {
	whole, _, _ := strings.Cut(strings.TrimLeft(number, "-0"), ".")
	_, rest, _ := strings.Cut(sql, ",")
	scale, err := strconv.Atoi(strings.TrimSuffix(rest, ")"))
	return err != nil || len(whole)+scale > 38
}

func closeFloats(a, b string) bool {
	x, err := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	if err != nil || err2 != nil {
		return false
	}
	d := x - y
	return max(d, -d) <= 1e-12*max(x, -x)
}

package codec

import (
	"fmt"
	"regexp"
	"strings"
)

// maxNesting is how deep proposed types nest; what lies deeper is json.
const maxNesting = 5

// decide is the type of a field called name, with what there is to say about it.
func (s *shape) decide(name string, depth int) (typ string, notes []string) {
	kinds := s.kinds()
	switch {
	case len(kinds) == 0:
		return "json", []string{"no value in the sample; json takes any"}
	case len(kinds) > 1:
		return s.mixed(kinds)
	case s.bools > 0:
		return "bool", nil
	case s.numbers > 0:
		return s.num.decide(name)
	case s.strings > 0:
		return s.text.decide(s.strings)
	case depth >= maxNesting:
		return "json", []string{"nested deeply"}
	case s.arrays > 0:
		return s.list(name, depth)
	}
	return s.structure(depth)
}

// kinds names the kinds of values with their counts.
func (s *shape) kinds() []string {
	var out []string
	for _, k := range []struct {
		n    int
		name string
	}{{s.bools, "true or false"}, {s.numbers, "a number"}, {s.strings, "text"}, {s.arrays, "an array"}, {s.objects, "an object"}} {
		if k.n > 0 {
			out = append(out, fmt.Sprintf("%s in %d", k.name, k.n))
		}
	}
	return out
}

// mixed is the type where values of several kinds stand in one field.
func (s *shape) mixed(kinds []string) (string, []string) {
	note := strings.Join(kinds, ", ")
	if s.numbers+s.strings == s.seen-s.nulls && s.text.decimals == s.strings && !s.num.exponent {
		both := s.num
		both.digits, both.places = max(both.digits, s.text.dec.digits), max(both.places, s.text.dec.places)
		if t := both.decimalType(); t != "" {
			return t, []string{note + "; a decimal takes both"}
		}
	}
	return "json", []string{note}
}

func (n *numbers) decide(name string) (string, []string) {
	if unit := n.unit(); unit != "" {
		hint := timeName.MatchString(name)
		switch {
		case hint && (n.whole() || unit == "s"):
			note := "a number, taken for a time by its name and size"
			if n.zeros > 0 {
				note += fmt.Sprintf("; 0, which is 1970, in %d", n.zeros)
			}
			return "timestamptz(" + unit + ")", []string{note}
		case n.whole() && n.zeros == 0 && (unit == "ms" || unit == "us"):
			return "timestamptz(" + unit + ")", []string{"a number, taken for a time by its size: int64 if it is none"}
		case n.whole():
			return n.wholeType([]string{"timestamptz(" + unit + ") if it is a time"})
		}
	}
	if n.whole() {
		return n.wholeType(nil)
	}
	if n.exponent {
		return "float64", nil
	}
	fixed := n.trailing && n.places == n.fewest
	if fixed || n.significant > 17 {
		if t := n.decimalType(); t != "" {
			why := "always with the same number of places: float64 if it is a measurement"
			if !fixed {
				why = "more digits than float64 keeps"
			}
			return t, []string{why}
		}
	}
	return "float64", nil
}

func (n *numbers) wholeType(notes []string) (string, []string) {
	switch {
	case n.digits <= 18 || n.digits == 19 && n.min > -9.2e18 && n.max < 9.2e18:
		return "int64", notes
	case n.digits <= 38:
		return "decimal(38,0)", append(notes, "too large for int64")
	}
	return "float64", append(notes, "more digits than a decimal keeps")
}

func (t *textForms) decide(n int) (string, []string) {
	switch n {
	case t.zoned:
		return "timestamptz", nil
	case t.local:
		return "timestamp", []string{"times without a zone"}
	case t.dates:
		return "date", nil
	case t.clocks:
		return "time", nil
	case t.uuids:
		return "uuid", nil
	case t.decimals:
		if typ := t.dec.decimalType(); typ != "" {
			return typ, []string{"numbers as text"}
		}
	}
	var some []string
	for _, f := range []struct {
		n    int
		what string
	}{{t.zoned, "times"}, {t.local, "times without a zone"}, {t.dates, "dates"}, {t.uuids, "UUIDs"}} {
		if f.n*2 > n {
			some = append(some, fmt.Sprintf("%d of %d are %s, the others are not", f.n, n, f.what))
		}
	}
	return "string", some
}

func (s *shape) list(name string, depth int) (string, []string) {
	t, notes := s.elem.decide(strings.TrimSuffix(name, "s"), depth+1)
	for i := range notes {
		notes[i] = "elements: " + notes[i]
	}
	return "list<" + t + ">", notes
}

var (
	// word is what a struct calls its fields.
	word = regexp.MustCompile(`^[A-Za-z0-9_]+$`)
	// timeName is how fields with a time are called.
	timeName = regexp.MustCompile(`(?i)^(t|ts|at|time|date|when|epoch|created|updated|modified|start|end|started|ended|expires|published|received)$|` +
		`(?i)(_|^)(ts|at|time|timestamp|date|datetime|epoch|ms|millis|micros)$|(Time|Timestamp|Date|At|Ts|Millis|_ms|Ms)$|(?i)^(timestamp|datetime|event_?time)`)
)

// structure is a struct, or json where names are data.
func (s *shape) structure(depth int) (string, []string) {
	present := 0
	for _, k := range s.order {
		if !word.MatchString(k) {
			return "json", []string{fmt.Sprintf("an object with a field %q, which no struct can have", k)}
		}
		present += s.fields[k].seen
	}
	switch {
	case len(s.order) == 0:
		return "json", []string{"an empty object"}
	case len(s.order) > 16 && present < s.objects*len(s.order)/2 || len(s.order) > maxColumns:
		return "json", []string{fmt.Sprintf("an object whose fields vary, %d different ones", len(s.order))}
	}
	var parts, notes []string
	for _, k := range s.order {
		t, more := s.fields[k].decide(k, depth+1)
		parts = append(parts, k+": "+t)
		for _, m := range more {
			notes = append(notes, k+": "+m)
		}
	}
	return "struct{" + strings.Join(parts, ", ") + "}", notes
}

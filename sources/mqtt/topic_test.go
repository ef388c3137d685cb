package mqtt

import (
	"slices"
	"strings"
	"testing"
)

func mustPattern(t *testing.T, text string) pattern {
	t.Helper()
	p, err := parsePattern(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPatternsMatchWholeLevels(t *testing.T) {
	for _, c := range []struct {
		pattern, topic string
		want           []string
		no             bool
	}{
		{"plant/{site}/{line}/temp", "plant/s1/l4/temp", []string{"s1", "l4"}, false},
		{"plant/{site}/{line}/temp", "plant//l4/temp", []string{"", "l4"}, false},
		{"plant/{site}/{line}/temp", "plant/größe/l4/temp", []string{"größe", "l4"}, false},
		{"plant/{site}/{line}/temp", "plant/s1/l4/temp/x", nil, true},
		{"plant/{site}/{line}/temp", "Plant/s1/l4/temp", nil, true},
		{"plant/{site}/{line}/temp", "plant/s1/temp", nil, true},
		{"/sys/{prod}/{dev}/post", "/sys/p9/d7/post", []string{"p9", "d7"}, false},
		{"/sys/{prod}/{dev}/post", "sys/p9/d7/post", nil, true},
		{"#", "a", nil, false}, {"#", "a/b", nil, false}, {"#", "$SYS/broker/uptime", nil, true},
		{"+/x", "$SYS/x", nil, true}, {"$SYS/#", "$SYS/x", nil, false},
		{"a/#", "a", nil, false}, {"a/#", "a/b/c", nil, false}, {"a/#", "ab", nil, true},
		{"{x}/#", "a/b/c", []string{"a"}, false},
		{"a/+", "a/", nil, false}, {"a/+", "a", nil, true}, {"+", "a/b", nil, true},
	} {
		got, ok := mustPattern(t, c.pattern).match(c.topic, nil)
		if ok == c.no || ok && !slices.Equal(got, c.want) {
			t.Errorf("%s on %s: %q, %v; want %q, %v", c.pattern, c.topic, got, ok, c.want, !c.no)
		}
	}
}

func TestOverlaps(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"a/+", "a/b", true}, {"a/b", "a/b", true}, {"a/b", "a/c", false}, {"#", "a/b", true}, {"a/#", "a", true},
		{"a/#", "b/#", false}, {"a/+/c", "a/b/+", true}, {"a/+/c", "a/b/d", false}, {"a/+", "a/+/b", false},
		{"plant/{site}/{line}/temp", "plant/{site}/temp", false}, {"#", "$SYS/x", false}, {"+/x", "$SYS/x", false},
		{"$SYS/#", "$SYS/x", true}, {"a", "a/+", false}, {"/a", "a", false}, {"+/a", "/a", true},
	} {
		a, b := mustPattern(t, c.a), mustPattern(t, c.b)
		if a.overlaps(b) != c.want || b.overlaps(a) != c.want {
			t.Errorf("%s and %s: %v, %v, want %v", c.a, c.b, a.overlaps(b), b.overlaps(a), c.want)
		}
	}
}

// Two filters overlap exactly if some topic matches both; all short ones are
// tried.
func TestOverlapsLikeMatching(t *testing.T) {
	parts := []string{"a", "b", "", "+", "$x"}
	var filters []string
	topics := []string{}
	var grow func(prefix []string)
	grow = func(prefix []string) {
		if len(prefix) > 0 {
			text := strings.Join(prefix, "/")
			if text != "" {
				filters = append(filters, text)
			}
			filters = append(filters, strings.TrimPrefix(text+"/#", ""))
			if !slices.Contains(prefix, "+") {
				topics = append(topics, text)
			}
		}
		if len(prefix) < 2 {
			for _, s := range parts {
				grow(append(slices.Clone(prefix), s))
			}
		}
	}
	grow(nil)
	for _, a := range filters {
		for _, b := range filters {
			p, q := mustPattern(t, a), mustPattern(t, b)
			both := false
			for _, topic := range topics {
				_, x := p.match(topic, nil)
				_, y := q.match(topic, nil)
				both = both || x && y
			}
			if both != p.overlaps(q) {
				t.Fatalf("%s and %s: overlaps says %v", a, b, p.overlaps(q))
			}
		}
	}
}

func TestWrongFilters(t *testing.T) {
	for text, want := range map[string]string{
		"": "empty", "a/b#": "whole levels", "#/a": "whole levels", "a+": "whole levels", "a/{x": "whole level",
		"{x}/{x}": "twice", "{}/a": "no name", "{1x}": "no name", "$share/g/a": "share: GROUP", "a\x00": "U+0000",
	} {
		if _, err := parsePattern(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

package mqtt

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// pattern is a topic filter whose levels may have names: plants/{site}/+/temp.
type pattern struct {
	text   string
	levels []level
	// rest: the pattern ends with #, and what follows is not looked at.
	rest bool
}

// level is one level: a literal, a wildcard, or a wildcard with a name.
type level struct {
	literal string
	wild    bool
	name    string
}

var columnName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

// parsePattern reads a filter as users write it. Levels are split at "/", empty
// ones included.
func parsePattern(text string) (pattern, error) {
	p := pattern{text: text}
	switch {
	case text == "":
		return p, fmt.Errorf("the filter is empty")
	case len(text) > 65535:
		return p, fmt.Errorf("the filter has %d bytes, at most 65535 are possible", len(text))
	case strings.ContainsRune(text, 0):
		return p, fmt.Errorf("filter %q holds the character U+0000", text)
	case strings.HasPrefix(text, "$share/"):
		return p, fmt.Errorf("filter %q: write the filter alone, and the group as share: GROUP", text)
	}
	parts := strings.Split(text, "/")
	for i, s := range parts {
		switch {
		case s == "#" && i == len(parts)-1:
			p.rest = true
		case s == "+":
			p.levels = append(p.levels, level{wild: true})
		case strings.HasPrefix(s, "{") && strings.HasSuffix(s, "}"):
			name := s[1 : len(s)-1]
			if !columnName.MatchString(name) {
				return p, fmt.Errorf("filter %q: %q is no name of a column", text, name)
			}
			if slices.Contains(p.names(), name) {
				return p, fmt.Errorf("filter %q names the level %q twice", text, name)
			}
			p.levels = append(p.levels, level{wild: true, name: name})
		case strings.ContainsAny(s, "+#"):
			return p, fmt.Errorf("filter %q: + and # stand for whole levels, and # only for the last one", text)
		case strings.ContainsAny(s, "{}"):
			return p, fmt.Errorf("filter %q: {name} stands for a whole level", text)
		default:
			p.levels = append(p.levels, level{literal: s})
		}
	}
	return p, nil
}

// filter is the pattern as the broker knows it.
func (p pattern) filter() string {
	parts := make([]string, 0, len(p.levels)+1)
	for _, l := range p.levels {
		if l.wild {
			parts = append(parts, "+")
		} else {
			parts = append(parts, l.literal)
		}
	}
	if p.rest {
		parts = append(parts, "#")
	}
	return strings.Join(parts, "/")
}

// names lists the names of levels, in order.
func (p pattern) names() []string {
	var out []string
	for _, l := range p.levels {
		if l.name != "" {
			out = append(out, l.name)
		}
	}
	return out
}

// match says whether the topic matches, and appends its levels to values: those
// that have names, in order. A wildcard in front does not match a topic that
// begins with $.
func (p pattern) match(topic string, values []string) ([]string, bool) {
	if strings.HasPrefix(topic, "$") && p.wildFront() {
		return values, false
	}
	rest, more := topic, true
	for _, l := range p.levels {
		if !more {
			return values, false
		}
		var s string
		s, rest, more = strings.Cut(rest, "/")
		if !l.wild && s != l.literal {
			return values, false
		}
		if l.name != "" {
			values = append(values, s)
		}
	}
	return values, !more || p.rest
}

// overlaps says whether a topic may match both.
func (p pattern) overlaps(q pattern) bool {
	// A wildcard in front matches no topic that begins with $.
	if p.wildFront() && q.dollar() || q.wildFront() && p.dollar() {
		return false
	}
	for i := range max(len(p.levels), len(q.levels)) {
		if i == len(p.levels) {
			return p.rest
		}
		if i == len(q.levels) {
			return q.rest
		}
		a, b := p.levels[i], q.levels[i]
		if !a.wild && !b.wild && a.literal != b.literal {
			return false
		}
	}
	return true
}

func (p pattern) wildFront() bool { return len(p.levels) == 0 || p.levels[0].wild }

func (p pattern) dollar() bool {
	return len(p.levels) > 0 && strings.HasPrefix(p.levels[0].literal, "$")
}

package frazil_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestEveryFaultFoundIsHeld checks that each fault listed in docs/reliability.md names
// tests that exist.
func TestEveryFaultFoundIsHeld(t *testing.T) {
	text, err := os.ReadFile("docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "\n## What was found\n")
	if !ok {
		t.Fatal("no section of what was found")
	}
	word := regexp.MustCompile("`([a-z/_.]+)`|\\bTest\\w+")
	for _, line := range strings.Split(rest, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || strings.HasPrefix(cells[1], "---") || strings.TrimSpace(cells[1]) == "what it was" {
			continue
		}
		dir, tests := "", 0
		for _, m := range word.FindAllStringSubmatch(cells[len(cells)-2], -1) {
			if m[1] != "" {
				dir = m[1]
				continue
			}
			tests++
			if !hasTest(t, dir, m[0]) {
				t.Errorf("%s has no %s", dir, m[0])
			}
		}
		if tests == 0 {
			t.Errorf("no test holds this: %s", cells[1])
		}
	}
}

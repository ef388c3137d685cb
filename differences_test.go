package frazil_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestEveryDifferenceHasItsTest checks that each row about time and windows in
// docs/differences.md names tests, scripts or golden files that exist. Those about
// expressions are a list that operators/expr holds against PostgreSQL's answers.
func TestEveryDifferenceHasItsTest(t *testing.T) {
	text, err := os.ReadFile("docs/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "\n## Time and windows\n")
	if !ok {
		t.Fatal("no section about time and windows")
	}
	word := regexp.MustCompile("`([a-z/_.]+)`|\\bTest\\w+")
	rows := 0
	for _, line := range strings.Split(rest, "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 3 || strings.HasPrefix(cells[1], "---") || strings.TrimSpace(cells[2]) == "here" {
			continue
		}
		rows++
		dir, shown := "", 0
		for _, m := range word.FindAllStringSubmatch(cells[len(cells)-2], -1) {
			switch info, err := os.Stat(m[1]); {
			case m[1] == "":
				shown++
				if !hasTest(t, dir, m[0]) {
					t.Errorf("%s has no %s", dir, m[0])
				}
			case err != nil:
				t.Errorf("%v", err)
			case info.IsDir():
				dir = m[1]
			default:
				shown++
			}
		}
		if len(cells) != 6 || shown == 0 {
			t.Errorf("no test shows: %s", line)
		}
	}
	if rows < 15 {
		t.Errorf("only %d differences", rows)
	}
}

package frazil_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEveryInvariantHasItsTests checks that docs/invariants.md lists I1 to I12
// and that the tests it names exist.
func TestEveryInvariantHasItsTests(t *testing.T) {
	text, err := os.ReadFile("docs/invariants.md")
	if err != nil {
		t.Fatal(err)
	}
	word := regexp.MustCompile("`([a-z/]+)`|\\bTest\\w+")
	n := 0
	for _, line := range strings.Split(string(text), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.HasPrefix(cells[1], " I") {
			continue
		}
		if n++; strings.TrimSpace(cells[1]) != fmt.Sprintf("I%d", n) {
			t.Errorf("row %d is %q", n, cells[1])
		}
		dir, tests := "", 0
		for _, m := range word.FindAllStringSubmatch(cells[3], -1) {
			if m[1] != "" {
				dir = m[1]
				continue
			}
			tests++
			if !hasTest(t, dir, m[0]) {
				t.Errorf("I%d: %s has no %s", n, dir, m[0])
			}
		}
		if tests == 0 {
			t.Errorf("I%d has no test", n)
		}
	}
	if n != 12 {
		t.Errorf("%d invariants, want 12", n)
	}
}

func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "func "+name+"(") {
			return true
		}
	}
	return false
}

package frazil_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMonitoringNamesEverything: each metric and each code of a problem stands in
// docs/monitoring.md, and nothing that does not exist.
func TestMonitoringNamesEverything(t *testing.T) {
	raw, err := os.ReadFile("docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(raw)
	known := map[string]bool{}
	for _, in := range []struct{ files, pattern, prefix string }{
		{"cmd/frazil/metrics*.go", `desc\("([a-z_]+)"`, "frazil_"},
		{"dataflow/engine/*.go", `(?m)^\tProblem[A-Za-z]+\s*=\s*"([a-z_]+)"`, ""},
	} {
		files, err := filepath.Glob(in.files)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, f := range files {
			src, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(in.pattern).FindAllStringSubmatch(string(src), -1) {
				name := in.prefix + m[1]
				found++
				known[name] = true
				if !strings.Contains(doc, "`"+name+"`") {
					t.Errorf("%s: `%s` does not stand in docs/monitoring.md", f, name)
				}
			}
		}
		if found < 10 {
			t.Errorf("%s: only %d names were found: has their form changed?", in.files, found)
		}
	}
	for _, m := range regexp.MustCompile("`(frazil_[a-z_]+)`").FindAllStringSubmatch(doc, -1) {
		if !known[m[1]] {
			t.Errorf("docs/monitoring.md names `%s`, which does not exist", m[1])
		}
	}
}

package bugs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"frazil/dataflow/flowtest/full"
)

const root = "../.."

// Each bug is caught by the tests that its patch names: they pass without it and fail
// with it.
func TestPlantedBugsAreCaught(t *testing.T) {
	patches := all(t)
	field, err := NewField(root, patches)
	if err != nil {
		t.Fatal(err)
	}
	full.Suite{Name: "planted-bugs", Total: len(patches), Short: 1}.Run(t, func(t *testing.T, n int) full.Figures {
		p := patches[n]
		if err := field.Caught(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: caught by %v", p.Name, p.Tests)
		return full.Figures{"planted": 1, "caught": 1}
	})
}

// All patches fit the code of today, break every invariant between them, and are
// listed in docs/reliability.md.
func TestEveryPatchApplies(t *testing.T) {
	patches := all(t)
	page, err := os.ReadFile(root + "/docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	broken := map[string]bool{}
	for _, p := range patches {
		if _, err := p.Plant(t.Context(), root, t.TempDir()); err != nil {
			t.Error(err)
		}
		if !strings.Contains(string(page), "\n"+p.Row()+"\n") {
			t.Errorf("docs/reliability.md: no line %s", p.Row())
		}
		about, _, _ := strings.Cut(p.Breaks, ",")
		for word := range strings.FieldsSeq(about) {
			broken[word] = true
		}
	}
	for _, i := range []string{"I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "I9", "I10", "I11", "I12"} {
		if !broken[i] {
			t.Errorf("no patch breaks %s", i)
		}
	}
	if len(patches) < 20 {
		t.Errorf("%d patches, want 20 or more", len(patches))
	}
}

func all(t *testing.T) []Patch {
	t.Helper()
	patches, err := Read(".")
	if err != nil {
		t.Fatal(err)
	}
	return patches
}

// In a module of a few lines: only a test that passes without the change and fails
// with it counts.
func TestOnlyAFailedTestCounts(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module sum\n\ngo 1.26\n")
	write("sum.go", "package sum\n\nfunc Sum(a, b int) int {\n\treturn a + b\n}\n")
	write("sum_test.go", `package sum

import "testing"

func TestSum(t *testing.T) {
	if Sum(1, 2) != 3 {
		t.Fatal("wrong")
	}
}

func TestNothing(t *testing.T) { Sum(1, 2) }

func TestSkipped(t *testing.T) { t.Skip() }

func TestBroken(t *testing.T) { t.Fatal("always") }
`)
	patch := func(name, test, from, to string) {
		write(name+".patch", "breaks: I0, "+name+"\ntest: . -run "+test+"\n\n--- a/sum.go\n+++ b/sum.go\n@@ -2,4 +2,4 @@\n \n func Sum(a, b int) int {\n-\treturn "+from+"\n+\treturn "+to+"\n }\n")
	}
	patch("caught", "TestSum", "a + b", "a - b")
	patch("panics", "TestSum", "a + b", "a / (b - 2)")
	patch("harmless", "TestSum", "a + b", "b + a")
	patch("unseen", "TestNothing", "a + b", "a - b")
	patch("does_not_apply", "TestSum", "a * b", "a - b")
	patch("does_not_compile", "TestSum", "a + b", "c")
	patch("skipped", "TestSkipped", "a + b", "a - b")
	patch("no_test", "TestOther", "a + b", "a - b")
	patch("broken", "TestBroken", "a + b", "a - b")
	patches, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	field, err := NewField(dir, patches)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"caught": "", "panics": "", "harmless": "NOT CAUGHT", "unseen": "NOT CAUGHT", "does_not_apply": "does not apply",
		"does_not_compile": "does not compile", "skipped": "was skipped", "no_test": "there is no such test", "broken": "without the bug",
	}
	for _, p := range patches {
		err := field.Caught(t.Context(), p)
		if w := want[p.Name]; w == "" && err != nil || w != "" && (err == nil || !strings.Contains(err.Error(), w)) {
			t.Errorf("%s: got %v, want %q", p.Name, err, w)
		}
		if (want[p.Name] == ErrNotCaught.Error()) != errors.Is(err, ErrNotCaught) {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "sum.go"))
	if err != nil || strings.Contains(string(text), "a - b") {
		t.Errorf("the tree was changed: %s, %v", text, err)
	}
}

package main

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestTheTestsOfExamplesPass(t *testing.T) {
	files, err := filepath.Glob("../../examples/*/pipeline*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d examples: %v", len(files), err)
	}
	code, stdout, stderr := frazil(append([]string{"test"}, files...)...)
	if code != exitOK || !strings.Contains(stdout, " 0 failed\n") || stderr != "" {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}

// Pipelines in the guides that hold tests pass them.
func TestTheTestsInGuidesPass(t *testing.T) {
	guides, err := filepath.Glob("../../docs/guides/*.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, g := range guides {
		text, err := os.ReadFile(g)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```\n").FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(block[1], "\ntests:\n") {
				continue
			}
			n++
			file := filepath.Join(t.TempDir(), "guide.yaml")
			if err := os.WriteFile(file, []byte(block[1]), 0o600); err != nil {
				t.Fatal(err)
			}
			if code, stdout, stderr := frazil("test", file); code != exitOK || !strings.Contains(stdout, " 0 failed\n") {
				t.Errorf("%s: exit code %d\n%s%s", g, code, stdout, stderr)
			}
		}
	}
	if n == 0 {
		t.Error("no guide has a pipeline with tests")
	}
}

// testCases lists the folder of the command's golden cases and goes there.
func testCases(t *testing.T, pattern string) []string {
	t.Helper()
	t.Chdir(filepath.Join("..", "..", "pipelines", "filetest", "testdata"))
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	return files
}

// Each case fails, and its text says how.
func TestFailuresAreReadable(t *testing.T) {
	for _, f := range testCases(t, "fail_*.yaml") {
		code, stdout, stderr := frazil("test", "--seed", "1", f)
		if code != exitFailed {
			t.Errorf("%s: exit code %d, want %d", f, code, exitFailed)
		}
		golden(t, f, stdout+stderr)
	}
}

// Each case passes, in every way.
func TestWhatPasses(t *testing.T) {
	for _, f := range testCases(t, "pass_*.yaml") {
		if code, stdout, stderr := frazil("test", "-v", f); code != exitOK {
			t.Errorf("%s: exit code %d\n%s%s", f, code, stdout, stderr)
		}
	}
}

// A rewritten file passes, keeps what it says beside the rows, and is not
// touched again.
func TestRewriteKeepsTheRestOfTheFile(t *testing.T) {
	for _, f := range testCases(t, "fail_*.yaml") {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "not rewritten:") {
			continue
		}
		file := filepath.Join(t.TempDir(), f)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if code, stdout, stderr := frazil("test", "--rewrite", file); code != exitOK {
			t.Errorf("%s: exit code %d\n%s%s", f, code, stdout, stderr)
			continue
		}
		again, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if *rewrite {
			if err := os.WriteFile(strings.TrimSuffix(f, ".yaml")+".rewritten", again, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(strings.TrimSuffix(f, ".yaml") + ".rewritten")
		if err != nil {
			t.Fatal(err)
		}
		if string(want) != string(again) {
			t.Errorf("%s\n--- got\n%s--- want\n%s", f, again, want)
		}
		if code, stdout, _ := frazil("test", "--rewrite", file); code != exitOK || strings.Contains(stdout, "rewritten") {
			t.Errorf("%s: a second time: exit code %d\n%s", f, code, stdout)
		}
	}
}

func TestTheCommandTest(t *testing.T) {
	testCases(t, "*.yaml")
	report := filepath.Join(t.TempDir(), "junit.xml")
	for _, c := range []struct {
		args         string
		code         int
		stdout, errs string
	}{
		{"", exitWrong, "", "test needs a FILE"},
		{"no-such.yaml", exitWrong, "0 passed", "no such file"},
		{"--run [ fail_rows.yaml", exitWrong, "", "missing closing ]"},
		{"../../testdata/bad/tests_rows.yaml", exitWrong, "", "tests[0].steps"},
		{"../../testdata/good/defaults.yaml", exitOK, "no tests\n", ""},
		{"--require ../../testdata/good/defaults.yaml", exitFailed, "no tests\n", ""},
		{"--run ^nothing$ fail_rows.yaml", exitOK, "1 file, 0 tests", ""},
		{"-v --run moved pass_kafka.yaml", exitOK, "ok: ", ""},
		{"pass_unset.yaml", exitOK, "1 passed", "BROKERS_OF_NOBODY, TABLE_OF_NOBODY not set; tests do not need it"},
		{"wrong_unset.yaml", exitWrong, "", "variable LIMIT_OF_NOBODY is not set"},
		{"--junit " + report + " --seed 1 fail_rows.yaml pass_kafka.yaml", exitFailed, "failed", ""},
	} {
		code, stdout, errs := frazil(append([]string{"test"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(errs, c.errs) {
			t.Errorf("frazil test %s: exit code %d, want %d\n%s%s", c.args, code, c.code, stdout, errs)
		}
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var suites struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
	}
	if err := xml.Unmarshal(text, &suites); err != nil {
		t.Fatal(err)
	}
	if suites.Tests < 3 || suites.Failures < 1 || !regexp.MustCompile(`<failure message="straight">`).Match(text) {
		t.Errorf("the report says %+v\n%s", suites, text)
	}
}

package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write golden files anew instead of comparing them")

// vars are the variables of the golden cases.
var vars = map[string]string{
	"BROKER": "localhost:9092", "COLON": "a: b", "LINES": "one\ntwo", "CORES": "3", "TOKEN": "hunter2", "HOME": "/root",
}

// stdin is what commands read from the standard input.
var stdin string

// frazil runs one command as main does.
func frazil(args ...string) (code int, stdout, stderr string) {
	var out, errs strings.Builder
	c := &cli{in: strings.NewReader(stdin), out: &out, err: &errs, parallelism: 2, lookup: func(k string) (string, bool) { v, ok := vars[k]; return v, ok }}
	code = c.main(args)
	return code, out.String(), errs.String()
}

// goldens lists the cases of a folder and makes it the working directory, so
// that messages name files without the machine's paths.
func goldens(t *testing.T, folder string) []string {
	t.Helper()
	t.Chdir(filepath.Join("..", "..", "pipelines", "testdata", folder))
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	return files
}

func golden(t *testing.T, yaml, got string) {
	t.Helper()
	goldenAs(t, strings.TrimSuffix(yaml, ".yaml")+".txt", got)
}

// goldenAs compares with the file of that name.
func goldenAs(t *testing.T, name, got string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s\n--- got\n%s--- want\n%s", name, got, want)
	}
}

// Each wrong file is refused with the same words by every command that takes
// one, with exit code 2, before anything is made.
func TestWrongFilesAreRefusedWithTheSameWordsEverywhere(t *testing.T) {
	files := goldens(t, "bad")
	if len(files) < 60 {
		t.Errorf("%d cases, want 60 or more", len(files))
	}
	for _, f := range files {
		code, stdout, words := frazil("lint", f)
		if code != exitWrong || stdout != "" {
			t.Errorf("lint %s: exit code %d, output %q", f, code, stdout)
		}
		for _, line := range strings.Split(strings.TrimSuffix(words, "\n"), "\n") {
			if !strings.HasPrefix(line, f+":") && !strings.HasPrefix(line, "    ") {
				t.Errorf("%s: line without a place: %s", f, line)
			}
		}
		golden(t, f, words)
		for _, name := range []string{"plan", "run"} {
			if !registered(name) {
				continue
			}
			if code, stdout, got := frazil(name, f); code != exitWrong || stdout != "" || got != words {
				t.Errorf("%s %s: exit code %d, output %q, says\n%sbut lint says\n%s", name, f, code, stdout, got, words)
			}
		}
	}
	if _, err := os.Stat("frazil-data"); err == nil {
		t.Error("a refused file left frazil-data behind")
	}
}

func registered(name string) bool {
	for _, c := range commands {
		if c.name == name {
			return true
		}
	}
	return false
}

func TestGoodFilesPlan(t *testing.T) {
	for _, f := range goldens(t, "good") {
		if code, stdout, stderr := frazil("lint", f); code != exitOK || stdout != f+": OK\n" || stderr != "" {
			t.Errorf("lint %s: exit code %d\n%s%s", f, code, stdout, stderr)
		}
		code, stdout, stderr := frazil("plan", f)
		if code != exitOK || stderr != "" {
			t.Errorf("plan %s: exit code %d\n%s", f, code, stderr)
		}
		golden(t, f, stdout)
		if code, js, _ := frazil("plan", "--format", "json", f); code != exitOK || !strings.HasPrefix(js, "{\n") || strings.Contains(js, "hunter2") {
			t.Errorf("plan --format json %s: exit code %d\n%s", f, code, js)
		}
	}
}

// The forms for programs, of a pipeline that has a bit of everything and of one
// with changelogs.
func TestThePlanHasFormsForPrograms(t *testing.T) {
	goldens(t, "good")
	for _, name := range []string{"fleet.json", "fleet.ndjson", "fleet.dot", "fleet.mermaid", "changes.dot", "changes.mermaid"} {
		file, form, _ := strings.Cut(name, ".")
		code, stdout, stderr := frazil("plan", "--format", form, file+".yaml")
		if code != exitOK || stderr != "" {
			t.Errorf("plan --format %s: exit code %d\n%s", form, code, stderr)
		}
		goldenAs(t, name, stdout)
	}
}

func TestExamplesAreFine(t *testing.T) {
	files, err := filepath.Glob("../../examples/*/pipeline*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, f := range files {
		if code, _, stderr := frazil("lint", f); code != exitOK {
			t.Errorf("lint %s: exit code %d\n%s", f, code, stderr)
		}
	}
}

func TestTheCommandLineIsExplained(t *testing.T) {
	for _, c := range []struct {
		args         string
		code         int
		stdout, errs string
	}{
		{"", exitWrong, "", "Usage: frazil COMMAND"},
		{"--help", exitOK, "Usage: frazil COMMAND", ""},
		{"help", exitOK, "Usage: frazil COMMAND", ""},
		{"lnt x", exitWrong, "", `there is no command "lnt"; did you mean "lint"?`},
		{"lint", exitWrong, "", "lint needs a FILE"},
		{"lint --strict x", exitWrong, "", "flag provided but not defined: -strict"},
		{"lint no-such.yaml", exitWrong, "", "no-such.yaml:1:1: open no-such.yaml: no such file or directory"},
		{"plan a b", exitWrong, "", "plan needs one FILE"},
		{"plan a --format xml", exitWrong, "", "expected text or json"},
		{"explain window a.yaml", exitWrong, "", "explain needs: window FILE STEP KEY TIME"},
		{"explain window a.yaml k noon", exitWrong, "", `time "noon": expected RFC 3339`},
		{"run --rows 3 a.yaml", exitWrong, "", "--rows is about --preview: add it"},
		{"run --preview --discard-state x a.yaml", exitWrong, "", "leave --discard-state out"},
		{"components", exitOK, "iceberg_catalog", ""},
		{"components --format ndjson", exitOK, `{"kind":"sink","name":"drop"`, ""},
		{"help kafka", exitOK, "### `brokers`\n\nlist of text, required\n\nBrokers to ask first", ""},
		{"help event_time", exitOK, "out_of_orderness", ""},
		{"help lint", exitOK, "", "Usage: frazil lint FILE..."},
		{"help kafak", exitWrong, "", `there is no command or component "kafak"; did you mean "kafka"?`},
		{"version", exitOK, "frazil ", ""},
	} {
		code, stdout, errs := frazil(strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(errs, c.errs) {
			t.Errorf("frazil %s: exit code %d, want %d\n%s%s", c.args, code, c.code, stdout, errs)
		}
	}
}

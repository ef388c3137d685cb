package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const referencePage = "../../docs/reference/cli.md"

// TestReferenceOfTheCommandIsFresh: the page says what help says.
func TestReferenceOfTheCommandIsFresh(t *testing.T) {
	w := &strings.Builder{}
	fmt.Fprint(w, "# frazil (command)\n\n")
	_, usage, _ := frazil("--help")
	fmt.Fprintf(w, "```text\n%s```\n", usage)
	for _, cmd := range commands {
		code, stdout, stderr := frazil(cmd.name, "--help")
		if code != exitOK || stdout+stderr == "" {
			t.Errorf("frazil %s --help: exit code %d", cmd.name, code)
		}
		fmt.Fprintf(w, "\n## frazil %s\n\n```text\n%s```\n", cmd.name, strings.ReplaceAll(stdout+stderr, "\t", "    "))
	}
	if *rewrite {
		if err := os.WriteFile(referencePage, []byte(w.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(referencePage)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != w.String() {
		t.Errorf("%s is stale: go test ./cmd/frazil -run Reference -rewrite", referencePage)
	}
}

package program

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Place is a folder with a pipeline in it.
type Place struct {
	T testing.TB
	// Dir is the folder, in which the program runs.
	Dir string
	// File is the name of the pipeline's file in it.
	File string
}

var hasHTTP = regexp.MustCompile(`(?m)^http:`)

// New writes a pipeline called name into a new folder of the test. Its state is in
// ./state, and it answers HTTP at a port of its own unless text says otherwise.
func New(t testing.TB, name, text string) *Place {
	t.Helper()
	p := &Place{T: t, Dir: folder(t), File: "pipeline.yaml"}
	if !hasHTTP.MatchString(text) {
		text = "http: 127.0.0.1:0\n" + text
	}
	p.Write(p.File, "name: "+name+"\nstate: {dir: ./state}\n"+text)
	return p
}

// folder is a new one of the test, or one that is kept.
func folder(t testing.TB) string {
	t.Helper()
	keep := os.Getenv("FRAZIL_KEEP")
	if keep == "" {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(keep, strings.ReplaceAll(t.Name(), "/", "-")+"-")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("kept: %s", dir)
	return dir
}

// Path is the path of something in the folder.
func (p *Place) Path(elem ...string) string {
	return filepath.Join(append([]string{p.Dir}, elem...)...)
}

// Write writes a file in the folder.
func (p *Place) Write(name, text string) {
	p.T.Helper()
	if err := os.WriteFile(p.Path(name), []byte(text), 0o600); err != nil {
		p.T.Fatal(err)
	}
}

// Text is the pipeline's.
func (p *Place) Text() string {
	p.T.Helper()
	b, err := os.ReadFile(p.Path(p.File))
	if err != nil {
		p.T.Fatal(err)
	}
	return string(b)
}

// CopyState copies the state directory of a program that does not run.
func (p *Place) CopyState(from, to string) {
	p.T.Helper()
	p.RemoveState(to)
	if err := os.CopyFS(p.Path(to), os.DirFS(p.Path(from))); err != nil {
		p.T.Fatal(err)
	}
}

// RemoveState removes a state directory.
func (p *Place) RemoveState(name string) {
	p.T.Helper()
	if err := os.RemoveAll(p.Path(name)); err != nil {
		p.T.Fatal(err)
	}
}

// Run runs the program to its end, which must be a good one, and returns what it
// printed.
func (p *Place) Run(args ...string) string {
	p.T.Helper()
	r := p.Start(nil, args...)
	if code := r.Wait(); code != 0 {
		p.T.Fatalf("%s: exit code %d\n%s", r.What, code, Tail(r.Stderr.String(), 5000))
	}
	return r.Stdout.String()
}

// Fail runs the program, which must end with code and say all of words.
func (p *Place) Fail(code int, words []string, args ...string) {
	p.T.Helper()
	r := p.Start(nil, args...)
	if got := r.Wait(); got != code {
		p.T.Fatalf("%s: exit code %d, want %d\n%s", r.What, got, code, Tail(r.Stderr.String(), 5000))
	}
	for _, w := range words {
		if !strings.Contains(r.Stderr.String(), w) {
			p.T.Errorf("%s does not say %q:\n%s", r.What, w, Tail(r.Stderr.String(), 5000))
		}
	}
}

// ToEnd runs the pipeline until its sources end.
func (p *Place) ToEnd() string {
	p.T.Helper()
	return p.Run("run", p.File, "--until", "end")
}

// Address is the HOST:PORT at which the running program answers; "" before.
func (p *Place) Address() string {
	raw, err := os.ReadFile(p.Path("state", "run.json"))
	if err != nil {
		return ""
	}
	var run struct{ HTTP string }
	if json.Unmarshal(raw, &run) != nil {
		return ""
	}
	return run.HTTP
}

// Metric asks the running program for a number; "" while there is none. name is the
// metric's, with all or the first of its labels, or without: frazil_x{step="y".
func (p *Place) Metric(name string) string {
	addr := p.Address()
	if addr == "" {
		return ""
	}
	resp, err := http.Get(fmt.Sprintf("http://%s/metrics", addr))
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), name)
		if ok && (strings.Contains(name, "{") || strings.HasPrefix(rest, "{") || strings.HasPrefix(rest, " ")) {
			return lines.Text()[strings.LastIndex(lines.Text(), " ")+1:]
		}
	}
	return ""
}

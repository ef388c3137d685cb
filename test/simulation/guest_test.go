package simulation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// overlay are the files of Go's standard library that the guest has its own of.
var overlay = map[string]string{
	"src/runtime/time_fake.go":                      "time.go.txt",
	"src/crypto/internal/sysrand/rand_getrandom.go": "sysrand.go.txt",
}

// change is what the guest has otherwise in a file, so many times.
type change struct {
	file, old, new string
	times          int
}

var changes = []change{
	// What is random follows from the arguments, not from the kernel.
	{"src/runtime/rand.go", "func randinit() {\n", "func randinit() {\n\tstartupRand = seedOfArguments()\n", 1},
	// All threads draw from the same: which of them a goroutine runs on must not matter.
	{"src/runtime/rand.go", "c := &mp.chacha8", "c := &m0.chacha8", 1},
	{"src/runtime/rand.go", "mp.cheaprand = rand()", "mp.cheaprand = bootstrapRand()", 1},
	{"src/runtime/select.go", "cheaprandn(uint32(norder + 1))", "randn(uint32(norder + 1))", 1},
	{"src/runtime/proc.go", "cheaprandn(i + 1)", "randn(i + 1)", 2},
	{"src/runtime/time.go", "t.rand = cheaprand()", "t.rand = uint32(rand())", 1},
	// No thread looks after the others: none takes work from a goroutine that has run
	// for long, or looks at a clock.
	{"src/runtime/proc.go", "\tif haveSysmon {\n\t\tsystemstack(func() {\n\t\t\tnewm(sysmon, nil, -1)", "\tif false {\n\t\tsystemstack(func() {\n\t\t\tnewm(sysmon, nil, -1)", 1},
	// Which of the goroutines that can run does so next is drawn.
	{"src/runtime/proc.go", "const randomizeScheduler = raceenabled", "const randomizeScheduler = true", 1},
}

// build compiles the guest in dir against a runtime whose time, randomness and
// scheduler follow from its arguments, with bugs in files of the repository.
func build(dir string, bugs ...change) (string, error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return "", err
	}
	said, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("find Go: %w", err)
	}
	files, err := mended(dir, strings.TrimSpace(string(said)), changes, overlay)
	if err == nil && len(bugs) > 0 {
		var more map[string]string
		more, err = mended(dir, root, bugs, nil)
		maps.Copy(files, more)
	}
	if err != nil {
		return "", fmt.Errorf("change files: %w", err)
	}
	text, err := json.Marshal(map[string]any{"Replace": files})
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, text, 0o644); err != nil {
		return "", err
	}
	out := filepath.Join(dir, "guest")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-tags=faketime", "-overlay", list, "-o", out, "./test/simulation/guest")
	cmd.Dir = root
	// Where the heap begins is not random either.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=norandomizedheapbase64")
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the guest: %w\n%s", err, said)
	}
	return out, nil
}

// mended writes files below from as they are to be into dir and returns them by the
// file in whose place each stands.
func mended(dir, from string, changes []change, overlay map[string]string) (map[string]string, error) {
	texts := map[string][]byte{}
	for file, name := range overlay {
		text, err := os.ReadFile(filepath.Join("testdata", "overlay", name))
		if err != nil {
			return nil, err
		}
		texts[file] = text
	}
	for _, c := range changes {
		text, there := texts[c.file]
		if !there {
			var err error
			if text, err = os.ReadFile(filepath.Join(from, c.file)); err != nil {
				return nil, err
			}
		}
		if n := bytes.Count(text, []byte(c.old)); n != c.times {
			return nil, fmt.Errorf("%s has %d times, not %d, what is changed: %q", c.file, n, c.times, c.old)
		}
		texts[c.file] = bytes.ReplaceAll(text, []byte(c.old), []byte(c.new))
	}
	files := map[string]string{}
	var errs []error
	for file, text := range texts {
		to := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		files[filepath.Join(from, file)] = to
		errs = append(errs, os.WriteFile(to, text, 0o644))
	}
	return files, errors.Join(errs...)
}

package simulation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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

// change is a line of the standard library that the guest has otherwise.
type change struct{ file, old, new string }

var changes = []change{
	// What is random follows from the arguments, not from the kernel.
	{"src/runtime/rand.go", "func randinit() {\n", "func randinit() {\n\tstartupRand = seedOfArguments()\n"},
	// No thread looks after the others: none takes work from a goroutine that has run
	// for long, or looks at a clock.
	{"src/runtime/proc.go", "\tif haveSysmon {\n\t\tsystemstack(func() {\n\t\t\tnewm(sysmon, nil, -1)", "\tif false {\n\t\tsystemstack(func() {\n\t\t\tnewm(sysmon, nil, -1)"},
	// Which of the goroutines that can run does so next is drawn.
	{"src/runtime/proc.go", "const randomizeScheduler = raceenabled", "const randomizeScheduler = true"},
}

// build compiles the guest in dir against a runtime whose time, randomness and
// scheduler follow from its arguments.
func build(dir string) (string, error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return "", err
	}
	said, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("find Go: %w", err)
	}
	files, err := mended(dir, strings.TrimSpace(string(said)))
	if err != nil {
		return "", fmt.Errorf("change the standard library: %w", err)
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

// mended writes what the standard library is to have and returns it by the file in
// whose place it stands.
func mended(dir, goroot string) (map[string]string, error) {
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
			if text, err = os.ReadFile(filepath.Join(goroot, c.file)); err != nil {
				return nil, err
			}
		}
		if n := bytes.Count(text, []byte(c.old)); n != 1 {
			return nil, fmt.Errorf("%s of this version of Go has %d times, not once, what is changed: %q", c.file, n, c.old)
		}
		texts[c.file] = bytes.Replace(text, []byte(c.old), []byte(c.new), 1)
	}
	files := map[string]string{}
	var errs []error
	for file, text := range texts {
		to := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		files[filepath.Join(goroot, file)] = to
		errs = append(errs, os.WriteFile(to, text, 0o644))
	}
	return files, errors.Join(errs...)
}

// Package bugs plants bugs and says which test catches each. A patch of this folder
// breaks one promise; it begins with what it breaks and the tests that must fail then:
//
//	breaks: I11: what, in a sentence
//	test: ./state/wal -run TestAPowerLossLosesNothingThatWasPromised
//
// The patched files take the place of those of the tree only for the go command
// (go help build, -overlay), so that nothing is copied but them and nothing of the
// tree is changed.
package bugs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Patch is a bug to plant.
type Patch struct {
	// Name of its file without .patch.
	Name string
	// Breaks says what it breaks: an invariant's number or "promise", and how.
	Breaks string
	// Tests must fail with it, each of them.
	Tests []Test
	// Files that it changes, from the root of the module.
	Files []string

	path string
}

// Row is p's row of the table in docs/reliability.md.
func (p Patch) Row() string {
	var tests []string
	for _, t := range p.Tests {
		where := strings.TrimPrefix(t.Where[strings.LastIndex(t.Where, " ")+1:], "./")
		tests = append(tests, fmt.Sprintf("`%s` %s", where, t.Name))
	}
	return fmt.Sprintf("| %s | %s | %s |", p.Name, p.Breaks, strings.Join(tests, " · "))
}

// Test is a test that must fail.
type Test struct {
	// Where are the arguments of go test: flags and one package.
	Where string
	// Name of the test.
	Name string
}

// String is the test as it is written in a patch.
func (t Test) String() string { return t.Where + " -run " + t.Name }

// Read returns the patches of a folder, by name.
func Read(dir string) ([]Patch, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.patch"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no patches in %s", dir)
	}
	slices.Sort(paths)
	out := make([]Patch, 0, len(paths))
	for _, path := range paths {
		p, err := read(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
		}
		out = append(out, p)
	}
	return out, nil
}

func read(path string) (Patch, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return Patch{}, err
	}
	p := Patch{Name: strings.TrimSuffix(filepath.Base(path), ".patch"), path: abs}
	text, err := os.ReadFile(path)
	if err != nil {
		return p, err
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if what, ok := strings.CutPrefix(line, "breaks: "); ok {
			p.Breaks = what
		} else if args, ok := strings.CutPrefix(line, "test: "); ok {
			t, err := parseTest(args)
			if err != nil {
				return p, err
			}
			p.Tests = append(p.Tests, t)
		} else if name, ok := strings.CutPrefix(line, "+++ b/"); ok {
			p.Files = append(p.Files, name)
		}
	}
	if p.Breaks == "" || len(p.Tests) == 0 || len(p.Files) == 0 {
		return p, errors.New(`want a line "breaks: ...", a line "test: ..." and a change`)
	}
	return p, nil
}

func parseTest(text string) (Test, error) {
	where, name, ok := strings.Cut(text, " -run ")
	if !ok || !regexp.MustCompile(`^Test\w+$`).MatchString(name) {
		return Test{}, fmt.Errorf("test %q: want a package and -run TestName", text)
	}
	return Test{Where: where, Name: name}, nil
}

// Plant applies p to copies of the files of root that it changes, in dir, and returns
// the overlay that puts them in their place.
func (p Patch) Plant(ctx context.Context, root, dir string) (overlay string, err error) {
	replace := map[string]string{}
	for _, name := range p.Files {
		from, to := filepath.Join(root, name), filepath.Join(dir, name)
		replace[from] = to
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o755)
		}
		if err == nil {
			err = os.WriteFile(to, text, 0o644)
		}
		if err != nil {
			return "", err
		}
	}
	cmd := exec.CommandContext(ctx, "git", "apply", "-C1", "--whitespace=nowarn", p.path)
	cmd.Dir = dir
	// Not as part of a repository that the folder may lie in.
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s does not apply: make it anew: %w\n%s", p.Name, err, out)
	}
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, raw, 0o644)
}

// Field is a module to plant bugs in. One goroutine uses it.
type Field struct {
	root    string
	patches []Patch
	// healthy has the outcomes without a bug of all tests of the patches, by Where;
	// they are run once, when the first of them is asked for.
	healthy map[string]*outcome
}

// NewField plants patches, one at a time, into the module in root.
func NewField(root string, patches []Patch) (*Field, error) {
	abs, err := filepath.Abs(root)
	return &Field{root: abs, patches: patches, healthy: map[string]*outcome{}}, err
}

// ErrNotCaught: a test that must fail passes.
var ErrNotCaught = errors.New("NOT CAUGHT")

// Caught plants p and runs its tests: each must pass without it and fail with it.
// The error says what is wrong: not caught, does not apply, does not compile, or a
// test that fails or does not run anyway.
func (f *Field) Caught(ctx context.Context, p Patch) error {
	dir, err := os.MkdirTemp("", "bugs")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	overlay, err := p.Plant(ctx, f.root, dir)
	if err != nil {
		return err
	}
	for _, t := range p.Tests {
		if err := f.caught(ctx, t, overlay); err != nil {
			return fmt.Errorf("%s: %s: %w", p.Name, t, err)
		}
	}
	return nil
}

func (f *Field) caught(ctx context.Context, t Test, overlay string) error {
	healthy := f.healthy[t.Where]
	if healthy == nil {
		healthy = f.run(ctx, t.Where, f.names(t.Where), "")
		f.healthy[t.Where] = healthy
	}
	passed, err := healthy.passed(t.Name)
	if err == nil && !passed {
		err = errors.New("it fails")
	}
	if err != nil {
		return fmt.Errorf("without the bug: %w\n%s", err, healthy.output)
	}
	planted := f.run(ctx, t.Where, []string{t.Name}, overlay)
	passed, err = planted.passed(t.Name)
	if err == nil && passed {
		err = ErrNotCaught
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, planted.output)
	}
	return err
}

// names lists the tests of all patches in one place.
func (f *Field) names(where string) []string {
	var out []string
	for _, p := range f.patches {
		for _, t := range p.Tests {
			if t.Where == where && !slices.Contains(out, t.Name) {
				out = append(out, t.Name)
			}
		}
	}
	return out
}

// outcome of a run of tests.
type outcome struct {
	output []byte
	failed error // of the go command
}

func (f *Field) run(ctx context.Context, where string, names []string, overlay string) *outcome {
	args := []string{"test", "-v", "-vet=off", "-timeout", "5m", "-run", "^(" + strings.Join(names, "|") + ")$"}
	cmd := exec.CommandContext(ctx, "go", append(args, strings.Fields(where)...)...)
	cmd.Dir, cmd.Env = f.root, environment(overlay)
	output, err := cmd.CombinedOutput()
	return &outcome{output, errors.Join(err, ctx.Err())}
}

// passed says whether a test passed; one that began and did not pass (it failed,
// panicked, did not end) has not. An error says that it did not run.
func (o *outcome) passed(name string) (bool, error) {
	has := func(format string) bool {
		return regexp.MustCompile(fmt.Sprintf("(?m)^"+format, name)).Match(o.output)
	}
	switch {
	case bytes.Contains(o.output, []byte("[build failed]")), bytes.Contains(o.output, []byte("[setup failed]")):
		return false, errors.New("does not compile")
	case has("--- PASS: %s "):
		return true, nil
	case has("--- SKIP: %s "):
		return false, errors.New("was skipped")
	case errors.Is(o.failed, context.Canceled), errors.Is(o.failed, context.DeadlineExceeded):
		return false, o.failed
	case !has("=== RUN +%s$"):
		return false, errors.New("there is no such test")
	}
	return false, nil
}

// environment is that of the go command. Suites in two tiers run in the short one.
func environment(overlay string) []string {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains([]string{"FRAZIL_FULL", "FRAZIL_FULL_FOR", "FRAZIL_PORTION", "FRAZIL_SEED", "FRAZIL_FAILPOINT"}, name)
	})
	if overlay != "" {
		// By the environment, so that a program which a test builds has the bug too.
		env = append(env, "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay))
	}
	return env
}

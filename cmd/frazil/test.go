package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"frazil/pipelines"
	"frazil/pipelines/filetest"
)

func init() {
	register(command{"test", "FILE... [--run REGEX] [--rewrite] [--junit FILE] [--require] [--seed N] [-v]",
		"play the tests of pipeline files, without network or clock", (*cli).test})
}

// testRun is one call of the command.
type testRun struct {
	*cli
	match                     *regexp.Regexp
	rewrite, require, verbose bool
	junit                     string
	seed                      uint64
	suites                    []filetest.Suite
	tests, failed             int
}

func (c *cli) test(args []string) int {
	r := &testRun{cli: c, seed: uint64(time.Now().UnixNano())}
	files, code, ok := c.flags("test", args, func(fs *flag.FlagSet) {
		fs.Func("run", "play only tests whose name matches `REGEX`", func(s string) (err error) {
			r.match, err = regexp.Compile(s)
			return err
		})
		fs.BoolVar(&r.rewrite, "rewrite", false, "write the rows that came into the expect blocks that differ")
		fs.BoolVar(&r.require, "require", false, "fail if a file has no tests")
		fs.BoolVar(&r.verbose, "v", false, "name every test")
		fs.StringVar(&r.junit, "junit", "", "write a report for build servers to `FILE`")
		fs.Func("seed", "seed of the random variants, a `number` (default: another one each time)", func(s string) (err error) {
			r.seed, err = strconv.ParseUint(s, 10, 64)
			return err
		})
	})
	if !ok {
		return code
	}
	if len(files) == 0 {
		return c.wrong("test needs a FILE")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	for _, f := range files {
		code = max(code, r.file(ctx, f))
	}
	if r.junit != "" {
		if err := r.report(); err != nil {
			return c.failed(err)
		}
	}
	fmt.Fprintf(c.out, "%s, %s: %d passed, %d failed\n", count(len(files), "file"), count(r.tests, "test"), r.tests-r.failed, r.failed)
	return code
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// file plays the tests of one file.
func (r *testRun) file(ctx context.Context, path string) int {
	text, err := os.ReadFile(path)
	if err != nil {
		return r.wrong("%v", err)
	}
	p, unset, problems := r.loadForTests(path, text)
	if p == nil {
		for _, x := range problems {
			fmt.Fprintln(r.err, x)
		}
		return exitWrong
	}
	if len(unset) > 0 {
		fmt.Fprintf(r.err, "%s: %s not set; tests do not need it\n", path, strings.Join(unset, ", "))
	}
	if len(p.Tests) == 0 {
		fmt.Fprintf(r.out, "%s: no tests\n", path)
		if r.require {
			return exitFailed
		}
		return exitOK
	}
	s := filetest.Suite{File: path}
	code := exitOK
	for _, t := range p.Tests {
		if r.match != nil && !r.match.MatchString(t.Name) {
			continue
		}
		start := time.Now()
		res := filetest.Play(ctx, t, func() (*pipelines.Pipeline, error) {
			p, _, problems := r.loadForTests(path, text)
			if p == nil {
				return nil, problems
			}
			return p, nil
		}, r.seed, nil)
		s.Results, s.Took = append(s.Results, res), append(s.Took, time.Since(start))
		r.tests++
		if !res.OK() {
			code = exitFailed
		}
		if !r.rewrite {
			r.tell(path, res)
		}
	}
	if r.rewrite {
		return r.write(ctx, path, text, s)
	}
	r.suites = append(r.suites, s)
	return code
}

// tell writes how a test ended.
func (r *testRun) tell(path string, res *filetest.Result) {
	if res.OK() {
		if r.verbose {
			fmt.Fprintf(r.out, "%s:%d: ok: %s (%d ways)\n", path, res.Test.Node.Line, res.Test.Name, res.Variants)
		}
		return
	}
	r.failed++
	how := res.Failed
	if how != "straight" {
		how += fmt.Sprintf(", seed %d", r.seed)
	}
	fmt.Fprintf(r.out, "%s:%d: FAILED: %s (%s)\n    %s\n", path, res.Test.Node.Line, res.Test.Name, how,
		strings.ReplaceAll(strings.TrimSpace(res.Text()), "\n", "\n    "))
}

// write rewrites the file and plays its tests again.
func (r *testRun) write(ctx context.Context, path string, text []byte, s filetest.Suite) int {
	out, changed, err := filetest.Rewrite(text, s.Results)
	if err != nil {
		return r.cli.failed(fmt.Errorf("%s: %w", path, err))
	}
	if changed {
		if p, _, problems := r.loadForTests(path, out); p == nil {
			return r.cli.failed(fmt.Errorf("%s: left as it is, since the new text would be wrong: %w", path, problems))
		}
		if err := os.WriteFile(path, out, 0o644); err != nil {
			return r.cli.failed(err)
		}
		fmt.Fprintf(r.out, "%s: rewritten; read what has changed\n", path)
	}
	again := *r
	again.rewrite, again.tests = false, r.tests-len(s.Results)
	code := again.file(ctx, path)
	r.tests, r.failed, r.suites = again.tests, again.failed, again.suites
	return code
}

func (r *testRun) report() error {
	f, err := os.Create(r.junit)
	if err != nil {
		return err
	}
	if err := filetest.JUnit(f, r.suites); err != nil {
		_ = f.Close() // The first error counts.
		return err
	}
	return f.Close()
}

// unsetValue stands for variables that are not set where tests do not need them.
// It passes for a host with a port.
const unsetValue = "unset:1"

// loadForTests loads a file whose connections, sources and sinks are replaced:
// secrets are not read, and variables that are not set may be, there. unset
// names those.
func (r *testRun) loadForTests(path string, text []byte) (p *pipelines.Pipeline, unset []string, problems pipelines.Problems) {
	p, problems = pipelines.Parse(path, text, pipelines.Options{
		Lookup: r.lookup, Parallelism: r.parallelism,
		Secret: func(_, _ string) (string, error) { return unsetValue, nil },
		Unset: func(at, name string) (string, bool) {
			if !replaced(at) {
				return "", false
			}
			if !slices.Contains(unset, name) {
				unset = append(unset, name)
			}
			return unsetValue, true
		},
	})
	return p, unset, problems
}

// replaced says whether tests put something else in the place of what stands at
// a path: connections, and the components of sources and sinks.
func replaced(path string) bool {
	parts := strings.Split(path, ".")
	switch parts[0] {
	case "connections":
		return true
	case "sources", "sinks":
		return len(parts) > 2 && parts[2] != "decode" && parts[2] != "event_time" && parts[2] != "from"
	}
	return false
}

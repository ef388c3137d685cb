package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Shared returns the path of outside data or tools, or leaves the test out where
// there are none.
func Shared(t testing.TB, parts ...string) string {
	t.Helper()
	root := os.Getenv("FRAZIL_SHARED")
	if root == "" {
		root = filepath.Join(Root(t), "..", "shared")
	}
	path, err := filepath.Abs(filepath.Join(append([]string{root}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		missing(t, "outside data ("+err.Error()+")", "set FRAZIL_SHARED to its folder")
	}
	return path
}

// Root returns the repository's top folder.
func Root(t testing.TB) string {
	t.Helper()
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func findRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod above %s", start)
		}
	}
}

// cache returns the folder that ./test/install fills.
func cache() (string, error) {
	if dir := os.Getenv("FRAZIL_RIG"); dir != "" {
		return filepath.Abs(dir)
	}
	root, err := findRoot()
	if err != nil {
		return "", err
	}
	return filepath.Join(root, ".rig"), nil
}

// installed returns the path of something in the cache.
func installed(parts ...string) (string, error) {
	dir, err := cache()
	if err != nil {
		return "", err
	}
	path := filepath.Join(append([]string{dir}, parts...)...)
	_, err = os.Stat(path)
	return path, err
}

// missing leaves the test out, or fails it under CI.
func missing(t testing.TB, what, remedy string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("no %s: %s", what, remedy)
	}
	tellTerminal(what, remedy)
	t.Skipf("left out, no %s: %s", what, remedy)
}

var told sync.Map

// tellTerminal names, once a test program, a server whose tests are left out. go
// test shows nothing that a passing package prints, so it goes to the terminal
// itself, where there is one.
func tellTerminal(what, remedy string) {
	if _, again := told.LoadOrStore(what, true); again {
		return
	}
	tty, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer tty.Close()
	dir, err := os.Getwd()
	if root, rootErr := findRoot(); err == nil && rootErr == nil {
		dir, err = filepath.Rel(root, dir)
	}
	if err == nil {
		fmt.Fprintf(tty, "./%s: left out tests, no %s: %s\r\n", filepath.ToSlash(dir), what, remedy)
	}
}

// named splits the environment variable at commas into n parts; nil if it is
// not set.
func named(env string, n int) ([]string, error) {
	v := os.Getenv(env)
	if v == "" {
		return nil, nil
	}
	parts := strings.Split(v, ",")
	if len(parts) != n {
		return nil, fmt.Errorf("%s=%s: expected %d parts between commas", env, v, n)
	}
	return parts, nil
}

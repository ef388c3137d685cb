package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"frazil/dataflow"

	"github.com/cespare/xxhash/v2"
)

// listed is one file of a lane.
type listed struct {
	// name is the path as matched, with slashes, relative to the pipeline's
	// folder unless the pattern was absolute.
	name string
	stamp
}

// listing holds the files of every lane, by name.
type listing [][]listed

// list finds the files that paths name. While files are being added a folder
// can be read so that a later one is seen and an earlier one is not. So only
// those files count that a look before this one reached: what is missing here
// and sorts before them was not there when they were seen.
func list(dir string, paths []string, lanes int) (listing, error) {
	before, err := names(dir, paths)
	if err != nil {
		return nil, err
	}
	reach := make([]string, lanes)
	for name := range before {
		if l := laneOf(name, lanes); name > reach[l] && !isDir(inDir(dir, name)) {
			reach[l] = name
		}
	}
	found, err := names(dir, paths)
	if err != nil {
		return nil, err
	}
	out := make(listing, lanes)
	for name := range found {
		l := laneOf(name, lanes)
		if name > reach[l] {
			continue
		}
		info, err := os.Stat(inDir(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // Gone since.
		}
		if err != nil {
			return nil, fmt.Errorf("list %q: %w", name, err)
		}
		if !info.IsDir() {
			out[l] = append(out[l], listed{name, stampOf(info)})
		}
	}
	for _, l := range out {
		sort.Slice(l, func(i, j int) bool { return l[i].name < l[j].name })
	}
	return out, nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// names matches all paths once.
func names(dir string, paths []string) (map[string]bool, error) {
	out := map[string]bool{}
	for _, p := range paths {
		found, err := match(dir, p)
		if err != nil {
			return nil, fmt.Errorf("list %q: %w", p, err)
		}
		for _, name := range found {
			out[name] = true
		}
	}
	return out, nil
}

func stampOf(info fs.FileInfo) stamp { return stamp{info.Size(), info.ModTime().UnixNano()} }

// laneOf says which lane a file belongs to, for ever.
func laneOf(name string, lanes int) int { return int(xxhash.Sum64String(name) % uint64(lanes)) }

func inDir(dir, name string) string {
	if filepath.IsAbs(name) {
		return filepath.FromSlash(name)
	}
	return filepath.Join(dir, filepath.FromSlash(name))
}

// match returns the names that a pattern matches.
func match(dir, pattern string) ([]string, error) {
	full := pattern
	if !filepath.IsAbs(pattern) {
		// What looks like a pattern in the folder's own name is none.
		full = filepath.Join(quoteMeta.Replace(dir), pattern)
	}
	found, err := filepath.Glob(full)
	if err != nil {
		return nil, err
	}
	hidden := strings.HasPrefix(filepath.Base(pattern), ".")
	var out []string
	for _, f := range found {
		if strings.HasPrefix(filepath.Base(f), ".") && !hidden {
			continue
		}
		if !filepath.IsAbs(pattern) {
			if f, err = filepath.Rel(dir, f); err != nil {
				return nil, err
			}
		}
		out = append(out, filepath.ToSlash(f))
	}
	return out, nil
}

var quoteMeta = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// checkNamed refuses a path without a pattern that is not there: in mode end
// nothing would ever come of it.
func checkNamed(dir string, paths []string) error {
	for _, p := range paths {
		if strings.ContainsAny(p, `*?[\`) {
			continue
		}
		if _, err := os.Stat(inDir(dir, p)); errors.Is(err, fs.ErrNotExist) {
			return dataflow.Permanentf("file %q does not exist (looked for %s); paths are relative to the pipeline file", p, inDir(dir, p))
		}
	}
	return nil
}

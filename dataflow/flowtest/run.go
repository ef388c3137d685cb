package flowtest

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/pipelines/rehearsal"
)

func init() {
	if flag.Lookup("rewrite") == nil {
		flag.Bool("rewrite", false, "write golden files anew instead of comparing them")
	}
}

func rewriting() bool { return flag.Lookup("rewrite").Value.String() == "true" }

// Run runs every script in or below dir as a subtest: straight; in batches of
// one row; with other parallelism; interleaved and batched at random; with a
// crash before every step; with the state lost on the way. All must give what
// the script expects. Random variants print their seed; FRAZIL_SEED repeats one.
func Run(t *testing.T, dir string) {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasPrefix(d.Name(), ".") {
			paths = append(paths, p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Fatalf("no script below %s", dir)
	}
	for _, p := range paths {
		name, _ := filepath.Rel(dir, p)
		t.Run(filepath.ToSlash(name), func(t *testing.T) {
			t.Parallel()
			runScript(t, p)
		})
	}
}

func runScript(t *testing.T, path string) {
	s, err := parseScript(path)
	if err != nil {
		t.Fatal(err)
	}
	straight := s.play(t, s.piece.Straight())
	if rewriting() {
		text := s.pipeline + separator + s.input + separator + straight
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		s.want = straight
	}
	s.compare(t, "straight", straight)
	seed := uint64(time.Now().UnixNano())
	if v := os.Getenv("FRAZIL_SEED"); v != "" {
		seed, _ = strconv.ParseUint(v, 10, 64)
	}
	t.Logf("seed %d", seed)
	for _, v := range s.piece.Variants(rand.New(rand.NewPCG(seed, 1))) {
		if t.Failed() {
			return
		}
		s.compare(t, v.Name, s.play(t, v))
	}
}

// play runs a variant to its end and returns what it gave.
func (s *script) play(t *testing.T, v rehearsal.Variant) string {
	t.Helper()
	var log *slog.Logger
	if os.Getenv("FRAZIL_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	out, err := s.piece.Play(context.Background(), v, log)
	if err != nil {
		t.Fatalf("%s: %s: %v", s.path, v.Name, err)
	}
	return s.report(out, v.Comparable())
}

// compare reports lines that differ from what is expected. Where several tasks
// write, rows have no order.
func (s *script) compare(t *testing.T, name, got string) {
	t.Helper()
	if got == s.want || name != "straight" && sortedSections(got) == sortedSections(s.want) {
		return
	}
	t.Errorf("%s: %s\ngot\n%swant\n%s", s.path, name, got, s.want)
}

func sortedSections(text string) string {
	var out, rows []string
	flush := func() { sort.Strings(rows); out = append(out, rows...); rows = nil }
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "--") || strings.HasPrefix(line, "==") {
			flush()
			out = append(out, line)
			continue
		}
		rows = append(rows, line)
	}
	flush()
	return strings.Join(out, "\n")
}

// report writes what was committed, at each show and at the end, and the fates
// of all rows: a state that was lost has counted some of them twice.
func (s *script) report(out *rehearsal.Outcome, fates bool) string {
	var b strings.Builder
	for i, rows := range out.Shows {
		fmt.Fprintf(&b, "== show %d\n", i+1)
		s.rows(&b, rows)
	}
	b.WriteString("== end\n")
	s.rows(&b, out.End)
	b.WriteString("-- fates\n")
	if !fates {
		// They are those of the script, or its other variants would fail.
		_, have, _ := strings.Cut(s.want, "-- fates\n")
		b.WriteString(have)
		return b.String()
	}
	for _, name := range slices.Sorted(maps.Keys(out.Ledger)) {
		if s.piece.ChangeReaders[name] {
			continue
		}
		c := out.Ledger[name]
		if s.piece.ChangeMakers[name] {
			c.Created = 0
		}
		fmt.Fprintf(&b, "%s:%s\n", name, countsText(c))
	}
	return b.String()
}

func (s *script) rows(b *strings.Builder, rows map[string][]string) {
	for _, sink := range s.piece.Sinks {
		out := slices.Clone(rows[sink.Name])
		if !s.ordered {
			sort.Strings(out)
		}
		fmt.Fprintf(b, "-- %s\n", sink.Name)
		for _, r := range out {
			b.WriteString(r + "\n")
		}
	}
}

// countsText writes the counters that are not 0.
func countsText(c dataflow.Counts) string {
	var b strings.Builder
	for _, x := range []struct {
		name string
		n    int64
	}{
		{"in", c.In}, {"passed", c.Passed}, {"filtered", c.Filtered}, {"late", c.Late}, {"partly_late", c.PartlyLate},
		{"duplicate", c.Duplicate}, {"bad", c.Bad}, {"absorbed", c.Absorbed}, {"expired", c.Expired}, {"created", c.Created},
		{"held", c.Held}, {"staged", c.Staged}, {"superseded", c.Superseded}, {"muted", c.Muted},
	} {
		if x.n != 0 {
			fmt.Fprintf(&b, " %s=%d", x.name, x.n)
		}
	}
	return b.String()
}

package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/flowtest/leak"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

var idSchema = arrow.NewSchema([]arrow.Field{
	{Name: "id", Type: dataflow.TypeInt64, Nullable: true}, {Name: dataflow.SysPos, Type: dataflow.TypeInt64},
}, nil)

func testEnv() *dataflow.Env {
	return &dataflow.Env{
		Pipeline: "p", Step: "out", Alloc: memory.DefaultAllocator,
		Now: func() time.Time { return time.Unix(1_772_359_200, 0) },
	}
}

func testConfig(dir string) Config { return Config{Path: dir, FileSize: 64 << 20} }

func ids(t testing.TB, from, to int64) arrow.RecordBatch {
	t.Helper()
	b := array.NewRecordBuilder(memory.DefaultAllocator, idSchema)
	defer b.Release()
	for i := from; i < to; i++ {
		b.Field(0).(*array.Int64Builder).Append(i)
		b.Field(1).(*array.Int64Builder).Append(i)
	}
	return b.NewRecordBatch()
}

func pos(i int64) dataflow.Positions {
	p := dataflow.Positions{}
	p.Set("in", "0", dataflow.Position(fmt.Sprintf("%05d", i)))
	return p
}

func openWriter(t testing.TB, dir string, size int64) *writer {
	t.Helper()
	w, err := newWriter(testEnv(), idSchema, Config{Path: dir, FileSize: component.Bytes(size)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// stage writes rows from..to and gives the commit that publishes them. The
// first commit has no From.
func stage(t testing.TB, w *writer, from, to int64) dataflow.Commit {
	t.Helper()
	ctx := context.Background()
	b := ids(t, from, to)
	defer b.Release()
	if bad, err := w.Write(ctx, b); bad != nil || err != nil {
		t.Fatal(bad, err)
	}
	p, err := w.Prepare(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	part, err := p.Part(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c := dataflow.Commit{Epoch: 1, At: pos(to), Plan: "plan", Watermark: dataflow.Time(to), Parts: []dataflow.Part{part}}
	if from > 0 {
		c.From = pos(from)
	}
	return c
}

// visible reads the folder as any program would.
func visible(t testing.TB, dir string) []int64 {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(names)
	out := []int64{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.SplitAfter(string(text), "\n") {
			if line == "" {
				continue
			}
			var id int64
			if n, err := fmt.Sscanf(line, "{\"id\":%d}\n", &id); n != 1 || err != nil {
				t.Fatalf("%s: line %q: %v", name, line, err)
			}
			out = append(out, id)
		}
	}
	return out
}

// readBack reads the rows as "frazil table" does.
func readBack(t testing.TB, c *committer) []int64 {
	t.Helper()
	out := []int64{}
	err := c.Rows(context.Background(), func(b arrow.RecordBatch) error {
		out = append(out, b.Column(0).(*array.Int64).Int64Values()...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func numbers(from, to int64) []int64 {
	out := []int64{}
	for i := from; i < to; i++ {
		out = append(out, i)
	}
	return out
}

func equal(t testing.TB, what string, got, want []int64) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: got rows %v, want %v", what, got, want)
	}
}

func mustCommit(t testing.TB, c *committer, commit dataflow.Commit) {
	t.Helper()
	if err := c.Commit(context.Background(), commit); err != nil {
		t.Fatal(err)
	}
}

func held(t testing.TB, c *committer) string {
	t.Helper()
	got, err := c.Committed(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return string(got.Positions.Get("in", "0"))
}

func TestRowsAreSeenOnceCommittedAndOnlyOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	w, c := openWriter(t, dir, 1<<20), newCommitter(testEnv(), idSchema, testConfig(dir))
	equal(t, "nothing staged", visible(t, dir), numbers(0, 0))
	one := stage(t, w, 0, 3)
	two := stage(t, w, 3, 5)
	equal(t, "staged", visible(t, dir), numbers(0, 0))
	equal(t, "staged, read back", readBack(t, c), numbers(0, 0))
	mustCommit(t, c, one)
	equal(t, "committed", visible(t, dir), numbers(0, 3))
	mustCommit(t, c, one)
	mustCommit(t, newCommitter(testEnv(), idSchema, testConfig(dir)), one)
	equal(t, "committed again", visible(t, dir), numbers(0, 3))
	mustCommit(t, c, two)
	mustCommit(t, c, one) // Long done.
	equal(t, "second commit", visible(t, dir), numbers(0, 5))
	equal(t, "read back", readBack(t, c), numbers(0, 5))
	if got := held(t, c); got != "00005" {
		t.Errorf("holds %s", got)
	}
}

func TestAnEpochWithoutRowsHasNoPending(t *testing.T) {
	w := openWriter(t, t.TempDir(), 1<<20)
	if p, err := w.Prepare(context.Background(), 1); p != nil || err != nil {
		t.Errorf("got %v, %v", p, err)
	}
}

// TestACrashAnywhereLosesAndDoublesNothing stops a commit at each of its steps
// by copying the folder there, and goes on from the copy in another process.
func TestACrashAnywhereLosesAndDoublesNothing(t *testing.T) {
	dir, crashes := t.TempDir(), t.TempDir()
	w, c := openWriter(t, dir, 1<<20), newCommitter(testEnv(), idSchema, testConfig(dir))
	var copies []string
	crash := func(step string) {
		to := filepath.Join(crashes, fmt.Sprintf("%d-%s", len(copies), step))
		if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		copies = append(copies, to)
	}
	one := stage(t, w, 0, 3)
	mustCommit(t, c, one)
	two := stage(t, w, 3, 6)
	crash("staged")
	c.at = crash
	mustCommit(t, c, two)
	c.at = func(string) {}
	crash("done")
	if want := []string{"0-staged", "1-link", "2-show", "3-done"}; len(copies) != len(want) {
		t.Fatalf("the steps are %v, want %v", copies, want)
	}
	for i, at := range copies {
		seen := visible(t, at)
		if want := numbers(0, 3); i < 3 {
			equal(t, at, seen, want)
		}
		reader := newCommitter(testEnv(), idSchema, testConfig(at))
		equal(t, at+" read back", readBack(t, reader), numbers(0, []int64{3, 3, 6, 6}[i]))
		again := newCommitter(testEnv(), idSchema, testConfig(at))
		if want := []string{"00003", "00003", "00006", "00006"}[i]; held(t, again) != want {
			t.Fatalf("%s: holds %s, want %s", at, held(t, again), want)
		}
		if i == 2 {
			equal(t, at+" after a look", visible(t, at), numbers(0, 6))
		}
		mustCommit(t, again, two)
		mustCommit(t, again, two)
		three := stage(t, openWriter(t, at, 1<<20), 6, 7)
		mustCommit(t, again, three)
		equal(t, at+" in the end", visible(t, at), numbers(0, 7))
		equal(t, at+" in the end, read back", readBack(t, again), numbers(0, 7))
	}
}

func TestACommitFromAnotherStateIsFenced(t *testing.T) {
	dir := t.TempDir()
	w, c := openWriter(t, dir, 1<<20), newCommitter(testEnv(), idSchema, testConfig(dir))
	mustCommit(t, c, stage(t, w, 0, 5))
	for name, commit := range map[string]dataflow.Commit{
		"overlaps":         {From: pos(3), At: pos(7)},
		"leaves a gap":     {From: pos(6), At: pos(7)},
		"starts over":      {At: pos(7)},
		"wants what it is": {From: pos(7), At: pos(9)},
	} {
		if err := c.Commit(context.Background(), commit); !errors.Is(err, dataflow.ErrFenced) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := c.Commit(context.Background(), dataflow.Commit{From: pos(1), At: pos(4)}); err != nil {
		t.Errorf("a commit that is done already: %v", err)
	}
	equal(t, "after all", visible(t, dir), numbers(0, 5))
}

// TestOfTwoProcessesOneIsFenced lets two committers pass every check on the
// same state and then publish.
func TestOfTwoProcessesOneIsFenced(t *testing.T) {
	dir := t.TempDir()
	w := openWriter(t, dir, 1<<20)
	slow, fast := newCommitter(testEnv(), idSchema, testConfig(dir)), newCommitter(testEnv(), idSchema, testConfig(dir))
	mustCommit(t, slow, stage(t, w, 0, 2))
	theirs, ours := stage(t, w, 2, 4), stage(t, w, 2, 5)
	slow.at = func(step string) {
		if step == "link" {
			slow.at = func(string) {}
			mustCommit(t, fast, theirs)
		}
	}
	if err := slow.Commit(context.Background(), ours); !errors.Is(err, dataflow.ErrFenced) {
		t.Errorf("got %v", err)
	}
	equal(t, "rows", visible(t, dir), numbers(0, 4))

	// The same rows committed twice at once: one publishes, the other sees it.
	same := stage(t, w, 4, 6)
	slow.at = func(step string) {
		if step == "link" {
			slow.at = func(string) {}
			mustCommit(t, fast, same)
		}
	}
	mustCommit(t, slow, same)
	equal(t, "rows", visible(t, dir), numbers(0, 6))
}

func TestPipelinesShareAFolderAndKeepTheirPositions(t *testing.T) {
	dir := t.TempDir()
	a := newCommitter(testEnv(), idSchema, testConfig(dir))
	env := testEnv()
	env.Pipeline = "q"
	b := newCommitter(env, idSchema, testConfig(dir))
	w := openWriter(t, dir, 1<<20)
	mustCommit(t, a, stage(t, w, 0, 2))
	other := stage(t, w, 10, 12)
	other.From = nil
	mustCommit(t, b, other)
	mustCommit(t, b, stage(t, w, 12, 13))
	for i := range 2 {
		if held(t, a) != "00002" || held(t, b) != "00013" {
			t.Fatalf("round %d: positions %s and %s", i, held(t, a), held(t, b))
		}
		a = newCommitter(testEnv(), idSchema, testConfig(dir))
		b = newCommitter(env, idSchema, testConfig(dir))
	}
	mustCommit(t, a, stage(t, w, 2, 3))
	equal(t, "rows", visible(t, dir), []int64{0, 1, 10, 11, 12, 2})
	equal(t, "read back", readBack(t, a), []int64{0, 1, 10, 11, 12, 2})
}

func TestPositionsOfSplitsThatACommitLeavesOutStay(t *testing.T) {
	dir := t.TempDir()
	c := newCommitter(testEnv(), idSchema, testConfig(dir))
	both := pos(3)
	both.Set("in", "1", dataflow.Position("00009"))
	mustCommit(t, c, dataflow.Commit{At: both})
	mustCommit(t, c, dataflow.Commit{From: pos(3), At: pos(4)})
	got, err := newCommitter(testEnv(), idSchema, testConfig(dir)).Committed(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if got.Positions.String() != `{"in":{"0":"00004","1":"00009"}}` {
		t.Errorf("got %s", got.Positions.String())
	}
}

func TestWhatWasRecordedIsFoundAgain(t *testing.T) {
	dir := t.TempDir()
	c := newCommitter(testEnv(), idSchema, testConfig(dir))
	empty, err := c.Committed(context.Background())
	if err != nil || empty.Positions != nil || empty.ID == "" || !empty.ClockComplete {
		t.Fatalf("a new folder holds %+v, %v", empty, err)
	}
	clock := func(at int64) []dataflow.ClockDecision {
		return []dataflow.ClockDecision{{Source: "in", Split: "0", Pos: at, Floor: 7}}
	}
	for i, commit := range []dataflow.Commit{
		{At: pos(1), Clock: clock(1), Start: pos(0)},
		{From: pos(1), At: pos(2)},
		{From: pos(2), At: pos(3), Clock: append(clock(2), clock(3)...)},
		{From: pos(3), At: pos(4), Plan: "f", Watermarks: map[string]dataflow.Time{"in": dataflow.MinTime}, Watermark: 8, Late: 3},
	} {
		commit.Epoch = dataflow.Epoch(i + 5)
		mustCommit(t, c, commit)
	}
	got, err := newCommitter(testEnv(), idSchema, testConfig(dir)).Committed(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	want := dataflow.Committed{
		Positions: pos(4), Start: pos(0), Plan: "f", Watermarks: map[string]dataflow.Time{"in": dataflow.MinTime},
		Clock: append(clock(1), append(clock(2), clock(3)...)...), ClockComplete: true, ID: empty.ID,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if err := os.Remove(filepath.Join(dir, "_frazil", recordName(1))); err != nil {
		t.Fatal(err)
	}
	got, err = newCommitter(testEnv(), idSchema, testConfig(dir)).Committed(context.Background())
	if err != nil || got.ClockComplete || len(got.Clock) != 2 {
		t.Errorf("with a lost record: %+v, %v", got, err)
	}
}

// TestTimeAloneMakesACommit publishes twice at the same positions: a drain may
// close windows after the last row.
func TestTimeAloneMakesACommit(t *testing.T) {
	dir := t.TempDir()
	w, c := openWriter(t, dir, 1<<20), newCommitter(testEnv(), idSchema, testConfig(dir))
	wm := func(at dataflow.Time) map[string]dataflow.Time { return map[string]dataflow.Time{"in": at} }
	one, two := stage(t, w, 0, 2), stage(t, w, 2, 4)
	one.Watermarks = wm(5)
	two.At, two.From, two.FromWatermarks, two.Watermarks = one.At, one.At, wm(5), wm(dataflow.MaxTime)
	for range 2 {
		mustCommit(t, c, one)
		mustCommit(t, c, two)
		equal(t, "rows", visible(t, dir), numbers(0, 4))
		c = newCommitter(testEnv(), idSchema, testConfig(dir))
	}
}

func TestAReplacedFolderStopsThePipeline(t *testing.T) {
	dir := t.TempDir()
	w, c := openWriter(t, dir, 1<<20), newCommitter(testEnv(), idSchema, testConfig(dir))
	commit := stage(t, w, 0, 2)
	mustCommit(t, c, commit)
	for _, name := range []string{"_frazil", ".frazil", "00000000000000000001-0000.ndjson"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Commit(context.Background(), commit); !errors.Is(err, dataflow.ErrPermanent) || !strings.Contains(err.Error(), "made anew") {
		t.Errorf("the committer goes on: %v", err)
	}
	// Another process, which only has the part.
	err := newCommitter(testEnv(), idSchema, testConfig(dir)).Commit(context.Background(), commit)
	if !errors.Is(err, dataflow.ErrPermanent) || !strings.Contains(err.Error(), "another folder") {
		t.Errorf("a part of another folder: %v", err)
	}
}

func TestLostStagedRowsAreNotCommitted(t *testing.T) {
	dir := t.TempDir()
	w, c := openWriter(t, dir, 1<<20), newCommitter(testEnv(), idSchema, testConfig(dir))
	commit := stage(t, w, 0, 2)
	names, _ := filepath.Glob(filepath.Join(dir, ".frazil", "*.staged"))
	if len(names) != 1 {
		t.Fatalf("staged files: %v", names)
	}
	if err := os.Truncate(names[0], 3); err != nil {
		t.Fatal(err)
	}
	if err := c.Commit(context.Background(), commit); !errors.Is(err, dataflow.ErrPermanent) {
		t.Errorf("got %v", err)
	}
	if held(t, c) != "" {
		t.Error("positions moved")
	}
}

func TestAFolderWithOtherFilesIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine.ndjson"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := newWriter(testEnv(), idSchema, testConfig(dir))
	if !errors.Is(err, dataflow.ErrPermanent) || !strings.Contains(err.Error(), "mine.ndjson") {
		t.Errorf("got %v", err)
	}
	file := filepath.Join(dir, "mine.ndjson")
	if _, err := newWriter(testEnv(), idSchema, testConfig(filepath.Join(file, "x"))); !errors.Is(err, dataflow.ErrPermanent) {
		t.Errorf("a file in the way: %v", err)
	}
}

func TestFilesRollBySize(t *testing.T) {
	dir := t.TempDir()
	w, c := openWriter(t, dir, 4096), newCommitter(testEnv(), idSchema, testConfig(dir))
	mustCommit(t, c, stage(t, w, 0, 1000))
	mustCommit(t, c, stage(t, w, 1000, 1001))
	equal(t, "rows", visible(t, dir), numbers(0, 1001))
	info, found, err := c.Describe(context.Background())
	if err != nil || !found {
		t.Fatal(found, err)
	}
	if info.Rows != 1001 || info.Snapshot != "2" || len(info.Snapshots) != 2 || len(info.Files) < 4 {
		t.Errorf("described as %+v", info)
	}
	var rows int64
	for _, f := range info.Files {
		st, err := os.Stat(f.Path)
		if err != nil || st.Size() != f.Bytes || f.Bytes > 4096+20 {
			t.Errorf("file %+v: %v, %v", f, st, err)
		}
		rows += f.Rows
	}
	if rows != 1001 {
		t.Errorf("the files have %d rows", rows)
	}
}

func TestALookCreatesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	c := newCommitter(testEnv(), idSchema, testConfig(dir))
	if _, found, err := c.Describe(context.Background()); found || err != nil {
		t.Errorf("got %v, %v", found, err)
	}
	equal(t, "rows", readBack(t, c), numbers(0, 0))
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is there: %v", err)
	}
}

func TestRowsThatWereNeverCutAreDeleted(t *testing.T) {
	dir := t.TempDir()
	w := openWriter(t, dir, 4096)
	kept := stage(t, w, 0, 10)
	b := ids(t, 10, 2000)
	defer b.Release()
	if _, err := w.Write(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	names, _ := filepath.Glob(filepath.Join(dir, ".frazil", "*"))
	if len(names) != 1 || !strings.Contains(string(kept.Parts[0].Data), filepath.Base(names[0])) {
		t.Errorf("left are %v", names)
	}
	mustCommit(t, newCommitter(testEnv(), idSchema, testConfig(dir)), kept)
	equal(t, "rows", visible(t, dir), numbers(0, 10))
}

func TestPlanNamesTheTargetAndChecksTheOptions(t *testing.T) {
	p, err := plan(component.SinkIn{}, Config{Path: "./out/x/", FileSize: 1 << 20})
	if err != nil || p.Target != "files:out/x" {
		t.Errorf("got %+v, %v", p, err)
	}
	for want, cfg := range map[string]Config{"path": {FileSize: 1 << 20}, "file_size": {Path: "x", FileSize: 10}} {
		_, err := plan(component.SinkIn{}, cfg)
		var problems component.Problems
		if !errors.As(err, &problems) || len(problems) != 1 || problems[0].Path != want {
			t.Errorf("%s: got %v", want, err)
		}
	}
}

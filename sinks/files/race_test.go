package files

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"frazil/dataflow"
)

// TestARenameThatACrashCutShortIsFinished leaves a commit with some of its
// files shown and others not, in every way.
func TestARenameThatACrashCutShortIsFinished(t *testing.T) {
	for shown := 0; ; shown++ {
		dir := t.TempDir()
		w, c := openWriter(t, dir, 4096), newCommitter(testEnv(), idSchema, testConfig(dir))
		commit := stage(t, w, 0, 1000)
		stop := errors.New("crash")
		c.at = func(step string) {
			if step == "show" {
				panic(stop)
			}
		}
		func() {
			defer func() {
				if r := recover(); r != stop {
					panic(r)
				}
			}()
			mustCommit(t, c, commit)
		}()
		to := folder{dir}
		r, err := to.read(1)
		if err != nil {
			t.Fatal(err)
		}
		if shown > len(r.Files) {
			return
		}
		rows := int64(0)
		for _, f := range r.Files[:shown] {
			if err := os.Rename(to.stage(f.Staged), to.shown(f.Name)); err != nil {
				t.Fatal(err)
			}
			rows += f.Rows
		}
		equal(t, "cut short", visible(t, dir), numbers(0, rows))
		again := newCommitter(testEnv(), idSchema, testConfig(dir))
		equal(t, "cut short, read back", readBack(t, again), numbers(0, 1000))
		if held(t, again) != "01000" {
			t.Fatalf("holds %s", held(t, again))
		}
		equal(t, "finished", visible(t, dir), numbers(0, 1000))
		if left, _ := filepath.Glob(filepath.Join(dir, ".frazil", "*.staged")); len(left) > 0 {
			t.Fatalf("left are %v", left)
		}
	}
}

// TestCommittersThatRaceNeverOverlap lets several copies of one pipeline commit
// at once, each from where it finds the folder.
func TestCommittersThatRaceNeverOverlap(t *testing.T) {
	const last = 60
	dir := t.TempDir()
	ctx := context.Background()
	stages := map[int64]dataflow.Commit{}
	w := openWriter(t, dir, 1<<20)
	for from := int64(0); from < last; from += 2 {
		stages[from] = stage(t, w, from, from+2)
	}
	var fenced, published [4]int
	var group sync.WaitGroup
	for i := range fenced {
		group.Go(func() {
			c := newCommitter(testEnv(), idSchema, testConfig(dir))
			for from := int64(0); from < last; from += 2 {
				commit := stages[from]
				switch err := c.Commit(ctx, commit); {
				case err == nil:
					published[i]++
				case errors.Is(err, dataflow.ErrFenced):
					fenced[i]++
				default:
					t.Errorf("committer %d: %v", i, err)
					return
				}
			}
		})
	}
	group.Wait()
	if fenced != [4]int{} {
		t.Errorf("equal commits are fenced: %v", fenced)
	}
	equal(t, "rows", visible(t, dir), numbers(0, last))
	equal(t, "read back", readBack(t, newCommitter(testEnv(), idSchema, testConfig(dir))), numbers(0, last))
}

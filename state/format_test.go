package state

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files of the state format anew")

const (
	goldenStore = "testdata/store-v1"
	goldenDump  = "testdata/store-v1.txt"
)

// fillGolden makes a store that holds one of everything.
func fillGolden(t *testing.T, s *Store) {
	t.Helper()
	a, b := openKV(t, s, "once", allGroups), openKV(t, s, "minute", allGroups)
	must(t, s.Drop("gone"))
	openKV(t, s, "gone", allGroups)
	must(t, s.Drop("gone")) // Its id is not given out again.
	openKV(t, s, "late", allGroups)
	must(t, b.Set(0, []byte("first"), []byte("1")))
	must(t, b.Set(255, []byte{}, []byte("empty key")))
	must(t, b.Set(255, []byte{0xff, 0xff}, nil))
	must(t, b.Set(7, []byte("deleted"), []byte("x")))
	must(t, b.Set(7, []byte("ranged"), []byte("x")))
	timers, err := NewTimers(b, allGroups, 't')
	must(t, err)
	must(t, timers.Set(-1, 7, []byte("k")))
	must(t, timers.Set(1_700_000_000_000_000, 7, []byte("k")))
	fixed, err := OpenLog(a, allGroups, LogOptions{Prefix: 'l', Bucket: 100, RowWidth: 4}, nil)
	must(t, err)
	varied, err := OpenLog(b, allGroups, LogOptions{Prefix: 'v', Bucket: 100}, nil)
	must(t, err)
	for i, at := range []int64{-101, -1, 0, 99, 100} {
		must(t, fixed.Append(3, at, []byte{0xab, 0, 0, byte(i)}))
		must(t, varied.Append(3, at, bytes.Repeat([]byte{'r'}, i)))
	}
	must(t, fixed.Flush())
	must(t, varied.Flush())
	must(t, s.Write([]*Delta{a.Freeze(), b.Freeze()}, []byte("epoch 1")))
	must(t, b.Delete(7, []byte("deleted")))
	must(t, b.DeleteRange(7, []byte("r"), []byte("s")))
	must(t, s.Write([]*Delta{a.Freeze(), b.Freeze()}, []byte(`{"epoch":2}`)))
}

// dump writes every key and value of the store; the seed is random.
func dump(t *testing.T, s *Store) string {
	t.Helper()
	var out strings.Builder
	it, err := s.db.NewIter(&pebble.IterOptions{})
	must(t, err)
	for ok := it.First(); ok; ok = it.Next() {
		v := fmt.Sprintf("%q", it.Value())
		if bytes.Equal(it.Key(), keySeed) {
			v = fmt.Sprintf("%d random bytes", len(it.Value()))
		}
		fmt.Fprintf(&out, "%q = %s\n", it.Key(), v)
	}
	must(t, it.Close())
	return out.String()
}

func TestFormatIsTheCheckedInOne(t *testing.T) {
	s := openMem(t, vfs.NewMem())
	fillGolden(t, s)
	got := dump(t, s)
	if *rewrite {
		must(t, os.RemoveAll(goldenStore))
		onDisk, err := Open(goldenStore, Options{Logger: quiet})
		must(t, err)
		fillGolden(t, onDisk)
		must(t, onDisk.db.Flush())
		must(t, onDisk.Close())
		must(t, os.WriteFile(goldenDump, []byte(got), 0o644))
	}
	want, err := os.ReadFile(goldenDump)
	must(t, err)
	if got != string(want) {
		t.Errorf("the bytes of the state have changed; see docs/state-format.md for the rule. Got:\n%s\nwant:\n%s", got, want)
	}
}

// A store that an earlier build wrote can be read by this one.
func TestCheckedInStoreOpens(t *testing.T) {
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(goldenStore)))
	s, err := Open(dir, Options{Logger: quiet})
	must(t, err)
	defer s.Close()
	want, err := os.ReadFile(goldenDump)
	must(t, err)
	if got := dump(t, s); got != string(want) {
		t.Fatalf("got:\n%s\nwant:\n%s", got, want)
	}
	var size int64
	must(t, filepath.WalkDir(goldenStore, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			i, _ := d.Info()
			size += i.Size()
		}
		return err
	}))
	t.Logf("the checked-in store has %d bytes", size)
}

// Every constant stands in the page.
func TestFormatPageNamesTheConstants(t *testing.T) {
	page, err := os.ReadFile("../docs/state-format.md")
	must(t, err)
	for _, want := range []string{
		fmt.Sprintf("format version is **%d**", FormatVersion),
		"`00 \"version\"`", "`00 \"seed\"`", "`00 \"next_id\"`", "`00 \"manifest\"`", "`01`", "`02`",
		fmt.Sprintf("%d key groups", NumGroups), fmt.Sprintf("%d KiB", logBlock>>10), fmt.Sprintf("%d KiB", logRewrite>>10),
	} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("docs/state-format.md does not say %q", want)
		}
	}
}

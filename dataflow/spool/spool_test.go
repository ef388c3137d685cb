package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/flowtest/leak"
	"frazil/state"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newEnv(fs state.FS) *dataflow.Env {
	return &dataflow.Env{Step: "out", Task: 1, SpoolDir: "spool", FS: fs}
}

// stage writes rows and cuts them.
func stage(t testing.TB, env *dataflow.Env, e dataflow.Epoch, rows ...string) dataflow.Part {
	t.Helper()
	w, err := NewWriter(env)
	must(t, err)
	for _, r := range rows {
		must(t, w.Append([]byte(r)))
	}
	pending, err := w.Cut(e)
	must(t, err)
	p, err := pending.Part(t.Context())
	must(t, err)
	must(t, w.Close())
	return p
}

func read(env *dataflow.Env, parts ...dataflow.Part) (rows []string, err error) {
	var kept [][]byte
	err = Each(env, parts, func(row []byte) error {
		kept = append(kept, row)
		return nil
	})
	for _, r := range kept { // Rows outlive their chunk.
		rows = append(rows, string(r))
	}
	return rows, err
}

func list(t testing.TB, env *dataflow.Env) []string {
	t.Helper()
	names, err := env.FS.List(Dir(env))
	must(t, err)
	slices.Sort(names)
	return names
}

func TestWhatIsStagedIsReadAgain(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	env := newEnv(vfs.NewMem())
	var want []string
	var parts []dataflow.Part
	for e := range 5 {
		var rows []string
		for range 1 + rng.IntN(3000) {
			rows = append(rows, strings.Repeat("x", rng.IntN(rng.IntN(2000)+1)))
		}
		rows = append(rows, "", strings.Repeat("large", 200_000)) // Larger than a chunk.
		parts = append(parts, stage(t, env, dataflow.Epoch(e+1), rows...))
		want = append(want, rows...)
		if n := parts[e].Rows; n != int64(len(rows)) {
			t.Errorf("the part of epoch %d has %d rows, want %d", e+1, n, len(rows))
		}
	}
	got, err := read(env, parts...)
	must(t, err)
	if !slices.Equal(got, want) {
		t.Errorf("%d rows that differ from the %d that were staged", len(got), len(want))
	}
}

// The format: a change of it is another version.
func TestTheBytesOfAFile(t *testing.T) {
	env := newEnv(vfs.NewMem())
	stage(t, env, 7, "ab", "")
	names := list(t, env)
	if len(names) != 1 || !strings.HasPrefix(names[0], "00000000000000000007-1-") {
		t.Fatalf("%v", names)
	}
	got := file(t, env, names[0])
	want := "FRZSPL\x00\x01" + "\x04\x00\x00\x00" + "\x3d\xef\xeb\x36" + "\x02ab\x00"
	if string(got) != want {
		t.Errorf("%x, want %x", got, want)
	}
}

func file(t testing.TB, env *dataflow.Env, name string) []byte {
	t.Helper()
	f, err := env.FS.Open(env.FS.PathJoin(Dir(env), name))
	must(t, err)
	defer f.Close()
	b, err := io.ReadAll(f)
	must(t, err)
	return b
}

func put(t testing.TB, env *dataflow.Env, name string, b []byte) {
	t.Helper()
	f, err := env.FS.Create(env.FS.PathJoin(Dir(env), name), category)
	must(t, err)
	_, err = f.Write(bytes.Clone(b)) // The file system of tests may spoil what it was given.
	must(t, errors.Join(err, f.Close()))
}

// A file that is changed, cut or gone is refused, and with it the whole commit.
func TestDamageIsRefused(t *testing.T) {
	env := newEnv(vfs.NewMem())
	p := stage(t, env, 1, "one", "two", strings.Repeat("three", 100))
	name := list(t, env)[0]
	whole := file(t, env, name)
	for i := range whole {
		b := bytes.Clone(whole)
		b[i] ^= 1 << (i % 8)
		put(t, env, name, b)
		if rows, err := read(env, p); !errors.Is(err, dataflow.ErrPermanent) {
			t.Fatalf("byte %d: read %d rows, %v", i, len(rows), err)
		}
		put(t, env, name, whole[:i])
		if rows, err := read(env, p); !errors.Is(err, dataflow.ErrPermanent) {
			t.Fatalf("cut to %d bytes: read %d rows, %v", i, len(rows), err)
		}
	}
	newer := bytes.Clone(whole)
	newer[len(magic)-1]++
	put(t, env, name, newer)
	if _, err := read(env, p); err == nil || !strings.Contains(err.Error(), "are of format 2, and this version knows up to 1: use the version that wrote them, or a newer one") {
		t.Errorf("a newer format: %v", err)
	}
	must(t, env.FS.Remove(env.FS.PathJoin(Dir(env), name)))
	if _, err := read(env, p); err == nil || !strings.Contains(err.Error(), "are gone: put the folder back beside the state that names it") {
		t.Errorf("gone: %v", err)
	}
}

// What a commit holds is removed, and so is what nobody will commit; the rest stays.
func TestSweep(t *testing.T) {
	fs := vfs.NewMem()
	env := newEnv(fs)
	for e := range 4 {
		stage(t, env, dataflow.Epoch(e+1), fmt.Sprint("row ", e))
	}
	w, err := NewWriter(env)
	must(t, err)
	must(t, w.Append([]byte("open")))
	put(t, env, "of-somebody-else", nil)
	must(t, Sweep(env, 3))
	names := list(t, env)
	if len(names) != 3 || !strings.HasPrefix(names[0], "00000000000000000004-1-") || names[1] != "of-somebody-else" || !strings.HasPrefix(names[2], "open-1-") {
		t.Errorf("%v", names)
	}
	// Killed: the next process of the task removes what was open, and no other.
	other := newEnv(fs)
	other.Task = 11
	for _, e := range []*dataflow.Env{other, env} {
		next, err := NewWriter(e)
		must(t, err)
		must(t, next.Close())
		if want := map[int]int{11: 3, 1: 2}[e.Task]; len(list(t, env)) != want {
			t.Errorf("task %d leaves %v", e.Task, list(t, env))
		}
	}
}

// What Part has answered is there after a power loss.
func TestACutIsDurable(t *testing.T) {
	fs := vfs.NewCrashableMem()
	env := newEnv(fs)
	p := stage(t, env, 1, "one", "two")
	env.FS = fs.CrashClone(vfs.CrashCloneCfg{})
	rows, err := read(env, p)
	if must(t, err); !slices.Equal(rows, []string{"one", "two"}) {
		t.Errorf("%q", rows)
	}
}

func BenchmarkAppend(b *testing.B) {
	w, err := NewWriter(newEnv(vfs.NewMem()))
	must(b, err)
	row := bytes.Repeat([]byte("x"), 120)
	b.SetBytes(int64(len(row)))
	for n := 0; b.Loop(); n++ {
		must(b, w.Append(row))
		if n%1_000_000 == 999_999 {
			must(b, w.Close())
		}
	}
	must(b, w.Close())
}

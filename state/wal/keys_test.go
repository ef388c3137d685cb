package wal

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func keyOf(s string) Key {
	h := sha256.Sum256([]byte(s))
	return Key(h[:16])
}

// keysModel is what must be found.
type keysModel struct {
	t    *testing.T
	fs   vfs.FS
	o    KeysOptions
	k    *Keys
	now  time.Time
	all  map[Key]KeyEntry
	next uint64
	// unsaved is what the frames of a log would bring again.
	unsaved []KeyEntry
}

func newKeysModel(t *testing.T, max int) *keysModel {
	m := &keysModel{t: t, fs: vfs.NewMem(), now: time.Unix(1_000_000, 0), all: map[Key]KeyEntry{}, next: 1}
	must(t, m.fs.MkdirAll("w", 0o755))
	m.o = KeysOptions{FS: m.fs, Keep: time.Hour, Max: max, Now: func() time.Time { return m.now }}
	m.open()
	return m
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (m *keysModel) open() {
	m.t.Helper()
	var err error
	m.k, err = OpenKeys("w", m.o)
	must(m.t, err)
	for i, e := range m.unsaved {
		if e.First >= m.k.Saved() {
			m.k.Put(e.First+uint64(e.Accepted), e)
			m.arrived(&m.unsaved[i])
		}
	}
}

// arrived notes that e was Put just now.
func (m *keysModel) arrived(e *KeyEntry) {
	e.Arrived = m.k.now()
	if last, ok := m.all[e.Key]; !ok || last.First <= e.First {
		m.all[e.Key] = *e
	}
}

func (m *keysModel) put(name string, more []byte) {
	e := KeyEntry{Key: keyOf(name), Digest: m.next * 7, First: m.next, Accepted: uint32(m.next%3) + 1, More: more}
	m.next += uint64(e.Accepted)
	due := m.k.Put(m.next, e)
	m.arrived(&e)
	m.unsaved = append(m.unsaved, e)
	if due {
		must(m.t, m.k.Save())
	}
}

func (m *keysModel) check(name string) {
	m.t.Helper()
	want, known := m.all[keyOf(name)]
	known = known && want.Arrived >= m.k.now()-time.Hour.Microseconds()
	got, ok, err := m.k.Find(keyOf(name))
	must(m.t, err)
	if ok != known {
		m.t.Fatalf("key %s: found %v, want %v", name, ok, known)
	}
	if ok && fmt.Sprint(got) != fmt.Sprint(want) {
		m.t.Fatalf("key %s: %+v, want %+v", name, got, want)
	}
}

func TestKeysAreFoundAfterSavesMergesAndRestarts(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	m := newKeysModel(t, 0)
	for range 30_000 {
		var more []byte
		if rnd.IntN(50) == 0 {
			more = make([]byte, 1+rnd.IntN(300))
			more[0] = byte(rnd.IntN(256))
		}
		m.put(fmt.Sprint("key", rnd.IntN(40_000)), more)
		switch rnd.IntN(300) {
		case 0:
			must(t, m.k.Save())
		case 1:
			must(t, m.k.Close())
			m.open()
		case 2:
			m.now = m.now.Add(time.Duration(rnd.IntN(300)) * time.Second)
		default:
			m.check(fmt.Sprint("key", rnd.IntN(40_000)))
		}
	}
	for i := range 40_000 {
		m.check(fmt.Sprint("key", i))
	}
	if n := len(m.k.mu.runs); n > 3*keyRunFan {
		t.Fatalf("%d runs: they are not merged or not removed", n)
	}
	must(t, m.k.Close())
}

// Only the time in which keys are kept counts: a machine that was down for a day, or whose
// clock was a day behind, has forgotten none.
func TestKeysGrowOldOnlyWhileTheyAreOpen(t *testing.T) {
	m := newKeysModel(t, 0)
	found := func(what string, want bool) {
		t.Helper()
		if _, ok, err := m.k.Find(keyOf("a")); err != nil || ok != want {
			t.Fatalf("%s: found %v, %v, want %v", what, ok, err, want)
		}
	}
	for _, away := range []time.Duration{0, 24 * time.Hour, -48 * time.Hour} {
		m.put("a", nil)
		if away != 0 {
			must(t, m.k.Save())
		}
		m.now = m.now.Add(59 * time.Minute)
		found("59 minutes later", true)
		must(t, m.k.Close())
		m.now = m.now.Add(away)
		m.open()
		found("opened again", true)
		m.now = m.now.Add(61 * time.Minute)
		found("61 minutes later", false)
	}
	must(t, m.k.Close())
}

func TestTooManyKeysAreForgottenAndCounted(t *testing.T) {
	m := newKeysModel(t, 1000)
	for i := range 5000 {
		m.put(fmt.Sprint(i), nil)
		if i%100 == 99 {
			must(t, m.k.Save())
		}
	}
	n, forgotten := m.k.Count()
	if n > 1100 || n+forgotten != 5000 {
		t.Fatalf("%d are remembered and %d forgotten, want at most 1,100 and 5,000 together", n, forgotten)
	}
	for i := 5000 - int(n); i < 5000; i++ {
		m.check(fmt.Sprint(i))
	}
	must(t, m.k.Close())
}

func TestAFlippedBitInKeysIsRefused(t *testing.T) {
	m := newKeysModel(t, 0)
	for i := range 200 {
		m.put(fmt.Sprint(i), []byte(fmt.Sprint("more ", i))[:i%3])
	}
	must(t, m.k.Save())
	must(t, m.k.Close())
	names, err := listKeyRuns(m.fs, "w")
	must(t, err)
	path := names[0].path(m.fs, "w")
	whole, err := readFile(m.fs, path)
	must(t, err)
	for bit := range len(whole) * 8 {
		if bit > 8*keyHeader && bit%61 != 0 {
			continue
		}
		b := append([]byte{}, whole...)
		b[bit/8] ^= 1 << (bit % 8)
		write(t, m.fs, path, b)
		k, err := OpenKeys("w", m.o)
		if err == nil {
			k.Close()
			t.Fatalf("bit %d flipped, and the keys were read", bit)
		}
		if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
			t.Fatalf("bit %d flipped: %v", bit, err)
		}
	}
	for n := range len(whole) {
		write(t, m.fs, path, whole[:n])
		if k, err := OpenKeys("w", m.o); err == nil {
			k.Close()
			t.Fatalf("cut at byte %d, and the keys were read", n)
		}
	}
}

func write(t *testing.T, fs vfs.FS, path string, data []byte) {
	t.Helper()
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	must(t, err)
	_, err = f.Write(slices.Clone(data)) // Write may change what it is given.
	must(t, errors.Join(err, f.Close()))
}

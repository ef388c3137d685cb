package state

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sort"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// testSeed prints the seed of a random test; FRAZIL_SEED repeats one.
func testSeed(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("FRAZIL_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("seed %d; again: FRAZIL_SEED=%d go test -run '^%s$' ./state", seed, seed, t.Name())
	return rand.New(rand.NewPCG(seed, 1))
}

// model is what a KV must hold: group and key to value.
type model map[string]string

func modelKey(group int, key []byte) string { return string(rune(group+1)) + string(key) }

func (m model) clone() model {
	out := model{}
	for k, v := range m {
		out[k] = v
	}
	return out
}

// inGroup lists the group's entries with lo <= key < hi in order.
func (m model) inGroup(group int, lo, hi []byte) []string {
	var out []string
	p := string(rune(group + 1))
	for k, v := range m {
		if len(k) >= len(p) && k[:len(p)] == p && inRange(k[len(p):], lo, hi) {
			out = append(out, k[len(p):]+"="+v)
		}
	}
	sort.Strings(out)
	return out
}

func scanned(kv KV, group int, lo, hi []byte) ([]string, error) {
	var out []string
	var last []byte
	err := kv.Scan(group, lo, hi, func(k, v []byte) error {
		if last != nil && bytes.Compare(last, k) >= 0 {
			return fmt.Errorf("key %q after %q", k, last)
		}
		last = append(last[:0], k...)
		out = append(out, string(k)+"="+string(v))
		return nil
	})
	sort.Strings(out)
	return out, err
}

// step changes kv and m alike, or reads and compares.
func (m model) step(t *testing.T, r *rand.Rand, kv KV, g Groups) {
	t.Helper()
	group := g.Lo + r.IntN(min(3, g.Hi-g.Lo)) // Few groups, many collisions.
	if r.IntN(2) == 0 {
		group = g.Hi - 1
	}
	key := func() []byte { return []byte(fmt.Sprintf("%02x", r.IntN(60)))[:1+r.IntN(2)] }
	bound := func() []byte {
		if r.IntN(5) == 0 {
			return nil
		}
		return key()
	}
	switch r.IntN(10) {
	case 0, 1, 2, 3:
		k, v := key(), []byte(fmt.Sprint(100_000 + r.IntN(900_000)))[:r.IntN(7)]
		must(t, kv.Set(group, k, v))
		m[modelKey(group, k)] = string(v)
	case 4, 5:
		k := key()
		must(t, kv.Delete(group, k))
		delete(m, modelKey(group, k))
	case 6:
		lo, hi := bound(), bound()
		must(t, kv.DeleteRange(group, lo, hi))
		for _, e := range m.inGroup(group, lo, hi) {
			k, _, _ := bytes.Cut([]byte(e), []byte("="))
			delete(m, modelKey(group, k))
		}
	case 7, 8:
		k := key()
		v, err := kv.Get(group, k)
		want, ok := m[modelKey(group, k)]
		if ok != (err == nil) || !ok && !errors.Is(err, ErrNotFound) || string(v) != want {
			t.Fatalf("Get %d %q: %q, %v; want %q, there: %v", group, k, v, err, want, ok)
		}
	default:
		lo, hi := bound(), bound()
		got, err := scanned(kv, group, lo, hi)
		must(t, err)
		if want := m.inGroup(group, lo, hi); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("Scan %d [%q, %q): %v, want %v", group, lo, hi, got, want)
		}
	}
}

// The KV is read and changed while Writes run beside it; at random moments the
// store is reset or opened again, with other numbers of tasks.
func TestKVEqualsModelUnderFreezeWriteResetAndReopen(t *testing.T) {
	r := testSeed(t)
	for round := 0; round < 15; round++ {
		fs := vfs.NewMem()
		// Epochs go as batches, as tables, or as what their size asks for.
		tablesFrom := []int64{1 << 40, 1, 3 << 10}[round%3]
		s := openMemFrom(t, fs, tablesFrom)
		m, durable := model{}, model{}
		tasks := 1 + r.IntN(3)
		open := func() []*TaskKV {
			kvs := make([]*TaskKV, tasks)
			for i := range kvs {
				kvs[i] = openKV(t, s, "step", GroupsOf(i, tasks))
			}
			return kvs
		}
		kvs := open()
		var pending []*Delta
		freeze := func() {
			for _, kv := range kvs {
				pending = append(pending, kv.Freeze())
			}
		}
		for epoch := 0; epoch < 30; epoch++ {
			steps := func(n int) {
				for i := 0; i < n; i++ {
					kv := kvs[r.IntN(len(kvs))]
					m.step(t, r, kv, kv.groups)
				}
			}
			steps(r.IntN(200))
			switch r.IntN(8) {
			case 0: // The epoch is abandoned.
				freeze()
				steps(r.IntN(20))
				s.Reset()
				m, pending = durable.clone(), nil
				tasks = 1 + r.IntN(3)
				kvs = open()
			case 1: // The process ends and comes back.
				must(t, s.Close())
				s = openMemFrom(t, fs, tablesFrom)
				m, pending = durable.clone(), nil
				tasks = 1 + r.IntN(3)
				kvs = open()
			case 2: // Several freezes make one write.
				freeze()
				steps(r.IntN(50))
			default:
				freeze()
				next := m.clone()
				done := make(chan error, 1)
				deltas := pending
				pending = nil
				go func() { done <- s.Write(deltas, []byte("m")) }()
				steps(r.IntN(100))
				must(t, <-done)
				durable = next
			}
		}
		must(t, s.Close())
	}
}

package flowtest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"frazil/state"
)

// KVUnderTest is a store of keyed state as [KVSuite] uses it.
type KVUnderTest struct {
	// New makes an empty KV that owns Groups.
	New func(t *testing.T) state.KV
	// Groups that the KV owns; at least two.
	Groups state.Groups
	// Epoch makes everything written so far durable and returns a KV of the same
	// key space as a restarted program would see it. nil: the store forgets.
	Epoch func(t *testing.T, kv state.KV) state.KV
	// Refuses: a group outside of Groups is an error.
	Refuses bool
}

// KVSuite checks what state.KV promises.
func KVSuite(t *testing.T, u KVUnderTest) {
	t.Run("values are copies", func(t *testing.T) { kvCopies(t, u) })
	t.Run("a key that is not there", func(t *testing.T) { kvMissing(t, u) })
	t.Run("ranges in order of bytes", func(t *testing.T) { kvRanges(t, u) })
	t.Run("groups are apart", func(t *testing.T) { kvGroups(t, u) })
	t.Run("like a model", func(t *testing.T) { kvModel(t, u) })
}

func kvCopies(t *testing.T, u KVUnderTest) {
	kv, g := u.New(t), u.Groups.Lo
	key, value := []byte("k"), []byte("value")
	must(t, kv.Set(g, key, value))
	copy(value, "xxxxx")
	key[0] = 'z'
	got, err := kv.Get(g, []byte("k"))
	must(t, err)
	if string(got) != "value" {
		t.Fatalf("Set kept the caller's bytes: got %q", got)
	}
	copy(got, "yyyyy")
	if again, _ := kv.Get(g, []byte("k")); string(again) != "value" {
		t.Fatalf("Get gave the store's own bytes away: got %q", again)
	}
}

func kvMissing(t *testing.T, u KVUnderTest) {
	kv, g := u.New(t), u.Groups.Lo
	if _, err := kv.Get(g, []byte("k")); !errors.Is(err, state.ErrNotFound) {
		t.Fatalf("got %v, want ErrNotFound", err)
	}
	must(t, kv.Delete(g, []byte("k")))
	must(t, kv.Set(g, []byte("k"), nil))
	if v, err := kv.Get(g, []byte("k")); err != nil || len(v) != 0 {
		t.Fatalf("an empty value is a value: got %q, %v", v, err)
	}
	must(t, kv.Delete(g, []byte("k")))
	if _, err := kv.Get(g, []byte("k")); !errors.Is(err, state.ErrNotFound) {
		t.Fatalf("after Delete: %v, want ErrNotFound", err)
	}
}

func scan(t *testing.T, kv state.KV, g int, lo, hi []byte) []string {
	t.Helper()
	var out []string
	must(t, kv.Scan(g, lo, hi, func(k, v []byte) error {
		out = append(out, fmt.Sprintf("%q=%q", k, v))
		return nil
	}))
	return out
}

func kvRanges(t *testing.T, u KVUnderTest) {
	kv, g := u.New(t), u.Groups.Lo
	keys := []string{"", "\x00", "a", "a\x00", "aa", "b", "\xff", "\xff\xff"}
	for _, k := range []int{3, 0, 7, 5, 1, 6, 2, 4} {
		must(t, kv.Set(g, []byte(keys[k]), []byte{byte('0' + k)}))
	}
	text := func(ks []string) (out []string) {
		for _, k := range ks {
			out = append(out, fmt.Sprintf("%q=%q", k, []byte{byte('0' + slices.Index(keys, k))}))
		}
		return out
	}
	for _, c := range []struct {
		lo, hi []byte
		want   []string
	}{
		{nil, nil, keys}, {[]byte("a"), []byte("b"), keys[2:5]}, {[]byte("a\x00"), nil, keys[3:]},
		{[]byte("b"), []byte("a"), nil}, {[]byte("a"), []byte("a"), nil}, {[]byte("\xff"), nil, keys[6:]},
	} {
		if got := scan(t, kv, g, c.lo, c.hi); !slices.Equal(got, text(c.want)) {
			t.Errorf("scan %q to %q: %v, want %v", c.lo, c.hi, got, text(c.want))
		}
	}
	stop := errors.New("stop")
	n := 0
	if err := kv.Scan(g, nil, nil, func(_, _ []byte) error { n++; return stop }); !errors.Is(err, stop) || n != 1 {
		t.Errorf("an error of visit: %v after %d keys, want it at once", err, n)
	}
	must(t, kv.DeleteRange(g, []byte("a"), []byte("b")))
	if got, want := scan(t, kv, g, nil, nil), text(append(slices.Clone(keys[:2]), keys[5:]...)); !slices.Equal(got, want) {
		t.Errorf("after DeleteRange: %v, want %v", got, want)
	}
	must(t, kv.Set(g, []byte("aa"), []byte("4")))
	must(t, kv.DeleteRange(g, []byte("b"), nil))
	if got, want := scan(t, kv, g, nil, nil), text([]string{"", "\x00", "aa"}); !slices.Equal(got, want) {
		t.Errorf("after DeleteRange to the end: %v, want %v", got, want)
	}
}

func kvGroups(t *testing.T, u KVUnderTest) {
	kv, a, b := u.New(t), u.Groups.Lo, u.Groups.Hi-1
	must(t, kv.Set(a, []byte("k"), []byte("a")))
	must(t, kv.Set(b, []byte("k"), []byte("b")))
	must(t, kv.DeleteRange(a, nil, nil))
	if got := scan(t, kv, a, nil, nil); got != nil {
		t.Errorf("group %d: %v", a, got)
	}
	if got := scan(t, kv, b, nil, nil); !slices.Equal(got, []string{`"k"="b"`}) {
		t.Errorf("group %d: %v", b, got)
	}
	if !u.Refuses {
		return
	}
	if err := kv.Set(u.Groups.Hi, []byte("k"), nil); err == nil {
		t.Error("a group of another task can be written")
	}
}

func kvModel(t *testing.T, u KVUnderTest) {
	rng := suiteRand(t)
	kv, g := u.New(t), u.Groups.Lo
	model := map[string]string{}
	key := func() []byte { return []byte(strconv.Itoa(rng.IntN(40))) }
	for i := range 3000 {
		k := key()
		switch rng.IntN(8) {
		case 0, 1, 2:
			v := strconv.Itoa(i)
			must(t, kv.Set(g, k, []byte(v)))
			model[string(k)] = v
		case 3:
			must(t, kv.Delete(g, k))
			delete(model, string(k))
		case 4:
			if rng.IntN(8) > 0 {
				continue
			}
			hi := key()
			must(t, kv.DeleteRange(g, k, hi))
			for m := range model {
				if m >= string(k) && m < string(hi) {
					delete(model, m)
				}
			}
		case 5:
			if u.Epoch != nil && rng.IntN(20) == 0 {
				kv = u.Epoch(t, kv)
			}
		case 6:
			v, err := kv.Get(g, k)
			if want, ok := model[string(k)]; ok != (err == nil) || !bytes.Equal(v, []byte(want)) {
				t.Fatalf("step %d: get %q: %q, %v; want %q, %v", i, k, v, err, want, ok)
			}
		case 7:
			var want []string
			for m, v := range model {
				want = append(want, fmt.Sprintf("%q=%q", m, v))
			}
			slices.Sort(want)
			if got := scan(t, kv, g, nil, nil); !slices.Equal(got, want) {
				t.Fatalf("step %d: scan\n%v, want\n%v", i, got, want)
			}
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// suiteRand prints the seed of a random test; FRAZIL_SEED repeats one.
func suiteRand(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if v := os.Getenv("FRAZIL_SEED"); v != "" {
		seed, _ = strconv.ParseUint(v, 10, 64)
	}
	t.Logf("FRAZIL_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

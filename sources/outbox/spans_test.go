package outbox

import (
	"math/rand/v2"
	"slices"
	"testing"

	"frazil/dataflow"
)

// Sets of the numbers 0 to 63, as bits.
func bitsOf(s spans) (out uint64) {
	for i := range uint64(64) {
		if s.has(i) {
			out |= 1 << i
		}
	}
	return out
}

func TestSpansAreSets(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	some := func() spans {
		var n []uint64
		for range rng.IntN(40) {
			n = append(n, uint64(rng.IntN(64)))
		}
		s := spansOf(n)
		if rng.IntN(2) == 0 {
			s = s.or(spans{{uint64(rng.IntN(64)), forever}})
		}
		return s
	}
	for range 2000 {
		a, b, lo := some(), some(), uint64(rng.IntN(64))
		for name, got := range map[string][2]uint64{
			"and":  {bitsOf(a.and(b)), bitsOf(a) & bitsOf(b)},
			"or":   {bitsOf(a.or(b)), bitsOf(a) | bitsOf(b)},
			"not":  {bitsOf(a.not()), ^bitsOf(a)},
			"from": {bitsOf(a.from(lo)), bitsOf(a) & (^uint64(0) << lo)},
		} {
			if got[0] != got[1] {
				t.Fatalf("%s of %s, %s, %d: %b, want %b", name, a, b, lo, got[0], got[1])
			}
		}
		for _, s := range []spans{a, a.or(b), a.and(b), a.not()} {
			again, err := parseSpans(s.String())
			if err != nil || !slices.Equal(again, s) {
				t.Fatalf("%s is read as %s: %v", s, again, err)
			}
		}
	}
}

func TestPositionsOfPollsAreReadAndCompare(t *testing.T) {
	list := []pollPosition{
		newPollPosition(),
		{seq: 9, round: 2, unread: spans{{3, 4}, {7, forever}}},
		{seq: 10, round: 2, unread: spans{{3, 4}, {7, forever}}, part: true, key: "a/b,é", late: spans{{3, 4}, {9, forever}}},
		{seq: 10, round: 300, unread: spans{{7, forever}}},
	}
	var before dataflow.Position
	for _, p := range list {
		text := p.encode()
		again, err := parsePollPosition(text)
		if err != nil || string(again.encode()) != string(text) {
			t.Errorf("%s is read as %s: %v", text, again.encode(), err)
		}
		if text.Compare(before) <= 0 || text.Compare(dataflow.Position(pollEnd)) >= 0 {
			t.Errorf("%s stands behind %s, and before the end", text, before)
		}
		before = text
	}
	for _, wrong := range []string{"", "0/", "1/0000000000000001/00000000/0000000000000001", "2/end", "2/1/1/5-3", "2/1/1/5,5", "2/1/1/x", "2/1/1/1-/%zz/1-"} {
		if _, err := parsePollPosition(dataflow.Position(wrong)); err == nil {
			t.Errorf("%q is read", wrong)
		}
	}
}

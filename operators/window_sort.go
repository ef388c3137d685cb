package operators

import (
	"cmp"
	"encoding/binary"
	"slices"

	"frazil/state"
)

// windowEntry is an entry of a table with 16 bytes of its key, as numbers in
// the order of the bytes.
type windowEntry struct {
	prefix [2]uint64
	entry  state.Entry
}

// windowSorter sorts the entries of a table by the bytes of their keys: by 16
// bytes at a time, from the left, going on behind them only among entries that
// are equal so far. Canonical keys end where they say, so none is the beginning
// of another, and a short key may be filled up with zeros.
//
// Many entries are sorted by distribution, byte by byte from the right; a byte
// that is the same in all of them (tags, lengths, the high bytes of small
// numbers) costs nothing. Comparing costs three times as much for 60,000 keys.
type windowSorter struct{ entries, spare []windowEntry }

// windowRadixRows is from how many entries on distribution is faster.
const windowRadixRows = 256

// sort returns all entries of t in order. The result is valid until the next
// call.
func (s *windowSorter) sort(t *state.Table) []windowEntry {
	n := t.Len()
	s.entries, s.spare = slices.Grow(s.entries[:0], n)[:n], slices.Grow(s.spare[:0], n)[:n]
	for i := range s.entries {
		s.entries[i].entry = t.At(i)
	}
	s.from(t, 0, n, 0)
	return s.entries
}

// from sorts entries[lo:hi], whose keys are equal before depth.
func (s *windowSorter) from(t *state.Table, lo, hi, depth int) {
	part := s.entries[lo:hi]
	for i := range part {
		var p [16]byte
		if key := t.Key(part[i].entry); len(key) > depth {
			copy(p[:], key[depth:])
		}
		part[i].prefix = [2]uint64{binary.BigEndian.Uint64(p[:]), binary.BigEndian.Uint64(p[8:])}
	}
	if len(part) < windowRadixRows {
		slices.SortFunc(part, func(a, b windowEntry) int {
			if c := cmp.Compare(a.prefix[0], b.prefix[0]); c != 0 {
				return c
			}
			return cmp.Compare(a.prefix[1], b.prefix[1])
		})
	} else {
		s.distribute(lo, hi)
	}
	for i := lo; i < hi; {
		j := i + 1
		for j < hi && s.entries[j].prefix == s.entries[i].prefix {
			j++
		}
		if j-i > 1 {
			s.from(t, i, j, depth+16)
		}
		i = j
	}
}

// distribute sorts entries[lo:hi] by their prefixes.
func (s *windowSorter) distribute(lo, hi int) {
	from, to := s.entries[lo:hi], s.spare[lo:hi]
	differ := [2]uint64{}
	for i := range from {
		differ[0] |= from[i].prefix[0] ^ from[0].prefix[0]
		differ[1] |= from[i].prefix[1] ^ from[0].prefix[1]
	}
	moved := false
	for _, word := range []int{1, 0} {
		for shift := 0; shift < 64; shift += 8 {
			if differ[word]>>shift&0xff == 0 {
				continue
			}
			var at [256]int
			for i := range from {
				at[byte(from[i].prefix[word]>>shift)]++
			}
			sum := 0
			for b, n := range at {
				at[b] = sum
				sum += n
			}
			for i := range from {
				b := byte(from[i].prefix[word] >> shift)
				to[at[b]] = from[i]
				at[b]++
			}
			from, to = to, from
			moved = !moved
		}
	}
	if moved {
		copy(to, from)
	}
}

package expr

import (
	"encoding/binary"
	"math/bits"
)

// bitset holds one bit a row, the first row in the lowest bit. Bits behind the
// last row may be anything.
type bitset []uint64

func words(n int) int { return (n + 63) >> 6 }

func (b bitset) get(i int) bool { return b[i>>6]>>(uint(i)&63)&1 != 0 }

func (b bitset) set(i int) { b[i>>6] |= 1 << (uint(i) & 63) }

func (b bitset) clear(i int) { b[i>>6] &^= 1 << (uint(i) & 63) }

func (b bitset) fill(w uint64) {
	for i := range b {
		b[i] = w
	}
}

// tail is the mask of the bits that count in word w of n rows.
func tail(n, w int) uint64 {
	if left := n - w<<6; left < 64 {
		return 1<<uint(left) - 1
	}
	return ^uint64(0)
}

// none says whether no bit of the first n is set.
func (b bitset) none(n int) bool {
	for w := range words(n) {
		if b[w]&tail(n, w) != 0 {
			return false
		}
	}
	return true
}

// count counts the set bits among the first n.
func (b bitset) count(n int) int {
	c := 0
	for w := range words(n) {
		c += bits.OnesCount64(b[w] & tail(n, w))
	}
	return c
}

// sized returns b with room for n bits; its bits are anything.
func (b bitset) sized(n int) bitset {
	if w := words(n); cap(b) >= w {
		return b[:w]
	}
	return make(bitset, words(n)+8)[:words(n)]
}

// load reads n bits of src from bit offset on.
func (b bitset) load(src []byte, offset, n int) bitset {
	b = b.sized(n)
	first := offset >> 3
	shift := uint(offset & 7)
	for w := range b {
		at := first + w*8
		if at+9 <= len(src) {
			v := binary.LittleEndian.Uint64(src[at:]) >> shift
			if shift > 0 {
				v |= uint64(src[at+8]) << (64 - shift)
			}
			b[w] = v
			continue
		}
		var v, more uint64
		for j := 0; j < 8 && at+j < len(src); j++ {
			v |= uint64(src[at+j]) << (8 * uint(j))
		}
		if at+8 < len(src) {
			more = uint64(src[at+8])
		}
		b[w] = v >> shift
		if shift > 0 {
			b[w] |= more << (64 - shift)
		}
	}
	return b
}

// store writes n bits to dst, zeros behind them.
func (b bitset) store(dst []byte, n int) {
	clear(dst)
	for w := range words(n) {
		v := b[w] & tail(n, w)
		for j := 0; j < 8 && w*8+j < len(dst); j++ {
			dst[w*8+j] = byte(v >> (8 * uint(j)))
		}
	}
}

package state

// Filter says of hashes that it has not seen that it has not, but for one in some
// 1000: it is asked before Pebble is, which takes a hundred times as long. It takes
// 16 bits per hash and never grows: it is made for a number of hashes, and its
// answers get worse beyond. One goroutine uses it.
//
// It is a Bloom filter in blocks of 64 bytes: one hash touches one block, so that
// a look-up waits for memory once.
type Filter struct {
	blocks [][8]uint64
	warmed uint64
}

const filterBits = 16

// NewFilter makes a filter for n hashes.
func NewFilter(n int) *Filter {
	return &Filter{blocks: make([][8]uint64, max(1, (n*filterBits+511)/512))}
}

// Bytes is the memory that the filter takes.
func (f *Filter) Bytes() int64 { return 64 * int64(len(f.blocks)) }

// block is the one that holds hash: its upper half chooses, its lower half the
// bits within.
func (f *Filter) block(hash uint64) *[8]uint64 {
	return &f.blocks[hash>>32*uint64(len(f.blocks))>>32]
}

// mix spreads the bits of a hash, whose lower half alone would repeat in tables
// that were filled by it.
func mix(hash uint64) uint64 {
	hash ^= hash >> 33
	hash *= 0xff51afd7ed558ccd
	hash ^= hash >> 33
	hash *= 0xc4ceb9fe1a85ec53
	return hash ^ hash>>33
}

// filterBitsAt are six bits, one in each of six words of a block.
func filterBitsAt(h uint64) [6]uint64 {
	return [6]uint64{1 << (h >> 3 & 63), 1 << (h >> 9 & 63), 1 << (h >> 15 & 63), 1 << (h >> 21 & 63), 1 << (h >> 27 & 63), 1 << (h >> 33 & 63)}
}

// Add adds a hash.
func (f *Filter) Add(hash uint64) {
	h := mix(hash)
	b := f.block(h)
	first := h & 7
	for i, bit := range filterBitsAt(h) {
		b[(first+uint64(i))&7] |= bit
	}
}

// Has says whether a hash may have been added.
func (f *Filter) Has(hash uint64) bool {
	h := mix(hash)
	b := f.block(h)
	first := h & 7
	for i, bit := range filterBitsAt(h) {
		if b[(first+uint64(i))&7]&bit == 0 {
			return false
		}
	}
	return true
}

// Warm loads what Has will read; the waits of several calls overlap.
func (f *Filter) Warm(hash uint64) { f.warmed += f.block(mix(hash))[0] }

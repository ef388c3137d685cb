package codec

import "encoding/binary"

// keyTable finds a column by the bytes of its key.
type keyTable struct {
	slots []*column
	mask  uint64
}

func newKeyTable(cols []*column) keyTable {
	n := uint64(8)
	for n < 4*uint64(len(cols)) {
		n *= 2
	}
	t := keyTable{slots: make([]*column, n), mask: n - 1}
	for _, c := range cols {
		h := hashKey([]byte(c.name)) & t.mask
		for t.slots[h] != nil {
			h = (h + 1) & t.mask
		}
		t.slots[h] = c
	}
	return t
}

// find returns the column, nil where there is none.
func (t *keyTable) find(key []byte) *column {
	h := hashKey(key) & t.mask
	for {
		c := t.slots[h]
		if c == nil || c.name == string(key) {
			return c
		}
		h = (h + 1) & t.mask
	}
}

// hashKey looks at the length and at both ends, which tells names apart that
// share a prefix or a suffix.
func hashKey(k []byte) uint64 {
	var a, b uint64
	switch n := len(k); {
	case n >= 8:
		a, b = binary.LittleEndian.Uint64(k), binary.LittleEndian.Uint64(k[n-8:])
	case n >= 4:
		a, b = uint64(binary.LittleEndian.Uint32(k)), uint64(binary.LittleEndian.Uint32(k[n-4:]))
	case n > 0:
		a, b = uint64(k[0]), uint64(k[n-1])<<8|uint64(k[n/2])
	}
	h := (a^uint64(len(k)))*0x9E3779B97F4A7C15 ^ b*0xC2B2AE3D27D4EB4F
	return h ^ h>>29 ^ h>>47
}

// extraField is a field outside the schema.
type extraField struct {
	name string
	n    int64
	at   int
}

// maxExtras bounds how many names of extra fields are told apart; what comes
// after is counted as otherExtras.
const (
	maxExtras   = 1000
	otherExtras = "(other names)"
)

// extraFields counts fields outside one schema or struct, by name.
type extraFields struct {
	byName map[string]*extraField
}

// get returns the counter of a name.
func (x *extraFields) get(name []byte) *extraField {
	if f, ok := x.byName[string(name)]; ok {
		return f
	}
	key := string(name)
	if len(x.byName) >= maxExtras {
		key = otherExtras
		if f, ok := x.byName[key]; ok {
			return f
		}
	}
	f := &extraField{name: key, at: -1}
	if x.byName == nil {
		x.byName = map[string]*extraField{}
	}
	x.byName[key] = f
	return f
}

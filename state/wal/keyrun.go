package wal

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sort"
	"strconv"
	"strings"

	"frazil/state"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	keySuffix = ".keys"
	keyMagic  = "FRZKEY\x00\x01"
	// keyHeader: magic 8, from 8, upTo 8, entries 8, oldest 8, newest 8, bytes of
	// the last section 8, checksum 4, zero 4.
	keyHeader = 64
	// keyEntry: key 16, digest 8, first 8, arrived 8, accepted 4, place of more plus
	// 1, in the last section, 4.
	keyEntrySize = 48
	// keyBlock: 85 entries, zeros, and a checksum 4.
	keyBlock    = 4096
	keyPerBlock = (keyBlock - 4) / keyEntrySize

	keyRunFan = 8
	// keyRunWhole: runs of so many entries are not merged any more.
	keyRunWhole = 32 << 10
)

// keyRunName names a run by the records whose entries it holds.
type keyRunName struct{ from, upTo uint64 }

func (n keyRunName) name() string { return fmt.Sprintf("%020d-%020d%s", n.from, n.upTo, keySuffix) }

func (n keyRunName) path(fs vfs.FS, dir string) string { return fs.PathJoin(dir, n.name()) }

// listKeyRuns returns the runs in dir: by where they begin, the widest first.
func listKeyRuns(fs vfs.FS, dir string) ([]keyRunName, error) {
	names, err := fs.List(dir)
	if isNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the idempotency keys of %s: %w", dir, err)
	}
	var out []keyRunName
	for _, name := range names {
		base, ok := strings.CutSuffix(name, keySuffix)
		if !ok {
			continue
		}
		a, b, _ := strings.Cut(base, "-")
		from, err1 := strconv.ParseUint(a, 10, 64)
		upTo, err2 := strconv.ParseUint(b, 10, 64)
		n := keyRunName{from, upTo}
		if err1 != nil || err2 != nil || n.name() != name || from >= upTo {
			return nil, fmt.Errorf("%w: %s is no name of idempotency keys", ErrCorrupt, name)
		}
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b keyRunName) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.upTo, a.upTo)) })
	return out, nil
}

func compareKeys(a, b Key) int { return bytes.Compare(a[:], b[:]) }

// encodeKeyRun lays entries, which are sorted, out as a file.
func encodeKeyRun(n keyRunName, entries []KeyEntry) []byte {
	le := binary.LittleEndian
	blocks := (len(entries) + keyPerBlock - 1) / keyPerBlock
	out := make([]byte, keyHeader, keyHeader+blocks*keyBlock)
	var more []byte
	oldest, newest := int64(0), int64(0)
	for i, e := range entries {
		if i == 0 || e.Arrived < oldest {
			oldest = e.Arrived
		}
		newest = max(newest, e.Arrived)
		out = append(out, e.Key[:]...)
		out = le.AppendUint64(out, e.Digest)
		out = le.AppendUint64(out, e.First)
		out = le.AppendUint64(out, uint64(e.Arrived))
		out = le.AppendUint32(out, e.Accepted)
		place := uint32(0)
		if len(e.More) > 0 {
			place = uint32(len(more)) + 1
			more = le.AppendUint32(more, uint32(len(e.More)))
			more = le.AppendUint32(more, crc32.Checksum(e.More, castagnoli))
			more = append(more, e.More...)
		}
		out = le.AppendUint32(out, place)
		if (i+1)%keyPerBlock == 0 || i == len(entries)-1 {
			start := keyHeader + i/keyPerBlock*keyBlock
			out = append(out, make([]byte, start+keyBlock-4-len(out))...)
			out = le.AppendUint32(out, crc32.Checksum(out[start:], castagnoli))
		}
	}
	h := append(out[:0:keyHeader], keyMagic...)
	for _, v := range []uint64{n.from, n.upTo, uint64(len(entries)), uint64(oldest), uint64(newest), uint64(len(more))} {
		h = le.AppendUint64(h, v)
	}
	h = le.AppendUint32(h, crc32.Checksum(h, castagnoli))
	le.AppendUint32(h, 0)
	return append(out, more...)
}

// decodeKeyRun reads what encodeKeyRun made, and checks every byte of it. It
// borrows b.
func decodeKeyRun(b []byte, n keyRunName) ([]KeyEntry, error) {
	bad := func(what string) ([]KeyEntry, error) {
		return nil, fmt.Errorf("%w: %s of the idempotency keys %s cannot be read", ErrCorrupt, what, n.name())
	}
	le := binary.LittleEndian
	v := len(keyMagic) - 1
	if len(b) > v && string(b[:v]) == keyMagic[:v] && b[v] > keyMagic[v] {
		return nil, fmt.Errorf("%s: %w: version %d of the format, and this program knows up to %d", n.name(), ErrVersion, b[v], keyMagic[v])
	}
	if len(b) < keyHeader || string(b[:8]) != keyMagic || le.Uint32(b[56:]) != crc32.Checksum(b[:56], castagnoli) ||
		le.Uint32(b[60:]) != 0 || le.Uint64(b[8:]) != n.from || le.Uint64(b[16:]) != n.upTo {
		return bad("the header")
	}
	count, moreLen := le.Uint64(b[24:]), le.Uint64(b[48:])
	if count > uint64(len(b)) || moreLen > uint64(len(b)) {
		return bad("the header")
	}
	blocks := (int(count) + keyPerBlock - 1) / keyPerBlock
	size := keyHeader + blocks*keyBlock + int(moreLen)
	if len(b) != size {
		return bad("the length")
	}
	more := b[keyHeader+blocks*keyBlock:]
	read := 0 // of more
	out := make([]KeyEntry, 0, count)
	for i := range blocks {
		block := b[keyHeader+i*keyBlock : keyHeader+(i+1)*keyBlock]
		if !blockWhole(block) {
			return bad("block " + strconv.Itoa(i))
		}
		for j := range min(keyPerBlock, int(count)-i*keyPerBlock) {
			e, place := decodeKeyEntry(block[j*keyEntrySize:])
			if place > 0 {
				m, ok := moreAt(more, place)
				if !ok {
					return bad("the last section")
				}
				e.More, read = m, read+moreHeader+len(m)
			}
			out = append(out, e)
		}
	}
	if read != len(more) {
		return bad("the last section")
	}
	return out, nil
}

func blockWhole(block []byte) bool {
	return crc32.Checksum(block[:keyBlock-4], castagnoli) == binary.LittleEndian.Uint32(block[keyBlock-4:])
}

func decodeKeyEntry(b []byte) (e KeyEntry, more uint32) {
	le := binary.LittleEndian
	copy(e.Key[:], b)
	e.Digest, e.First, e.Arrived, e.Accepted = le.Uint64(b[16:]), le.Uint64(b[24:]), int64(le.Uint64(b[32:])), le.Uint32(b[40:])
	return e, le.Uint32(b[44:])
}

// moreHeader: length 4, checksum 4.
const moreHeader = 8

func moreAt(more []byte, place uint32) ([]byte, bool) {
	at := int(place) - 1
	if at+moreHeader > len(more) {
		return nil, false
	}
	n := int(binary.LittleEndian.Uint32(more[at:]))
	if n > len(more)-at-moreHeader {
		return nil, false
	}
	m := more[at+moreHeader : at+moreHeader+n : at+moreHeader+n]
	return m, crc32.Checksum(m, castagnoli) == binary.LittleEndian.Uint32(more[at+4:])
}

// keyRun is an open run.
type keyRun struct {
	name           keyRunName
	path           string
	f              vfs.File
	count          int
	oldest, newest int64
	// firsts are the first halves of the first keys of its blocks.
	firsts []uint64
	filter *state.Filter
}

func readKeyRun(fs vfs.FS, path string, n keyRunName) ([]KeyEntry, error) {
	b, err := readFile(fs, path)
	if err != nil {
		return nil, fmt.Errorf("read idempotency keys: %w", err)
	}
	return decodeKeyRun(b, n)
}

// openKeyRun reads all of a run once.
func openKeyRun(fs vfs.FS, dir string, n keyRunName) (*keyRun, error) {
	r := &keyRun{name: n, path: n.path(fs, dir)}
	entries, err := readKeyRun(fs, r.path, n)
	if err != nil {
		return nil, err
	}
	r.count, r.filter = len(entries), state.NewFilter(len(entries))
	for i, e := range entries {
		h := binary.BigEndian.Uint64(e.Key[:])
		r.filter.Add(h)
		if i%keyPerBlock == 0 {
			r.firsts = append(r.firsts, h)
		}
		if i == 0 || e.Arrived < r.oldest {
			r.oldest = e.Arrived
		}
		r.newest = max(r.newest, e.Arrived)
	}
	if r.f, err = fs.Open(r.path); err != nil {
		return nil, fmt.Errorf("read idempotency keys: %w", err)
	}
	return r, nil
}

func (r *keyRun) remove(fs vfs.FS) error {
	err := r.f.Close()
	if e := fs.Remove(r.path); e != nil && !isNotExist(e) {
		err = errors.Join(err, e)
	}
	return err
}

// find reads one block, or two where keys share a first half.
func (r *keyRun) find(key Key) (KeyEntry, bool, error) {
	h := binary.BigEndian.Uint64(key[:])
	if r.count == 0 || !r.filter.Has(h) {
		return KeyEntry{}, false, nil
	}
	// The first block that begins behind the key; it stands before that.
	b := sort.Search(len(r.firsts), func(i int) bool { return r.firsts[i] > h }) - 1
	var block [keyBlock]byte
	for ; b >= 0; b-- {
		if _, err := r.f.ReadAt(block[:], keyHeader+int64(b)*keyBlock); err != nil {
			return KeyEntry{}, false, fmt.Errorf("read idempotency keys: %w", notShort(err))
		}
		if !blockWhole(block[:]) {
			return KeyEntry{}, false, fmt.Errorf("%w: block %d of the idempotency keys %s was damaged since it was read", ErrCorrupt, b, r.name.name())
		}
		n := min(keyPerBlock, r.count-b*keyPerBlock)
		i := sort.Search(n, func(i int) bool { return bytes.Compare(block[i*keyEntrySize:i*keyEntrySize+16], key[:]) >= 0 })
		if i < n && string(block[i*keyEntrySize:i*keyEntrySize+16]) == string(key[:]) {
			e, place := decodeKeyEntry(block[i*keyEntrySize:])
			if place == 0 {
				return e, true, nil
			}
			more, err := r.more(place)
			e.More = more
			return e, err == nil, err
		}
		if r.firsts[b] < h {
			break
		}
	}
	return KeyEntry{}, false, nil
}

// more reads what stands in the last section.
func (r *keyRun) more(place uint32) ([]byte, error) {
	at := keyHeader + int64(len(r.firsts))*keyBlock + int64(place) - 1
	var h [moreHeader]byte
	if _, err := r.f.ReadAt(h[:], at); err != nil {
		return nil, fmt.Errorf("read idempotency keys: %w", notShort(err))
	}
	b := make([]byte, moreHeader+min(binary.LittleEndian.Uint32(h[:]), MaxBody))
	if _, err := r.f.ReadAt(b, at); err != nil {
		return nil, fmt.Errorf("read idempotency keys: %w", notShort(err))
	}
	m, ok := moreAt(b, 1)
	if !ok {
		return nil, fmt.Errorf("%w: the last section of the idempotency keys %s was damaged since it was read", ErrCorrupt, r.name.name())
	}
	return m, nil
}

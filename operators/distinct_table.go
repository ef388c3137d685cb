package operators

import (
	"encoding/binary"
	"fmt"

	"frazil/state"

	"github.com/zeebo/xxh3"
)

// distinctTable holds the values that the groups of a window have, and which
// aggregates have counted each. One goroutine uses it.
//
// Its entries are stored one by one, as rows of a state.Log, so that a group may
// have millions. The bytes are a format (docs/state-format.md); a value may have
// several rows, whose masks add up:
//
//	row = what the caller needs to find the table, the number of the expression
//	      (1 byte), uvarint of the length of the group's canonical key, uvarint of
//	      the mask, the key, the value (see distinct.go)
type distinctTable struct {
	set *aggregateSet
	// tables are by distinctArgs. Their keys are the group's key and the value;
	// rows are the mask and the length of the group's key.
	tables []*state.Table
	key    []byte
	// tail is how many bytes at the end of a group's key its hash leaves out.
	tail int
}

// newDistinctTable returns nil if no aggregate of s is distinct.
func (s *aggregateSet) newDistinctTable() *distinctTable {
	if len(s.distinct) == 0 {
		return nil
	}
	t := &distinctTable{set: s}
	for range s.distinct {
		t.tables = append(t.tables, state.NewTable(2))
	}
	return t
}

// Bytes is the memory that the table holds on to.
func (t *distinctTable) Bytes() (n int64) {
	for _, x := range t.tables {
		n += x.Bytes()
	}
	return n
}

// Len counts the values of all groups and expressions.
func (t *distinctTable) Len() (n int) {
	for _, x := range t.tables {
		n += x.Len()
	}
	return n
}

// reset drops all values and keeps the memory.
func (t *distinctTable) reset() {
	for _, x := range t.tables {
		x.Reset()
	}
}

// add takes in a blob of the group with this key and hash. fresh, if it is not
// nil, is told of each value that some aggregates had not counted yet, and which.
func (t *distinctTable) add(hash uint64, key, blob []byte, fresh func(arg int, value []byte, mask uint64)) error {
	return t.set.readDistinct(blob, func(arg int, value []byte, mask uint64) {
		if mask = t.put(arg, hash, key, value, mask); mask != 0 && fresh != nil {
			fresh(arg, value, mask)
		}
	})
}

// put adds the bits of mask to a value and returns those it did not have.
func (t *distinctTable) put(arg int, hash uint64, key, value []byte, mask uint64) uint64 {
	t.key = append(append(t.key[:0], key...), value...)
	table := t.tables[arg]
	h := distinctHash(hash, value)
	e, ok := table.Find(h, t.key)
	if ok {
		if mask &^= table.Row(e)[0]; mask == 0 {
			return 0
		}
	}
	e, _ = table.Upsert(h, t.key)
	r := table.Row(e)
	r[0] |= mask
	r[1] = uint64(len(key))
	return mask
}

// distinctHash is the hash of a value in a group: the key group is that of the
// group's key.
func distinctHash(hash uint64, value []byte) uint64 {
	const group = 0xff << 56
	return hash&group | xxh3.HashSeed(value, hash)&^group
}

// union adds the values of o.
func (t *distinctTable) union(o *distinctTable) {
	for arg, from := range o.tables {
		to := t.tables[arg]
		for i := range from.Len() {
			x := from.At(i)
			y, _ := to.Upsert(from.Hash(x), from.Key(x))
			r := to.Row(y)
			r[0] |= from.Row(x)[0]
			r[1] = from.Row(x)[1]
		}
	}
}

// sums adds all values to the accumulators of their groups in sums.
func (t *distinctTable) sums(sums *distinctSums) error {
	for arg, from := range t.tables {
		for i := range from.Len() {
			e := from.At(i)
			r, k := from.Row(e), from.Key(e)
			key, value := k[:r[1]], k[r[1]:]
			if err := sums.add(keyHash(key), key, arg, value, r[0]); err != nil {
				return err
			}
		}
	}
	return sums.settle()
}

// store hands the rows of the values that changed to put, each with the key group
// it belongs to. Rows begin with head; put borrows them.
func (t *distinctTable) store(head []byte, put func(group int, row []byte) error) error {
	for arg, table := range t.tables {
		err := table.Dirty(func(e state.Entry) error { return t.storeOne(head, arg, e, put) })
		if err != nil {
			return fmt.Errorf("store distinct values: %w", err)
		}
		table.ClearDirty()
	}
	return nil
}

// storeOne is store of one entry of an expression's table.
func (t *distinctTable) storeOne(head []byte, arg int, e state.Entry, put func(group int, row []byte) error) error {
	table := t.tables[arg]
	r := table.Row(e)
	t.key = append(append(t.key[:0], head...), byte(arg))
	t.key = binary.AppendUvarint(binary.AppendUvarint(t.key, r[1]), r[0])
	t.key = append(t.key, table.Key(e)...)
	return put(state.GroupOf(table.Hash(e)), t.key)
}

// restore takes in a row that store made; row is without its head.
func (t *distinctTable) restore(row []byte) error {
	if len(row) == 0 || int(row[0]) >= len(t.tables) {
		return errDistinctShort
	}
	table, row := t.tables[row[0]], row[1:]
	n, w := binary.Uvarint(row)
	mask, m := binary.Uvarint(row[max(w, 0):])
	if w <= 0 || m <= 0 || n >= uint64(len(row)-w-m) || n < uint64(t.tail) {
		return errDistinctShort
	}
	key := row[w+m:]
	e, _ := table.Upsert(distinctHash(keyHash(key[:int(n)-t.tail]), key[n:]), key)
	r := table.Row(e)
	r[0] |= mask
	r[1] = n
	return nil
}

// clean takes all marks of change off, after a restore.
func (t *distinctTable) clean() {
	for _, x := range t.tables {
		x.ClearDirty()
	}
}

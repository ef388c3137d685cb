package operators

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"frazil/dataflow"
	"frazil/state"
)

// groupDistinct holds the different values of a group's parts, for aggregates with
// distinct. Values are known by the group's key and the number of the part, so
// that what becomes of a part costs nothing here: the values of a number that
// stands for no part any more are dropped when groups are swept.
//
// They are stored in a keyLog of their own, in the form of distinctTable without a
// prefix. All methods do nothing on nil.
type groupDistinct struct {
	owner  *groupKeyed
	sums   *distinctSums
	values *distinctTable
	log    *keyLog
	limits [state.NumGroups]int // how many rows the log of a group may have
	next   uint64               // the last number given out
	gone   map[string]bool      // keys of values, see of: numbers are of a task, and tasks may change
	key    []byte
	id     [4]byte
}

// groupValuesPrefix is that of the log.
const groupValuesPrefix = 'v'

func newGroupDistinct(o *groupKeyed) *groupDistinct {
	if len(o.set.distinct) == 0 {
		return nil
	}
	values := o.set.newDistinctTable()
	values.tail = 8 // the number
	return &groupDistinct{owner: o, sums: o.set.newDistinctSums(o.layout), values: values, gone: map[string]bool{}}
}

func (d *groupDistinct) release() {
	if d != nil {
		d.sums.release()
	}
}

// begin returns the number of a new part.
func (d *groupDistinct) begin() uint64 {
	if d == nil {
		return 0
	}
	d.next++
	return d.next
}

// end says that a number stands for no part any more.
func (d *groupDistinct) end(e state.Entry, number uint64) {
	if d != nil {
		d.gone[string(d.of(d.owner.table.Key(e), number))] = true
	}
}

// appendNumber adds a number to the bytes of a part.
func (d *groupDistinct) appendNumber(dst []byte, number uint64) []byte {
	if d == nil {
		return dst
	}
	return binary.BigEndian.AppendUint64(dst, number)
}

// of makes the key of a part's values.
func (d *groupDistinct) of(key []byte, number uint64) []byte {
	d.key = binary.BigEndian.AppendUint64(append(d.key[:0], key...), number)
	return d.key
}

// add takes in values of the latest part of a group. They count when it is settled.
func (d *groupDistinct) add(e state.Entry, values []byte) error {
	if d == nil {
		return nil
	}
	binary.LittleEndian.PutUint32(d.id[:], uint32(e))
	return d.put(e, d.owner.number(e), values)
}

// put hands the values that some aggregates had not counted to sums, under d.id.
func (d *groupDistinct) put(e state.Entry, number uint64, values []byte) error {
	t, h := d.owner.table, keyHash(d.id[:])
	var failed error
	err := d.values.add(t.Hash(e), d.of(t.Key(e), number), values, func(arg int, value []byte, mask uint64) {
		if err := d.sums.add(h, d.id[:], arg, value, mask); err != nil {
			failed = err
		}
	})
	if err != nil {
		return err
	}
	return failed
}

// settle brings what was added into the accumulators.
func (d *groupDistinct) settle() error {
	if d == nil || d.sums.table.Len() == 0 {
		return nil
	}
	if err := d.sums.settle(); err != nil {
		return err
	}
	o, t := d.owner, d.sums.table
	for i := range t.Len() {
		e := t.At(i)
		to := state.Entry(binary.LittleEndian.Uint32(t.Key(e)))
		o.layout.mergeRow(o.acc(to), o.heaps, t.Row(e)[:o.layout.stride], d.sums.heaps)
	}
	d.sums.reset()
	return nil
}

// addTo takes in values of an earlier part, whose accumulators are row. Nothing
// waits to be settled.
func (d *groupDistinct) addTo(row []uint64, heaps []accHeap, e state.Entry, number uint64, values []byte) error {
	if d == nil {
		return nil
	}
	if err := d.put(e, number, values); err != nil {
		return err
	}
	return d.settleTo(row, heaps)
}

// settleTo is settle into one row.
func (d *groupDistinct) settleTo(row []uint64, heaps []accHeap) error {
	if err := d.sums.settle(); err != nil {
		return err
	}
	d.owner.layout.mergeRow(row, heaps, d.sums.row(keyHash(d.id[:]), d.id[:]), d.sums.heaps)
	d.sums.reset()
	return nil
}

// move gives the values of one part of a group to another, whose accumulators are
// row. It looks at the values of all groups: parts seldom meet.
func (d *groupDistinct) move(e state.Entry, from, to uint64, row []uint64, heaps []accHeap) error {
	key, hash := d.owner.table.Key(e), d.owner.table.Hash(e)
	prefix := bytes.Clone(d.of(key, from))
	for arg, t := range d.values.tables {
		type found struct {
			value []byte
			mask  uint64
		}
		var all []found
		for i := range t.Len() {
			x := t.At(i)
			if r, k := t.Row(x), t.Key(x); int(r[1]) == len(prefix) && bytes.HasPrefix(k, prefix) {
				all = append(all, found{bytes.Clone(k[len(prefix):]), r[0]})
			}
		}
		for _, f := range all {
			mask := d.values.put(arg, hash, d.of(key, to), f.value, f.mask)
			if mask == 0 {
				continue
			}
			if err := d.sums.add(keyHash(d.id[:]), d.id[:], arg, f.value, mask); err != nil {
				return err
			}
		}
	}
	d.end(e, from)
	return d.settleTo(row, heaps)
}

// strip makes the accumulators of distinct values those of no row.
func (d *groupDistinct) strip(row []uint64) {
	for i, a := range d.owner.set.aggs {
		if a.distinct {
			off := d.owner.layout.offs[i]
			clear(row[off : off+d.owner.set.funcs[i].words()])
		}
	}
}

// purge drops the values of parts that are no more. Nothing is dirty.
func (d *groupDistinct) purge() {
	if d == nil || len(d.gone) == 0 {
		return
	}
	for arg, old := range d.values.tables {
		t := state.NewTable(2)
		for i := range old.Len() {
			x := old.At(i)
			if k := old.Key(x); !d.gone[string(k[:old.Row(x)[1]])] {
				y, _ := t.Upsert(old.Hash(x), k)
				copy(t.Row(y), old.Row(x))
			}
		}
		d.values.tables[arg] = t
	}
	clear(d.gone)
	d.values.clean()
}

// groupNumberOf is the number in the key of a part's values.
func groupNumberOf(key []byte) uint64 { return binary.BigEndian.Uint64(key[len(key)-8:]) }

// restore reads the values of the parts that owner has.
func (d *groupDistinct) restore(env *dataflow.Env) (err error) {
	if d == nil {
		return nil
	}
	d.log, err = openKeyLog(env, groupValuesPrefix, func(_ int, row, _ []byte) error { return d.values.restore(row) })
	if err != nil {
		return err
	}
	o, known := d.owner, map[string]bool{}
	for i := range o.table.Len() {
		e := o.table.At(i)
		known[string(d.of(o.table.Key(e), o.number(e)))] = true
	}
	for e, parts := range o.older {
		for _, p := range parts {
			known[string(d.of(o.table.Key(e), p.number))] = true
		}
	}
	for _, t := range d.values.tables {
		for i := range t.Len() {
			x := t.At(i)
			k := t.Key(x)
			if t.Row(x)[1] < 8 {
				return fmt.Errorf("distinct value %x belongs to no group", k)
			}
			part := string(k[:t.Row(x)[1]])
			d.next = max(d.next, groupNumberOf(k[:t.Row(x)[1]]))
			if !known[part] {
				d.gone[part] = true
			}
		}
	}
	d.values.clean()
	d.purge()
	return nil
}

// write puts one value; the byte behind it says that it is there.
func (d *groupDistinct) write(group int, row []byte) error { return d.log.put(group, row, []byte{1}) }

// store writes the values that changed, and those of a key group anew where most of
// what is written has been superseded.
func (d *groupDistinct) store(env *dataflow.Env) error {
	if d == nil {
		return nil
	}
	if err := d.values.store(nil, d.write); err != nil {
		return err
	}
	if err := d.rewrite(env); err != nil {
		return err
	}
	return d.log.flush()
}

func (d *groupDistinct) rewrite(env *dataflow.Env) error {
	look := false
	for g := env.Groups.Lo; g < env.Groups.Hi; g++ {
		look = look || d.log.rows[g] > d.limits[g]+keyLogSlack
	}
	if !look {
		return nil
	}
	var live [state.NumGroups]int
	for _, t := range d.values.tables {
		for i := range t.Len() {
			live[state.GroupOf(t.Hash(t.At(i)))]++
		}
	}
	for g := range live {
		d.limits[g] = 2 * live[g]
	}
	full, err := d.log.begin(env, &live)
	if err != nil || full == nil {
		return err
	}
	for arg, t := range d.values.tables {
		for i := range t.Len() {
			if e := t.At(i); full[state.GroupOf(t.Hash(e))] {
				if err := d.values.storeOne(nil, arg, e, d.write); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

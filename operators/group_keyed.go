package operators

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"frazil/dataflow"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// The state of a group is one value per group in a keyLog, under the canonical
// key. The bytes are a format (docs/state-format.md):
//
//	value = 0x01, then the parts of the group, the latest first: uvarint of the
//	        length, accumulators (see accLayout) with the least and the greatest
//	        event time as the last two; with distinct, a number (8, big endian)
//	        before them, by which the values of the part are known
const (
	groupStatePrefix  = 'g'
	groupStateVersion = 1
)

// groupKeyed is the half of a group behind the exchange. It merges partial rows
// into the groups and, at each barrier, gives the changes.
//
// A group is made of parts: rows that follow one another within expire_after in
// event time. The table has the latest part of each group; the parts before it,
// which almost no group has, stand beside it.
type groupKeyed struct {
	*groupShape
	env     *dataflow.Env
	layout  *accLayout
	table   *state.Table // per group a word of marks, the accumulators, groupDistinct's number
	heaps   []accHeap
	older   map[state.Entry][]groupPart
	dropped int // entries whose group has expired
	live    [state.NumGroups]int
	before  []byte // rows as they were at the last barrier, of what changed since
	log     *keyLog
	cold    groupCold
	changed int            // groups, since the last barrier
	values  *groupDistinct // nil without distinct
	changes *groupChanges
	wm      dataflow.Time
	swept   int64 // the watermark of the last sweep, in steps
	buf     []byte
	key     []byte
}

// Marks of an entry. The low bits are 1 + the place of its former row in
// groupKeyed.before, 0 if it did not change since the last barrier or was not
// there.
const (
	groupShown   = 1 << 63 // there was a barrier since the group began: it has a former row
	groupDropped = 1 << 62 // the group has expired: the entry stands for nothing
	groupLogged  = 1 << 61 // the log has the group
	groupUsed    = 1 << 60 // it had rows again
	groupBegun   = 1 << 59 // it has rows
	groupLeaves  = 1 << 58 // it leaves the memory
	groupPlace   = 1<<58 - 1
)

// groupPart is an earlier part of a group.
type groupPart struct {
	first, last int64
	number      uint64 // of groupDistinct
	acc         []byte // as encoded
}

func newGroupKeyed(env *dataflow.Env, s *groupShape) (*groupKeyed, error) {
	o := &groupKeyed{
		groupShape: s, env: env, layout: s.layout(), older: map[state.Entry][]groupPart{},
		wm: dataflow.MinTime, swept: int64(dataflow.MinTime),
	}
	o.table, o.heaps = state.NewTable(o.words()), o.layout.newHeaps()
	o.values = newGroupDistinct(o)
	var err error
	if o.changes, err = newGroupChanges(env, s, o.layout); err != nil {
		return nil, err
	}
	if o.log, err = openKeyLog(env, groupStatePrefix, o.load); err != nil {
		return nil, fmt.Errorf("restore groups: %w", err)
	}
	if 2*o.dropped > o.table.Len() {
		o.compact()
	}
	if err := o.values.restore(env); err != nil {
		return nil, fmt.Errorf("restore distinct values: %w", err)
	}
	if err := o.openCold(); err != nil {
		return nil, err
	}
	o.table.ClearDirty()
	return o, nil
}

// load takes in one row of the log.
func (o *groupKeyed) load(_ int, key, value []byte) error {
	e := o.upsert(keyHash(key), key)
	o.empty(e)
	delete(o.older, e)
	if len(value) == 0 {
		o.drop(e)
		return nil
	}
	if err := o.decode(e, key, value); err != nil {
		return err
	}
	o.table.Row(e)[0] |= groupLogged
	return nil
}

// words is the size of a row of the table.
func (o *groupKeyed) words() int { return 2 + o.layout.stride }

// number is what the values of the latest part of a group are known by.
func (o *groupKeyed) number(e state.Entry) uint64 { return o.table.Row(e)[1+o.layout.stride] }

func (o *groupKeyed) setNumber(e state.Entry, n uint64) { o.table.Row(e)[1+o.layout.stride] = n }

// upsert returns the entry of a key, which has no rows if it is new or had
// expired.
func (o *groupKeyed) upsert(hash uint64, key []byte) state.Entry {
	e, fresh := o.table.Upsert(hash, key)
	mark := &o.table.Row(e)[0]
	if *mark&groupDropped != 0 {
		*mark = 0
		o.dropped--
		fresh = true
	}
	if fresh {
		o.live[state.GroupOf(hash)]++
	}
	return e
}

func (o *groupKeyed) drop(e state.Entry) {
	o.empty(e)
	o.table.Row(e)[0] = groupDropped
	o.dropped++
	o.live[state.GroupOf(o.table.Hash(e))]--
}

func (o *groupKeyed) acc(e state.Entry) []uint64 { return o.table.Row(e)[1 : 1+o.layout.stride] }

func (o *groupKeyed) empty(e state.Entry) { clear(o.acc(e)) }

// times are those of the first and last row in accumulators; ok is false if
// there is none.
func (o *groupKeyed) times(acc []uint64) (first, last int64, ok bool) {
	n := o.layout.stride
	return int64(acc[n-3] ^ 1<<63 ^ ^uint64(0)), int64(acc[n-1] ^ 1<<63), acc[n-4] != 0
}

// span is times of encoded accumulators.
func (o *groupKeyed) span(acc []byte) (first, last int64, err error) {
	end := 8 * o.layout.stride
	if len(acc) < end {
		return 0, 0, errAccShort
	}
	word := func(back int) uint64 { return binary.LittleEndian.Uint64(acc[end-8*back:]) }
	return int64(word(3) ^ 1<<63 ^ ^uint64(0)), int64(word(1) ^ 1<<63), nil
}

// Process implements dataflow.Operator.
func (o *groupKeyed) Process(_ context.Context, _ int, b arrow.RecordBatch, _ dataflow.Emitter) error {
	hashes := b.Column(0).(*array.Uint64).Uint64Values()
	keys, accs := b.Column(1).(*array.Binary), b.Column(2).(*array.Binary)
	var values []byte
	for i, h := range hashes {
		if i%windowWarm == 0 {
			o.table.Warm(hashes[i:min(i+windowWarm, len(hashes))])
		}
		e := o.upsert(h, keys.Value(i))
		mark := &o.table.Row(e)[0]
		if *mark == 0 {
			if err := o.wake(e, h, keys.Value(i)); err != nil {
				return err
			}
			*mark |= groupBegun
			if *mark&groupShown == 0 {
				o.changed++
			}
		} else {
			*mark |= groupUsed
		}
		if *mark&(groupShown|groupPlace) == groupShown {
			o.keepFormer(e)
			o.changed++
		}
		if o.values != nil {
			values = b.Column(3).(*array.Binary).Value(i)
		}
		if err := o.add(e, accs.Value(i), values); err != nil {
			return fmt.Errorf("merge a partial row: %w", err)
		}
	}
	return o.values.settle()
}

// keepFormer copies the row of e as it is at the first change after a barrier.
func (o *groupKeyed) keepFormer(e state.Entry) {
	row := o.table.Row(e)
	row[0] |= uint64(len(o.before) + 1)
	o.buf = o.layout.encode(o.buf[:0], o.acc(e), o.heaps)
	o.before = binary.AppendUvarint(o.before, uint64(len(o.buf)))
	o.before = append(o.before, o.buf...)
}

// former is what keepFormer copied, nil for a group that had no row.
func (o *groupKeyed) former(e state.Entry) []byte {
	at := o.table.Row(e)[0] & groupPlace
	if at == 0 {
		return nil
	}
	n, w := binary.Uvarint(o.before[at-1:])
	from := int(at) - 1 + w
	return o.before[from : from+int(n)]
}

// add puts a partial row and its values into the part of the group that they
// belong to.
func (o *groupKeyed) add(e state.Entry, enc, values []byte) error {
	acc := o.acc(e)
	first, last, ok := o.times(acc)
	from, to, err := o.span(enc)
	switch {
	case err != nil:
		return err
	case !ok:
		o.setNumber(e, o.values.begin())
	case from-last > o.expire: // A later part: what was the latest goes beside.
		if err := o.values.settle(); err != nil {
			return err
		}
		part := groupPart{first, last, o.number(e), o.layout.encode(nil, acc, o.heaps)}
		o.older[e] = append(o.older[e], part)
		o.empty(e)
		o.setNumber(e, o.values.begin())
	case first-to > o.expire:
		return o.addOlder(e, groupPart{first: from, last: to, number: o.values.begin(), acc: enc}, values)
	}
	if err := o.layout.merge(acc, o.heaps, enc); err != nil {
		return err
	}
	if err := o.values.add(e, values); err != nil || len(o.older[e]) == 0 {
		return err
	}
	return o.joinOlder(e)
}

// joinOlder takes the parts into the latest one that now touch it.
func (o *groupKeyed) joinOlder(e state.Entry) error {
	if err := o.values.settle(); err != nil {
		return err
	}
	for i := 0; i < len(o.older[e]); i++ {
		p := o.older[e][i]
		if first, _, _ := o.times(o.acc(e)); first-p.last > o.expire {
			continue
		}
		if err := o.mergePart(o.acc(e), o.heaps, e, o.number(e), p); err != nil {
			return err
		}
		o.setOlder(e, slices.Delete(o.older[e], i, i+1))
		i = -1
	}
	return nil
}

// mergePart adds part p of a group to row, whose values are known by number.
func (o *groupKeyed) mergePart(row []uint64, heaps []accHeap, e state.Entry, number uint64, p groupPart) error {
	if o.values == nil {
		return o.layout.merge(row, heaps, p.acc)
	}
	other, otherHeaps := make([]uint64, o.layout.stride), o.layout.newHeaps()
	if err := o.layout.merge(other, otherHeaps, p.acc); err != nil {
		return err
	}
	o.values.strip(other)
	o.layout.mergeRow(row, heaps, other, otherHeaps)
	return o.values.move(e, p.number, number, row, heaps)
}

func (o *groupKeyed) setOlder(e state.Entry, parts []groupPart) {
	if len(parts) == 0 {
		delete(o.older, e)
		return
	}
	o.older[e] = parts
}

// addOlder adds p, with its values, to the earlier parts, joining those that it
// touches.
func (o *groupKeyed) addOlder(e state.Entry, p groupPart, values []byte) error {
	if err := o.values.settle(); err != nil {
		return err
	}
	row, heaps := make([]uint64, o.layout.stride), o.layout.newHeaps()
	if err := o.layout.merge(row, heaps, p.acc); err != nil {
		return err
	}
	if err := o.values.addTo(row, heaps, e, p.number, values); err != nil {
		return err
	}
	parts := o.older[e]
	for i := 0; i < len(parts); i++ {
		q := parts[i]
		if q.first-p.last > o.expire || p.first-q.last > o.expire {
			continue
		}
		if err := o.mergePart(row, heaps, e, p.number, q); err != nil {
			return err
		}
		p.first, p.last = min(p.first, q.first), max(p.last, q.last)
		parts, i = slices.Delete(parts, i, i+1), -1
	}
	p.acc = o.layout.encode(nil, row, heaps)
	o.older[e] = append(parts, p)
	return nil
}

// OnWatermark implements dataflow.WatermarkHandler. A drain forgets nothing: the
// next run goes on from the watermark before it.
func (o *groupKeyed) OnWatermark(_ context.Context, wm dataflow.Time, _ dataflow.Emitter) error {
	if wm != dataflow.MaxTime {
		o.wm = wm
	}
	return nil
}

// OnBarrier implements dataflow.BarrierHandler: it gives the changes since the
// last barrier and writes what changed.
func (o *groupKeyed) OnBarrier(ctx context.Context, _ dataflow.Epoch, out dataflow.Emitter) error {
	if err := o.changes.emit(ctx, o, out); err != nil {
		return err
	}
	o.changed = 0
	leave := o.choose()
	err := o.table.Dirty(func(e state.Entry) error {
		mark := &o.table.Row(e)[0]
		if *mark&groupDropped != 0 {
			return nil
		}
		*mark = *mark&(groupUsed|groupLogged|groupLeaves) | groupShown
		if *mark&groupLeaves != 0 {
			return nil
		}
		*mark |= groupLogged
		return o.store(e)
	})
	if err != nil {
		return fmt.Errorf("store groups: %w", err)
	}
	o.table.ClearDirty()
	o.before = o.before[:0]
	if err := o.values.store(o.env); err != nil {
		return err
	}
	if err := o.sweep(); err != nil {
		return fmt.Errorf("drop groups: %w", err)
	}
	// What leaves may make the filters grow, so that more has to leave.
	for ; leave; leave = o.choose() {
		if err := o.shrink(); err != nil {
			return err
		}
	}
	if err := o.rewrite(); err != nil {
		return err
	}
	return o.log.flush()
}

func (o *groupKeyed) store(e state.Entry) error {
	o.encode(e)
	return o.log.put(state.GroupOf(o.table.Hash(e)), o.table.Key(e), o.buf)
}

// encode makes buf the value of a group.
func (o *groupKeyed) encode(e state.Entry) {
	o.buf = append(o.buf[:0], groupStateVersion)
	row, heaps := o.acc(e), o.heaps
	o.buf = appendSized(o.buf, func(dst []byte) []byte {
		return o.layout.encode(o.values.appendNumber(dst, o.number(e)), row, heaps)
	})
	for _, p := range o.older[e] {
		o.buf = appendSized(o.buf, func(dst []byte) []byte { return append(o.values.appendNumber(dst, p.number), p.acc...) })
	}
}

// appendSized appends what f appends with a uvarint of its length before it.
func appendSized(dst []byte, f func([]byte) []byte) []byte {
	start := len(dst)
	dst = f(append(dst, make([]byte, binary.MaxVarintLen32)...))
	body := dst[start+binary.MaxVarintLen32:]
	w := binary.PutUvarint(dst[start:], uint64(len(body)))
	return append(dst[:start+w], body...)
}

// rewrite writes the groups of those key groups again whose log is mostly what
// has been superseded.
func (o *groupKeyed) rewrite() error {
	return o.log.rewrite(o.env, &o.live, o.table, func(e state.Entry) error {
		if o.table.Row(e)[0]&groupDropped != 0 {
			return nil
		}
		return o.store(e)
	})
}

// Close implements dataflow.Operator.
func (o *groupKeyed) Close() error {
	o.changes.release()
	o.values.release()
	return nil
}

var (
	_ dataflow.Operator         = (*groupKeyed)(nil)
	_ dataflow.WatermarkHandler = (*groupKeyed)(nil)
	_ dataflow.BarrierHandler   = (*groupKeyed)(nil)
)

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

// The state of a top without windows is one value per group in a keyLog, under
// the canonical key. The bytes are a format (docs/state-format.md):
//
//	value = 0x01, then the parts of the group, the latest first: uvarint of the
//	        length, least event time (8, big endian), greatest event time (8), items
//	        (see topWire)
const (
	topStatePrefix  = 'k'
	topStateVersion = 1
)

// topKeyed is the half of a top without windows behind the exchange, and of a
// dedup that keeps the last row. It keeps the first rows of each group and, at
// each barrier, gives the changes.
//
// Groups are made of parts and expire as those of groupKeyed.
type topKeyed struct {
	*topShape
	env   *dataflow.Env
	lists topLists
	table *state.Table // per group a word of marks, then the part: see topPart
	older map[state.Entry][]topPart
	// dirty are the groups that changed since the last barrier; one that was dropped
	// and came again stands there twice.
	dirty []state.Entry
	due   topDue
	cold  topCold
	// formers are the lists of what changed since the last barrier, as they were.
	formers     []topFormer
	formerItems []topItem
	formerBytes int64 // of the items' rows and places
	dropped     int
	live        [state.NumGroups]int
	log         *keyLog
	changes     *topChanges
	wm          dataflow.Time
	swept       int64
	buf         []byte
}

// topFormer is a stretch of topKeyed.formerItems.
type topFormer struct{ from, n int }

// topPart is a part of a group.
type topPart struct {
	first, last int64
	list        topList
}

// topWords is the size of a topPart and the marks in the table. The marks are
// those of groupKeyed, the place being in formers.
const topWords = 5

func readTopPart(row []uint64) topPart {
	return topPart{int64(row[1]), int64(row[2]), topList{base: uint32(row[3] >> 32), n: uint32(row[3]), class: uint32(row[4])}}
}

func (p topPart) write(row []uint64) {
	row[1], row[2] = uint64(p.first), uint64(p.last)
	row[3], row[4] = uint64(p.list.base)<<32|uint64(p.list.n), uint64(p.list.class)
}

// noTopPart is a part without rows.
var noTopPart = topPart{first: int64(dataflow.MaxTime), last: int64(dataflow.MinTime)}

func (p topPart) empty() bool { return p.first > p.last }

func newTopKeyed(env *dataflow.Env, s *topShape) (*topKeyed, error) {
	o := &topKeyed{
		topShape: s, env: env, lists: topLists{limit: s.limit}, table: state.NewTable(topWords),
		older: map[state.Entry][]topPart{}, due: newTopDue(s.keep), wm: dataflow.MinTime, swept: int64(dataflow.MinTime),
	}
	o.changes = newTopChanges(env, s)
	var err error
	if o.log, err = openKeyLog(env, topStatePrefix, o.load); err != nil {
		return nil, fmt.Errorf("restore rows: %w", err)
	}
	o.dirty = o.dirty[:0]
	o.due.refill(o)
	o.cold.init(env.Memory)
	if err := o.restoreCold(); err != nil {
		return nil, err
	}
	return o, nil
}

// load takes in one row of the log.
func (o *topKeyed) load(_ int, key, value []byte) error {
	e, _ := o.upsert(keyHash(key), key)
	o.empty(e)
	if len(value) == 0 {
		o.drop(e)
		return nil
	}
	return o.decode(e, key, value)
}

// decode takes the parts of a group into its entry, which has no rows.
func (o *topKeyed) decode(e state.Entry, key, value []byte) error {
	err := o.eachPart(key, value, func(i int, p topPart) {
		if i == 0 {
			p.write(o.table.Row(e))
		} else {
			o.older[e] = append(o.older[e], p)
		}
	})
	o.table.Row(e)[0] = groupShown
	return err
}

// eachPart reads the parts of a stored group; who visits them owns their lists.
func (o *topKeyed) eachPart(key, value []byte, visit func(i int, p topPart)) error {
	if len(value) == 0 || value[0] != topStateVersion {
		return fmt.Errorf("rows of %x begin with %x, this program knows version %d", key, value[:min(1, len(value))], topStateVersion)
	}
	for i, rest := 0, value[1:]; len(rest) > 0; i++ {
		part, next, err := cutSized(rest)
		if err != nil || len(part) < 16 {
			return fmt.Errorf("rows of %x: %w", key, errRowShort)
		}
		p := topPart{first: int64(binary.BigEndian.Uint64(part)), last: int64(binary.BigEndian.Uint64(part[8:]))}
		if err := o.lists.offerWire(&p.list, part[16:]); err != nil {
			return fmt.Errorf("rows of %x: %w", key, err)
		}
		visit(i, p)
		rest = next
	}
	return nil
}

// upsert returns the entry of a key, which has no rows if it is new or had
// expired, and says whether it is among the dirty ones now.
func (o *topKeyed) upsert(hash uint64, key []byte) (e state.Entry, fresh bool) {
	e, fresh = o.table.Upsert(hash, key)
	row := o.table.Row(e)
	if row[0]&groupDropped != 0 {
		row[0] = 0
		o.dropped--
		fresh = true
	}
	if fresh {
		noTopPart.write(row)
		o.live[state.GroupOf(hash)]++
		o.dirty = append(o.dirty, e)
	}
	return e, fresh
}

// empty takes all rows of a group away.
func (o *topKeyed) empty(e state.Entry) {
	p := readTopPart(o.table.Row(e))
	o.lists.clear(&p.list)
	noTopPart.write(o.table.Row(e))
	for _, q := range o.older[e] {
		o.lists.clear(&q.list)
	}
	delete(o.older, e)
}

func (o *topKeyed) drop(e state.Entry) {
	o.empty(e)
	o.table.Row(e)[0] = groupDropped
	o.dropped++
	o.live[state.GroupOf(o.table.Hash(e))]--
}

// Process implements dataflow.Operator.
func (o *topKeyed) Process(_ context.Context, _ int, b arrow.RecordBatch, _ dataflow.Emitter) error {
	hashes := b.Column(0).(*array.Uint64).Uint64Values()
	keys, items := b.Column(1).(*array.Binary), b.Column(4).(*array.Binary)
	from, to := b.Column(2).(*array.Int64).Int64Values(), b.Column(3).(*array.Int64).Int64Values()
	for i, h := range hashes {
		if i%windowWarm == 0 {
			o.table.Warm(hashes[i:min(i+windowWarm, len(hashes))])
		}
		e, fresh := o.upsert(h, keys.Value(i))
		if fresh && len(o.cold.steps) > 0 {
			if err := o.wake(e, h, keys.Value(i)); err != nil {
				return err
			}
		}
		if o.table.Row(e)[0] == groupShown {
			o.keepFormer(e)
		}
		if err := o.add(e, from[i], to[i], items.Value(i)); err != nil {
			return fmt.Errorf("take in the rows of a batch: %w", err)
		}
		if fresh {
			o.due.add(e, readTopPart(o.table.Row(e)).last)
		}
	}
	return nil
}

// keepFormer copies the list of e as it is at the first change after a barrier.
func (o *topKeyed) keepFormer(e state.Entry) {
	o.dirty = append(o.dirty, e)
	row := o.table.Row(e)
	items := o.lists.of(readTopPart(row).list)
	row[0] |= uint64(len(o.formers) + 1)
	o.formers = append(o.formers, topFormer{len(o.formerItems), len(items)})
	o.formerItems = append(o.formerItems, items...)
	for i := range items {
		o.formerBytes += int64(items[i].place + items[i].value)
	}
}

// former is what the table has of a group.
func (o *topKeyed) former(e state.Entry) []topItem {
	at := o.table.Row(e)[0] & groupPlace
	if at == 0 {
		return nil
	}
	f := o.formers[at-1]
	return o.formerItems[f.from : f.from+f.n]
}

// apart says whether rows up to last and rows from first on are of different
// parts.
func (o *topKeyed) apart(last, first int64) bool { return !o.last && first-last > o.keep }

// add puts rows into the part of the group that they belong to.
func (o *topKeyed) add(e state.Entry, from, to int64, items []byte) error {
	row := o.table.Row(e)
	p := readTopPart(row)
	switch {
	case p.empty():
	case o.apart(p.last, from): // A later part: what was the latest goes beside.
		o.older[e] = append(o.older[e], p)
		p = noTopPart
	case o.apart(to, p.first):
		q := topPart{first: from, last: to}
		if err := o.lists.offerWire(&q.list, items); err != nil {
			return err
		}
		o.addOlder(e, q)
		return nil
	}
	p.first, p.last = min(p.first, from), max(p.last, to)
	err := o.lists.offerWire(&p.list, items)
	for i := 0; i < len(o.older[e]); i++ { // Parts that now touch the latest one.
		if q := o.older[e][i]; !o.apart(q.last, p.first) {
			p = o.join(p, q)
			o.setOlder(e, slices.Delete(o.older[e], i, i+1))
			i = -1
		}
	}
	p.write(row)
	return err
}

// join puts q into p.
func (o *topKeyed) join(p, q topPart) topPart {
	p.first, p.last = min(p.first, q.first), max(p.last, q.last)
	o.lists.merge(&p.list, q.list)
	o.lists.clear(&q.list)
	return p
}

// addOlder adds p to the earlier parts, joining those that it touches.
func (o *topKeyed) addOlder(e state.Entry, p topPart) {
	parts := o.older[e]
	for i := 0; i < len(parts); i++ {
		if q := parts[i]; !o.apart(q.last, p.first) && !o.apart(p.last, q.first) {
			p = o.join(p, q)
			parts, i = slices.Delete(parts, i, i+1), -1
		}
	}
	o.older[e] = append(parts, p)
}

func (o *topKeyed) setOlder(e state.Entry, parts []topPart) {
	if len(parts) == 0 {
		delete(o.older, e)
		return
	}
	o.older[e] = parts
}

// OnWatermark implements dataflow.WatermarkHandler. Groups expire here, not only at
// barriers: while old input is read fast, many come and go between two. The end of
// all input expires what the greatest watermark of all splits has passed, no more:
// the next run goes on from there. The watermark before it would not do, since how
// far that comes depends on which split is read last. A dedup, whose table does not
// show what it forgets, forgets nothing then.
func (o *topKeyed) OnWatermark(ctx context.Context, wm dataflow.Time, out dataflow.Emitter) error {
	if wm == dataflow.MaxTime {
		if o.last || o.env.Last == nil {
			return nil
		}
		wm = max(o.wm, o.env.Last())
	}
	o.wm = wm
	return o.expire(ctx, out)
}

// OnBarrier implements dataflow.BarrierHandler: it gives the changes since the
// last barrier and writes what changed.
func (o *topKeyed) OnBarrier(ctx context.Context, _ dataflow.Epoch, out dataflow.Emitter) error {
	if err := o.expire(ctx, out); err != nil {
		return err
	}
	for _, e := range o.dirty {
		row := o.table.Row(e)
		if row[0] == groupShown || row[0]&groupDropped != 0 {
			continue
		}
		if err := o.changes.compare(ctx, &o.lists, o.former(e), o.lists.of(readTopPart(row).list), out); err != nil {
			return err
		}
		row[0] = groupShown
		if err := o.store(e); err != nil {
			return fmt.Errorf("store rows: %w", err)
		}
	}
	if err := o.changes.flush(ctx, out); err != nil {
		return err
	}
	o.dirty = o.dirty[:0]
	o.formers, o.formerItems, o.formerBytes = o.formers[:0], o.formerItems[:0], 0
	o.compact()
	if err := o.shrink(); err != nil {
		return err
	}
	if err := o.rewrite(); err != nil {
		return err
	}
	return o.log.flush()
}

func (o *topKeyed) store(e state.Entry) error {
	o.encode(e)
	return o.log.put(state.GroupOf(o.table.Hash(e)), o.table.Key(e), o.buf)
}

// encode makes o.buf the value of a group.
func (o *topKeyed) encode(e state.Entry) {
	o.buf = append(o.buf[:0], topStateVersion)
	o.buf = o.appendPart(o.buf, readTopPart(o.table.Row(e)))
	for _, p := range o.older[e] {
		o.buf = o.appendPart(o.buf, p)
	}
}

func (o *topKeyed) appendPart(dst []byte, p topPart) []byte {
	return appendSized(dst, func(dst []byte) []byte {
		dst = binary.BigEndian.AppendUint64(dst, uint64(p.first))
		dst = binary.BigEndian.AppendUint64(dst, uint64(p.last))
		return o.lists.appendWire(dst, p.list)
	})
}

// rewrite writes the groups of those key groups again whose log is mostly what
// has been superseded.
func (o *topKeyed) rewrite() error {
	return o.log.rewrite(o.env, &o.live, o.table, func(e state.Entry) error {
		if o.table.Row(e)[0]&groupDropped != 0 {
			return nil
		}
		return o.store(e)
	})
}

// Close implements dataflow.Operator.
func (o *topKeyed) Close() error {
	o.changes.release()
	return nil
}

var (
	_ dataflow.Operator         = (*topKeyed)(nil)
	_ dataflow.WatermarkHandler = (*topKeyed)(nil)
	_ dataflow.BarrierHandler   = (*topKeyed)(nil)
)

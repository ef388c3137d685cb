package operators

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"frazil/dataflow"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// The state of a top with windows is one entry per pane and key in the key's
// group. The bytes are a format (docs/state-format.md):
//
//	key   = 't', start of the pane (8 bytes, big endian, sign bit flipped), end of
//	        the first of its windows in which the rows count (likewise), the
//	        canonical key
//	value = 0x01, then the items (see topWire)
//
//	key   = 'u', value = the end (8 bytes, as above) of the last window that has
//	        closed: where a pane is in several windows
const (
	topPanePrefix  = 't'
	topPaneVersion = 1
)

var topClosedKey = []byte{'u'}

// topWindow is the half of a top with windows behind the exchange. It keeps the
// first rows of each pane; when the watermark closes a window, its panes are put
// together and dropped where it was their last.
type topWindow struct {
	*topShape
	env    *dataflow.Env
	panes  map[topCell]*topPane
	last   *topPane // where the last row went
	wm     dataflow.Time
	closed int64 // end of the last window that has closed
	stored int64 // closed as the state has it
	sorter windowSorter
	b      *array.RecordBuilder
	buf    []byte
}

// topPane holds the first rows of a pane that count in its windows from
// cell.first on.
type topPane struct {
	cell   topCell
	next   int64        // end of the next window to close
	table  *state.Table // per key the list, as in topPart
	lists  topLists
	stored [state.NumGroups]bool // groups with entries in the KV
}

const topPaneWords = 2

func readTopList(row []uint64) topList {
	return topList{base: uint32(row[0] >> 32), n: uint32(row[0]), class: uint32(row[1])}
}

func (t topList) write(row []uint64) {
	row[0], row[1] = uint64(t.base)<<32|uint64(t.n), uint64(t.class)
}

func newTopWindow(env *dataflow.Env, s *topShape) (*topWindow, error) {
	o := &topWindow{
		topShape: s, env: env, panes: map[topCell]*topPane{}, wm: dataflow.MinTime,
		closed: int64(dataflow.MinTime), stored: int64(dataflow.MinTime),
		b: array.NewRecordBuilder(env.Alloc, s.out),
	}
	for g := env.Groups.Lo; g < env.Groups.Hi; g++ {
		if err := env.State.Scan(g, []byte{topPanePrefix}, []byte{topPanePrefix + 1}, func(key, value []byte) error {
			return o.restore(g, key[1:], value)
		}); err != nil {
			return nil, fmt.Errorf("restore panes of key group %d: %w", g, err)
		}
		if err := o.restoreClosed(g); err != nil {
			return nil, fmt.Errorf("restore windows of key group %d: %w", g, err)
		}
	}
	for _, p := range o.panes {
		p.table.ClearDirty()
		for p.next <= o.closed {
			p.next = o.windows.next(p.next)
		}
	}
	return o, nil
}

// restoreClosed reads which windows have closed. All key groups know the same.
func (o *topWindow) restoreClosed(group int) error {
	v, err := o.env.State.Get(group, topClosedKey)
	if errors.Is(err, state.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(v) != 8 {
		return fmt.Errorf("end of a window of %d bytes, expected 8", len(v))
	}
	o.closed = max(o.closed, int64(binary.BigEndian.Uint64(v)^1<<63))
	o.stored = o.closed
	return nil
}

// restore takes in one entry; key is without its prefix.
func (o *topWindow) restore(group int, key, value []byte) error {
	if len(key) < 16 || len(value) < 1 || value[0] != topPaneVersion {
		return fmt.Errorf("entry %x is not one of a pane of version %d", key, topPaneVersion)
	}
	time := func(b []byte) int64 { return int64(binary.BigEndian.Uint64(b) ^ 1<<63) }
	p := o.pane(topCell{time(key), time(key[8:])})
	p.stored[group] = true
	return p.offer(keyHash(key[16:]), key[16:], value[1:])
}

// pane returns a pane, making it if there is none.
func (o *topWindow) pane(c topCell) *topPane {
	if o.last != nil && o.last.cell == c {
		return o.last
	}
	p := o.panes[c]
	if p == nil {
		p = o.newPane()
		p.cell, p.next = c, c.first
		o.panes[c] = p
	}
	o.last = p
	return p
}

func (o *topWindow) newPane() *topPane {
	return &topPane{table: state.NewTable(topPaneWords), lists: topLists{limit: o.limit, ties: o.ties}}
}

func (p *topPane) offer(hash uint64, key, items []byte) error {
	e, _ := p.table.Upsert(hash, key)
	row := p.table.Row(e)
	t := readTopList(row)
	err := p.lists.offerWire(&t, items)
	t.write(row)
	return err
}

// Process implements dataflow.Operator.
func (o *topWindow) Process(_ context.Context, _ int, b arrow.RecordBatch, _ dataflow.Emitter) error {
	hashes := b.Column(0).(*array.Uint64).Uint64Values()
	keys, items := b.Column(1).(*array.Binary), b.Column(4).(*array.Binary)
	starts, firsts := b.Column(2).(*array.Int64).Int64Values(), b.Column(3).(*array.Int64).Int64Values()
	for i, h := range hashes {
		if due := o.due(firsts[i]); due <= int64(o.wm) {
			return fmt.Errorf("%w: it closed at %s, the watermark is %s", errWindowFired, dataflow.Time(due), o.wm)
		}
		if err := o.pane(topCell{starts[i], firsts[i]}).offer(h, keys.Value(i), items.Value(i)); err != nil {
			return fmt.Errorf("take in the rows of a batch: %w", err)
		}
	}
	return nil
}

// OnWatermark implements dataflow.WatermarkHandler: windows close in the order of
// their ends. What a drained source closes early is remembered by Closed, so that
// rows which come for it in a later run are late.
func (o *topWindow) OnWatermark(ctx context.Context, wm dataflow.Time, out dataflow.Emitter) error {
	o.wm = wm
	for {
		end := int64(math.MaxInt64)
		for _, p := range o.panes {
			end = min(end, p.next)
		}
		if len(o.panes) == 0 || o.due(end) > int64(wm) {
			return nil
		}
		if err := o.close(ctx, end, out); err != nil {
			return err
		}
		if wm == dataflow.MaxTime && o.env.Closed != nil {
			o.env.Closed.Raise(dataflow.Time(o.due(end)))
		}
	}
}

// close gives the result of the window that ends at end.
func (o *topWindow) close(ctx context.Context, end int64, out dataflow.Emitter) error {
	o.closed = end
	var parts []*topPane
	for _, p := range o.panes {
		if p.next == end {
			parts = append(parts, p)
		}
	}
	all := parts[0]
	if len(parts) > 1 {
		all = o.newPane()
		for _, p := range parts {
			all.take(p)
		}
	}
	if err := o.give(ctx, all, end, out); err != nil {
		return err
	}
	for _, p := range parts {
		if end < o.windows.last(p.cell.start) {
			p.next = o.windows.next(end)
			continue
		}
		if err := o.forget(p); err != nil {
			return err
		}
		o.last = nil
		delete(o.panes, p.cell)
	}
	return nil
}

// take offers all rows of q.
func (p *topPane) take(q *topPane) {
	for i := range q.table.Len() {
		p.takeKey(q, q.table.At(i))
	}
}

// takeKey offers the rows of one key of q.
func (p *topPane) takeKey(q *topPane, e state.Entry) {
	n, _ := p.table.Upsert(q.table.Hash(e), q.table.Key(e))
	t := readTopList(p.table.Row(n))
	items := q.lists.of(readTopList(q.table.Row(e)))
	for i := range items {
		w := q.lists.wireOf(&items[i])
		if !p.lists.offer(&t, &w) {
			break
		}
	}
	t.write(p.table.Row(n))
}

// give sends the rows of a window in the order of their keys' bytes and their
// place.
func (o *topWindow) give(ctx context.Context, p *topPane, end int64, out dataflow.Emitter) error {
	n := 0
	flush := func() error {
		if n == 0 {
			return nil
		}
		o.env.Fates.Created.Add(int64(n))
		n = 0
		return out.Emit(ctx, groupOut, o.b.NewRecordBatch())
	}
	for _, x := range o.sorter.sort(p.table) {
		rows, err := o.append(p, x.entry, end)
		if err != nil {
			return err
		}
		if n += rows; n >= windowResultRows {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// append adds the first rows of a key to o.b and returns how many there are.
func (o *topWindow) append(p *topPane, e state.Entry, end int64) (int, error) {
	items := p.lists.of(readTopList(p.table.Row(e)))
	rank := 1
	for i := range items {
		if w := p.lists.wireOf(&items[i]); i > 0 && (!o.ties || p.lists.compareTerms(&w, &items[i-1]) != 0) {
			rank = i + 1
		}
		if err := o.appendRow(p.lists.rowOf(&items[i]), rank, end); err != nil {
			return 0, err
		}
	}
	return len(items), nil
}

func (o *topWindow) appendRow(row []byte, rank int, end int64) error {
	cols := o.b.Fields()
	if err := decodeRow(row, cols[:o.users]); err != nil {
		return fmt.Errorf("decode a row: %w", err)
	}
	for i := o.users; i < o.rows.NumFields(); i++ {
		switch o.rows.Field(i).Name {
		case o.rank:
			cols[i].(*array.Int64Builder).Append(int64(rank))
		case "window_start":
			cols[i].(*array.TimestampBuilder).Append(arrow.Timestamp(o.windows.start(end)))
		case "window_end":
			cols[i].(*array.TimestampBuilder).Append(arrow.Timestamp(end))
		}
	}
	// As the results of a window: see windowResults.
	sys := cols[o.rows.NumFields():]
	sys[0].(*array.Int64Builder).Append(end - 1)
	sys[1].(*array.Int64Builder).Append(end - 1)
	return nil
}

// forget removes a pane from the state.
func (o *topWindow) forget(p *topPane) error {
	lo := p.cell.appendKey([]byte{topPanePrefix})
	hi := topCell{p.cell.start, p.cell.first + 1}.appendKey([]byte{topPanePrefix})
	for g, stored := range p.stored {
		if !stored {
			continue
		}
		if err := o.env.State.DeleteRange(g, lo, hi); err != nil {
			return fmt.Errorf("remove a pane from key group %d: %w", g, err)
		}
	}
	return nil
}

func (c topCell) appendKey(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.start)^1<<63)
	return binary.BigEndian.AppendUint64(dst, uint64(c.first)^1<<63)
}

// OnBarrier implements dataflow.BarrierHandler.
func (o *topWindow) OnBarrier(context.Context, dataflow.Epoch, dataflow.Emitter) error {
	for _, p := range o.panes {
		if err := o.store(p); err != nil {
			return err
		}
	}
	if o.single || o.closed == o.stored {
		return nil
	}
	o.stored = o.closed
	v := binary.BigEndian.AppendUint64(nil, uint64(o.closed)^1<<63)
	for g := o.env.Groups.Lo; g < o.env.Groups.Hi; g++ {
		if err := o.env.State.Set(g, topClosedKey, v); err != nil {
			return fmt.Errorf("store which windows have closed: %w", err)
		}
	}
	return nil
}

// store writes the changed entries of a pane.
func (o *topWindow) store(p *topPane) error {
	err := p.table.Dirty(func(e state.Entry) error {
		group := state.GroupOf(p.table.Hash(e))
		p.stored[group] = true
		o.buf = append(p.cell.appendKey(append(o.buf[:0], topPanePrefix)), p.table.Key(e)...)
		n := len(o.buf)
		o.buf = p.lists.appendWire(append(o.buf, topPaneVersion), readTopList(p.table.Row(e)))
		return o.env.State.Set(group, o.buf[:n], o.buf[n:])
	})
	if err != nil {
		return fmt.Errorf("store the pane of %s: %w", dataflow.Time(p.cell.start), err)
	}
	p.table.ClearDirty()
	if p.lists.sparse(0) {
		p.lists.compact(func(move func([]topItem)) {
			for i := range p.table.Len() {
				move(p.lists.of(readTopList(p.table.Row(p.table.At(i)))))
			}
		})
	}
	return nil
}

// Close implements dataflow.Operator.
func (o *topWindow) Close() error {
	o.b.Release()
	return nil
}

var (
	_ dataflow.Operator         = (*topWindow)(nil)
	_ dataflow.WatermarkHandler = (*topWindow)(nil)
	_ dataflow.BarrierHandler   = (*topWindow)(nil)
)

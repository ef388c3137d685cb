package operators

import (
	"bytes"
	"context"
	"slices"

	"frazil/dataflow"
	"frazil/operators/expr"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// topUpdatesBefore is the half of a top over a changelog in front of the exchange:
// it finds the group of each change and where its row stands in the order. It holds
// nothing between batches.
type topUpdatesBefore struct {
	*topShape
	env   *dataflow.Env
	keys  *byFeed
	ids   *keyEncoder
	evals []*expr.Evaluator
	rows  rowEncoder
	order *topOrder
	op    int
	bad   *dataflow.BadRows

	failed   []bool // per row: it has no place in the order
	badRows  []windowBadRow
	prefix   []uint64
	row, buf []byte
	// waiting is the key of a row that is taken away, if the next change does not
	// put another in its place.
	waiting topUpdateKey
	now     topUpdateKey
}

// topUpdateKey says which row of which group a change is of.
type topUpdateKey struct {
	there   bool
	key, id []byte
}

func newTopUpdatesBefore(env *dataflow.Env, s *topShape) (*topUpdatesBefore, error) {
	keys, err := s.by.newFeed(env)
	if err != nil {
		return nil, err
	}
	ids, err := newKeyEncoder(s.input, s.updates.id)
	if err != nil {
		return nil, err
	}
	o := &topUpdatesBefore{
		topShape: s, env: env, keys: keys, ids: ids, op: dataflow.Column(s.input, dataflow.SysOp), bad: dataflow.NewBadRows(env),
	}
	o.order = newTopOrder(s.input, s.order, env, &o.rows)
	o.order.key = ids
	for _, t := range s.order {
		o.evals = append(o.evals, t.By.NewEvaluator(env.Alloc))
	}
	return o, nil
}

// Process implements dataflow.Operator.
func (o *topUpdatesBefore) Process(ctx context.Context, _ int, b arrow.RecordBatch, out dataflow.Emitter) error {
	defer o.keys.unbind()
	if err := o.keys.bind(b); err != nil {
		return err
	}
	o.ids.bind(b)
	ops := b.Column(o.op).(*array.Uint8).Uint8Values()
	o.failed, o.badRows = slices.Grow(o.failed[:0], len(ops))[:len(ops)], o.badRows[:0]
	clear(o.failed)
	args, err := evalAll(o.evals, b, func(i int, e expr.RowError) {
		if o.failed[e.Row] {
			return
		}
		o.failed[e.Row] = true
		if dataflow.Op(ops[e.Row]).Puts() {
			o.badRows = append(o.badRows, windowBadRow{e.Row, dataflow.Bad{Reason: e.Bad.Reason, Detail: "order_by " + o.topShape.order[i].By.String() + ": " + e.Bad.Detail}})
		}
	})
	if err != nil {
		return err
	}
	defer releaseAll(args)
	o.rows.bind(b, o.users)
	o.order.bindRows(args, b)
	o.prefix = slices.Grow(o.prefix[:0], len(ops))[:len(ops)]
	o.order.prefixes(o.prefix)
	o.env.Fates.Bad.Add(int64(len(o.badRows)))
	o.env.Fates.Absorbed.Add(int64(len(ops) - len(o.badRows)))
	if err := o.emitBad(ctx, b, out); err != nil {
		return err
	}
	return out.Emit(ctx, groupOut, o.changes(ops))
}

func (o *topUpdatesBefore) emitBad(ctx context.Context, b arrow.RecordBatch, out dataflow.Emitter) error {
	if len(o.badRows) == 0 {
		return nil
	}
	slices.SortFunc(o.badRows, func(a, b windowBadRow) int { return a.row - b.row })
	for _, r := range o.badRows {
		o.bad.AddRow(&r.bad, b, r.row)
	}
	return out.Emit(ctx, topUpdatesBad, o.bad.Flush())
}

// changes returns the bound rows in the schema of the exchange. A row without a
// place in the order takes the one that it follows away. One that is taken away
// for the next change to put another is left out.
func (o *topUpdatesBefore) changes(ops []uint8) arrow.RecordBatch {
	b := array.NewRecordBuilder(o.env.Alloc, topUpdatesExchange)
	defer b.Release()
	b.Reserve(len(ops))
	o.waiting.there = false
	for i, op := range ops {
		o.now.key = o.keys.enc.append(o.now.key[:0], i)
		o.now.id = o.ids.append(o.now.id[:0], i)
		if w := &o.waiting; w.there && !(bytes.Equal(w.key, o.now.key) && bytes.Equal(w.id, o.now.id)) {
			o.put(b, w, nil)
		}
		o.waiting.there = false
		if !dataflow.Op(op).Puts() || o.failed[i] {
			o.now.there = true
			o.waiting, o.now = o.now, o.waiting
			continue
		}
		o.put(b, &o.now, o.item(i))
	}
	if o.waiting.there {
		o.put(b, &o.waiting, nil)
	}
	return b.NewRecordBatch()
}

// item is a row as it travels.
func (o *topUpdatesBefore) item(i int) []byte {
	place, terms := o.order.place(o.buf[:0], i)
	o.buf = place
	o.row = o.rows.append(o.row[:0], i)
	n := len(o.buf)
	o.buf = appendTopWire(o.buf, topWire{o.prefix[i], terms, o.buf[:n:n], o.row})
	return o.buf[n:]
}

func (o *topUpdatesBefore) put(b *array.RecordBuilder, k *topUpdateKey, item []byte) {
	hash := keyHash(k.key)
	if o.updates.oneTask {
		hash = keyHash(nil)
	}
	b.Field(0).(*array.Uint64Builder).Append(hash)
	b.Field(1).(*array.BinaryBuilder).Append(k.key)
	b.Field(2).(*array.BinaryBuilder).Append(k.id)
	b.Field(3).(*array.BinaryBuilder).Append(item)
}

// Close implements dataflow.Operator.
func (o *topUpdatesBefore) Close() error {
	o.bad.Release()
	return nil
}

var _ dataflow.Operator = (*topUpdatesBefore)(nil)

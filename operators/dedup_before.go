package operators

import (
	"context"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/zeebo/xxh3"
)

// dedupHashSeed is the seed of the 128-bit hash by which keys are compared. It
// is part of the state's format.
//
// Two keys with one hash would make the second a false duplicate. Among n keys
// that are remembered at one time the chance that any two meet is about
// n*n/2^129: for a thousand million keys 1.5e-21, far below that of an
// unnoticed memory error. The hash is not keyed against people who choose keys
// to collide; who can write such keys can also write rows.
const dedupHashSeed uint64 = 0x66726178696c6432

// dedupBefore is the half in front of the exchange: it takes late rows out and
// adds the key's hash. It keeps nothing.
type dedupBefore struct {
	env      *dataflow.Env
	within   time.Duration
	enc      *keyEncoder
	exchange *arrow.Schema
	late     *arrow.Schema
	time     int // column
	stamp    int // column
	user     int // number of user columns
	key      []byte
	lateRows []int32
	goodRows []int32
}

func newDedupBefore(_ context.Context, env *dataflow.Env, in component.OperatorIn, cfg DedupConfig) (dataflow.Operator, error) {
	schema := in.Inputs[0].Schema
	cols, problems := dedupKeyColumns(schema, cfg.Key)
	if len(problems) > 0 {
		return nil, problems
	}
	enc, err := newKeyEncoder(schema, cols)
	if err != nil {
		return nil, err
	}
	return &dedupBefore{
		env: env, within: cfg.Within.D(), enc: enc,
		exchange: dedupExchange(schema), late: dedupLateSchema(schema),
		time: dataflow.Column(schema, dataflow.SysTime), stamp: dataflow.Column(schema, dataflow.SysStamp),
		user: len(dataflow.UserFields(schema)),
	}, nil
}

// Process implements dataflow.Operator.
func (o *dedupBefore) Process(ctx context.Context, _ int, b arrow.RecordBatch, out dataflow.Emitter) error {
	if !o.splitLate(b) {
		return o.forward(ctx, b, out)
	}
	if err := o.emitLate(ctx, b, out); err != nil {
		return err
	}
	good, err := dataflow.TakeBatch(o.env.Alloc, b, o.goodRows)
	if err != nil {
		return err
	}
	defer good.Release()
	return o.forward(ctx, good, out)
}

// splitLate fills lateRows and goodRows, and says whether there are late rows;
// if not, goodRows is not filled.
func (o *dedupBefore) splitLate(b arrow.RecordBatch) bool {
	times := b.Column(o.time).(*array.Int64).Int64Values()
	stamps := b.Column(o.stamp).(*array.Int64).Int64Values()
	o.lateRows, o.goodRows = o.lateRows[:0], o.goodRows[:0]
	for i, t := range times {
		if dataflow.Time(t) < dataflow.Time(stamps[i]).Sub(o.within) {
			o.lateRows = append(o.lateRows, int32(i))
		}
	}
	if len(o.lateRows) == 0 {
		return false
	}
	late := o.lateRows
	for i := range times {
		if len(late) > 0 && late[0] == int32(i) {
			late = late[1:]
			continue
		}
		o.goodRows = append(o.goodRows, int32(i))
	}
	return true
}

func (o *dedupBefore) emitLate(ctx context.Context, b arrow.RecordBatch, out dataflow.Emitter) error {
	rows, err := dataflow.TakeBatch(o.env.Alloc, b, o.lateRows)
	if err != nil {
		return err
	}
	defer rows.Release()
	n := int(rows.NumRows())
	o.env.Fates.Late.Add(int64(n))
	times := rows.Column(o.time).(*array.Int64).Int64Values()
	stamps := rows.Column(o.stamp).(*array.Int64).Int64Values()
	wm := array.NewTimestampBuilder(o.env.Alloc, dataflow.TypeTimestampTZ.(*arrow.TimestampType))
	defer wm.Release()
	by := array.NewInt64Builder(o.env.Alloc)
	defer by.Release()
	for i := range n {
		wm.Append(arrow.Timestamp(stamps[i]))
		by.Append(int64(dataflow.Time(stamps[i]).Sub(o.within)) - times[i])
	}
	wmCol, byCol := wm.NewArray(), by.NewArray()
	defer wmCol.Release()
	defer byCol.Release()
	cols := append([]arrow.Array{}, rows.Columns()[:o.user]...)
	cols = append(cols, wmCol, byCol)
	cols = append(cols, rows.Columns()[o.user:]...)
	return out.Emit(ctx, dedupLate, array.NewRecordBatch(o.late, cols, int64(n)))
}

// forward sends b with its hashes through the exchange.
func (o *dedupBefore) forward(ctx context.Context, b arrow.RecordBatch, out dataflow.Emitter) error {
	n := int(b.NumRows())
	if n == 0 {
		return nil
	}
	hiBuf, hi := newUint64Buffer(o.env.Alloc, n)
	defer hiBuf.Release()
	loBuf, lo := newUint64Buffer(o.env.Alloc, n)
	defer loBuf.Release()
	o.enc.bind(b)
	for i := range n {
		o.key = o.enc.append(o.key[:0], i)
		h := xxh3.Hash128Seed(o.key, dedupHashSeed)
		hi[i], lo[i] = h.Hi, h.Lo
	}
	hiCol, loCol := uint64Column(hiBuf, n), uint64Column(loBuf, n)
	defer hiCol.Release()
	defer loCol.Release()
	cols := make([]arrow.Array, 0, len(b.Columns())+2)
	cols = append(append(cols, b.Columns()...), hiCol, loCol)
	return out.Emit(ctx, dedupOut, array.NewRecordBatch(o.exchange, cols, int64(n)))
}

func newUint64Buffer(alloc memory.Allocator, n int) (*memory.Buffer, []uint64) {
	b := memory.NewResizableBuffer(alloc)
	b.Resize(n * arrow.Uint64SizeBytes)
	return b, arrow.Uint64Traits.CastFromBytes(b.Bytes())
}

func uint64Column(b *memory.Buffer, n int) arrow.Array {
	d := array.NewData(arrow.PrimitiveTypes.Uint64, n, []*memory.Buffer{nil, b}, nil, 0, 0)
	defer d.Release()
	return array.NewUint64Data(d)
}

// Close implements dataflow.Operator.
func (o *dedupBefore) Close() error { return nil }

var _ dataflow.Operator = (*dedupBefore)(nil)

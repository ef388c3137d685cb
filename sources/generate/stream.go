package generate

import (
	"math"
	"strconv"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// stream is what the kinds have in common: records by split and index. One
// goroutine uses it.
type stream interface {
	splits() int
	// length is the number of records of a split, endless if it has no end.
	length(split int) int64
	// arrived is the simulated time of a record.
	arrived(split int, i int64) dataflow.Time
	// batch makes the records from up to, not including, to; fewer once they
	// reach a number of bytes. It returns rows and bad rows, each nil if there
	// are none, and the index after the last record.
	batch(split int, from, to, bytes int64) (rows, bad arrow.RecordBatch, next int64)
	close()
}

const endless = math.MaxInt64

// withPlaces is schema with the system columns that a source adds.
func withPlaces(schema *arrow.Schema) *arrow.Schema {
	return arrow.NewSchema(append(append([]arrow.Field{}, schema.Fields()...),
		arrow.Field{Name: dataflow.SysPos, Type: dataflow.TypeInt64},
		arrow.Field{Name: dataflow.SysArrived, Type: dataflow.TypeInt64}), nil)
}

func int64s(alloc memory.Allocator, values []int64) arrow.Array {
	b := array.NewInt64Builder(alloc)
	defer b.Release()
	b.AppendValues(values, nil)
	return b.NewArray()
}

// newBatch takes over the columns.
func newBatch(schema *arrow.Schema, cols []arrow.Array) arrow.RecordBatch {
	b := array.NewRecordBatch(schema, cols, int64(cols[0].Len()))
	for _, c := range cols {
		c.Release()
	}
	return b
}

// fleetStream decodes the payloads of a Fleet.
type fleetStream struct {
	*Fleet
	alloc   memory.Allocator
	dec     dataflow.Decoder
	schema  *arrow.Schema
	bad     *dataflow.BadRows
	payload []byte
	pos, at []int64
}

func newFleetStream(f *Fleet, env *dataflow.Env) (*fleetStream, error) {
	dec, err := env.NewDecoder()
	if err != nil {
		return nil, err
	}
	return &fleetStream{Fleet: f, alloc: alloc(env), dec: dec, schema: withPlaces(dec.Schema()), bad: dataflow.NewBadRows(env)}, nil
}

func (s *fleetStream) splits() int            { return s.Splits() }
func (s *fleetStream) length(split int) int64 { return s.Len(split) }
func (s *fleetStream) close() {
	s.bad.Release()
	if d, ok := s.dec.(interface{ Release() }); ok {
		d.Release()
	}
}

func (s *fleetStream) arrived(split int, i int64) dataflow.Time {
	return dataflow.Time(s.Fleet.arrived(split, i))
}

func (s *fleetStream) batch(split int, from, to, bytes int64) (rows, bad arrow.RecordBatch, next int64) {
	s.pos, s.at = s.pos[:0], s.at[:0]
	i, size := from, int64(0)
	for ; i < to && size < bytes; i++ {
		var at dataflow.Time
		s.payload, at = s.appendPayload(s.payload[:0], split, i)
		size += int64(len(s.payload))
		if b := s.dec.Append(s.payload); b != nil {
			s.bad.AddRaw(b, s.splitNames[split], locate(i), s.payload)
			continue
		}
		s.pos = append(s.pos, i)
		s.at = append(s.at, int64(at))
	}
	if len(s.pos) > 0 {
		rows = newBatch(s.schema, append(s.dec.Flush(), int64s(s.alloc, s.pos), int64s(s.alloc, s.at)))
	}
	return rows, s.bad.Flush(), i
}

// counterSchema has the columns of the counter.
var counterSchema = arrow.NewSchema([]arrow.Field{
	{Name: "n", Type: dataflow.TypeInt64, Nullable: true},
	{Name: "split", Type: dataflow.TypeInt32, Nullable: true},
	{Name: "ts", Type: dataflow.TypeTimestampTZ, Nullable: true},
	{Name: "key", Type: dataflow.TypeString, Nullable: true},
	{Name: "value", Type: dataflow.TypeFloat64, Nullable: true},
}, nil)

// counterRowBytes estimates the memory of one row with its system columns.
const counterRowBytes = 60

// counterStream makes rows: the n-th of all stands in split n modulo splits, is
// start + n * step old, has the key n modulo keys and the value n modulo 1000
// in tenths.
type counterStream struct {
	n           int
	count       int64
	start, step int64
	keys        []string
	schema      *arrow.Schema
	b           *array.RecordBuilder
}

func newCounterStream(c CounterConfig, mem memory.Allocator) (*counterStream, error) {
	if p := c.check(); len(p) > 0 {
		return nil, p
	}
	start, err := parseStart(c.Start)
	if err != nil {
		return nil, err
	}
	s := &counterStream{n: c.Splits, count: c.Count, start: start, step: c.Step.D().Microseconds(), schema: withPlaces(counterSchema)}
	for k := range c.Keys {
		s.keys = append(s.keys, "key-"+strconv.Itoa(k))
	}
	s.b = array.NewRecordBuilder(mem, s.schema)
	return s, nil
}

func (s *counterStream) splits() int { return s.n }
func (s *counterStream) close()      { s.b.Release() }

func (s *counterStream) length(split int) int64 {
	if s.count == 0 {
		return endless
	}
	return (s.count - int64(split) + int64(s.n) - 1) / int64(s.n)
}

func (s *counterStream) number(split int, i int64) int64 { return i*int64(s.n) + int64(split) }

func (s *counterStream) arrived(split int, i int64) dataflow.Time {
	return dataflow.Time(s.start + s.number(split, i)*s.step)
}

func (s *counterStream) batch(split int, from, to, bytes int64) (rows, bad arrow.RecordBatch, next int64) {
	to = min(to, from+max(1, bytes/counterRowBytes))
	s.b.Reserve(int(to - from))
	s.b.Field(3).(*array.StringBuilder).ReserveData(int(to-from) * len(s.keys[len(s.keys)-1]))
	n := s.b.Field(0).(*array.Int64Builder)
	sp := s.b.Field(1).(*array.Int32Builder)
	ts := s.b.Field(2).(*array.TimestampBuilder)
	key := s.b.Field(3).(*array.StringBuilder)
	value := s.b.Field(4).(*array.Float64Builder)
	pos := s.b.Field(5).(*array.Int64Builder)
	at := s.b.Field(6).(*array.Int64Builder)
	for i := from; i < to; i++ {
		num := s.number(split, i)
		t := s.start + num*s.step
		n.UnsafeAppend(num)
		sp.UnsafeAppend(int32(split))
		ts.UnsafeAppend(arrow.Timestamp(t))
		key.Append(s.keys[num%int64(len(s.keys))])
		value.UnsafeAppend(float64(num%1000) / 10)
		pos.UnsafeAppend(i)
		at.UnsafeAppend(t)
	}
	return s.b.NewRecordBatch(), nil, to
}

func alloc(env *dataflow.Env) memory.Allocator {
	if env.Alloc == nil {
		return memory.DefaultAllocator
	}
	return env.Alloc
}

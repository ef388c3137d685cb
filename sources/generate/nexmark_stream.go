package generate

import (
	"encoding/binary"
	"fmt"
	"slices"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// nexKind is one of the three kinds of records: where it stands in each epoch
// of 50 events, and its columns.
type nexKind struct {
	name        string
	first, each int64
	// rowBytes estimates the memory of a row with all columns.
	rowBytes int64
	columns  []nexColumn
}

type nexColumn struct {
	name string
	typ  arrow.DataType
	make func(s *nexmarkStream, events []int64) arrow.Array
}

func nexInt64(name string, value func(*Nexmark, int64) int64) nexColumn {
	return nexColumn{name, dataflow.TypeInt64, func(s *nexmarkStream, events []int64) arrow.Array {
		return s.numbers(dataflow.TypeInt64, events, value)
	}}
}

func nexTime(name string, millis func(*Nexmark, int64) int64) nexColumn {
	return nexColumn{name, dataflow.TypeTimestampTZ, func(s *nexmarkStream, events []int64) arrow.Array {
		return s.numbers(dataflow.TypeTimestampTZ, events, func(g *Nexmark, n int64) int64 { return millis(g, n) * 1000 })
	}}
}

func nexSpan(name string, table func(*Nexmark) *spans, span func(*Nexmark, int64) (uint32, uint32)) nexColumn {
	return nexColumn{name, dataflow.TypeString, func(s *nexmarkStream, events []int64) arrow.Array {
		return s.texts(events, table(s.Nexmark).text, span)
	}}
}

func nexAppended(name string, appendTo func(*Nexmark, []byte, int64) []byte) nexColumn {
	return nexColumn{name, dataflow.TypeString, func(s *nexmarkStream, events []int64) arrow.Array {
		return s.appended(events, appendTo)
	}}
}

// dateTime is made for each batch anyway.
var dateTime = nexColumn{"dateTime", dataflow.TypeTimestampTZ, func(s *nexmarkStream, _ []int64) arrow.Array {
	return s.timesAs(dataflow.TypeTimestampTZ)
}}

func letters(g *Nexmark) *spans { return &g.letters }

var nexKinds = []nexKind{
	{"bid", 1 + nexAuctions, nexBids, 280, []nexColumn{
		nexInt64("auction", (*Nexmark).bidAuction),
		nexInt64("bidder", (*Nexmark).bidBidder),
		nexInt64("price", (*Nexmark).bidPrice),
		nexSpan("channel", func(g *Nexmark) *spans { return &g.channels }, func(g *Nexmark, n int64) (uint32, uint32) { return g.channels.at(g.bidChannel(n)) }),
		nexSpan("url", func(g *Nexmark) *spans { return &g.urls }, func(g *Nexmark, n int64) (uint32, uint32) { return g.urls.at(g.bidChannel(n)) }),
		dateTime,
		nexSpan("extra", letters, (*Nexmark).bidExtra),
	}},
	{"auction", 1, nexAuctions, 580, []nexColumn{
		nexInt64("id", func(_ *Nexmark, n int64) int64 { return nexFirstID + lastAuction(n) }),
		nexSpan("itemName", letters, (*Nexmark).itemName),
		nexSpan("description", letters, (*Nexmark).description),
		nexInt64("initialBid", (*Nexmark).initialBid),
		nexInt64("reserve", (*Nexmark).reserve),
		dateTime,
		nexTime("expires", (*Nexmark).expires),
		nexInt64("seller", (*Nexmark).auctionSeller),
		nexInt64("category", (*Nexmark).category),
		nexSpan("extra", letters, (*Nexmark).auctionExtra),
	}},
	{"person", 0, 1, 280, []nexColumn{
		nexInt64("id", func(_ *Nexmark, n int64) int64 { return nexFirstID + lastPerson(n) }),
		nexSpan("name", func(g *Nexmark) *spans { return &g.names }, (*Nexmark).personName),
		nexAppended("emailAddress", (*Nexmark).appendEmail),
		nexAppended("creditCard", (*Nexmark).appendCard),
		nexSpan("city", func(g *Nexmark) *spans { return &g.cities }, (*Nexmark).city),
		nexSpan("state", func(g *Nexmark) *spans { return &g.states }, (*Nexmark).state),
		dateTime,
		nexSpan("extra", letters, (*Nexmark).personExtra),
	}},
}

func nexKindOf(name string) *nexKind {
	for i := range nexKinds {
		if nexKinds[i].name == name {
			return &nexKinds[i]
		}
	}
	return nil
}

// picked are the configured columns of a kind that exists.
func (c NexmarkConfig) picked() (out []nexColumn) {
	kind := nexKindOf(c.Only)
	if len(c.Columns) == 0 {
		return kind.columns
	}
	for _, name := range c.Columns {
		if i := slices.IndexFunc(kind.columns, func(k nexColumn) bool { return k.name == name }); i >= 0 {
			out = append(out, kind.columns[i])
		}
	}
	return out
}

func (c NexmarkConfig) schema() *arrow.Schema {
	var fields []arrow.Field
	for _, k := range c.picked() {
		fields = append(fields, arrow.Field{Name: k.name, Type: k.typ})
	}
	return arrow.NewSchema(fields, nil)
}

func nexSchemaProblems(c NexmarkConfig) (p component.Problems) {
	var known []string
	for _, k := range nexKindOf(c.Only).columns {
		known = append(known, k.name)
	}
	for i, name := range c.Columns {
		path := fmt.Sprintf("columns[%d]", i)
		switch {
		case !slices.Contains(known, name):
			p = append(p, component.Problem{Path: path, Msg: fmt.Sprintf("a %s has no column %q%s; columns: %s", c.Only, name, component.DidYouMean(name, known), component.Names(known))})
		case slices.Contains(c.Columns[:i], name):
			p = append(p, component.Problem{Path: path, Msg: fmt.Sprintf("column %q stands twice", name)})
		}
	}
	return p
}

// nexmarkStream makes rows column by column; record i of a split is event
// number(split, i).
type nexmarkStream struct {
	*Nexmark
	n       int64 // splits
	kind    *nexKind
	columns []nexColumn
	out     *arrow.Schema
	bytes   int64 // of a row
	alloc   memory.Allocator
	events  []int64
	from    []uint32
	scratch []byte
	// times are the event times of the batch that is made.
	times *memory.Buffer
	rows  int
}

func newNexmarkStream(c NexmarkConfig, alloc memory.Allocator) (*nexmarkStream, error) {
	g, err := NewNexmark(c)
	if err != nil {
		return nil, err
	}
	s := &nexmarkStream{Nexmark: g, n: int64(c.Splits), kind: nexKindOf(c.Only), columns: c.picked(), out: withPlaces(c.schema()), alloc: alloc}
	s.bytes = s.kind.rowBytes*int64(len(s.columns))/int64(len(s.kind.columns)) + 16
	return s, nil
}

func (s *nexmarkStream) splits() int { return int(s.n) }
func (s *nexmarkStream) close()      {}

// length counts the records of the whole epochs of a split, and those of the
// last, partial one.
func (s *nexmarkStream) length(split int) int64 {
	if s.Nexmark.events == endless {
		return endless
	}
	whole, rest := s.Nexmark.events/nexEpoch, s.Nexmark.events%nexEpoch
	rows := (whole - int64(split) + s.n - 1) / s.n * s.kind.each
	if whole%s.n == int64(split) {
		rows += min(max(rest-s.kind.first, 0), s.kind.each)
	}
	return rows
}

func (s *nexmarkStream) number(split int, i int64) int64 {
	return (i/s.kind.each*s.n+int64(split))*nexEpoch + s.kind.first + i%s.kind.each
}

func (s *nexmarkStream) arrived(split int, i int64) dataflow.Time {
	return s.arrivedAt(s.number(split, i))
}

func (s *nexmarkStream) batch(split int, from, to, bytes int64) (rows, bad arrow.RecordBatch, next int64) {
	to = min(to, from+max(1, bytes/s.bytes))
	s.rows = int(to - from)
	s.events = s.events[:0]
	for i := from; i < to; {
		// The rest of an epoch at a time.
		n, end := s.number(split, i), min(to, (i/s.kind.each+1)*s.kind.each)
		for ; i < end; i, n = i+1, n+1 {
			s.events = append(s.events, n)
		}
	}
	pos := s.buffer(8 * s.rows)
	for i := range s.int64s(pos) {
		s.int64s(pos)[i] = from + int64(i)
	}
	s.makeTimes()
	cols := make([]arrow.Array, 0, len(s.columns)+2)
	for _, c := range s.columns {
		cols = append(cols, c.make(s, s.events))
	}
	cols = append(cols, fixed(dataflow.TypeInt64, s.rows, pos), s.timesAs(dataflow.TypeInt64))
	pos.Release()
	s.times.Release()
	return newBatch(s.out, cols), nil, to
}

// makeTimes computes the event times, one division per millisecond instead of
// per event.
func (s *nexmarkStream) makeTimes() {
	s.times = s.buffer(8 * s.rows)
	times := s.int64s(s.times)
	now, next := int64(0), int64(-1)
	for i, n := range s.events {
		if n >= next {
			now, next = s.millis(n)*1000, s.nextMilli(n)
		}
		times[i] = now
	}
}

func (s *nexmarkStream) timesAs(t arrow.DataType) arrow.Array { return fixed(t, s.rows, s.times) }

// buffer has n bytes of length.
func (s *nexmarkStream) buffer(n int) *memory.Buffer {
	b := memory.NewResizableBuffer(s.alloc)
	b.Resize(n)
	return b
}

func (s *nexmarkStream) int64s(b *memory.Buffer) []int64 {
	return arrow.Int64Traits.CastFromBytes(b.Bytes())[:s.rows]
}

// fixed is an array over a buffer, which it shares.
func fixed(t arrow.DataType, n int, b *memory.Buffer) arrow.Array {
	d := array.NewData(t, n, []*memory.Buffer{nil, b}, nil, 0, 0)
	defer d.Release()
	return array.MakeFromData(d)
}

func (s *nexmarkStream) numbers(t arrow.DataType, events []int64, value func(*Nexmark, int64) int64) arrow.Array {
	b := s.buffer(8 * len(events))
	defer b.Release()
	out := s.int64s(b)
	for i, n := range events {
		out[i] = value(s.Nexmark, n)
	}
	return fixed(t, len(events), b)
}

// texts copies a span of a table per row. Steps of constant size are copied, so
// that the buffers are a step longer than what is used.
func (s *nexmarkStream) texts(events []int64, table []byte, span func(*Nexmark, int64) (uint32, uint32)) arrow.Array {
	ends := s.buffer(4 * (len(events) + 1))
	defer ends.Release()
	at := arrow.Int32Traits.CastFromBytes(ends.Bytes())[:len(events)+1]
	s.from = slices.Grow(s.from[:0], len(events))[:len(events)]
	total := uint32(0)
	at[0] = 0
	for i, n := range events {
		from, length := span(s.Nexmark, n)
		s.from[i] = from
		total += length
		at[i+1] = int32(total)
	}
	text := s.buffer(int(total) + spanStep)
	defer text.Release()
	dst := text.Bytes()
	for i, from := range s.from {
		to, end := at[i], at[i+1]
		for to < end {
			copyStep(dst[to:to+spanStep], table[from:from+spanStep])
			to, from = to+spanStep, from+spanStep
		}
	}
	text.ResizeNoShrink(int(total))
	return varying(len(events), ends, text)
}

// copyStep copies spanStep bytes without a call: two arrays that may overlap
// would be copied by one.
func copyStep(dst, src []byte) {
	a, b := binary.LittleEndian.Uint64(src), binary.LittleEndian.Uint64(src[8:])
	c, d := binary.LittleEndian.Uint64(src[16:]), binary.LittleEndian.Uint64(src[24:spanStep])
	binary.LittleEndian.PutUint64(dst, a)
	binary.LittleEndian.PutUint64(dst[8:], b)
	binary.LittleEndian.PutUint64(dst[16:], c)
	binary.LittleEndian.PutUint64(dst[24:spanStep], d)
}

// appended is for texts that are put together.
func (s *nexmarkStream) appended(events []int64, appendTo func(*Nexmark, []byte, int64) []byte) arrow.Array {
	ends := s.buffer(4 * (len(events) + 1))
	defer ends.Release()
	at := arrow.Int32Traits.CastFromBytes(ends.Bytes())[:len(events)+1]
	s.scratch = s.scratch[:0]
	at[0] = 0
	for i, n := range events {
		s.scratch = appendTo(s.Nexmark, s.scratch, n)
		at[i+1] = int32(len(s.scratch))
	}
	text := s.buffer(len(s.scratch))
	defer text.Release()
	copy(text.Bytes(), s.scratch)
	return varying(len(events), ends, text)
}

func varying(n int, ends, text *memory.Buffer) arrow.Array {
	d := array.NewData(dataflow.TypeString, n, []*memory.Buffer{nil, ends, text}, nil, 0, 0)
	defer d.Release()
	return array.NewStringData(d)
}

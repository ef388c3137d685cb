package ingest

import (
	"bytes"
	"errors"
	"time"

	"frazil/dataflow"
	"frazil/state/wal"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// group is what is written with one sync.
type group struct {
	requests []*Request
	results  []Result // sequence numbers from 0: of the group's first record
	rows     arrow.RecordBatch
	bads     []badRecord
	records  uint64
	arrived  time.Time
	frame    wal.Frame
	keys     []*keyed
}

// gather decodes what waits, group by group.
func (s *Stream) gather() {
	defer s.ended.Done()
	defer close(s.groups)
	for {
		rs := s.take()
		if rs == nil {
			return
		}
		g, err := s.group(rs)
		if err != nil {
			s.breaks(err)
			fail(rs, err)
			continue
		}
		if g != nil {
			s.groups <- g
		}
	}
}

// builder makes the rows of a group.
type builder struct {
	s       *Stream
	g       *group
	parts   [][]arrow.Array
	pending int // rows in the decoder
}

// group decodes requests and encodes what is to be written; nil: nothing is.
func (s *Stream) group(rs []*Request) (*group, error) {
	b := &builder{s: s, g: &group{arrived: s.now()}}
	var body frameBody
	for _, r := range rs {
		k, fresh := s.known(r)
		if !fresh {
			continue
		}
		at := b.g.records
		res, err := b.add(r)
		if err != nil {
			s.forget(k)
			r.Done(res, err)
			continue
		}
		b.g.requests, b.g.results = append(b.g.requests, r), append(b.g.results, res)
		b.g.keys = append(b.g.keys, k)
		if k != nil {
			body.notes = append(body.notes, note{key: r.Key, digest: r.Digest, at: at, accepted: res.Accepted, rejected: res.Rejected})
		}
	}
	if len(b.g.requests) == 0 {
		return nil, nil
	}
	b.cut()
	g := b.g
	var err error
	if g.rows, err = b.join(); err != nil {
		return nil, err
	}
	body.bads = g.bads
	if g.rows != nil {
		body.schema = s.id
		if body.rows, err = encodeRows(g.rows); err != nil {
			return nil, err
		}
	}
	g.frame = wal.Frame{Records: uint32(g.records), Arrived: g.arrived.UnixMicro(), Kind: kindRecords}
	g.frame.Body, err = body.encode(nil)
	return g, err
}

// kindRecords is the kind of the frames of a stream.
const kindRecords = 1

// add decodes the records of r.
func (b *builder) add(r *Request) (Result, error) {
	if r.Batch != nil {
		return b.addBatch(r)
	}
	if r.Atomic && len(r.Records) > 1 {
		return b.addAtomic(r)
	}
	var res Result
	bads := r.Bad
	for i, p := range r.Records {
		for len(bads) > 0 && bads[0].Index == i+len(r.Bad)-len(bads) {
			b.reject(r, &res, bads[0].Index, bads[0].Bad, bads[0].Raw)
			bads = bads[1:]
		}
		i += len(r.Bad) - len(bads)
		if bad := b.s.dec.Append(p); bad != nil {
			b.reject(r, &res, i, *bad, p)
			continue
		}
		b.metaOf(r, i)
		b.pending++
		b.take(&res)
	}
	for _, x := range bads {
		b.reject(r, &res, x.Index, x.Bad, x.Raw)
	}
	if r.Atomic && len(res.Rejected) > 0 {
		return res, ErrRejected
	}
	return res, nil
}

// reject leaves a record out, or keeps it as a bad one.
func (b *builder) reject(r *Request, res *Result, index int, bad dataflow.Bad, raw []byte) {
	if r.KeepBad {
		b.g.bads = append(b.g.bads, badRecord{at: b.g.records, bad: bad, raw: bytes.Clone(raw)})
		b.take(res)
		return
	}
	if len(res.Rejected) >= maxDetails {
		bad.Detail = ""
	}
	res.Rejected = append(res.Rejected, Rejection{index, bad.Reason, bad.Detail})
}

// maxDetails is how many rejected records of a request are answered with a
// detail; behind them there are indexes and reasons only.
const maxDetails = 1000

// take gives the next sequence number to a record of res.
func (b *builder) take(res *Result) {
	if res.Accepted == 0 {
		res.First = b.g.records
	}
	res.Last = b.g.records
	res.Accepted++
	b.g.records++
}

func (b *builder) metaOf(r *Request, i int) {
	if r.Meta != nil {
		r.Meta(b.s.meta, i)
		return
	}
	for _, m := range b.s.meta {
		m.AppendNull()
	}
}

// addAtomic decodes r apart from the others, so that it can be left out.
func (b *builder) addAtomic(r *Request) (Result, error) {
	b.cut()
	before := b.g.records
	part := *r
	part.Atomic = false
	res, err := b.add(&part)
	if err != nil || len(res.Rejected) == 0 {
		return res, err
	}
	b.cut()
	if b.g.records > before {
		last := len(b.parts) - 1
		release(b.parts[last])
		b.parts, b.g.records = b.parts[:last], before
	}
	return Result{Rejected: res.Rejected}, ErrRejected
}

func (b *builder) addBatch(r *Request) (Result, error) {
	b.cut()
	defer r.Batch.Release()
	var res Result
	if r.Atomic && len(r.Bad) > 0 {
		for _, x := range r.Bad {
			b.reject(r, &res, x.Index, x.Bad, x.Raw)
		}
		return res, ErrRejected
	}
	n, bads := int(r.Batch.NumRows()), r.Bad
	for i := range n + len(bads) {
		if len(bads) > 0 && bads[0].Index == i {
			b.reject(r, &res, i, bads[0].Bad, bads[0].Raw)
			bads = bads[1:]
			continue
		}
		b.metaOf(r, i)
		b.take(&res)
	}
	if n == 0 {
		return res, nil
	}
	cols := append([]arrow.Array{}, r.Batch.Columns()...)
	for _, c := range cols {
		c.Retain()
	}
	for _, m := range b.s.meta {
		cols = append(cols, m.NewArray())
	}
	b.parts = append(b.parts, cols)
	return res, nil
}

// cut closes the rows that the decoder holds.
func (b *builder) cut() {
	if b.pending == 0 {
		return
	}
	cols := b.s.dec.Flush()
	for _, m := range b.s.meta {
		cols = append(cols, m.NewArray())
	}
	b.parts, b.pending = append(b.parts, cols), 0
}

// join makes one batch of the parts; nil: there are no rows.
func (b *builder) join() (arrow.RecordBatch, error) {
	if len(b.parts) == 0 {
		return nil, nil
	}
	cols := b.parts[0]
	if len(b.parts) > 1 {
		cols = make([]arrow.Array, len(b.parts[0]))
		for i := range cols {
			one := make([]arrow.Array, len(b.parts))
			for j, p := range b.parts {
				one[j] = p[i]
			}
			var err error
			if cols[i], err = array.Concatenate(one, memory.DefaultAllocator); err != nil {
				return nil, err
			}
		}
		for _, p := range b.parts {
			release(p)
		}
	}
	defer release(cols)
	n := int64(b.g.records) - int64(len(b.g.bads))
	return array.NewRecordBatch(b.s.schema, cols, n), nil
}

func release(cols []arrow.Array) {
	for _, c := range cols {
		c.Release()
	}
}

// commit writes groups and answers their producers.
func (s *Stream) commit() {
	defer s.ended.Done()
	for g := range s.groups {
		s.write(g)
	}
}

func (s *Stream) write(g *group) {
	first, err := uint64(0), error(nil)
	frames := []wal.Frame{g.frame}
	if g.records > 0 || len(g.keys) > 0 {
		first, err = s.log.Append(frames)
	}
	if err != nil {
		if g.rows != nil {
			g.rows.Release()
		}
		for _, k := range g.keys {
			s.forget(k)
		}
		if errors.Is(err, wal.ErrFull) {
			s.stats.refuse("disk_full", len(g.requests))
			fail(g.requests, &BusyError{Reason: "disk_full", RetryAfter: 5 * time.Second, Detail: "the disk of the write-ahead log is full"})
			return
		}
		s.breaks(err)
		fail(g.requests, err)
		return
	}
	s.stats.accepted.Add(int64(g.records))
	s.recent.add(entry{first: first, next: first + g.records, rows: g.rows, bads: g.bads, arrived: dataflow.TimeOf(g.arrived)})
	for i, r := range g.requests {
		res := g.results[i]
		if res.Accepted > 0 {
			res.First, res.Last = first+res.First, first+res.Last
		}
		s.stats.rejected.Add(int64(len(res.Rejected)))
		s.finish(g.keys[i], res)
		s.answer(r, res)
	}
}

// answer tells the producer, now or when it is committed.
func (s *Stream) answer(r *Request, res Result) {
	if s.cfg.Ack == AckCommit && res.Accepted > 0 {
		s.mu.Lock()
		if res.Last >= s.mu.acked {
			s.mu.waiting = append(s.mu.waiting, waiting{res.Last, func() { r.Done(res, nil) }})
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
	}
	r.Done(res, nil)
}

// breaks ends the stream with err: the source reports it, and the pipeline
// starts again.
func (s *Stream) breaks(err error) {
	s.mu.Lock()
	if s.mu.broken == nil {
		s.mu.broken = err
	}
	s.mu.Unlock()
	s.recent.poke()
}

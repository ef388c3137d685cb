package ingest

import (
	"bytes"
	"fmt"
	"runtime/debug"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/failpoint"
	"frazil/state/wal"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// group is what is written with one sync.
type group struct {
	outcomes []outcome
	rows     arrow.RecordBatch // nil: none
	bads     []badRecord       // by place in the group
	notes    []note
	records  uint64
	arrived  time.Time
	frames   []wal.Frame
}

// outcome is the answer to a request, given when its group is written.
type outcome struct {
	r *Request
	// res has sequence numbers from 0, of the group's first record, if fresh.
	res Result
	err error
	// fresh: it is a part of the group, unless err is set. replay: it is a retry.
	fresh, replay bool
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
		if g := s.group(rs); len(g.outcomes) > 0 {
			s.groups <- g
		}
		s.extra.update(s.now(), s.dec)
	}
}

// builder makes the rows of a group.
type builder struct {
	s       *Stream
	g       *group
	parts   [][]arrow.Array
	pending int // rows in the decoder
}

// group decodes requests and encodes what is to be written. What a panic of the
// decoder costs is this group: none of it is kept, its producers are told so, and a
// new decoder goes on.
func (s *Stream) group(rs []*Request) (g *group) {
	b := &builder{s: s, g: &group{arrived: s.now()}}
	done := 0
	defer func() {
		if p := recover(); p != nil {
			s.logger.Error("decoding has panicked: the requests that were decoded together are refused", "panic", p, "stack", string(debug.Stack()))
			for _, r := range rs[done:] {
				b.g.outcomes = append(b.g.outcomes, outcome{r: r})
			}
			b.refuse(fmt.Errorf("%w: panic: %v", ErrUnavailable, p))
			b.anew()
		}
		g = b.g
	}()
	for _, r := range rs {
		b.request(r, &done)
	}
	err := b.finish()
	if err == nil {
		err = failpoint.Hit(failpoint.IngestGathered)
	}
	if err != nil {
		b.refuse(err)
	}
	return b.g
}

// request adds r, or its answer if it is known. done counts those that have their
// outcome, or wait for another's.
func (b *builder) request(r *Request, done *int) {
	g := b.g
	out, fresh, waits := b.s.known(r)
	*done++
	if waits {
		r.release()
		return
	}
	g.outcomes = append(g.outcomes, out)
	if fresh {
		at, o := g.records, &g.outcomes[len(g.outcomes)-1]
		*o = outcome{r: r, fresh: true}
		o.res, o.err = b.add(r)
		if r.keyed && o.err == nil && o.res.Accepted > 0 {
			n := note{key: r.key, digest: r.Digest, at: at, accepted: o.res.Accepted, rejected: o.res.Rejected}
			if r.numbered() {
				n.key, n.sequence = r.producer, r.Sequence
			}
			g.notes = append(g.notes, n)
		}
	}
	r.release()
}

// refuse gives up all that was to be written.
func (b *builder) refuse(err error) {
	for i := range b.g.outcomes {
		if o := &b.g.outcomes[i]; !o.replay && o.err == nil {
			o.res, o.err = Result{}, err
		}
		b.g.outcomes[i].r.release()
	}
	if b.g.rows != nil {
		b.g.rows.Release()
	}
	b.g.rows, b.g.records, b.g.frames, b.g.notes, b.g.bads = nil, 0, nil, nil, nil
}

// anew replaces what a panic may have left half done.
func (b *builder) anew() {
	dec, err := b.s.newDecoder()
	if err != nil {
		b.s.breaks(err)
		return
	}
	b.s.dec = dec
	b.s.newMeta()
}

// release gives up the batch of a request that was decoded.
func (r *Request) release() {
	if r.Batch != nil {
		r.Batch.Release()
		r.Batch = nil
	}
}

// kindRecords is the kind of the frames of a stream.
const kindRecords = 1

// add decodes the records of r.
func (b *builder) add(r *Request) (Result, error) {
	if r.Batch != nil {
		return b.addBatch(r)
	}
	if r.Atomic && len(r.Records)+len(r.Bad) > 1 {
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
	records, bads, parts := b.g.records, len(b.g.bads), len(b.parts)
	part := *r
	part.Atomic = false
	res, err := b.add(&part)
	if err != nil || len(res.Rejected) == 0 {
		return res, err
	}
	b.cut()
	for _, p := range b.parts[parts:] {
		release(p)
	}
	b.parts, b.g.bads, b.g.records = b.parts[:parts], b.g.bads[:bads], records
	return Result{Rejected: res.Rejected}, ErrRejected
}

func (b *builder) addBatch(r *Request) (Result, error) {
	b.cut()
	var res Result
	if r.Atomic && len(r.Bad) > 0 && !r.KeepBad {
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

// finish closes the group and encodes it.
func (b *builder) finish() (err error) {
	b.cut()
	if b.g.rows, err = b.join(); err != nil {
		return err
	}
	if b.g.frames, err = b.s.encode(b.g); err != nil && b.g.rows != nil {
		b.g.rows.Release()
		b.g.rows = nil
	}
	return err
}

// join makes one batch of the parts; nil: there are no rows.
func (b *builder) join() (arrow.RecordBatch, error) {
	if len(b.parts) == 0 {
		return nil, nil
	}
	defer func() {
		for _, p := range b.parts {
			release(p)
		}
	}()
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
				release(cols[:i])
				return nil, err
			}
		}
		defer release(cols)
	}
	n := int64(b.g.records) - int64(len(b.g.bads))
	return array.NewRecordBatch(b.s.schema, cols, n), nil
}

func release(cols []arrow.Array) {
	for _, c := range cols {
		c.Release()
	}
}

// encode makes the frames of a group: several where it is large, so that a reader
// needs little memory.
func (s *Stream) encode(g *group) ([]wal.Frame, error) {
	if g.records == 0 {
		return nil, nil
	}
	size := int64(0)
	if g.rows != nil {
		size = dataflow.BatchBytes(g.rows)
	}
	step := g.records
	if size > frameBytes {
		step = max(1, uint64(int64(g.records)*frameBytes/size))
	}
	var frames []wal.Frame
	bad := 0
	for at := uint64(0); at < g.records; at += step {
		end := min(at+step, g.records)
		body := frameBody{}
		if at == 0 {
			body.notes = g.notes
		}
		good := at - uint64(bad)
		for ; bad < len(g.bads) && g.bads[bad].at < end; bad++ {
			x := g.bads[bad]
			x.at -= at
			body.bads = append(body.bads, x)
		}
		f, err := s.encodeFrame(g, body, int64(good), int64(end-uint64(bad)))
		if err != nil {
			return nil, err
		}
		f.Records, f.Arrived = uint32(end-at), g.arrived.UnixMicro()
		frames = append(frames, f)
	}
	return frames, nil
}

// frameBytes is about how large the rows of one frame are: what a damaged bit can
// cost, and what a reader needs at once.
const frameBytes = 64 << 10

// encodeFrame encodes the rows from up to to of g.
func (s *Stream) encodeFrame(g *group, body frameBody, from, to int64) (f wal.Frame, err error) {
	f.Kind = kindRecords
	if from == to {
		f.Body, err = body.encode(nil)
		return f, err
	}
	body.schema = s.id
	if f.Body, err = body.encode(make([]byte, 0, 256+s.width*(to-from))); err != nil {
		return f, err
	}
	rows := g.rows
	if from > 0 || to < rows.NumRows() {
		rows = rows.NewSlice(from, to)
		defer rows.Release()
	}
	f.Body, err = encodeRows(f.Body, rows)
	s.width = int64(len(f.Body))/(to-from) + 1
	return f, err
}

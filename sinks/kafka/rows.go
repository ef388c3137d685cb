package kafka

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/brokers"
	"frazil/dataflow/codec"
	"frazil/operators/expr"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// rows makes records of the rows of batches. One goroutine uses it.
type rows struct {
	env    *dataflow.Env
	layout *layout
	limit  int
	bad    *dataflow.BadRows
	// topics says whether a topic is there, and makes it where that is asked for; an
	// error is one of the brokers.
	topics func(name string) (bool, error)
	// known are topics that are there.
	known map[string]bool

	// group has the expressions of the topic, the key, the value, the partition, the
	// timestamp and the headers, in this order.
	group   *expr.Group
	objects *dataflow.JSONObjects
	// enc writes values in a schema; nil: as JSON objects. ctx is that of the Write at
	// hand.
	enc *encoding
	ctx func() context.Context
	// keys are the columns of a changelog's key.
	keys     []int
	keyHeads [][]byte

	buf  []byte
	part []byte
}

func newRows(env *dataflow.Env, in dataflow.Stream, l *layout, cfg Config, topics func(string) (bool, error)) *rows {
	r := &rows{env: env, layout: l, limit: int(cfg.MaxRecord), bad: dataflow.NewBadRows(env), topics: topics, known: map[string]bool{},
		group: expr.NewGroup(env.Alloc), objects: dataflow.NewJSONObjects(in.Schema)}
	r.group.AddAll(l.topic.Exprs)
	r.group.AddAll([]*expr.Expr{l.key, l.value, l.partition, l.timestamp})
	for _, h := range l.headers {
		r.group.Add(h.expr)
	}
	if l.upserts {
		for i, k := range l.keys {
			r.keys = append(r.keys, dataflow.Column(in.Schema, k))
			r.keyHeads = append(r.keyHeads, head(k, i == 0))
		}
	}
	return r
}

// encode makes values be written by enc, if there is one.
func (r *rows) encode(enc *encoding, ctx func() context.Context) { r.enc, r.ctx = enc, ctx }

// head is what stands before a member of a JSON object.
func head(name string, first bool) []byte {
	b := []byte{','}
	if first {
		b[0] = '{'
	}
	text, _ := json.Marshal(name) // A string.
	return append(append(b, text...), ':')
}

// each calls visit with the bytes of the record of each row of b that is one (see
// record.go), and returns the others; visit may not keep the bytes.
func (r *rows) each(b arrow.RecordBatch, visit func(record []byte) error) (arrow.RecordBatch, error) {
	var ops []uint8
	if r.layout.upserts {
		ops = b.Column(dataflow.Column(b.Schema(), dataflow.SysOp)).(*array.Uint8).Uint8Values()
	}
	return r.group.Rows(b, r.bad, func(i int, bad *dataflow.Bad) (*dataflow.Bad, error) {
		if ops != nil && dataflow.Op(ops[i]) == dataflow.OpUpdateBefore {
			return nil, nil // Its OpUpdateAfter puts the same key.
		}
		if bad == nil {
			var err error
			if bad, err = r.record(b, i, ops == nil || dataflow.Op(ops[i]).Puts()); err != nil {
				return nil, err
			}
		}
		if bad != nil {
			return bad, nil
		}
		return nil, visit(r.buf)
	})
}

// record writes row i to buf.
func (r *rows) record(b arrow.RecordBatch, i int, puts bool) (*dataflow.Bad, error) {
	n := len(r.layout.topic.Exprs)
	var in *topicEncoding
	key, value, partition, timestamp := r.group.Values(n), r.group.Values(n+1), r.group.Values(n+2), r.group.Values(n+3)
	headers := r.group.From(n + 4)

	if bad, err := r.topicOf(i); bad != nil || err != nil {
		return bad, err
	}
	if r.enc != nil && puts {
		var err error
		if in = r.enc.byTopic[string(r.part)]; in == nil {
			if in, err = r.enc.of(r.ctx(), string(r.part)); err != nil {
				return nil, err
			}
		}
	}
	r.buf = binary.AppendUvarint(r.buf[:0], uint64(len(r.part)))
	r.buf = append(r.buf, r.part...)
	to, bad := partitionOf(partition, i)
	if bad != nil {
		return bad, nil
	}
	r.buf = binary.AppendVarint(r.buf, to)
	r.buf = binary.AppendVarint(r.buf, millisOf(timestamp, i))
	switch {
	case key != nil:
		r.value1(key, i)
	case r.layout.upserts:
		r.changelogKey(b, i)
	default:
		r.buf = append(r.buf, 0)
	}
	switch {
	case !puts:
		r.buf = append(r.buf, 0)
	case value != nil:
		r.value1(value, i)
	case in != nil:
		if r.part = append(r.part[:0], in.head...); in.enc == nil {
			r.part = r.objects.Append(r.part, b, i)
		} else if r.part, bad = in.enc.Append(r.part, b, i); bad != nil {
			return bad, nil
		}
		r.buf = appendBytes(r.buf, r.part, true)
	default:
		r.part = r.objects.Append(r.part[:0], b, i)
		r.buf = appendBytes(r.buf, r.part, true)
	}
	if bad := r.headersOf(headers, i); bad != nil {
		return bad, nil
	}
	if len(r.buf) > r.limit {
		return &dataflow.Bad{Reason: "too_large", Detail: fmt.Sprintf("the record has %d bytes, and max_record is %d", len(r.buf), r.limit)}, nil
	}
	return nil, nil
}

// topicOf writes the row's topic to part.
func (r *rows) topicOf(i int) (*dataflow.Bad, error) {
	var bad *dataflow.Bad
	if r.part, bad = r.group.AppendTemplate(r.part[:0], "topic", r.layout.topic, 0, i, nil); bad != nil {
		return bad, nil
	}
	if r.known[string(r.part)] {
		return nil, nil
	}
	name := string(r.part)
	if !brokers.ValidTopic(name) {
		return &dataflow.Bad{Reason: "invalid_topic", Detail: fmt.Sprintf("topic %q: expected 1 to 249 of the characters a-z A-Z 0-9 . _ -", name)}, nil
	}
	there, err := r.topics(name)
	if err != nil {
		return nil, err
	}
	if !there {
		return &dataflow.Bad{Reason: "unknown_topic", Detail: fmt.Sprintf("topic %q is not there: make it, or set create_topics", name)}, nil
	}
	r.known[name] = true
	return nil, nil
}

func partitionOf(a arrow.Array, i int) (int64, *dataflow.Bad) {
	if a == nil || a.IsNull(i) {
		return -1, nil
	}
	var n int64
	switch a := a.(type) {
	case *array.Int32:
		n = int64(a.Value(i))
	case *array.Int64:
		n = a.Value(i)
	}
	if n < 0 || n > math.MaxInt32 {
		return 0, &dataflow.Bad{Reason: "invalid_partition", Detail: fmt.Sprintf("partition %d: expected 0 or more", n)}
	}
	return n, nil
}

func millisOf(a arrow.Array, i int) int64 {
	if a == nil || a.IsNull(i) {
		return 0
	}
	return time.UnixMicro(int64(a.(*array.Timestamp).Value(i))).UnixMilli()
}

func millis(ms int64) time.Time { return time.UnixMilli(ms) }

// value1 writes a value that may be null, with its length.
func (r *rows) value1(a arrow.Array, i int) {
	if a.IsNull(i) {
		r.buf = append(r.buf, 0)
		return
	}
	switch a := a.(type) {
	case *array.String:
		s := a.Value(i)
		r.buf = binary.AppendUvarint(r.buf, uint64(len(s))+1)
		r.buf = append(r.buf, s...)
	case *array.Binary:
		r.buf = appendBytes(r.buf, a.Value(i), true)
	default:
		r.part = dataflow.AppendPlain(r.part[:0], a, i)
		r.buf = appendBytes(r.buf, r.part, true)
	}
}

// changelogKey writes the key of a change: the text of a single column, else a JSON
// object.
func (r *rows) changelogKey(b arrow.RecordBatch, i int) {
	if len(r.keys) == 1 {
		r.value1(b.Column(r.keys[0]), i)
		return
	}
	r.part = r.part[:0]
	for j, c := range r.keys {
		r.part = append(r.part, r.keyHeads[j]...)
		r.part = dataflow.AppendJSON(r.part, b.Column(c), i)
	}
	if len(r.keys) == 0 {
		r.part = append(r.part, '{')
	}
	r.buf = appendBytes(r.buf, append(r.part, '}'), true)
}

func (r *rows) headersOf(made []arrow.Array, i int) *dataflow.Bad {
	n := 0
	for j, a := range made {
		if a.IsValid(i) {
			n++
		} else if h := r.layout.headers[j]; h.required {
			return &dataflow.Bad{Reason: codec.ReasonInvalidEvent, Detail: fmt.Sprintf("%s is null, and an event has a %s", h.expr, h.name)}
		}
	}
	r.buf = binary.AppendUvarint(r.buf, uint64(n))
	for j, a := range made {
		if a.IsValid(i) {
			h := r.layout.headers[j]
			r.buf = binary.AppendUvarint(r.buf, uint64(len(h.name)))
			r.buf = append(r.buf, h.name...)
			from := len(r.buf)
			r.value1(a, i)
			if h.required && len(r.buf) == from+1 { // The length alone.
				return &dataflow.Bad{Reason: codec.ReasonInvalidEvent, Detail: fmt.Sprintf("%s is empty, and an event has a %s", h.expr, h.name)}
			}
		}
	}
	return nil
}

func (r *rows) release() { r.bad.Release() }

package mqtt

import (
	"fmt"
	"unicode/utf8"

	"frazil/dataflow"
	"frazil/dataflow/spool"
	"frazil/operators/expr"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// A message is spooled as a byte (1: it is retained), the topic with its length, the
// user properties with the length of all (each name and value with its own), and the
// payload.

// rows makes such bytes of the rows of batches. One goroutine uses it.
type rows struct {
	layout  *layout
	bad     *dataflow.BadRows
	group   *expr.Group
	objects *dataflow.JSONObjects

	topic, payload, retain, properties int // in the group
	buf, part, all                     []byte
	known                              string // a topic that was checked
}

func newRows(env *dataflow.Env, in dataflow.Stream, l *layout) *rows {
	r := &rows{layout: l, bad: dataflow.NewBadRows(env), group: expr.NewGroup(env.Alloc), objects: dataflow.NewJSONObjects(in.Schema)}
	r.topic = r.group.AddAll(l.topic.Exprs)
	r.payload, r.retain = r.group.Add(l.payload), r.group.Add(l.retain)
	for i, p := range l.properties {
		if n := r.group.Add(p.expr); i == 0 {
			r.properties = n
		}
	}
	return r
}

// Each implements spool.Rows: it calls visit with the bytes of each row of b that is a message, and returns the
// others; visit may not keep the bytes.
func (r *rows) Each(b arrow.RecordBatch, visit func(row []byte) error) (arrow.RecordBatch, error) {
	return r.group.Rows(b, r.bad, func(i int, bad *dataflow.Bad) (*dataflow.Bad, error) {
		if bad == nil {
			bad = r.row(b, i)
		}
		if bad != nil {
			return bad, nil
		}
		return nil, visit(r.buf)
	})
}

// Release implements spool.Rows.
func (r *rows) Release() { r.bad.Release() }

// row writes row i to buf.
func (r *rows) row(b arrow.RecordBatch, i int) *dataflow.Bad {
	r.buf = append(r.buf[:0], 0)
	if a := r.group.Values(r.retain); a != nil && a.IsValid(i) && a.(*array.Boolean).Value(i) {
		r.buf[0] = 1
	}
	if bad := r.topicOf(i); bad != nil {
		return bad
	}
	r.buf = spool.AppendPart(r.buf, r.part)
	r.all = r.all[:0]
	for j, p := range r.layout.properties {
		a := r.group.Values(r.properties + j)
		if a.IsNull(i) {
			continue
		}
		r.part = dataflow.AppendPlain(r.part[:0], a, i)
		if len(r.part) > 65535 || !utf8.Valid(r.part) {
			return &dataflow.Bad{Reason: "invalid_property", Detail: fmt.Sprintf("user property %s: it is no text of at most 65535 bytes", p.name)}
		}
		r.all = spool.AppendPart(r.all, []byte(p.name))
		r.all = spool.AppendPart(r.all, r.part)
	}
	r.buf = spool.AppendPart(r.buf, r.all)
	switch a := r.group.Values(r.payload); {
	case a == nil:
		r.buf = r.objects.Append(r.buf, b, i)
	case a.IsValid(i):
		r.buf = dataflow.AppendPlain(r.buf, a, i)
	}
	return nil
}

// topicOf writes the row's topic to part.
func (r *rows) topicOf(i int) *dataflow.Bad {
	var bad *dataflow.Bad
	if r.part, bad = r.group.AppendTemplate(r.part[:0], "topic", r.layout.topic, r.topic, i, nil); bad != nil {
		return bad
	}
	if string(r.part) == r.known {
		return nil
	}
	if why := checkTopic(string(r.part)); why != "" {
		return &dataflow.Bad{Reason: "invalid_topic", Detail: why}
	}
	r.known = string(r.part)
	return nil
}

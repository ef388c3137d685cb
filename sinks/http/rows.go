package http

import (
	"encoding/binary"
	"fmt"

	"frazil/dataflow"
	"frazil/dataflow/spool"
	"frazil/operators/expr"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/cespare/xxhash/v2"
)

// A row is spooled as
//
//	key       8 bytes, little endian: the hash of its key; 0: it has none
//	request   length as a uvarint; in it url and method, each with a length, and each
//	          header that is there as two texts with lengths
//	body      the rest
//
// Rows whose bytes of the request are the same may go in one batch.

// rows makes such bytes of the rows of batches. One goroutine uses it.
type rows struct {
	layout  *layout
	bad     *dataflow.BadRows
	group   *expr.Group
	objects *dataflow.JSONObjects

	url, method, headers, body, key int // in the group
	buf, request, part              []byte
	// known is a URL that was checked.
	known string
}

func newRows(env *dataflow.Env, in dataflow.Stream, l *layout) *rows {
	r := &rows{layout: l, bad: dataflow.NewBadRows(env), group: expr.NewGroup(env.Alloc), objects: dataflow.NewJSONObjects(in.Schema)}
	r.url, r.method = r.group.AddAll(l.url.Exprs), r.group.AddAll(l.method.Exprs)
	r.body, r.key = r.group.Add(l.body), r.group.Add(l.key)
	for i, h := range l.headers {
		if n := r.group.Add(h.expr); i == 0 {
			r.headers = n
		}
	}
	return r
}

// Each implements spool.Rows: it calls visit with the bytes of each row of b that can be posted, and returns the
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
	r.request = r.request[:0]
	if bad := r.fill("url", r.layout.url, r.url, i, r.layout.escape); bad != nil {
		return bad
	}
	if string(r.part) != r.known {
		if err := checkURL(string(r.part)); err != nil {
			return &dataflow.Bad{Reason: "invalid_url", Detail: err.Error()}
		}
		r.known = string(r.part)
	}
	r.request = spool.AppendPart(r.request, r.part)
	if bad := r.fill("method", r.layout.method, r.method, i, nil); bad != nil {
		return bad
	}
	if !methods[string(r.part)] {
		return &dataflow.Bad{Reason: "invalid_method", Detail: fmt.Sprintf("method %q: expected POST, PUT, PATCH or DELETE", r.part)}
	}
	r.request = spool.AppendPart(r.request, r.part)
	for j, h := range r.layout.headers {
		a := r.group.Values(r.headers + j)
		if a.IsNull(i) {
			continue
		}
		r.part = dataflow.AppendPlain(r.part[:0], a, i)
		for _, c := range r.part {
			if c < ' ' && c != '\t' || c == 0x7f {
				return &dataflow.Bad{Reason: "invalid_header", Detail: fmt.Sprintf("header %s: it has a control character, which no header can have", h.name)}
			}
		}
		r.request = spool.AppendPart(r.request, []byte(h.name))
		r.request = spool.AppendPart(r.request, r.part)
	}
	r.buf = binary.LittleEndian.AppendUint64(r.buf[:0], r.hash(i))
	r.buf = spool.AppendPart(r.buf, r.request)
	switch a := r.group.Values(r.body); {
	case a == nil:
		r.buf = r.objects.Append(r.buf, b, i)
	case a.IsNull(i):
		return &dataflow.Bad{Reason: "null_body", Detail: fmt.Sprintf("body: %s is null", r.layout.body)}
	default:
		r.buf = dataflow.AppendPlain(r.buf, a, i)
	}
	return nil
}

// fill writes a template's text of row i to part.
func (r *rows) fill(what string, t *expr.Template, first, i int, escape []func(string) string) (bad *dataflow.Bad) {
	r.part, bad = r.group.AppendTemplate(r.part[:0], what, t, first, i, escape)
	return bad
}

// hash is that of the row's key.
func (r *rows) hash(i int) uint64 {
	a := r.group.Values(r.key)
	if a == nil || a.IsNull(i) {
		return 0
	}
	r.part = dataflow.AppendPlain(r.part[:0], a, i)
	return max(xxhash.Sum64(r.part), 1)
}

// spooled is a row as it was spooled; its parts are of the row's bytes.
type spooled struct {
	key           uint64
	request, body []byte
}

func parseRow(b []byte) (s spooled, err error) {
	if len(b) < 8 {
		return s, spool.ErrRow
	}
	s.key = binary.LittleEndian.Uint64(b)
	if s.request, s.body, err = spool.CutPart(b[8:]); err != nil {
		return s, err
	}
	return s, nil
}

// texts takes the parts of a request apart: url, method, and name and value of each
// header.
func texts(request []byte) (out []string, err error) {
	for len(request) > 0 {
		var part []byte
		if part, request, err = spool.CutPart(request); err != nil {
			return nil, err
		}
		out = append(out, string(part))
	}
	if len(out) < 2 || len(out)%2 != 0 {
		return nil, spool.ErrRow
	}
	return out, nil
}

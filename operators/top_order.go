package operators

import (
	"encoding/binary"

	"frazil/dataflow"
	"frazil/operators/expr"

	"github.com/apache/arrow-go/v18/arrow"
)

// topOrder says where the rows of a batch stand in an order: by its terms, then
// by event time, source, split and position. Rows that a step created have no
// origin; among them the values decide. Among the rows of a changelog the key does.
//
// A place is bytes that compare as the rows do (see accOrder for their parts); how
// many of them are the terms' is told beside. With last, the order is turned, so
// that the greatest row comes first; it then has no terms.
type topOrder struct {
	*accOrder
	last bool
	rows *rowEncoder
	key  *keyEncoder   // of the rows of a changelog: it stands for time and origin
	args []arrow.Array // of the terms
}

func newTopOrder(input *arrow.Schema, terms []expr.Order, env *dataflow.Env, rows *rowEncoder) *topOrder {
	order := make([]orderTerm, len(terms))
	for i, t := range terms {
		order[i] = orderTerm{arg: i, order: t}
	}
	o := &topOrder{accOrder: newAccOrder(&aggregateSet{schema: input}, order, env.Splits), rows: rows}
	o.last = len(terms) == 0
	return o
}

// bindRows makes the rows of b what prefixes and place look at; args are the
// values of the terms. It borrows both.
func (o *topOrder) bindRows(args []arrow.Array, b arrow.RecordBatch) {
	o.args = args
	o.accOrder.bind(args, b)
}

// prefixes writes a number per row to dst that is less, or equal, where the row
// comes first. It decides most comparisons without a place.
func (o *topOrder) prefixes(dst []uint64) {
	if o.last {
		for i, t := range o.times {
			dst[i] = ^(uint64(t) ^ 1<<63)
		}
		return
	}
	term := &o.terms[0]
	flip := uint64(0)
	if term.desc {
		flip = ^uint64(0)
	}
	var buf []byte
	ints := term.col.kind == keyInt64
	for i := range dst {
		switch {
		case term.col.isNull(i):
			dst[i] = ^uint64(0)
			if term.nullsFirst {
				dst[i] = 0
			}
		case ints:
			dst[i] = uint64(term.col.i64[i]) ^ 1<<63 ^ flip
		default:
			var p [8]byte
			buf = term.col.appendValue(buf[:0], i)
			copy(p[:], buf)
			dst[i] = binary.BigEndian.Uint64(p[:]) ^ flip
		}
	}
}

// place adds the place of a row to dst; terms is how many bytes of it are those
// of the terms.
func (o *topOrder) place(dst []byte, row int) (place []byte, terms int) {
	start := len(dst)
	for i := range o.terms {
		dst = o.terms[i].append(dst, row)
	}
	terms = len(dst) - start
	if o.key != nil {
		return o.key.append(dst, row), terms
	}
	dst = binary.BigEndian.AppendUint64(dst, uint64(o.times[row])^1<<63)
	if o.split != nil {
		dst = o.appendOrigin(dst, row)
	} else {
		dst = o.rows.append(dst, row)
	}
	if o.last {
		for i := start; i < len(dst); i++ {
			dst[i] ^= 0xff
		}
	}
	return dst, terms
}

// evalAll evaluates exprs on b; the caller releases what it returns.
func evalAll(evals []*expr.Evaluator, b arrow.RecordBatch, failed func(i int, e expr.RowError)) ([]arrow.Array, error) {
	var args []arrow.Array
	for i, ev := range evals {
		a, errs, err := ev.Eval(b)
		if err != nil {
			releaseAll(args)
			return nil, err
		}
		for _, e := range errs {
			failed(i, e)
		}
		args = append(args, a)
	}
	return args, nil
}

func releaseAll(args []arrow.Array) {
	for _, a := range args {
		a.Release()
	}
}

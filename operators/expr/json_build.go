package expr

import (
	"bytes"
	"math"

	"frazil/dataflow"
)

func init() {
	for _, prefix := range []string{"jsonb", "json"} {
		register(
			function{name: prefix + "_build_array", args: []kind{kAny}, variadic: true, ret: kJSON, loose: true, kernel: buildArray},
			function{name: prefix + "_build_object", args: []kind{kAny}, variadic: true, ret: kJSON, loose: true, fails: true, kernel: buildObject},
		)
	}
	for _, name := range []string{"to_jsonb", "to_json"} {
		register(function{name: name, args: []kind{kAny}, ret: kJSON, kernel: func(c *call, out *vec, a []*vec) {
			write := jsonValueOf(c.node.args[0].typ, a[0])
			eachValue(c, out, func(dst []byte, i int) []byte { return write(dst, i&a[0].mask()) })
		}})
	}
}

// jsonValue writes value i of a vec as JSON; it is not null.
type jsonValue func(dst []byte, i int) []byte

func jsonValues(c *call, a []*vec) []jsonValue {
	out := make([]jsonValue, len(a))
	for k, v := range a {
		out[k] = jsonValueOf(c.node.args[k].typ, v)
	}
	return out
}

func buildArray(c *call, out *vec, a []*vec) {
	values := jsonValues(c, a)
	eachValue(c, out, func(dst []byte, i int) []byte {
		dst = append(dst, '[')
		for k, v := range a {
			if k > 0 {
				dst = append(dst, ", "...)
			}
			dst = values[k].orNull(dst, v, i)
		}
		return append(dst, ']')
	})
}

// buildObject writes the members as they come, and then the object in jsonb's order.
func buildObject(c *call, out *vec, a []*vec) {
	w := c.jsonOut(false)
	values := jsonValues(c, a)
	names := make([]func([]byte, int) []byte, len(a))
	for k := 0; k < len(a); k += 2 {
		names[k] = isoText(c.node.args[k].typ, a[k])
	}
	eachValue(c, out, func(dst []byte, i int) []byte {
		if len(a)%2 != 0 {
			c.fail(i, badArgument, "names and values come in pairs, there are %d operands", len(a))
			return dst
		}
		doc := append(w.scratch[:0], '{')
		for k := 0; k < len(a); k += 2 {
			if a[k].isNull(i) {
				c.fail(i, badArgument, "operand %d is the name of a member, and null", k+1)
				return dst
			}
			if t := c.node.args[k].typ; t.k >= kList || t.k == kJSON {
				c.fail(i, badArgument, "operand %d is the name of a member, and of type %s", k+1, t)
				return dst
			}
			if k > 0 {
				doc = append(doc, ',')
			}
			w.name = names[k](w.name[:0], i&a[k].mask())
			doc = append(appendJSONString(doc, w.name), ':')
			doc = values[k+1].orNull(doc, a[k+1], i)
		}
		w.scratch = append(doc, '}')
		return w.canonical(dst, w.scratch)
	})
}

func (w jsonValue) orNull(dst []byte, v *vec, i int) []byte {
	if v.isNull(i) {
		return append(dst, "null"...)
	}
	return w(dst, i&v.mask())
}

// jsonValueOf writes values of t as to_jsonb does: numbers and booleans as they are, times
// in ISO 8601, what else as a string.
func jsonValueOf(t typ, v *vec) jsonValue {
	if t.k == kNested { // in spite of the constant null, which has no array
		return func(dst []byte, i int) []byte { return dataflow.AppendJSON(dst, v.arr, i) }
	}
	text := textOf(t, v)
	switch t.k {
	case kBool, kInt16, kInt32, kInt64, kDecimal, kJSON:
		return text
	case kFloat32:
		x, tree := of[float32](v), new(jsonTree)
		return func(dst []byte, i int) []byte { return tree.float(dst, text, i, float64(x[i])) }
	case kFloat64:
		x, tree := of[float64](v), new(jsonTree)
		return func(dst []byte, i int) []byte { return tree.float(dst, text, i, x[i]) }
	case kList:
		elem := jsonValueOf(t.elem(), v.elem)
		return func(dst []byte, i int) []byte {
			from, to := v.span(i)
			dst = append(dst, '[')
			for j := from; j < to; j++ {
				if j > from {
					dst = append(dst, ", "...)
				}
				dst = elem.orNull(dst, v.elem, j)
			}
			return append(dst, ']')
		}
	case kTimestamp, kTimestampTZ:
		text = isoText(t, v)
		return func(dst []byte, i int) []byte { return append(text(append(dst, '"'), i), '"') }
	}
	var buf []byte
	return func(dst []byte, i int) []byte {
		buf = text(buf[:0], i)
		return appendJSONString(dst, buf)
	}
}

// isoText writes values as textOf does, but timestamps in ISO 8601 as JSON has them.
func isoText(t typ, v *vec) func(dst []byte, i int) []byte {
	text := textOf(t, v)
	if t.k != kTimestamp && t.k != kTimestampTZ {
		return text
	}
	return func(dst []byte, i int) []byte {
		start := len(dst)
		dst = text(dst, i)
		for k := start; k < len(dst); k++ {
			if dst[k] == ' ' {
				dst[k] = 'T'
				break
			}
		}
		if t.k == kTimestamp || dst[len(dst)-1] == 'y' { // infinity has no zone
			return dst
		}
		if dst, bc := bytes.CutSuffix(dst, []byte(" BC")); bc {
			return append(dst, ":00 BC"...)
		}
		return append(dst, ":00"...)
	}
}

// float writes what JSON has no number for as a string, and no exponent.
func (t *jsonTree) float(dst []byte, text jsonValue, i int, x float64) []byte {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return append(text(append(dst, '"'), i), '"')
	}
	start := len(dst)
	dst = text(dst, i)
	t.reset()
	return append(dst[:start], t.number(dst[start:])...)
}

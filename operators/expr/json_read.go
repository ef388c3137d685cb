package expr

import (
	"encoding/json"
	"strconv"

	"frazil/dataflow"
)

func init() {
	register(
		function{name: "->", args: []kind{kJSON, kString}, ret: kJSON, kernel: jsonGet(byName, false)},
		function{name: "->", args: []kind{kJSON, kInt32}, ret: kJSON, kernel: jsonGet(byIndex, false)},
		function{name: "->>", args: []kind{kJSON, kString}, ret: kString, kernel: jsonGet(byName, true)},
		function{name: "->>", args: []kind{kJSON, kInt32}, ret: kString, kernel: jsonGet(byIndex, true)},
		function{name: "#>", args: []kind{kJSON, kTexts}, ret: kJSON, kernel: jsonGet(byPath, false)},
		function{name: "#>>", args: []kind{kJSON, kTexts}, ret: kString, kernel: jsonGet(byPath, true)},
		function{name: "jsonb_typeof", args: []kind{kJSON}, ret: kString, kernel: jsonTypeof},
		function{name: "json_typeof", args: []kind{kJSON}, ret: kString, kernel: jsonTypeof},
		function{name: "jsonb_array_length", args: []kind{kJSON}, ret: kInt32, fails: true, kernel: jsonLength},
		function{name: "json_array_length", args: []kind{kJSON}, ret: kInt32, fails: true, kernel: jsonLength},
	)
	for _, name := range []string{"jsonb_extract_path", "json_extract_path"} {
		register(
			function{name: name, args: []kind{kJSON, kString}, variadic: true, ret: kJSON, kernel: jsonExtract(false)},
			function{name: name + "_text", args: []kind{kJSON, kString}, variadic: true, ret: kString, kernel: jsonExtract(true)},
		)
	}
	registerCast(kString, kJSON, explicitCast, true, castTextJSON)
	registerCast(kJSON, kBool, explicitCast, true, func(c *call, out *vec, a []*vec) {
		b := growBits(out, c.n)
		b.fill(0)
		jsonScalars(c, a[0], 't', "boolean", func(i int, word string) *dataflow.Bad {
			if word == "true" {
				b.set(i)
			}
			return nil
		})
	})
	registerCast(kJSON, kInt16, explicitCast, true, narrow(jsonToInt[int32]))
	registerCast(kJSON, kInt32, explicitCast, true, jsonToInt[int32])
	registerCast(kJSON, kInt64, explicitCast, true, jsonToInt[int64])
	registerCast(kJSON, kDecimal, explicitCast, true, func(c *call, out *vec, a []*vec) {
		r := grow[dec](out, c.n)
		clear(r)
		jsonScalars(c, a[0], '0', "numeric", func(i int, word string) (bad *dataflow.Bad) {
			r[i], bad = parseDecimalAs(word, c.node.typ)
			return bad
		})
	})
	registerCast(kJSON, kFloat64, explicitCast, true, func(c *call, out *vec, a []*vec) {
		r := grow[float64](out, c.n)
		clear(r)
		jsonScalars(c, a[0], '0', "double precision", func(i int, word string) (bad *dataflow.Bad) {
			r[i], bad = parseFloat(word, 64)
			return bad
		})
	})
	registerCast(kJSON, kFloat32, explicitCast, true, func(c *call, out *vec, a []*vec) {
		r := grow[float32](out, c.n)
		clear(r)
		jsonScalars(c, a[0], '0', "real", func(i int, word string) *dataflow.Bad {
			x, bad := parseFloat(word, 32)
			r[i] = float32(x)
			return bad
		})
	})
}

// step finds what an operand names in a document.
type jsonStep func(doc []byte, a *vec, i int, scratch *[]byte) ([]byte, bool)

func byName(doc []byte, a *vec, i int, scratch *[]byte) ([]byte, bool) {
	at := jsonSpace(doc, 0)
	if at >= len(doc) || doc[at] != '{' {
		return nil, false
	}
	return jsonMember(doc, at, a.text(i&a.mask()), scratch)
}

func byIndex(doc []byte, a *vec, i int, _ *[]byte) ([]byte, bool) {
	n := int64(of[int32](a)[i&a.mask()])
	at := jsonSpace(doc, 0)
	switch {
	case at >= len(doc) || doc[at] == '{':
		return nil, false
	case doc[at] != '[': // PostgreSQL takes it for an array of one element.
		return doc, n == 0 || n == -1
	}
	return jsonElement(doc, at, n)
}

func byPath(doc []byte, a *vec, i int, scratch *[]byte) ([]byte, bool) {
	from, to := a.span(i)
	for j := from; j < to; j++ {
		if a.elem.isNull(j) {
			return nil, false
		}
		var ok bool
		if doc, ok = jsonAlong(doc, a.elem.text(j), scratch); !ok {
			return nil, false
		}
	}
	return doc, true
}

// jsonAlong goes one step of a path: a name or the number of an element.
func jsonAlong(doc []byte, step string, scratch *[]byte) ([]byte, bool) {
	at := jsonSpace(doc, 0)
	if at >= len(doc) {
		return nil, false
	}
	switch doc[at] {
	case '{':
		return jsonMember(doc, at, step, scratch)
	case '[':
		n, ok := smallWhole(trimSpace(step))
		if !ok {
			return nil, false
		}
		return jsonElement(doc, at, n)
	}
	return nil, false
}

// jsonGet reads what step finds, as a document or as a text.
func jsonGet(step jsonStep, text bool) kernel {
	return func(c *call, out *vec, a []*vec) {
		w := c.jsonOut(text)
		off, data := growText(out, c.n)
		for i := range c.n {
			if c.counts(i) {
				v, ok := step(a[0].bytes(i&a[0].mask()), a[1], i, &w.scratch)
				data = w.put(c, out, data, i, v, ok)
			}
			off[i+1] = int32(len(data))
		}
		setText(out, off, data)
	}
}

func jsonExtract(text bool) kernel {
	return func(c *call, out *vec, a []*vec) {
		w := c.jsonOut(text)
		off, data := growText(out, c.n)
		for i := range c.n {
			if c.counts(i) {
				v, ok := a[0].bytes(i&a[0].mask()), true
				for _, p := range a[1:] {
					if ok {
						v, ok = jsonAlong(v, p.text(i&p.mask()), &w.scratch)
					}
				}
				data = w.put(c, out, data, i, v, ok)
			}
			off[i+1] = int32(len(data))
		}
		setText(out, off, data)
	}
}

// jsonOut writes values that were found.
type jsonOut struct {
	jsonWriter
	scratch []byte
	name    []byte
	text    bool
}

func (c *call) jsonOut(text bool) *jsonOut {
	w, ok := c.slot.cache.(*jsonOut)
	if !ok {
		w = &jsonOut{text: text}
		c.slot.cache = w
	}
	return w
}

func (w *jsonOut) put(c *call, out *vec, data []byte, i int, v []byte, ok bool) []byte {
	switch {
	case !ok || len(v) == 0 || w.text && v[0] == 'n': // nothing is there in a row that has failed
		out.needValid(c.n).clear(i)
		return data
	case !w.text:
		return append(data, v...)
	case v[0] == '"':
		end, escaped := jsonString(v, 0)
		if !escaped {
			return append(data, v[1:end-1]...)
		}
		data, _ = jsonUnescape(data, v[1:end-1])
		return data
	}
	return w.canonical(data, v)
}

// jsonKindOf names what doc is by its first character: { [ " t n, 0 for a number, ? for
// nothing, which a row that has failed holds.
func jsonKindOf(doc []byte) byte {
	start := jsonSpace(doc, 0)
	if start == len(doc) {
		return '?'
	}
	switch c := doc[start]; c {
	case '{', '[', '"', 'n', 't':
		return c
	case 'f':
		return 't'
	}
	return '0'
}

var jsonNames = map[byte]string{'{': "object", '[': "array", '"': "string", 'n': "null", 't': "boolean", '0': "number"}

func jsonTypeof(c *call, out *vec, a []*vec) {
	eachValue(c, out, func(dst []byte, i int) []byte {
		return append(dst, jsonNames[jsonKindOf(a[0].bytes(i&a[0].mask()))]...)
	})
}

func jsonLength(c *call, out *vec, a []*vec) {
	r := grow[int32](out, c.n)
	clear(r)
	for i := range r {
		if !c.counts(i) {
			continue
		}
		doc := a[0].bytes(i & a[0].mask())
		if k := jsonKindOf(doc); k != '[' {
			c.fail(i, badArgument, "expected an array, got: %s", jsonNames[k])
			continue
		}
		r[i] = int32(jsonCount(doc, jsonSpace(doc, 0)))
	}
}

// castTextJSON looks that a text is JSON, and writes it in jsonb's form.
func castTextJSON(c *call, out *vec, a []*vec) {
	t := c.json()
	eachValue(c, out, func(dst []byte, i int) []byte {
		doc := a[0].bytes(i & a[0].mask())
		if !json.Valid(doc) {
			c.fail(i, badCast, "invalid input for json: %s", strconv.Quote(firstRunes(string(doc), 80)))
			return dst
		}
		t.reset()
		n := t.parse(doc)
		if t.bad != nil {
			c.failBad(i, t.bad)
			return dst
		}
		return n.write(dst)
	})
}

// jsonScalars gives the word of each document that is of a kind, and fails the others.
func jsonScalars(c *call, a *vec, kind byte, name string, f func(i int, word string) *dataflow.Bad) {
	for i := range c.n {
		if !c.counts(i) {
			continue
		}
		doc := a.bytes(i & a.mask())
		if k := jsonKindOf(doc); k != kind {
			c.fail(i, badArgument, "cannot cast a json %s to %s", jsonNames[k], name)
			continue
		}
		if bad := f(i, trimSpace(view(doc))); bad != nil {
			c.failBad(i, bad)
		}
	}
}

// jsonToInt rounds numbers as numeric does.
func jsonToInt[T integer](c *call, out *vec, a []*vec) {
	r := grow[T](out, c.n)
	clear(r)
	jsonScalars(c, a[0], '0', rangeName[T](), func(i int, word string) *dataflow.Bad {
		d, bad := parseDecimalAs(word, decimalType(38, 0))
		if bad != nil {
			return bad
		}
		r[i] = T(d.lo)
		if !d.small() || int64(r[i]) != int64(d.lo) {
			return badf(badRange, word+" is out of range of "+rangeName[T]())
		}
		return nil
	})
}

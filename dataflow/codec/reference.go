package codec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"frazil/dataflow"

	"github.com/valyala/fastjson"
)

// The reference decodes a record over a parsed document. It decides what the
// fast pass left open: a row after all, or why not. It reads numbers and times
// with the standard library, so that the two can be held against each other.

// reference writes the record into row, or says why it is none.
func (d *JSON) reference(b []byte, row int) *dataflow.Bad {
	d.extraSeen = d.extraSeen[:0]
	// The parser accepts more than RFC 8259 does, so the document is checked
	// before.
	if at, f := validate(b, d.depth); f != fine {
		return d.unreadable(b, at, f)
	}
	doc, err := d.parser.ParseBytes(b)
	if err != nil {
		return &dataflow.Bad{Reason: ReasonInvalidJSON, Detail: "expected a JSON document: " + err.Error()}
	}
	r := refRow{d: d, doc: b, row: row}
	if doc.Type() == fastjson.TypeObject {
		return r.object(doc, d.root, row)
	}
	if d.whole == nil {
		return &dataflow.Bad{Reason: ReasonNotAnObject, Detail: fmt.Sprintf("expected an object, got %s", describe(doc, b))}
	}
	for _, c := range d.root.cols {
		if bad := r.null(c, row); bad != nil {
			return bad
		}
	}
	return nil
}

func (d *JSON) unreadable(b []byte, at int, f fault) *dataflow.Bad {
	switch f {
	case faultDepth:
		return &dataflow.Bad{Reason: ReasonTooDeep, Detail: fmt.Sprintf("byte %d: nested deeper than depth = %d", at, d.depth)}
	case faultUTF8:
		return &dataflow.Bad{Reason: ReasonInvalidUTF8, Detail: fmt.Sprintf("byte %d: expected UTF-8 text, got %s", at, excerpt(b[at:]))}
	}
	if at >= len(b) {
		return &dataflow.Bad{Reason: ReasonInvalidJSON, Detail: fmt.Sprintf("byte %d: the document ends too early", at)}
	}
	return &dataflow.Bad{Reason: ReasonInvalidJSON, Detail: fmt.Sprintf("byte %d: expected JSON, got %s", at, excerpt(b[at:]))}
}

// refRow decodes one record.
type refRow struct {
	d    *JSON
	doc  []byte
	row  int
	path []string // where we are: field names and indexes
}

// object writes the fields of v, the last of each name, and null where there is
// none.
func (r *refRow) object(v *fastjson.Value, o *object, row int) *dataflow.Bad {
	last := map[*column]*fastjson.Value{}
	var bad *dataflow.Bad
	v.GetObject().Visit(func(key []byte, v *fastjson.Value) {
		if c := o.names.find(key); c != nil {
			last[c] = v
			return
		}
		if r.d.extraBad {
			if bad == nil {
				bad = &dataflow.Bad{Reason: ReasonExtraField, Detail: fmt.Sprintf("field %q is outside the schema", r.name(string(key)))}
			}
			return
		}
		r.d.extraSeen = append(r.d.extraSeen, o.extras.get(key))
	})
	if bad != nil {
		return bad
	}
	for _, c := range o.cols {
		r.path = append(r.path, c.name)
		if v := last[c]; v != nil {
			bad = r.value(v, c, row)
		} else {
			bad = r.null(c, row)
		}
		if bad != nil {
			return bad
		}
		r.path = r.path[:len(r.path)-1]
	}
	return nil
}

func (r *refRow) null(c *column, row int) *dataflow.Bad {
	if c.required {
		return &dataflow.Bad{Reason: ReasonMissingRequired, Detail: fmt.Sprintf("column %q: expected %s, got nothing or null", c.name, c.text)}
	}
	c.setNull(row)
	return nil
}

func (r *refRow) value(v *fastjson.Value, c *column, row int) *dataflow.Bad {
	if v.Type() == fastjson.TypeNull {
		return r.null(c, row)
	}
	switch c.kind {
	case kBool:
		if v.Type() != fastjson.TypeTrue && v.Type() != fastjson.TypeFalse {
			return r.mistyped(v, c)
		}
		c.setBool(row, v.Type() == fastjson.TypeTrue)
	case kString:
		if v.Type() != fastjson.TypeString {
			return r.mistyped(v, c)
		}
		c.setBytes(row, v.GetStringBytes())
	case kJSON:
		start, end := r.place()
		c.setRoom(row, appendCompact(c.room(row, end-start), r.doc[start:end]))
	case kStruct:
		if v.Type() != fastjson.TypeObject {
			return r.mistyped(v, c)
		}
		c.markValid(row)
		return r.object(v, c.obj, row)
	case kList:
		if v.Type() != fastjson.TypeArray {
			return r.mistyped(v, c)
		}
		return r.list(v, c, row)
	case kInt32, kInt64, kFloat32, kFloat64, kDecimal:
		return r.number(v, c, row)
	default:
		return r.textual(v, c, row)
	}
	return nil
}

func (r *refRow) list(v *fastjson.Value, c *column, row int) *dataflow.Bad {
	c.markValid(row)
	n := int(c.offs[row])
	for i, el := range v.GetArray() {
		c.elem.ensure(n + 1)
		r.path = append(r.path, strconv.Itoa(i))
		if bad := r.value(el, c.elem, n); bad != nil {
			return bad
		}
		r.path = r.path[:len(r.path)-1]
		n++
	}
	c.offs[row+1] = int32(n)
	return nil
}

func (r *refRow) mistyped(v *fastjson.Value, c *column) *dataflow.Bad {
	return r.bad(ReasonMistyped, v, expected(c))
}

// bad says what is wrong with the value where we are.
func (r *refRow) bad(reason string, v *fastjson.Value, want string) *dataflow.Bad {
	start, end := r.place()
	return &dataflow.Bad{Reason: reason, Detail: fmt.Sprintf("column %q: expected %s, got %s at byte %d", r.name(), want, describe(v, r.doc[start:end]), start)}
}

// name writes the path for people: a.b[3].
func (r *refRow) name(more ...string) string {
	var s strings.Builder
	for i, p := range append(slices.Clone(r.path), more...) {
		switch {
		case i == 0:
			s.WriteString(p)
		case p != "" && p[0] >= '0' && p[0] <= '9':
			s.WriteString("[" + p + "]")
		default:
			s.WriteString("." + p)
		}
	}
	return s.String()
}

// place returns the bounds of the value where we are in the document.
func (r *refRow) place() (start, end int) {
	b := r.doc
	start = skipSpace(b, 0)
	for _, step := range r.path {
		if b[start] == '[' {
			start = elementAt(b, start, step)
		} else {
			start = fieldAt(b, start, step)
		}
	}
	end, _ = skipValue(b, start, 0, maxDepth)
	return start, end
}

// elementAt returns the place of an element of the valid array at i.
func elementAt(b []byte, i int, index string) int {
	n, _ := strconv.Atoi(index)
	i = skipSpace(b, i+1)
	for ; n > 0; n-- {
		i, _ = skipValue(b, i, 0, maxDepth)
		i = skipSpace(b, skipSpace(b, i)+1)
	}
	return i
}

// fieldAt returns the place of the last value of a field that the valid object
// at i has.
func fieldAt(b []byte, i int, name string) int {
	found := i
	i = skipSpace(b, i+1)
	for b[i] != '}' {
		key, end, _ := unescape(nil, b, i+1)
		i = skipSpace(b, skipSpace(b, end)+1)
		if string(key) == name {
			found = i
		}
		i, _ = skipValue(b, i, 0, maxDepth)
		if i = skipSpace(b, i); b[i] == ',' {
			i = skipSpace(b, i+1)
		}
	}
	return found
}

// expected says what a column takes.
func expected(c *column) string {
	switch {
	case c.kind == kTimestamp && c.unit == textTime && c.zoned:
		return c.text + ", an RFC 3339 time with an offset"
	case c.kind == kTimestamp && c.unit == textTime:
		return c.text + ", an RFC 3339 time without an offset"
	case c.kind == kTimestamp:
		return c.text + ", a number since 1970"
	case c.kind == kDate:
		return "date, as 2026-03-01"
	case c.kind == kTime:
		return "time, as 10:00:00.5"
	case c.kind == kBinary:
		return "binary, a text in base64"
	}
	return c.text
}

var jsonTypes = map[fastjson.Type]string{
	fastjson.TypeNull: "null", fastjson.TypeTrue: "bool", fastjson.TypeFalse: "bool",
	fastjson.TypeNumber: "number", fastjson.TypeString: "string",
	fastjson.TypeArray: "array", fastjson.TypeObject: "object",
}

// describe writes a value's JSON type and the beginning of its text.
func describe(v *fastjson.Value, raw []byte) string {
	return jsonTypes[v.Type()] + " " + excerpt(raw)
}

// maxExcerpt bounds what a detail shows of a record.
const maxExcerpt = 40

// excerpt shows the beginning of raw; bytes that are no text are escaped.
func excerpt(raw []byte) string {
	more := ""
	if len(raw) > maxExcerpt {
		raw, more = raw[:maxExcerpt], "..."
		for i := 1; i < utf8.UTFMax && !utf8.RuneStart(raw[len(raw)-1]); i++ {
			raw = raw[:len(raw)-1]
		}
		if raw[len(raw)-1] >= utf8.RuneSelf {
			raw = raw[:len(raw)-1]
		}
	}
	for _, c := range raw {
		if c < 0x20 || c >= 0x7f {
			return strconv.Quote(string(raw)) + more
		}
	}
	return string(raw) + more
}

package codec

import (
	"encoding/base64"
	"encoding/binary"
	"math"
)

// The fast pass. It reads a document once and writes each value into row `row`
// of its column. Whenever something is not as it should be, or is rare, it
// returns no: the reference then reads the record from its beginning and writes
// the same row again, or says what is wrong. So the pass needs no messages, but
// it must never take a record that the reference refuses, nor read it otherwise.
//
// Keys are expected in the order in which the objects before had them, compared
// together with the comma, colon and white space around them. After a key that
// was not expected, expectation goes on behind the place where that key was seen
// before, so that a field that is missing or comes in addition costs one look-up.
// An order that does not fit for a while is learned anew.
//
// A place of no stands for "not taken".
const no = -1

const (
	// minPatience and maxPatience bound after how many objects in a row that did
	// not fit the order is learned anew: it doubles each time.
	minPatience = 8
	maxPatience = 1 << 14
	// maxOrder and maxLit bound what is learned.
	maxOrder = 512
	maxLit   = 512
)

// document reads a whole payload.
func (d *JSON) document(b []byte, row int) bool {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '{' {
		return false
	}
	if i = d.object(b, i+1, d.root, row, 1); i == no {
		return false
	}
	return skipSpace(b, i) == len(b)
}

// object reads the object whose opening brace stands before i. depth counts it.
func (d *JSON) object(b []byte, i int, o *object, row, depth int) int {
	if depth > d.depth {
		return no
	}
	d.gen++
	gen := d.gen
	left := len(o.cols)
	start, k, fits := i, 0, true
	for {
		var col *column
		var extra *extraField
		if k < len(o.order) {
			if e := &o.order[k]; len(b)-i >= len(e.lit) && string(b[i:i+len(e.lit)]) == e.lit && e.first == (i == start) {
				i += len(e.lit)
				col, extra = e.col, e.extra
				k++
				goto value
			}
		}
		{
			j := skipSpace(b, i)
			if j >= len(b) {
				return no
			}
			if b[j] == '}' {
				i = j + 1
				break
			}
			if i != start {
				if b[j] != ',' {
					return no
				}
				j = skipSpace(b, j+1)
			}
			from := i
			if i, col, extra = d.key(b, j, o); i == no {
				return no
			}
			fits = false
			k = o.expect(b[from:i], from == start, col, extra, k)
		}
	value:
		if col == nil {
			if i = d.skipExtra(b, i, extra, depth); i == no {
				return no
			}
			continue
		}
		if i = d.value(b, i, col, row, depth); i == no {
			return no
		}
		if col.seen != gen {
			col.seen = gen
			left--
		} else if col.kind >= kList {
			// Extra fields inside the value given up must not count.
			return no
		}
	}
	o.learned(fits)
	if left == 0 {
		return i
	}
	for _, c := range o.cols {
		if c.seen != gen {
			if c.required {
				return no
			}
			c.setNull(row)
		}
	}
	return i
}

// key reads the key at i and its colon and returns the place of the value.
func (d *JSON) key(b []byte, i int, o *object) (int, *column, *extraField) {
	if i >= len(b) || b[i] != '"' {
		return no, nil, nil
	}
	name, i := d.text(b, i)
	if i == no {
		return no, nil, nil
	}
	i = skipSpace(b, i)
	if i >= len(b) || b[i] != ':' {
		return no, nil, nil
	}
	i = skipSpace(b, i+1)
	if c := o.names.find(name); c != nil {
		return i, c, nil
	}
	return i, nil, o.extras.get(name)
}

// expect returns the place in the order behind the key that was just read, which
// it learns if it is new.
func (o *object) expect(lit []byte, first bool, col *column, extra *extraField, k int) int {
	at := &k
	if col != nil {
		at = &col.at
	} else {
		at = &extra.at
	}
	if *at >= 0 {
		return *at + 1
	}
	if len(o.order) >= maxOrder || len(lit) > maxLit {
		return k
	}
	*at = len(o.order)
	o.order = append(o.order, entry{lit: string(lit), first: first, col: col, extra: extra})
	return len(o.order)
}

// learned notes whether an object had the expected order.
func (o *object) learned(fits bool) {
	if fits {
		if o.misses != 0 {
			o.misses = 0
		}
		return
	}
	o.misses++
	if o.misses < o.patience {
		return
	}
	for _, e := range o.order {
		if e.col != nil {
			e.col.at = -1
		} else {
			e.extra.at = -1
		}
	}
	o.order = o.order[:0]
	o.misses = 0
	o.patience = min(2*o.patience, maxPatience)
}

func (d *JSON) skipExtra(b []byte, i int, extra *extraField, depth int) int {
	if d.extraBad {
		return no
	}
	i, f := skipValue(b, i, depth, d.depth)
	if f != fine {
		return no
	}
	d.extraSeen = append(d.extraSeen, extra)
	return i
}

// value reads the value at i.
func (d *JSON) value(b []byte, i int, c *column, row, depth int) int {
	if i >= len(b) {
		return no
	}
	ch := b[i]
	if ch == 'n' {
		if c.required || !hasLit(b, i, "null") {
			return no
		}
		c.setNull(row)
		return i + 4
	}
	switch c.kind {
	case kString:
		if ch != '"' {
			return no
		}
		if end := plainEnd(b, i+1); end < len(b) && b[end] == '"' {
			c.setBytes(row, b[i+1:end])
			return end + 1
		}
		out, end, f := unescape(c.room(row, len(b)-i), b, i+1)
		if f != fine {
			return no
		}
		c.setRoom(row, out)
		return end
	case kInt64:
		v, end := fastInt(b, i)
		if end == 0 {
			return d.exactInt(b, i, c, row)
		}
		c.set8(row, uint64(v))
		return end
	case kTimestamp:
		return d.timestamp(b, i, c, row)
	case kFloat64:
		n, end := scanNumber(b, i)
		if end == 0 {
			return no
		}
		f, ok := n.float(b[i:end])
		if !ok {
			return no
		}
		c.set8(row, math.Float64bits(f))
		return end
	case kBool:
		if hasLit(b, i, "true") {
			c.setBool(row, true)
			return i + 4
		}
		if hasLit(b, i, "false") {
			c.setBool(row, false)
			return i + 5
		}
		return no
	case kStruct:
		if ch != '{' {
			return no
		}
		c.markValid(row)
		return d.object(b, i+1, c.obj, row, depth+1)
	case kList:
		if ch != '[' {
			return no
		}
		return d.list(b, i+1, c, row, depth+1)
	}
	return d.rareValue(b, i, c, row, depth)
}

// rareValue is value for the types that are seldom.
func (d *JSON) rareValue(b []byte, i int, c *column, row, depth int) int {
	switch c.kind {
	case kInt32:
		return d.exactInt(b, i, c, row)
	case kFloat32:
		n, end := scanNumber(b, i)
		if end == 0 {
			return no
		}
		f, ok := n.float32(b[i:end])
		if !ok {
			return no
		}
		c.set4(row, math.Float32bits(f))
		return end
	case kDecimal:
		return d.decimal(b, i, c, row)
	case kJSON:
		end, f := skipValue(b, i, depth, d.depth)
		if f != fine {
			return no
		}
		c.setRoom(row, appendCompact(c.room(row, end-i), b[i:end]))
		return end
	}
	if b[i] != '"' {
		return no
	}
	text, end := d.text(b, i)
	if end == no || !setText(c, row, text) {
		return no
	}
	return end
}

// setText writes a value whose payload is a text that is not kept as it is.
func setText(c *column, row int, text []byte) bool {
	switch c.kind {
	case kDate:
		days, ok := parseDate(text)
		if !ok || len(text) != 10 || days < minDate {
			return false
		}
		c.set4(row, uint32(int32(days)))
	case kTime:
		micros, n := parseClock(text)
		if n == 0 || n != len(text) {
			return false
		}
		c.set8(row, uint64(micros))
	case kUUID:
		id, ok := parseUUID(text)
		if !ok {
			return false
		}
		c.set16(row, binary.LittleEndian.Uint64(id[:]), binary.LittleEndian.Uint64(id[8:]))
	case kBinary:
		room := c.room(row, base64.StdEncoding.DecodedLen(len(text)))
		out, ok := appendBase64(room, text)
		if !ok {
			return false
		}
		c.setRoom(row, out)
	default:
		return false
	}
	return true
}

// minDate and maxDate are 0001-01-01 and 9999-12-31 in days since 1970.
const minDate, maxDate = -719162, 2932896

// appendBase64 decodes the standard alphabet with padding, and nothing else.
func appendBase64(dst, text []byte) ([]byte, bool) {
	for _, ch := range text {
		if ch == '\n' || ch == '\r' {
			return dst, false
		}
	}
	out, err := base64.StdEncoding.Strict().AppendDecode(dst, text)
	return out, err == nil
}

// text returns the string whose quote stands at i, unescaped, and the place
// behind it. It is valid until the next call.
func (d *JSON) text(b []byte, i int) ([]byte, int) {
	if end := plainEnd(b, i+1); end < len(b) && b[end] == '"' {
		return b[i+1 : end], end + 1
	}
	out, end, f := unescape(d.scratch[:0], b, i+1)
	d.scratch = out
	if f != fine {
		return nil, no
	}
	return out, end
}

// exactInt reads integers of every spelling: 1.0 and 1e3 are some.
func (d *JSON) exactInt(b []byte, i int, c *column, row int) int {
	v, end := fastInt(b, i)
	if end == 0 {
		var n number
		if n, end = scanNumber(b, i); end == 0 {
			return no
		}
		var rest, ok bool
		if v, rest, ok = n.scaled(b[i:end], 0); rest || !ok {
			return no
		}
	}
	if c.kind == kInt64 {
		c.set8(row, uint64(v))
		return end
	}
	if int64(int32(v)) != v {
		return no
	}
	c.set4(row, uint32(int32(v)))
	return end
}

// timestamp reads a number of the column's unit, or a text.
func (d *JSON) timestamp(b []byte, i int, c *column, row int) int {
	var micros int64
	end := 0
	if c.unit == textTime {
		if b[i] != '"' {
			return no
		}
		text, e := d.text(b, i)
		if e == no {
			return no
		}
		var ok bool
		if micros, ok = parseTimestamp(text, c.zoned); !ok {
			return no
		}
		end = e
	} else if v, e := fastInt(b, i); e != 0 && c.unit == 3 && v < 1<<50 && v > -1<<50 {
		micros, end = v*1000, e
	} else {
		n, e := scanNumber(b, i)
		if e == 0 {
			return no
		}
		v, rest, ok := n.scaled(b[i:e], 6-c.unit)
		if !ok {
			return no
		}
		if rest && n.neg {
			v--
		}
		micros, end = v, e
	}
	if micros < c.lo || micros >= c.hi {
		return no
	}
	c.set8(row, uint64(micros))
	return end
}

// decimal reads a number, or a text that holds one: what must stay exact is
// often written so.
func (d *JSON) decimal(b []byte, i int, c *column, row int) int {
	text, end := b, no
	at := i
	if b[i] == '"' {
		if text, end = d.text(b, i); end == no {
			return no
		}
		at = 0
	}
	n, stop := scanNumber(text, at)
	if stop == 0 || end != no && stop != len(text) {
		return no
	}
	if end == no {
		end = stop
	}
	v, rest, ok := n.decimal(text[at:stop], c.prec, c.scale)
	if !ok || rest {
		return no
	}
	c.set16(row, v.LowBits(), uint64(v.HighBits()))
	return end
}

// list reads the array whose opening bracket stands before i. depth counts it.
func (d *JSON) list(b []byte, i int, c *column, row, depth int) int {
	if depth > d.depth {
		return no
	}
	c.markValid(row)
	n := int(c.offs[row])
	i = skipSpace(b, i)
	if i < len(b) && b[i] == ']' {
		c.offs[row+1] = int32(n)
		return i + 1
	}
	for {
		c.elem.ensure(n + 1)
		if i = d.value(b, i, c.elem, n, depth); i == no {
			return no
		}
		n++
		if i = skipSpace(b, i); i >= len(b) {
			return no
		}
		if b[i] == ']' {
			c.offs[row+1] = int32(n)
			return i + 1
		}
		if b[i] != ',' {
			return no
		}
		i = skipSpace(b, i+1)
	}
}

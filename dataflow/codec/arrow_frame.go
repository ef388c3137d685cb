package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Messages of an Arrow IPC stream, as far as they are looked at here.
const (
	messageSchema     = 1
	messageDictionary = 2
	messageRecords    = 3
)

var errCompressed = errors.New("its buffers are compressed: write the stream without compression (pyarrow: IpcWriteOptions(compression=None)) and compress the body instead")

// checkStream walks over the messages of a stream: each must lie inside it, and
// its buffers must not be compressed, since how much they would grow is not
// bounded by what they say.
func checkStream(b []byte) (err error) {
	defer func() {
		if recover() != nil { // an offset that points outside
			err = errors.New("a message cannot be read")
		}
	}()
	for at := 0; at < len(b); {
		head := b[at:]
		if len(head) < 4 {
			return fmt.Errorf("byte %d: the stream ends inside a message", at)
		}
		n, skip := binary.LittleEndian.Uint32(head), 4
		if n == 0xffffffff {
			if len(head) < 8 {
				return fmt.Errorf("byte %d: the stream ends inside a message", at)
			}
			n, skip = binary.LittleEndian.Uint32(head[4:]), 8
		}
		if n == 0 {
			return nil // the end
		}
		if int64(n) > int64(len(head)-skip) {
			return fmt.Errorf("byte %d: expected an Arrow IPC stream, got a message whose head takes %d bytes of the %d that are there", at, n, len(head)-skip)
		}
		m := rootTable(head[skip : skip+int(n)])
		body := int64(0)
		if f := m.field(3); f > 0 {
			body = int64(binary.LittleEndian.Uint64(m.b[f:]))
		}
		at += skip + int(n)
		if body < 0 || body > int64(len(b)-at) {
			return fmt.Errorf("byte %d: a message says that its body takes %d bytes, and there are %d", at, body, len(b)-at)
		}
		at += int(body)
		if m.compressed() {
			return errCompressed
		}
		m.checkLengths()
	}
	return nil
}

// checkLengths panics where a list of a message claims more elements than there is
// room for: the library makes room for as many as it is told.
func (t table) checkLengths() {
	kind := byte(0)
	if f := t.field(1); f > 0 {
		kind = t.b[f]
	}
	t.pairs(4)
	head, ok := t.table(2)
	if !ok {
		panic("no head")
	}
	switch kind {
	case messageSchema:
		left := maxFields
		head.fields(1, &left, 0)
		head.pairs(2)
		head.vector(3, 8)
	case messageDictionary:
		if head, ok = head.table(1); !ok {
			panic("no rows")
		}
		head.rows()
	case messageRecords:
		head.rows()
	}
}

// Bounds of a schema.
const (
	maxFields     = 10_000
	maxFieldDepth = 64
)

// fields checks a list of fields and those below them.
func (t table) fields(slot int, left *int, depth int) {
	n := t.vector(slot, 4)
	if *left -= n; *left < 0 || depth > maxFieldDepth {
		panic("too many fields")
	}
	for i := range n {
		f := t.element(slot, i)
		f.fields(5, left, depth+1)
		f.pairs(6)
		if typ, ok := f.table(3); ok {
			kind := byte(0)
			if at := f.field(2); at > 0 {
				kind = f.b[at]
			}
			if kind == typeUnion {
				typ.vector(1, 4)
			}
		}
	}
}

// typeUnion is the kind of a union's type, whose table holds a list.
const typeUnion = 14

// pairs checks a list of keys and values.
func (t table) pairs(slot int) { t.vector(slot, 4) }

// rows checks the lists of a record batch.
func (t table) rows() {
	t.vector(1, 16)
	buffers := t.vector(2, 16)
	n := t.vector(4, 8)
	if n == 0 {
		return
	}
	f := t.field(4)
	at := f + int(binary.LittleEndian.Uint32(t.b[f:])) + 4
	for i := range n {
		c := binary.LittleEndian.Uint64(t.b[at+8*i:])
		if c > uint64(buffers) {
			panic("more buffers than there are")
		}
	}
}

// vector checks that a list has room for its elements and returns how many there
// are.
func (t table) vector(slot, size int) int {
	f := t.field(slot)
	if f == 0 {
		return 0
	}
	at := f + int(binary.LittleEndian.Uint32(t.b[f:]))
	n := int(binary.LittleEndian.Uint32(t.b[at:]))
	if n*size > len(t.b)-at-4 {
		panic("a list is longer than the message")
	}
	return n
}

// element returns a table of a list of tables.
func (t table) element(slot, i int) table {
	f := t.field(slot)
	at := f + int(binary.LittleEndian.Uint32(t.b[f:])) + 4 + 4*i
	return table{t.b, at + int(binary.LittleEndian.Uint32(t.b[at:]))}
}

// table is a table of a flat buffer: at is its place in b.
type table struct {
	b  []byte
	at int
}

func rootTable(b []byte) table { return table{b, int(binary.LittleEndian.Uint32(b))} }

// field returns the place of a field, 0 if it is not there.
func (t table) field(slot int) int {
	v := t.at - int(int32(binary.LittleEndian.Uint32(t.b[t.at:])))
	if size := int(binary.LittleEndian.Uint16(t.b[v:])); 4+2*slot+2 > size {
		return 0
	}
	off := int(binary.LittleEndian.Uint16(t.b[v+4+2*slot:]))
	if off == 0 {
		return 0
	}
	return t.at + off
}

// table returns the table that a field refers to.
func (t table) table(slot int) (table, bool) {
	f := t.field(slot)
	if f == 0 {
		return table{}, false
	}
	return table{t.b, f + int(binary.LittleEndian.Uint32(t.b[f:]))}, true
}

// compressed says whether the message holds rows whose buffers are compressed.
func (t table) compressed() bool {
	kind := byte(0)
	if f := t.field(1); f > 0 {
		kind = t.b[f]
	}
	head, ok := t.table(2)
	if ok && kind == messageDictionary {
		head, ok = head.table(1)
	} else if kind != messageRecords {
		return false
	}
	return ok && head.field(3) > 0
}

package outbox

import (
	"encoding/binary"
	"fmt"
	"time"
)

// Messages of pgoutput, protocol version 1: PostgreSQL's documentation, "Logical
// Replication Message Formats".
const (
	msgBegin    = 'B'
	msgCommit   = 'C'
	msgRelation = 'R'
	msgInsert   = 'I'
	msgMessage  = 'M'
)

// epochOf is the server's zero of time.
var epochOf = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func serverTime(micros int64) time.Time { return epochOf.Add(time.Duration(micros) * time.Microsecond) }

// wire reads one message; bad: it was too short.
type wire struct {
	b   []byte
	bad bool
}

func (w *wire) take(n int) []byte {
	if n < 0 || n > len(w.b) {
		w.bad, w.b = true, nil
		return make([]byte, max(n, 0)&0xff)
	}
	out := w.b[:n]
	w.b = w.b[n:]
	return out
}

func (w *wire) byte() byte     { return w.fixed(1)[0] }
func (w *wire) uint16() uint16 { return binary.BigEndian.Uint16(w.fixed(2)) }
func (w *wire) uint32() uint32 { return binary.BigEndian.Uint32(w.fixed(4)) }
func (w *wire) uint64() uint64 { return binary.BigEndian.Uint64(w.fixed(8)) }

var zeros [8]byte

// fixed takes n bytes, at most 8; zeros if they are not there.
func (w *wire) fixed(n int) []byte {
	if n > len(w.b) {
		w.bad, w.b = true, nil
		return zeros[:n]
	}
	return w.take(n)
}

func (w *wire) text() string {
	for i, c := range w.b {
		if c == 0 {
			s := string(w.b[:i])
			w.b = w.b[i+1:]
			return s
		}
	}
	w.bad, w.b = true, nil
	return ""
}

// relation is a table as the server describes it.
type relation struct {
	schema, name string
	columns      []relColumn
	// at maps the fields of the shape to columns; -1: it is not there.
	at []int
}

type relColumn struct {
	name string
	oid  uint32
}

func (w *wire) relation() (id uint32, r *relation) {
	id = w.uint32()
	r = &relation{schema: w.text(), name: w.text()}
	w.byte() // replica identity
	for range w.uint16() {
		w.byte() // flags
		c := relColumn{name: w.text(), oid: w.uint32()}
		w.uint32() // modifier
		r.columns = append(r.columns, c)
	}
	return id, r
}

// Types of the server that matter here.
const (
	oidBytea = 17
	oidJSON  = 114
	oidJSONB = 3802
)

// tuple reads the columns of a row into vals, as the relation's places say.
func (w *wire) tuple(r *relation, all []value, vals []value) ([]value, error) {
	n := int(w.uint16())
	if n != len(r.columns) {
		return all, fmt.Errorf("a row of %s.%s has %d columns, and it was described with %d", r.schema, r.name, n, len(r.columns))
	}
	all = all[:0]
	for i := range n {
		var v value
		switch kind := w.byte(); kind {
		case 'n':
		case 't':
			v = value{text: w.take(int(w.uint32())), valid: true, json: r.columns[i].oid == oidJSON || r.columns[i].oid == oidJSONB, bytes: r.columns[i].oid == oidBytea}
		default:
			return all, fmt.Errorf("a column of a new row of %s.%s is of kind %q", r.schema, r.name, kind)
		}
		all = append(all, v)
	}
	for i, c := range r.at {
		vals[i] = value{}
		if c >= 0 {
			vals[i] = all[c]
		}
	}
	return all, nil
}

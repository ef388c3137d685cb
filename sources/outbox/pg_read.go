package outbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"frazil/dataflow"

	"github.com/jackc/pglogrepl"
)

// transaction is one of the log.
type transaction struct {
	lsn  pglogrepl.LSN // of its commit
	xid  uint32
	time time.Time
	row  uint64 // rows of it that were seen
	// skip rows were given before.
	skip uint64
}

// read takes messages of the chunk up to the limits, or up to until.
func (s *pgSource) read(limit dataflow.PollLimit) (full bool, err error) {
	for s.at < len(s.chunk.ends) {
		if limit.Rows > 0 && s.rows.count() >= limit.Rows || limit.Bytes > 0 && s.rows.bytes() >= limit.Bytes || s.rows.badCount >= 8192 {
			return true, nil
		}
		end := s.chunk.ends[s.at]
		w := &wire{b: s.chunk.buf[s.begin:end]}
		if !s.open && s.beyond(w.b) {
			s.pos.lsn, s.pos.row = s.until.lsn, 0
			return true, nil
		}
		if err := s.message(w); err != nil {
			return false, fmt.Errorf("read the log of the outbox: %w", err)
		}
		if w.bad {
			return false, fmt.Errorf("read the log of the outbox: a message is shorter than it should be")
		}
		s.at, s.begin = s.at+1, end
	}
	return false, nil
}

// beyond says whether a message begins a transaction that is not to be read.
func (s *pgSource) beyond(b []byte) bool {
	if s.until == nil || b[0] != msgBegin {
		return false
	}
	w := &wire{b: b[1:]}
	return pglogrepl.LSN(w.uint64()) >= s.until.lsn
}

func (s *pgSource) message(w *wire) error {
	switch w.byte() {
	case msgBegin:
		s.tx = transaction{lsn: pglogrepl.LSN(w.uint64()), time: serverTime(int64(w.uint64())), xid: w.uint32()}
		s.open = true
		if s.tx.lsn == s.pos.lsn {
			s.tx.skip = s.pos.row
		}
	case msgCommit:
		w.byte()   // flags
		w.uint64() // of the commit
		end := pglogrepl.LSN(w.uint64())
		s.open = false
		if end > s.pos.lsn {
			s.pos.lsn, s.pos.row = end, 0
		}
	case msgRelation:
		id, r := w.relation()
		return s.describe(id, r)
	case msgInsert:
		return s.insert(w)
	case msgMessage:
		return s.logical(w)
	}
	return nil
}

// describe keeps a relation, and where the fields of the shape stand in it.
func (s *pgSource) describe(id uint32, r *relation) error {
	s.relations[id] = r
	if r.schema+"."+r.name != s.pg.Table {
		return nil // Another table of the same publication.
	}
	r.at = make([]int, len(s.shape.fields))
	for i, f := range s.shape.fields {
		r.at[i] = -1
		for j, c := range r.columns {
			if c.name == f.column {
				r.at[i] = j
			}
		}
		if r.at[i] < 0 {
			return missingColumn(s.pg.Table, f.column)
		}
	}
	return nil
}

func (s *pgSource) insert(w *wire) error {
	r := s.relations[w.uint32()]
	if r == nil {
		return errors.New("a row of a table that was not described")
	}
	if r.at == nil {
		return nil
	}
	w.byte() // 'N'
	var err error
	if s.all, err = w.tuple(r, s.all, s.vals); err != nil || w.bad {
		return err
	}
	s.add()
	return nil
}

// add gives the row in vals on, unless it was before.
func (s *pgSource) add() {
	s.tx.row++
	if s.tx.lsn < s.pos.lsn || s.tx.row <= s.tx.skip {
		return
	}
	s.pos.lsn, s.pos.row = s.tx.lsn, s.tx.row
	s.pos.seq++
	s.rows.add(s.vals, origin{seq: s.pos.seq, lsn: uint64(s.tx.lsn), xid: s.tx.xid, at: s.tx.time, have: true})
}

// logical is a message that the application wrote into the log.
func (s *pgSource) logical(w *wire) error {
	flags := w.byte()
	w.uint64() // its place
	prefix := w.text()
	text := w.take(int(w.uint32()))
	if prefix != s.pg.Messages || flags&1 == 0 || w.bad {
		return nil // Not ours, or not part of a transaction.
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil {
		object = nil // Its id is missing then: the row is bad.
	}
	for i, f := range s.shape.fields {
		s.vals[i] = value{}
		raw, ok := object[f.column]
		if !ok || string(raw) == "null" {
			continue
		}
		s.vals[i] = value{text: raw, valid: true, json: true}
		var plain string
		if f.field.Name != "payload" || s.cfg.Payload != "json" || s.rows.dec != nil {
			if json.Unmarshal(raw, &plain) == nil {
				s.vals[i] = value{text: []byte(plain), valid: true}
			}
		}
	}
	s.add()
	return nil
}

package ingest

import (
	"encoding/json"
	"fmt"
	"time"

	"frazil/dataflow"
	"frazil/state/wal"
)

// LogRecord is a record of a stream's log, for people.
type LogRecord struct {
	Sequence uint64    `json:"sequence"`
	Arrived  time.Time `json:"arrived"`
	// Row is its row, or Reason, Detail and Raw say why it is none.
	Row    json.RawMessage `json:"row,omitempty"`
	Reason string          `json:"reason,omitempty"`
	Detail string          `json:"detail,omitempty"`
	Raw    []byte          `json:"raw,omitempty"`
	// GivenUpTo: the records from Sequence up to this one were given up.
	GivenUpTo uint64 `json:"given_up_to,omitempty"`
}

// ReadLog visits the records from and up to to, 0 for all, of the log in dir, in
// order. It changes nothing, and the stream may be open in this or another process.
func ReadLog(dir string, from, to uint64, visit func(LogRecord) error) error {
	x := &logReader{from: from, to: to, visit: visit, s: Stream{types: schemas{files: closedLog(dir), known: map[uint64][]byte{}}}}
	return wal.Scan(dir, from, x.frame)
}

// CheckLog reads every frame of the log in dir whole: its bodies and the schemas
// of its rows.
func CheckLog(dir string) (records int64, err error) {
	err = ReadLog(dir, 0, 0, func(r LogRecord) error {
		if r.GivenUpTo == 0 {
			records++
		}
		return nil
	})
	return records, err
}

type closedLog string

func (dir closedLog) File(name string) ([]byte, error) { return wal.ReadFile(string(dir), name) }

type logReader struct {
	s        Stream
	from, to uint64
	visit    func(LogRecord) error
}

func (x *logReader) frame(f wal.Frame) error {
	at := time.UnixMicro(f.Arrived).UTC()
	if f.Kind == wal.KindLost {
		return x.tell(LogRecord{Sequence: f.First, Arrived: at, GivenUpTo: f.Next() - 1})
	}
	body, err := decodeBody(f.Body)
	if err != nil {
		return fmt.Errorf("record %d: %w", f.First, err)
	}
	e := entry{first: f.First, next: f.Next(), bads: body.bads}
	if len(body.rows) > 0 {
		if e.rows, err = x.s.types.decodeRows(body.schema, body.rows); err != nil {
			return fmt.Errorf("record %d: %w", f.First, err)
		}
		defer e.release()
	}
	if err := e.check(); err != nil {
		return fmt.Errorf("record %d: %w", f.First, err)
	}
	good := 0
	for seq := e.first; seq < e.next; seq++ {
		r := LogRecord{Sequence: seq, Arrived: at}
		if len(e.bads) > 0 && e.bads[0].at == seq-e.first {
			b := e.bads[0]
			r.Reason, r.Detail, r.Raw = b.bad.Reason, b.bad.Detail, b.raw
			e.bads = e.bads[1:]
		} else {
			if seq >= x.from && (x.to == 0 || seq <= x.to) {
				r.Row = dataflow.RowJSON(e.rows, good)
			}
			good++
		}
		if err := x.tell(r); err != nil {
			return err
		}
	}
	return nil
}

func (x *logReader) tell(r LogRecord) error {
	if max(r.Sequence, r.GivenUpTo) < x.from || x.to > 0 && r.Sequence > x.to {
		return nil
	}
	return x.visit(r)
}

// check compares what a frame says with what it holds.
func (e *entry) check() error {
	rows := int64(0)
	if e.rows != nil {
		rows = e.rows.NumRows()
	}
	if int64(e.next-e.first) != rows+int64(len(e.bads)) {
		return fmt.Errorf("%w: %d records, but %d rows and %d bad ones", errBody, e.next-e.first, rows, len(e.bads))
	}
	for i, b := range e.bads {
		if b.at >= e.next-e.first || i > 0 && b.at <= e.bads[i-1].at {
			return fmt.Errorf("%w: the places of its bad records", errBody)
		}
	}
	return nil
}

package ingest

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"frazil/dataflow"
)

// bodyVersion is the first byte of the body of a frame; see docs/wal-format.md.
const bodyVersion = 1

// frameBody is what a frame of the log holds, but for the columns.
type frameBody struct {
	// schema names the schema of rows, an encapsulated Arrow IPC record batch
	// message of the decoded and the metadata columns; no rows: none.
	schema uint64
	rows   []byte
	bads   []badRecord
	notes  []note
}

// badRecord is a record that was accepted and could not be decoded.
type badRecord struct {
	// at counts from the first record of the frame.
	at  uint64
	bad dataflow.Bad
	raw []byte
}

// note is what is remembered of a request with a key.
type note struct {
	key    string
	digest uint64
	// at is the first record of the request, from the first one of the frame.
	at       uint64
	accepted int
	rejected []Rejection
}

func (n note) result(first uint64) Result {
	r := Result{Accepted: n.accepted, Rejected: n.rejected}
	if n.accepted > 0 {
		r.First = first + n.at
		r.Last = r.First + uint64(n.accepted) - 1
	}
	return r
}

func (b *frameBody) encode(out []byte) ([]byte, error) {
	out = append(out, bodyVersion)
	out = binary.LittleEndian.AppendUint64(out, b.schema)
	out = appendBytes(out, b.rows)
	out = binary.AppendUvarint(out, uint64(len(b.bads)))
	for _, r := range b.bads {
		out = binary.AppendUvarint(out, r.at)
		out = appendBytes(out, []byte(r.bad.Reason))
		out = appendBytes(out, []byte(r.bad.Detail))
		out = appendBytes(out, r.raw)
	}
	out = binary.AppendUvarint(out, uint64(len(b.notes)))
	for _, n := range b.notes {
		out = appendBytes(out, []byte(n.key))
		out = binary.LittleEndian.AppendUint64(out, n.digest)
		out = binary.AppendUvarint(out, n.at)
		out = binary.AppendUvarint(out, uint64(n.accepted))
		var rejected []byte
		if len(n.rejected) > 0 {
			var err error
			if rejected, err = json.Marshal(n.rejected); err != nil {
				return nil, err
			}
		}
		out = appendBytes(out, rejected)
	}
	return out, nil
}

func appendBytes(out, b []byte) []byte {
	return append(binary.AppendUvarint(out, uint64(len(b))), b...)
}

var errBody = errors.New("the body of a frame cannot be read")

// parser takes values off the front of a body. After a failure it gives zeros.
type parser struct {
	b   []byte
	bad bool
}

func (p *parser) uvarint() uint64 {
	v, n := binary.Uvarint(p.b)
	if n <= 0 {
		p.b, p.bad = nil, true
		return 0
	}
	p.b = p.b[n:]
	return v
}

func (p *parser) uint64() uint64 {
	if len(p.b) < 8 {
		p.b, p.bad = nil, true
		return 0
	}
	v := binary.LittleEndian.Uint64(p.b)
	p.b = p.b[8:]
	return v
}

func (p *parser) bytes() []byte {
	n := p.uvarint()
	if n > uint64(len(p.b)) {
		p.b, p.bad = nil, true
		return nil
	}
	v := p.b[:n:n]
	p.b = p.b[n:]
	return v
}

// decodeBody reads what encode wrote. It borrows b.
func decodeBody(b []byte) (frameBody, error) {
	var out frameBody
	if len(b) == 0 || b[0] != bodyVersion {
		return out, fmt.Errorf("%w: its version is not %d", errBody, bodyVersion)
	}
	p := &parser{b: b[1:]}
	out.schema, out.rows = p.uint64(), p.bytes()
	for n := p.uvarint(); n > 0 && !p.bad; n-- {
		out.bads = append(out.bads, badRecord{at: p.uvarint(), bad: dataflow.Bad{Reason: string(p.bytes()), Detail: string(p.bytes())}, raw: p.bytes()})
	}
	for n := p.uvarint(); n > 0 && !p.bad; n-- {
		x := note{key: string(p.bytes()), digest: p.uint64(), at: p.uvarint(), accepted: int(p.uvarint())}
		if raw := p.bytes(); len(raw) > 0 {
			if err := json.Unmarshal(raw, &x.rejected); err != nil {
				return out, fmt.Errorf("%w: %w", errBody, err)
			}
		}
		out.notes = append(out.notes, x)
	}
	if p.bad || len(p.b) > 0 {
		return out, errBody
	}
	return out, nil
}

package ingest

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"frazil/dataflow"
	"frazil/state/wal"
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

// note is what is remembered of a request that is recognised when it comes again.
type note struct {
	// key is that of the request; or, with a sequence, of its producer.
	key      wal.Key
	sequence uint64
	digest   uint64
	// at is the first record of the request, from the first one of the frame.
	at       uint64
	accepted int
	rejected []Rejection
}

// encode appends all but the rows, which follow.
func (b *frameBody) encode(out []byte) ([]byte, error) {
	out = append(out, bodyVersion)
	out = binary.LittleEndian.AppendUint64(out, b.schema)
	out = binary.AppendUvarint(out, uint64(len(b.bads)))
	for _, r := range b.bads {
		out = binary.AppendUvarint(out, r.at)
		out = appendBytes(out, r.bad.Reason)
		out = appendBytes(out, r.bad.Detail)
		out = appendBytes(out, r.raw)
	}
	out = binary.AppendUvarint(out, uint64(len(b.notes)))
	for _, n := range b.notes {
		out = append(out, n.key[:]...)
		out = binary.AppendUvarint(out, n.sequence)
		out = binary.LittleEndian.AppendUint64(out, n.digest)
		out = binary.AppendUvarint(out, n.at)
		out = binary.AppendUvarint(out, uint64(n.accepted))
		rejected, err := encodeRejected(n.rejected)
		if err != nil {
			return nil, err
		}
		out = appendBytes(out, rejected)
	}
	return out, nil
}

// encodeRejected is JSON, empty for none.
func encodeRejected(list []Rejection) ([]byte, error) {
	if len(list) == 0 {
		return nil, nil
	}
	return json.Marshal(list)
}

func decodeRejected(raw []byte) (list []Rejection, err error) {
	if len(raw) == 0 {
		return nil, nil
	}
	err = json.Unmarshal(raw, &list)
	return list, err
}

func appendBytes[T string | []byte](out []byte, b T) []byte {
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

func (p *parser) key() (k wal.Key) {
	if len(p.b) < len(k) {
		p.b, p.bad = nil, true
		return k
	}
	p.b = p.b[copy(k[:], p.b):]
	return k
}

// decodeBody reads what encode wrote, and the rows behind it. It borrows b.
func decodeBody(b []byte) (frameBody, error) {
	var out frameBody
	if len(b) == 0 || b[0] != bodyVersion {
		return out, fmt.Errorf("%w: its version is not %d", errBody, bodyVersion)
	}
	p := &parser{b: b[1:]}
	out.schema = p.uint64()
	for n := p.uvarint(); n > 0 && !p.bad; n-- {
		out.bads = append(out.bads, badRecord{at: p.uvarint(), bad: dataflow.Bad{Reason: string(p.bytes()), Detail: string(p.bytes())}, raw: p.bytes()})
	}
	for n := p.uvarint(); n > 0 && !p.bad; n-- {
		x := note{key: p.key(), sequence: p.uvarint(), digest: p.uint64(), at: p.uvarint(), accepted: int(p.uvarint())}
		var err error
		if x.rejected, err = decodeRejected(p.bytes()); err != nil {
			return out, fmt.Errorf("%w: %w", errBody, err)
		}
		out.notes = append(out.notes, x)
	}
	if p.bad {
		return out, errBody
	}
	out.rows = p.b
	return out, nil
}

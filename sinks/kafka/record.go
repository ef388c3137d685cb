package kafka

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A record is spooled as
//
//	topic       length as a uvarint, bytes
//	partition   varint, -1: by the key
//	timestamp   varint, milliseconds since 1970, 0: when it is sent
//	key, value  length + 1 as a uvarint, 0: null; bytes
//	headers     their number as a uvarint; each a name like topic, a value like key
//
// A row of the spool is one record; its version is that of the part.

// appendBytes writes b, which may be nil for null.
func appendBytes(dst, b []byte, valid bool) []byte {
	if !valid {
		return append(dst, 0)
	}
	dst = binary.AppendUvarint(dst, uint64(len(b))+1)
	return append(dst, b...)
}

// reader takes a spooled record apart.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) uvarint() uint64 {
	n, used := binary.Uvarint(r.b)
	if used <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[used:]
	return n
}

func (r *reader) varint() int64 {
	n, used := binary.Varint(r.b)
	if used <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[used:]
	return n
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

// nullable takes a key or value.
func (r *reader) nullable() []byte {
	n := r.uvarint()
	if n == 0 {
		return nil
	}
	if b := r.take(n - 1); b != nil {
		return b
	}
	return []byte{}
}

// record reads into rec; topics and names of headers are shared by way of names.
func (r *reader) record(rec *kgo.Record, names map[string]string) error {
	rec.Topic = intern(names, r.take(r.uvarint()))
	rec.Partition = int32(r.varint())
	if ms := r.varint(); ms != 0 {
		rec.Timestamp = millis(ms)
	}
	rec.Key, rec.Value = r.nullable(), r.nullable()
	if n := r.uvarint(); n > 0 && n <= uint64(len(r.b)) {
		rec.Headers = make([]kgo.RecordHeader, n)
		for i := range rec.Headers {
			rec.Headers[i] = kgo.RecordHeader{Key: intern(names, r.take(r.uvarint())), Value: r.nullable()}
		}
	} else if n > 0 {
		r.bad = true
	}
	if r.bad || len(r.b) > 0 {
		return fmt.Errorf("a spooled record cannot be read: its bytes are not those of this version")
	}
	return nil
}

// intern returns b as a string that is made once.
func intern(names map[string]string, b []byte) string {
	if s, ok := names[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(names) < 1<<16 {
		names[s] = s
	}
	return s
}

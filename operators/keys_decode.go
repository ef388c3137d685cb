package operators

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/extensions"
)

// keyDecoder reads canonical keys back into columns.
type keyDecoder struct{ kinds []keyKind }

// newKeyDecoder reads keys whose columns have the types of fields.
func newKeyDecoder(fields []arrow.Field) (*keyDecoder, error) {
	d := &keyDecoder{kinds: make([]keyKind, len(fields))}
	for i, f := range fields {
		kind, err := keyKindOf(f)
		if err != nil {
			return nil, err
		}
		d.kinds[i] = kind
	}
	return d, nil
}

var errKeyShort = errors.New("key ends early")

// append adds the values of one key to b, one builder per field, and returns
// the bytes after the key. After an error the builders hold part of the row.
func (d *keyDecoder) append(key []byte, b []array.Builder) ([]byte, error) {
	for i, kind := range d.kinds {
		if len(key) == 0 {
			return nil, errKeyShort
		}
		tag := key[0]
		key = key[1:]
		if tag == keyNull {
			b[i].AppendNull()
			continue
		}
		if tag != keyValue {
			return nil, fmt.Errorf("key column %d starts with byte %#x", i, tag)
		}
		var err error
		if key, err = appendKeyValue(kind, key, b[i]); err != nil {
			return nil, err
		}
	}
	return key, nil
}

var keyWidths = [...]int{keyBool: 1, keyInt32: 4, keyInt64: 8, keyFloat32: 4, keyFloat64: 8, keyDecimal: 16, keyUUID: 16, keyString: 0, keyBinary: 0}

// appendKeyValue adds one value that is not null and returns what follows it.
func appendKeyValue(kind keyKind, key []byte, b array.Builder) ([]byte, error) {
	n := keyWidths[kind]
	if kind == keyString || kind == keyBinary {
		l, w := binary.Uvarint(key)
		if w <= 0 || l > uint64(len(key)-w) {
			return nil, errKeyShort
		}
		key, n = key[w:], int(l)
	}
	if len(key) < n {
		return nil, errKeyShort
	}
	v, rest := key[:n], key[n:]
	switch b := b.(type) {
	case *array.BooleanBuilder:
		b.Append(v[0] != 0)
	case *array.Int32Builder:
		b.Append(int32(binary.BigEndian.Uint32(v) ^ 1<<31))
	case *array.Date32Builder:
		b.Append(arrow.Date32(binary.BigEndian.Uint32(v) ^ 1<<31))
	case *array.Int64Builder:
		b.Append(int64(binary.BigEndian.Uint64(v) ^ 1<<63))
	case *array.Time64Builder:
		b.Append(arrow.Time64(binary.BigEndian.Uint64(v) ^ 1<<63))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(binary.BigEndian.Uint64(v) ^ 1<<63))
	case *array.Float32Builder:
		b.Append(keyFloat32From(binary.BigEndian.Uint32(v)))
	case *array.Float64Builder:
		b.Append(keyFloat64From(binary.BigEndian.Uint64(v)))
	case *array.Decimal128Builder:
		hi := int64(binary.BigEndian.Uint64(v) ^ 1<<63)
		b.Append(decimal128.New(hi, binary.BigEndian.Uint64(v[8:])))
	case *extensions.UUIDBuilder:
		b.AppendBytes([16]byte(v))
	case *array.StringBuilder:
		b.BinaryBuilder.Append(v)
	case *array.BinaryBuilder:
		b.Append(v)
	default:
		return nil, fmt.Errorf("no key decoder for %T", b)
	}
	return rest, nil
}

package spool

import (
	"encoding/binary"

	"frazil/dataflow"
)

// AppendPart writes b with its length in front, for sinks that put rows together of
// parts.
func AppendPart(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// CutPart takes what AppendPart has written off the beginning of b.
func CutPart(b []byte) (part, rest []byte, err error) {
	n, used := binary.Uvarint(b)
	if used <= 0 || n > uint64(len(b)-used) {
		return nil, nil, ErrRow
	}
	end := used + int(n)
	return b[used:end:end], b[end:], nil
}

// ErrRow: a row is not what the sink spools.
var ErrRow = dataflow.Permanentf("a spooled row cannot be read: its bytes are not those of this version")

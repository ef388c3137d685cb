package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// markerName is a file of markerSize bytes that says how far the log was synced
// when it was last written: a lower bound, written after each sync, and itself
// synced when a segment begins and before one is removed. A log that ends before
// it has lost records that producers were told are safe.
const (
	markerName  = "SYNCED"
	markerMagic = "FRZSYN\x00\x01"
	// markerSize: magic 8, next 8, acked 8, checksum 4, zero 4.
	markerSize = 32
)

// mark is what the marker holds: everything below next was synced, everything
// below acked is committed.
type mark struct{ next, acked uint64 }

func (m mark) encode() []byte {
	b := append(make([]byte, 0, markerSize), markerMagic...)
	b = binary.LittleEndian.AppendUint64(b, m.next)
	b = binary.LittleEndian.AppendUint64(b, m.acked)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return append(b, 0, 0, 0, 0)
}

// readMark returns the marker of dir; ok is false where there is none, or one
// that cannot be read.
func readMark(fs vfs.FS, dir string) (m mark, ok bool, err error) {
	b, err := readFile(fs, fs.PathJoin(dir, markerName))
	if isNotExist(err) {
		return m, false, nil
	}
	if err != nil || len(b) < markerSize {
		return m, false, err
	}
	n := len(markerMagic) - 1
	if string(b[:n]) == markerMagic[:n] && b[n] > markerMagic[n] {
		return m, false, fmt.Errorf("%s: %w: version %d of the format, and this program knows up to %d", markerName, ErrVersion, b[n], markerMagic[n])
	}
	m = mark{binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])}
	return m, string(b[:markerSize]) == string(m.encode()), nil
}

// openMarker opens the file for writing.
func openMarker(fs vfs.FS, dir string, m mark) (vfs.File, error) {
	f, err := fs.OpenReadWrite(fs.PathJoin(dir, markerName), vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	if _, err = f.WriteAt(m.encode(), 0); err == nil {
		err = f.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

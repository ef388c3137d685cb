package spool

import (
	"encoding/binary"
	"hash/crc32"
)

// A file begins with magic and holds chunks:
//
//	bytes   4 bytes, little endian: of the rows, as they follow
//	crc     4 bytes, little endian: CRC-32C of bytes and of the rows
//	rows    each: its length as a uvarint, and its bytes
//
// The last byte of magic is the version of the format.
const (
	magic       = "FRZSPL\x00\x01"
	chunkHeader = 8
	// chunkBytes is from where on a chunk is closed.
	chunkBytes = 256 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal writes the header of a chunk whose rows stand behind it in b.
func seal(b []byte) {
	binary.LittleEndian.PutUint32(b, uint32(len(b)-chunkHeader))
	binary.LittleEndian.PutUint32(b[4:], checksum(b))
}

func checksum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:4], castagnoli), castagnoli, b[chunkHeader:])
}

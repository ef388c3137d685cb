package wal

import (
	"encoding/binary"
	"hash/crc32"
)

// Frame is what one Append writes at least: some records of one kind that
// became durable together.
type Frame struct {
	// First is the sequence number of the first record; set by Append.
	First uint64
	// Records is how many sequence numbers the frame takes, at least 1.
	Records uint32
	// Arrived is when the records were received, in microseconds since 1970.
	Arrived int64
	// Kind tells the owner what Body is; KindLost is the log's own.
	Kind uint8
	// Body is opaque. Append borrows it; a cursor's caller owns it.
	Body []byte
}

// KindLost is the kind of a frame that stands where records were given up: it
// takes their sequence numbers and has no body.
const KindLost = 255

// Next is the sequence number behind the frame.
func (f Frame) Next() uint64 { return f.First + uint64(f.Records) }

func (f Frame) size() int64 { return frameHeader + int64(len(f.Body)) }

// Sizes and marks of the format, version 1.
const (
	segmentMagic = "FRZWAL\x00\x01"
	// segmentHeader: magic 8, first sequence number 8, nonce 8, checksum 4, zero 4.
	segmentHeader = 32
	// frameHeader: length of the body 4, checksum 4, first 8, durable 8, arrived
	// 8, records 4, kind 1, flags 1, zero 2.
	frameHeader = 40
	// flagMore: the frame behind it belongs to the same Append.
	flagMore = 1
)

// MaxBody bounds one frame: a longer length is damage, not data.
const MaxBody = 256 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendFrame encodes f. durable is the sequence number up to which everything
// was synced before this Append: a frame that is broken below the durable of a
// whole one behind it was damaged, not torn.
func appendFrame(out []byte, f Frame, nonce, durable uint64, flags uint8) []byte {
	start := len(out)
	le := binary.LittleEndian
	out = le.AppendUint32(out, uint32(len(f.Body)))
	out = le.AppendUint32(out, 0)
	out = le.AppendUint64(out, f.First)
	out = le.AppendUint64(out, durable)
	out = le.AppendUint64(out, uint64(f.Arrived))
	out = le.AppendUint32(out, f.Records)
	out = append(out, f.Kind, flags, 0, 0)
	out = append(out, f.Body...)
	le.PutUint32(out[start+4:], checksum(out[start:], nonce))
	return out
}

// appendFrames encodes the frames of one Append and numbers them from first.
func appendFrames(out []byte, frames []Frame, nonce, first uint64) (_ []byte, next uint64) {
	next = first
	for i := range frames {
		frames[i].First = next
		next = frames[i].Next()
		flags := uint8(flagMore)
		if i == len(frames)-1 {
			flags = 0
		}
		out = appendFrame(out, frames[i], nonce, first, flags)
	}
	return out, next
}

// checksum covers a whole frame but the checksum itself, and the nonce of its
// segment, so that bytes of an older file are not taken for this one's.
func checksum(frame []byte, nonce uint64) uint32 {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], nonce)
	c := crc32.Update(0, castagnoli, n[:])
	c = crc32.Update(c, castagnoli, frame[:4])
	return crc32.Update(c, castagnoli, frame[8:])
}

// header is a decoded frame header.
type header struct {
	body    int
	sum     uint32
	durable uint64
	flags   uint8
	frame   Frame
}

// parseHeader decodes b, which holds frameHeader bytes. ok is false for what
// cannot be a header; the checksum is not looked at.
func parseHeader(b []byte) (header, bool) {
	le := binary.LittleEndian
	h := header{
		body: int(le.Uint32(b)), sum: le.Uint32(b[4:]), durable: le.Uint64(b[16:]), flags: b[37],
		frame: Frame{First: le.Uint64(b[8:]), Arrived: int64(le.Uint64(b[24:])), Records: le.Uint32(b[32:]), Kind: b[36]},
	}
	ok := h.frame.First > 0 && h.frame.Next() > h.frame.First && h.body <= MaxBody && b[38] == 0 && b[39] == 0 && h.flags&^flagMore == 0
	return h, ok
}

// frameAt decodes the frame at off of a segment's bytes if it is whole, whatever
// its number. It borrows data.
func frameAt(data []byte, off int64, nonce uint64) (h header, size int64, ok bool) {
	if off+frameHeader > int64(len(data)) {
		return h, 0, false
	}
	h, ok = parseHeader(data[off : off+frameHeader])
	size = frameHeader + int64(h.body)
	if !ok || off+size > int64(len(data)) || checksum(data[off:off+size], nonce) != h.sum {
		return h, 0, false
	}
	h.frame.Body = data[off+frameHeader : off+size : off+size]
	return h, size, true
}

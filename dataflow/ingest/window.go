package ingest

import (
	"encoding/binary"
)

// window is which numbers of a producer were seen: the highest, and a bit for
// each of the windowSize up to it. What is older counts as seen.
type window struct {
	high uint64
	bits [windowSize / 64]uint64
}

const windowSize = 1024

func (w *window) seen(seq uint64) bool {
	switch {
	case seq > w.high:
		return false
	case w.high-seq >= windowSize:
		return true
	}
	return w.bits[seq%windowSize/64]&(1<<(seq%64)) != 0
}

func (w *window) add(seq uint64) {
	if seq > w.high {
		if seq-w.high >= windowSize {
			clear(w.bits[:])
		} else {
			for s := w.high + 1; s < seq; s++ {
				w.bits[s%windowSize/64] &^= 1 << (s % 64)
			}
		}
		w.high = seq
	}
	if w.high-seq < windowSize {
		w.bits[seq%windowSize/64] |= 1 << (seq % 64)
	}
}

func (w *window) encode() []byte {
	out := binary.LittleEndian.AppendUint64(make([]byte, 0, 8+windowSize/8), w.high)
	for _, b := range w.bits {
		out = binary.LittleEndian.AppendUint64(out, b)
	}
	return out
}

func decodeWindow(b []byte) (w window, ok bool) {
	if len(b) != 8+windowSize/8 {
		return w, false
	}
	w.high = binary.LittleEndian.Uint64(b)
	for i := range w.bits {
		w.bits[i] = binary.LittleEndian.Uint64(b[8+8*i:])
	}
	return w, true
}

package mqtt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
)

// learner is what a decoder of payloads with topics may be able to do beside.
type learner interface {
	// Learns says whether payloads of a topic teach what later ones mean.
	Learns(topic string) bool
	// Counts are what was noticed since the last call, by name.
	Counts() map[string]int64
	// Asks returns messages to send by topic, since the last call.
	Asks(nowMillis int64) map[string][]byte
}

// birthsFile stands beside the segments of the stream's log: the payloads that the
// decoder has learnt from, since the messages that they explain may come after a
// restart. Each entry is a checksum (CRC-32C of what follows, 4 bytes), the lengths
// of topic and payload (4 bytes each, little endian), topic and payload, behind a
// magic of 8 bytes. What comes last for a topic counts; a torn tail is left out.
const (
	birthsFile  = "mqtt-births"
	birthsMagic = "FRZBRTH\x01"
	birthHeader = 12
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// births is that file. One goroutine uses it.
type births struct {
	path  string
	f     *os.File
	dirty bool
	size  int64
	// last is the newest entry of each topic; live are their bytes.
	last map[string]birth
	live int64
	n    int
}

type birth struct {
	n       int // in order
	payload []byte
}

// openBirths opens the file and hands over what it holds, oldest first.
func openBirths(dir string, visit func(topic string, payload []byte)) (*births, error) {
	b := &births{path: filepath.Join(dir, birthsFile), last: map[string]birth{}}
	raw, err := os.ReadFile(b.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if len(raw) >= len(birthsMagic) && string(raw[:7]) == birthsMagic[:7] && raw[7] != birthsMagic[7] {
		return nil, fmt.Errorf("%s has version %d, and this program knows version 1", b.path, raw[7])
	}
	if len(raw) > len(birthsMagic) && string(raw[:8]) == birthsMagic {
		for rest := raw[8:]; ; {
			topic, payload, n := readBirth(rest)
			if n == 0 {
				break
			}
			b.note(topic, payload)
			rest = rest[n:]
		}
	}
	for _, topic := range b.order() {
		visit(topic, b.last[topic].payload)
	}
	return b, b.compact()
}

// readBirth reads one entry; n is 0 at the end, or where it is torn.
func readBirth(b []byte) (topic string, payload []byte, n int) {
	if len(b) < birthHeader {
		return "", nil, 0
	}
	t, p := int64(binary.LittleEndian.Uint32(b[4:])), int64(binary.LittleEndian.Uint32(b[8:]))
	if birthHeader+t+p > int64(len(b)) {
		return "", nil, 0
	}
	end := birthHeader + t + p
	if crc32.Checksum(b[4:end], castagnoli) != binary.LittleEndian.Uint32(b) {
		return "", nil, 0
	}
	return string(b[birthHeader : birthHeader+t]), b[birthHeader+t : end], int(end)
}

func appendBirth(out []byte, topic string, payload []byte) []byte {
	at := len(out)
	out = binary.LittleEndian.AppendUint32(out, 0)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(topic)))
	out = binary.LittleEndian.AppendUint32(out, uint32(len(payload)))
	out = append(append(out, topic...), payload...)
	binary.LittleEndian.PutUint32(out[at:], crc32.Checksum(out[at+4:], castagnoli))
	return out
}

func (b *births) note(topic string, payload []byte) {
	if old, ok := b.last[topic]; ok {
		b.live -= birthHeader + int64(len(topic)+len(old.payload))
	}
	b.n++
	b.last[topic] = birth{b.n, payload}
	b.live += birthHeader + int64(len(topic)+len(payload))
}

// order lists the topics by their newest entries.
func (b *births) order() []string {
	at := make([]string, b.n+1)
	for topic, x := range b.last {
		at[x.n] = topic
	}
	out := at[:0]
	for _, topic := range at {
		if topic != "" {
			out = append(out, topic)
		}
	}
	return out
}

// add notes a payload. It is durable after the next sync.
func (b *births) add(topic string, payload []byte) error {
	payload = append([]byte(nil), payload...)
	b.note(topic, payload)
	e := appendBirth(nil, topic, payload)
	n, err := b.f.Write(e)
	b.size += int64(n)
	b.dirty = true
	if err == nil && b.size > 4*b.live+(4<<20) {
		return b.compact()
	}
	return err
}

// compact writes the file anew, with the newest entries only, and syncs it.
func (b *births) compact() error {
	f, err := os.CreateTemp(filepath.Dir(b.path), birthsFile+"-*")
	if err != nil {
		return err
	}
	order := b.order()
	out := []byte(birthsMagic)
	newest := map[string]birth{}
	for i, topic := range order {
		payload := b.last[topic].payload
		newest[topic] = birth{i + 1, payload}
		out = appendBirth(out, topic, payload)
	}
	_, err = f.Write(out)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(f.Name(), b.path)
	}
	if err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	if b.f != nil {
		err = b.f.Close()
	}
	b.f, b.size, b.last, b.n, b.dirty = f, int64(len(out)), newest, len(order), false
	return err
}

// sync makes what was added durable.
func (b *births) sync() error {
	if b == nil || !b.dirty {
		return nil
	}
	b.dirty = false
	return b.f.Sync()
}

func (b *births) close() error {
	if b == nil || b.f == nil {
		return nil
	}
	return errors.Join(b.f.Sync(), b.f.Close())
}

package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A log keeps small files of its owner beside the segments: what many frames need
// and none should repeat.
const (
	fileMagic = "FRZAUX\x00\x01"
	// fileHeader: magic 8, length 8, checksum 4, zero 4.
	fileHeader = 24
)

// PutFile makes data durable under name, in place of what was there. The names
// *.wal, *.keys, *.tmp, LOCK and SYNCED are the log's own.
func (l *Log) PutFile(name string, data []byte) error {
	f, err := writeNamed(l.fs, l.dir, name, encodeFile(data))
	if err != nil {
		return fmt.Errorf("write %s beside the write-ahead log: %w", name, noRoom(err))
	}
	return f.Close()
}

func encodeFile(data []byte) []byte {
	b := append(make([]byte, 0, fileHeader+len(data)), fileMagic...)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(data)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, data))
	return append(append(b, 0, 0, 0, 0), data...)
}

// File returns what PutFile wrote. An error is os.ErrNotExist, ErrCorrupt, or one
// of the file system.
func (l *Log) File(name string) ([]byte, error) { return readAux(l.fs, l.dir, name) }

func readAux(fs vfs.FS, dir, name string) ([]byte, error) {
	b, err := readFile(fs, fs.PathJoin(dir, name))
	if err != nil {
		return nil, err
	}
	n := len(fileMagic) - 1
	if len(b) > n && string(b[:n]) == fileMagic[:n] && b[n] > fileMagic[n] {
		return nil, fmt.Errorf("%s: %w: version %d of the format, and this program knows up to %d", name, ErrVersion, b[n], fileMagic[n])
	}
	if len(b) < fileHeader || string(encodeFile(b[fileHeader:])) != string(b) {
		return nil, fmt.Errorf("%w: the file %s of %s cannot be read", ErrCorrupt, name, dir)
	}
	return b[fileHeader:], nil
}

// removeTemporary removes files that were being made when the process was killed.
func removeTemporary(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		if len(name) > len(tmpSuffix) && name[len(name)-len(tmpSuffix):] == tmpSuffix {
			errs = append(errs, fs.Remove(fs.PathJoin(dir, name)))
		}
	}
	return errors.Join(errs...)
}

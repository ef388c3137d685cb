package spool

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"frazil/dataflow"
	"frazil/state"
)

// Each calls visit with every row of the parts, in order. A row stays as it is after
// visit has returned, so that it can be kept; a chunk is freed when nothing keeps one
// of its rows. A file that is missing or damaged is a permanent error: what it held
// was read from the sources and cannot be had again.
func Each(env *dataflow.Env, parts []dataflow.Part, visit func(row []byte) error) error {
	fs := env.SpoolFS()
	for _, p := range parts {
		var x part
		if err := json.Unmarshal(p.Data, &x); err != nil {
			return dataflow.Permanentf("read a part of %s: %w", env.Step, err)
		}
		n, err := each(fs, fs.PathJoin(Dir(env), x.File), x.Bytes, visit)
		if err != nil {
			return err
		}
		if n != p.Rows {
			return damaged(fs.PathJoin(Dir(env), x.File), fmt.Sprintf("it holds %d rows, expected %d", n, p.Rows))
		}
	}
	return nil
}

func each(fs state.FS, path string, size int64, visit func(row []byte) error) (rows int64, err error) {
	f, err := fs.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, dataflow.Permanentf("the staged rows %s are gone: put the folder back beside the state that names it", path)
	}
	if err != nil {
		return 0, fmt.Errorf("read staged rows: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if info, err := f.Stat(); err != nil || info.Size() != size {
		if err != nil {
			return 0, fmt.Errorf("read staged rows: %w", err)
		}
		return 0, damaged(path, fmt.Sprintf("it has %d bytes, expected %d", info.Size(), size))
	}
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(f, head); err != nil {
		return 0, readError(path, err)
	}
	if v := head[len(head)-1]; string(head) != magic {
		if string(head[:len(head)-1]) == magic[:len(magic)-1] && v > magic[len(magic)-1] {
			return 0, dataflow.Permanentf("the staged rows %s are of format %d, and this version knows up to %d: use the version that wrote them, or a newer one", path, v, magic[len(magic)-1])
		}
		return 0, damaged(path, "it does not begin as it should")
	}
	for at := int64(len(magic)); at < size; {
		chunk, err := readChunk(f, path, size-at)
		if err != nil {
			return rows, err
		}
		at += chunkHeader + int64(len(chunk))
		for len(chunk) > 0 {
			n, used := binary.Uvarint(chunk)
			if used <= 0 || n > uint64(len(chunk)-used) {
				return rows, damaged(path, fmt.Sprintf("a row ends behind its chunk, before byte %d", at))
			}
			end := used + int(n)
			if err := visit(chunk[used:end:end]); err != nil {
				return rows, err
			}
			chunk = chunk[end:]
			rows++
		}
	}
	return rows, nil
}

func readChunk(f io.Reader, path string, left int64) ([]byte, error) {
	head := make([]byte, chunkHeader)
	if _, err := io.ReadFull(f, head); err != nil {
		return nil, readError(path, err)
	}
	n := int64(binary.LittleEndian.Uint32(head))
	if n > left-chunkHeader {
		return nil, damaged(path, fmt.Sprintf("a chunk has %d bytes, and the file %d more", n, left-chunkHeader))
	}
	chunk := make([]byte, chunkHeader+n)
	copy(chunk, head)
	if _, err := io.ReadFull(f, chunk[chunkHeader:]); err != nil {
		return nil, readError(path, err)
	}
	if binary.LittleEndian.Uint32(head[4:]) != checksum(chunk) {
		return nil, damaged(path, fmt.Sprintf("the checksum of a chunk of %d bytes does not fit", n))
	}
	return chunk[chunkHeader:], nil
}

func readError(path string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return damaged(path, "it ends in the middle")
	}
	return fmt.Errorf("read staged rows %s: %w", path, err)
}

func damaged(path, why string) error {
	return dataflow.Permanentf("the staged rows %s are damaged: %s. They were read from the sources and not yet committed: put the file back from a copy", path, why)
}

// Sweep removes the files of epochs up to e: call it when the commit of e is done. What
// is of a later epoch, or still open, stays. An error leaves files for the next time.
func Sweep(env *dataflow.Env, e dataflow.Epoch) error {
	fs, dir := env.SpoolFS(), Dir(env)
	names, err := fs.List(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list staged rows: %w", err)
	}
	var errs []error
	for _, name := range names {
		epoch, rest, ok := strings.Cut(name, "-")
		n, err := strconv.ParseUint(epoch, 10, 64)
		if !ok || err != nil || !strings.HasSuffix(rest, suffix) || dataflow.Epoch(n) > e {
			continue
		}
		if err := fs.Remove(fs.PathJoin(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove committed rows: %w", err))
		}
	}
	return errors.Join(errs...)
}

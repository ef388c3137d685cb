package spool

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"

	"frazil/dataflow"
	"frazil/state"
)

const (
	// category of the files for the file system's own statistics.
	category = "frazil-spool"
	// openPrefix is of files whose epoch is not cut yet.
	openPrefix = "open-"
	suffix     = ".rows"
)

// part is the content of a dataflow.Part.
type part struct {
	File string `json:"file"`
	// Bytes of the whole file.
	Bytes int64 `json:"bytes"`
}

// Writer writes the rows of one sink task. One goroutine uses it; what Cut returned
// may be waited for by another one.
type Writer struct {
	fs   state.FS
	dir  string
	task int

	f     state.File
	name  string
	bytes int64
	rows  int64
	// chunk is the one that is being filled, behind room for its header.
	chunk []byte
	syncs sync.WaitGroup
}

// NewWriter makes the folder of env's step and removes what an earlier process of the
// task left open in it. Several tasks share the folder.
func NewWriter(env *dataflow.Env) (*Writer, error) {
	w := &Writer{fs: env.SpoolFS(), dir: Dir(env), task: env.Task}
	if err := state.MakeDir(w.fs, w.dir); err != nil {
		return nil, classify(fmt.Errorf("make the folder of staged rows: %w", err))
	}
	names, err := w.fs.List(w.dir)
	if err != nil {
		return nil, classify(fmt.Errorf("list the staged rows: %w", err))
	}
	for _, name := range names {
		if strings.HasPrefix(name, w.open()) {
			if err := w.fs.Remove(w.fs.PathJoin(w.dir, name)); err != nil {
				return nil, classify(fmt.Errorf("remove rows that were never cut: %w", err))
			}
		}
	}
	return w, nil
}

// Dir is the folder of the staged rows of env's step.
func Dir(env *dataflow.Env) string {
	return env.SpoolFS().PathJoin(env.SpoolDir, env.Step)
}

func (w *Writer) open() string { return fmt.Sprintf("%s%d-", openPrefix, w.task) }

// Append stages one row; row is copied.
func (w *Writer) Append(row []byte) error {
	if w.f == nil {
		if err := w.begin(); err != nil {
			return err
		}
	}
	w.chunk = binary.AppendUvarint(w.chunk, uint64(len(row)))
	w.chunk = append(w.chunk, row...)
	w.rows++
	if len(w.chunk) >= chunkBytes {
		return w.flush()
	}
	return nil
}

// Rows counts those since the last Cut.
func (w *Writer) Rows() int64 { return w.rows }

func (w *Writer) begin() error {
	w.name = w.open() + randomName() + suffix
	f, err := w.fs.Create(w.path(w.name), category)
	if err != nil {
		return classify(fmt.Errorf("begin a file of staged rows: %w", err))
	}
	w.f, w.bytes, w.rows = f, 0, 0
	w.chunk = append(w.chunk[:0], make([]byte, chunkHeader)...)
	return w.write([]byte(magic))
}

func (w *Writer) path(name string) string { return w.fs.PathJoin(w.dir, name) }

func (w *Writer) write(b []byte) error {
	n, err := w.f.Write(b)
	w.bytes += int64(n)
	if err != nil {
		return classify(fmt.Errorf("stage rows in %s: %w", w.path(w.name), err))
	}
	return nil
}

func (w *Writer) flush() error {
	if len(w.chunk) == chunkHeader {
		return nil
	}
	seal(w.chunk)
	err := w.write(w.chunk)
	w.chunk = w.chunk[:chunkHeader]
	return err
}

// Cut implements dataflow.Writer's Prepare: the rows since the last one belong to e.
// nil: there were none.
func (w *Writer) Cut(e dataflow.Epoch) (dataflow.Pending, error) {
	if w.f == nil {
		return nil, nil
	}
	if err := w.flush(); err != nil {
		return nil, err
	}
	f, from, rows, bytes := w.f, w.name, w.rows, w.bytes
	w.f, w.rows = nil, 0
	to := fmt.Sprintf("%020d-%d-%s%s", e, w.task, randomName(), suffix)
	return dataflow.GoPart(&w.syncs, func() (dataflow.Part, error) {
		if err := w.keep(f, from, to); err != nil {
			return dataflow.Part{}, classify(fmt.Errorf("sync staged rows: %w", err))
		}
		data, err := json.Marshal(part{File: to, Bytes: bytes})
		return dataflow.Part{Rows: rows, Bytes: bytes, Data: data}, err
	}), nil
}

// keep makes a file durable under its name.
func (w *Writer) keep(f state.File, from, to string) error {
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := w.fs.Rename(w.path(from), w.path(to)); err != nil {
		return err
	}
	return state.SyncDir(w.fs, w.dir)
}

// Close removes rows that were not cut. What was cut stays: a manifest may name it.
func (w *Writer) Close() error {
	w.syncs.Wait()
	if w.f == nil {
		return nil
	}
	err := errors.Join(w.f.Close(), w.fs.Remove(w.path(w.name)))
	w.f, w.rows = nil, 0
	return err
}

// classify marks what no retry heals, and a full disk as something that time heals.
func classify(err error) error {
	switch {
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EROFS):
		return dataflow.Permanent(err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return dataflow.Unavailable(err)
	}
	return err
}

func randomName() string {
	var b [8]byte
	rand.Read(b[:]) // It never fails.
	return hex.EncodeToString(b[:])
}

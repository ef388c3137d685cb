package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"

	"frazil/dataflow"
	"frazil/dataflow/failpoint"

	"github.com/apache/arrow-go/v18/arrow"
)

// flushAt is how many bytes of rows wait in memory.
const flushAt = 256 << 10

// part is the content of a dataflow.Part.
type part struct {
	// ID is the folder's identity.
	ID    string `json:"id"`
	Files []file `json:"files"`
}

// writer stages rows in files that only a part names.
type writer struct {
	to     folder
	id     string
	prefix string
	limit  int64
	enc    *encoder
	buf    []byte
	n      int
	open   *staged
	// full are closed to rows and belong to the open epoch.
	full []*staged
	// syncs are cuts on their way to the disk.
	syncs sync.WaitGroup
}

type staged struct {
	file
	f *os.File
}

func newWriter(env *dataflow.Env, schema *arrow.Schema, cfg Config) (*writer, error) {
	to := folder{cfg.Path}
	id, err := to.create()
	if err != nil {
		return nil, err
	}
	// The random part makes the names of this instance its own: the task's
	// number and the epochs come again after a restart.
	prefix := fmt.Sprintf("%s.%s-%d-%s-", env.Pipeline, env.Step, env.Task, randomName())
	return &writer{to: to, id: id, prefix: prefix, limit: int64(cfg.FileSize), enc: newEncoder(schema)}, nil
}

// Write implements dataflow.Writer. It refuses no row.
func (w *writer) Write(_ context.Context, b arrow.RecordBatch) (arrow.RecordBatch, error) {
	for i := range int(b.NumRows()) {
		if w.open == nil {
			if err := w.begin(); err != nil {
				return nil, err
			}
		}
		before := len(w.buf)
		w.buf = w.enc.row(w.buf, b, i)
		w.open.Rows++
		w.open.Bytes += int64(len(w.buf) - before)
		if w.open.Bytes >= w.limit {
			if err := w.end(); err != nil {
				return nil, err
			}
		} else if len(w.buf) >= flushAt {
			if err := w.flush(); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}

// begin opens the next file.
func (w *writer) begin() error {
	name := w.prefix + strconv.Itoa(w.n) + ".staged"
	w.n++
	f, err := os.OpenFile(w.to.stage(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return classify(fmt.Errorf("begin a file of rows: %w", err))
	}
	w.open = &staged{file: file{Staged: name}, f: f}
	return nil
}

func (w *writer) flush() error {
	if _, err := w.open.f.Write(w.buf); err != nil {
		return classify(fmt.Errorf("write rows: %w", err))
	}
	w.buf = w.buf[:0]
	return nil
}

// end closes the open file to rows.
func (w *writer) end() error {
	if err := w.flush(); err != nil {
		return err
	}
	w.full = append(w.full, w.open)
	w.open = nil
	return nil
}

// Prepare implements dataflow.Writer.
func (w *writer) Prepare(context.Context, dataflow.Epoch) (dataflow.Pending, error) {
	if w.open != nil {
		if err := w.end(); err != nil {
			return nil, err
		}
	}
	if len(w.full) == 0 {
		return nil, nil
	}
	files := w.full
	w.full = nil
	return dataflow.GoPart(&w.syncs, func() (dataflow.Part, error) { return w.sync(files) }), nil
}

// sync makes files durable, names included, and describes them. They are
// closed also after an error.
func (w *writer) sync(files []*staged) (dataflow.Part, error) {
	p := part{ID: w.id}
	var rows int64
	var errs []error
	for _, s := range files {
		errs = append(errs, s.f.Sync(), s.f.Close())
		p.Files = append(p.Files, s.file)
		rows += s.Rows
	}
	errs = append(errs, syncDir(w.to.stage("")))
	if err := errors.Join(errs...); err != nil {
		return dataflow.Part{}, classify(fmt.Errorf("sync rows: %w", err))
	}
	if err := failpoint.Hit(failpoint.FilesStaged); err != nil {
		return dataflow.Part{}, err
	}
	data, err := json.Marshal(p)
	return dataflow.Part{Rows: rows, Data: data}, err
}

// Close implements dataflow.Writer. Files that were never cut are deleted: no
// part names them. Those of a cut stay, since a manifest may.
func (w *writer) Close() error {
	var errs []error
	if w.open != nil {
		w.full = append(w.full, w.open)
		w.open = nil
	}
	for _, s := range w.full {
		errs = append(errs, s.f.Close(), os.Remove(s.f.Name()))
	}
	w.full = nil
	w.syncs.Wait()
	return errors.Join(errs...)
}

var _ dataflow.Writer = (*writer)(nil)

package files

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Describe implements dataflow.TableReader. The commits of all pipelines and
// sinks that write to the folder count. It changes nothing.
func (c *committer) Describe(ctx context.Context) (dataflow.TableInfo, bool, error) {
	info := dataflow.TableInfo{Table: c.cfg.Path, Location: c.location()}
	found := false
	err := c.each(ctx, func(r *record) error {
		found = true
		info.Rows += r.Rows
		info.Snapshot = strconv.FormatInt(r.Seq, 10)
		info.Snapshots = append(info.Snapshots, dataflow.TableSnapshot{
			ID: info.Snapshot, Time: r.Time, Operation: "append",
			Summary: map[string]string{
				"frazil.epoch": strconv.FormatUint(uint64(r.Epoch), 10), "frazil.watermark": r.Watermark.String(),
				"frazil.late": strconv.FormatInt(r.Late, 10), "pipeline": r.Pipeline, "sink": r.Sink,
				"rows": strconv.FormatInt(r.Rows, 10), "files": strconv.Itoa(len(r.Files)),
			},
		})
		for _, f := range r.Files {
			info.Files = append(info.Files, dataflow.TableFile{Path: c.to.shown(f.Name), Rows: f.Rows, Bytes: f.Bytes})
		}
		return nil
	})
	return info, found, err
}

// each visits all commits, oldest first; none if there is no folder.
func (c *committer) each(ctx context.Context, visit func(*record) error) error {
	if _, err := c.to.identity(); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	all, err := c.to.commits()
	if err != nil {
		return err
	}
	for _, seq := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, err := c.to.read(seq)
		if err != nil {
			return err
		}
		if err := visit(r); err != nil {
			return err
		}
	}
	return nil
}

// readRows is how many rows Rows gives at once.
const readRows = 4096

// Rows implements dataflow.TableReader. The columns are the sink's; a value
// that another schema wrote and that does not fit is an error.
func (c *committer) Rows(ctx context.Context, visit func(arrow.RecordBatch) error) error {
	b := array.NewRecordBuilder(memory.DefaultAllocator, c.schema)
	defer b.Release()
	n := 0
	flush := func() error {
		if n == 0 {
			return nil
		}
		n = 0
		batch := b.NewRecordBatch()
		defer batch.Release()
		return visit(batch)
	}
	err := c.each(ctx, func(r *record) error {
		for _, f := range r.Files {
			err := c.lines(f, func(line []byte) error {
				if err := appendRow(b, line); err != nil {
					return err
				}
				if n++; n < readRows {
					return nil
				}
				return flush()
			})
			if err != nil {
				return fmt.Errorf("read %s: %w", f.Name, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return flush()
}

// lines visits the lines of a published file, which may still have its staged
// name.
func (c *committer) lines(f file, visit func([]byte) error) error {
	in, err := os.Open(c.to.shown(f.Name))
	if errors.Is(err, fs.ErrNotExist) {
		if staged, serr := os.Open(c.to.stage(f.Staged)); serr == nil {
			in, err = staged, nil
		}
	}
	if err != nil {
		return err
	}
	defer in.Close()
	lines := bufio.NewReaderSize(in, 64<<10)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		if err := visit(line); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
}

var _ dataflow.TableReader = (*committer)(nil)

package iceberg

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"time"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	icebergo "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// addNothing makes a snapshot without rows, which moves the branch: positions
// alone would not be fenced.
func addNothing(ctx context.Context, t *table.Table, tx *table.Transaction, props icebergo.Properties) error {
	schema, err := fileSchema(t.Schema().Fields())
	if err != nil {
		return err
	}
	r, err := array.NewRecordReader(schema, nil)
	if err != nil {
		return err
	}
	defer r.Release()
	return tx.Append(ctx, r, props)
}

// Describe reports the main branch as it stands.
func (c *Committer) Describe(ctx context.Context) (dataflow.TableInfo, bool, error) {
	t, err := loadTable(ctx, c.lake, c.cfg)
	if err != nil {
		if missing(err) {
			return dataflow.TableInfo{}, false, nil
		}
		return dataflow.TableInfo{}, false, err
	}
	info := dataflow.TableInfo{Table: c.cfg.Table, Location: t.Location()}
	cur := t.CurrentSnapshot()
	if cur == nil {
		return info, false, nil
	}
	info.Snapshot = strconv.FormatInt(cur.SnapshotID, 10)
	for _, s := range t.Metadata().Snapshots() {
		out := dataflow.TableSnapshot{ID: strconv.FormatInt(s.SnapshotID, 10),
			Time: time.UnixMilli(s.TimestampMs).UTC().Format("2006-01-02T15:04:05.000Z")}
		if s.Summary != nil {
			out.Operation, out.Summary = string(s.Summary.Operation), s.Summary.Properties
		}
		info.Snapshots = append(info.Snapshots, out)
	}
	scan := t.Scan()
	defer scan.Close()
	tasks, err := scan.PlanFiles(ctx)
	if err != nil {
		return info, false, fmt.Errorf("list files of %s: %w", c.Target(), err)
	}
	seen := map[string]bool{}
	for _, task := range tasks {
		if p := task.File.FilePath(); !seen[p] {
			seen[p] = true
			info.Rows += task.File.Count()
			info.Files = append(info.Files, dataflow.TableFile{Path: p, Rows: task.File.Count(), Bytes: task.File.FileSizeBytes()})
		}
	}
	sort.Slice(info.Files, func(i, j int) bool { return info.Files[i].Path < info.Files[j].Path })
	if text := cur.Summary; text != nil {
		// Files count deleted rows, the summary does not.
		if n, err := strconv.ParseInt(text.Properties["total-records"], 10, 64); err == nil && n < info.Rows {
			info.Rows = n
		}
	}
	return info, true, nil
}

// Rows reads the main branch.
func (c *Committer) Rows(ctx context.Context, visit func(arrow.RecordBatch) error) error {
	t, err := loadTable(ctx, c.lake, c.cfg)
	if err != nil {
		return err
	}
	scan := t.Scan()
	defer scan.Close()
	_, batches, err := scan.ToArrowRecords(ctx)
	if err != nil {
		return fmt.Errorf("read %s: %w", c.Target(), err)
	}
	for b, err := range batches {
		if err != nil {
			return fmt.Errorf("read %s: %w", c.Target(), err)
		}
		err = visit(b)
		b.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

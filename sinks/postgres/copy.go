package postgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"frazil/dataflow"
	"frazil/dataflow/spool"

	"github.com/jackc/pgx/v5"
)

// write is one commit's rows on their way into the table, in a transaction.
type write struct {
	*committer
	tx      pgx.Tx
	epoch   dataflow.Epoch
	refused int64
}

// parts writes rows, those of like columns together.
func (w *write) parts(ctx context.Context, parts []dataflow.Part) error {
	for len(parts) > 0 {
		columns, err := columnsOf(parts[0])
		if err != nil {
			return err
		}
		n := 1
		for ; n < len(parts); n++ {
			if more, err := columnsOf(parts[n]); err != nil || !slices.Equal(more, columns) {
				break
			}
		}
		t, err := look(ctx, w.conn, w.cfg.Table)
		if err != nil {
			return err
		}
		if t == nil {
			return dataflow.Permanentf("table %s is gone", w.cfg.Table)
		}
		if err := w.group(ctx, t, columns, parts[:n]); err != nil {
			return err
		}
		parts = parts[n:]
	}
	return nil
}

// group writes rows with columns: at once where they are appended and the table takes
// them, else by way of a temporary table.
func (w *write) group(ctx context.Context, t *table, columns []spooled, parts []dataflow.Part) error {
	names := make([]string, len(columns))
	direct := !w.shape.upsert
	for i, c := range columns {
		names[i] = c.Name
		now := t.column(c.Name)
		if now == nil {
			return dataflow.Permanentf("column %q of table %s is gone, and there are rows to write that have it: add it again", c.Name, w.cfg.Table)
		}
		direct = direct && now.oid == c.OID
	}
	if direct {
		if err := w.do(ctx, "SAVEPOINT frazil"); err != nil {
			return err
		}
		_, err := w.copy(ctx, parts, fmt.Sprintf("COPY %s (%s) FROM STDIN (FORMAT binary)", quote(w.cfg.Table), columnList("", names)), false)
		if err == nil || refusal(err) == "" {
			return explain("write rows", err)
		}
		if err := w.do(ctx, "ROLLBACK TO SAVEPOINT frazil"); err != nil {
			return err
		}
	}
	s, err := w.stage(ctx, t, columns, names)
	if err != nil {
		return err
	}
	n, err := w.copy(ctx, parts, "COPY pg_temp.frazil_rows FROM STDIN (FORMAT binary)", true)
	if err != nil {
		return explain("stage rows", err)
	}
	return s.apply(ctx, n)
}

// do runs a statement.
func (w *write) do(ctx context.Context, text string, args ...any) error {
	_, err := w.tx.Exec(ctx, text, args...)
	return explain("write rows", err)
}

const (
	copyHeader  = "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	copyTrailer = "\xff\xff"
	copyBuffer  = 256 << 10
)

// copy sends the rows of parts, with their number and what they do behind the others'
// columns if numbered is set. It returns how many there are.
func (w *write) copy(ctx context.Context, parts []dataflow.Part, text string, numbered bool) (int64, error) {
	from, to := io.Pipe()
	done := make(chan error, 1)
	var n int64
	go func() {
		done <- dataflow.Guarded(func() error {
			var err error
			n, err = w.pour(ctx, parts, to, numbered)
			return errors.Join(to.CloseWithError(err), err)
		})
	}()
	_, err := w.conn.PgConn().CopyFrom(ctx, from, text)
	_ = from.CloseWithError(errStopped) // It never fails.
	if poured := <-done; poured != nil && !errors.Is(poured, errStopped) {
		return n, poured
	}
	return n, err
}

// errStopped: the server takes no more rows.
var errStopped = errors.New("the server has stopped to read")

// pour writes rows as COPY has them.
func (w *write) pour(ctx context.Context, parts []dataflow.Part, to io.Writer, numbered bool) (n int64, err error) {
	out := bufio.NewWriterSize(to, copyBuffer)
	if _, err := out.WriteString(copyHeader); err != nil {
		return 0, err
	}
	var extra []byte
	err = spool.Each(w.env, parts, func(row []byte) error {
		if len(row) < 3 {
			return dataflow.Permanentf("a spooled row cannot be read: its bytes are not those of this version")
		}
		n++
		if !numbered {
			_, err := out.Write(row[1:])
			return err
		}
		extra = be.AppendUint16(extra[:0], be.Uint16(row[1:])+2)
		if _, err := out.Write(extra); err != nil {
			return err
		}
		if _, err := out.Write(row[3:]); err != nil {
			return err
		}
		extra = be.AppendUint32(extra[:0], 8)
		extra = be.AppendUint64(extra, uint64(n))
		extra = be.AppendUint32(extra, 1)
		extra = append(extra, row[0])
		if _, err := out.Write(extra); err != nil {
			return err
		}
		return ctx.Err()
	})
	if err != nil {
		return n, err
	}
	if _, err := out.WriteString(copyTrailer); err != nil {
		return n, err
	}
	return n, out.Flush()
}

package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/spool"

	"github.com/apache/arrow-go/v18/arrow"
)

// writer spools rows until their commit.
type writer struct {
	rows  *rows
	spool *spool.Writer
	// columns are how the rows are spooled, as each part says.
	columns []spooled
}

// spooled is a column of spooled rows.
type spooled struct {
	Name string `json:"name"`
	// OID of the type whose binary form its values have.
	OID uint32 `json:"oid"`
}

func newWriter(ctx context.Context, env *dataflow.Env, in component.SinkIn, cfg Config) (_ dataflow.Writer, err error) {
	s, problems := newShape(in.Input, cfg)
	if problems = append(check(cfg), problems...); len(problems) > 0 {
		return nil, problems
	}
	w := &writer{rows: &rows{shape: s, bad: dataflow.NewBadRows(env)}}
	if w.rows.fields, err = describe(ctx, env, cfg, s); err != nil {
		return nil, err
	}
	for _, f := range w.rows.fields {
		w.columns = append(w.columns, spooled{f.name, f.oid})
	}
	if w.spool, err = spool.NewWriter(env); err != nil {
		return nil, err
	}
	if s.shown {
		return dataflow.ShowChanges(w, s.in, env.Alloc), nil
	}
	return w, nil
}

// describe looks at the table, and how rows are laid over it.
func describe(ctx context.Context, env *dataflow.Env, cfg Config, s shape) ([]field, error) {
	conn, err := connect(ctx, env, cfg)
	if err != nil {
		return nil, err
	}
	defer closeConn(conn)
	var encoding string
	if err := conn.QueryRow(ctx, "SHOW server_encoding").Scan(&encoding); err != nil {
		return nil, explain("ask for the encoding of the database", err)
	}
	if encoding != "UTF8" {
		return nil, dataflow.Permanentf("the database has the encoding %s, expected UTF8: others do not hold every text", encoding)
	}
	t, err := open(ctx, conn, cfg, s)
	if err != nil {
		return nil, err
	}
	return fit(s, cfg, t)
}

// Write implements dataflow.Writer.
func (w *writer) Write(_ context.Context, b arrow.RecordBatch) (arrow.RecordBatch, error) {
	return w.rows.each(b, w.spool.Append)
}

// Prepare implements dataflow.Writer.
func (w *writer) Prepare(_ context.Context, e dataflow.Epoch) (dataflow.Pending, error) {
	p, err := w.spool.Cut(e)
	if p == nil || err != nil {
		return nil, err
	}
	return dataflow.PartFunc(func(ctx context.Context) (dataflow.Part, error) {
		part, err := p.Part(ctx)
		if err != nil {
			return part, err
		}
		part.Data, err = withColumns(part.Data, w.columns)
		return part, err
	}), nil
}

// withColumns adds the columns to the description of a part.
func withColumns(data []byte, columns []spooled) ([]byte, error) {
	all := map[string]json.RawMessage{}
	text, err := json.Marshal(columns)
	if err := errors.Join(err, json.Unmarshal(data, &all)); err != nil {
		return nil, fmt.Errorf("describe staged rows: %w", err)
	}
	all["columns"] = text
	return json.Marshal(all)
}

// columnsOf reads what withColumns has written.
func columnsOf(p dataflow.Part) ([]spooled, error) {
	var x struct {
		Columns []spooled `json:"columns"`
	}
	if err := json.Unmarshal(p.Data, &x); err != nil || len(x.Columns) == 0 {
		return nil, dataflow.Permanentf("a part of staged rows has no columns: it was written by another sink")
	}
	return x.Columns, nil
}

// Close implements dataflow.Writer.
func (w *writer) Close() error {
	w.rows.bad.Release()
	return w.spool.Close()
}

var _ dataflow.Writer = (*writer)(nil)

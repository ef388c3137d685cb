// Package console is the sink "console": it prints rows to standard output as
// JSON, one object a line. It writes through and has no commits, so it is no
// place to keep rows. Start to read at [Config].
package console

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
)

// Config of the sink.
type Config struct {
	// Text at the start of each line, as it is. Default none.
	Prefix string `yaml:"prefix"`
}

func init() {
	component.RegisterSink(component.Sink[Config]{
		Name:    "console",
		Summary: "Prints rows to standard output, one JSON object a line.",
		Doc: `Delivery: at least once. Rows are printed as soon as they arrive, not on checkpoint; after a crash those since
the last checkpoint are printed again.

Order: as they arrive. Two console sinks mix by whole lines.

Times are RFC 3339 with microseconds, decimals and uuids are texts, binary is hexadecimal. Memory: one batch.`,
		Changes: component.ChangesAsRows,
		Default: func() Config { return Config{} },
		Plan: func(component.SinkIn, Config) (component.SinkPlan, error) {
			return component.SinkPlan{Tasks: 1}, nil
		},
		NewWriter: func(_ context.Context, _ *dataflow.Env, _ component.SinkIn, cfg Config) (dataflow.Writer, error) {
			return &writer{out: os.Stdout, prefix: cfg.Prefix}, nil
		},
	})
}

type writer struct {
	out    io.Writer
	prefix string
	buf    []byte
}

// Write prints b with one call, so that lines of several sinks do not mix.
func (w *writer) Write(_ context.Context, b arrow.RecordBatch) (arrow.RecordBatch, error) {
	w.buf = w.buf[:0]
	for i := range int(b.NumRows()) {
		w.buf = append(w.buf, w.prefix...)
		row := dataflow.RowJSON(b, i)
		// A column of type json may hold line ends between its tokens.
		w.buf = append(w.buf, bytes.Map(oneLine, row)...)
		w.buf = append(w.buf, '\n')
	}
	if _, err := w.out.Write(w.buf); err != nil {
		return nil, dataflow.Permanent(fmt.Errorf("write rows to standard output: %w", err))
	}
	return nil, nil
}

func oneLine(r rune) rune {
	if r == '\n' || r == '\r' {
		return ' '
	}
	return r
}

// Prepare has nothing to cut: the rows are out.
func (w *writer) Prepare(context.Context, dataflow.Epoch) (dataflow.Pending, error) { return nil, nil }

func (w *writer) Close() error { return nil }

var _ dataflow.Writer = (*writer)(nil)

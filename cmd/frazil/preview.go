package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"frazil/dataflow/engine"
	"frazil/pipelines"
	"frazil/state"
)

// previewFlags limit a preview.
type previewFlags struct {
	on   bool
	rows int64
	wait time.Duration
}

// check says what is wrong with the combination of flags, "" if nothing.
func (f *runFlags) check() string {
	v := f.preview
	switch {
	case !v.on && v.rows > 0:
		return "--rows is about --preview: add it"
	case !v.on && v.wait > 0:
		return "--for is about --preview: add it"
	case v.on && len(f.discard) > 0:
		return "--preview starts without state and keeps none: leave --discard-state out"
	case v.rows < 0 || v.wait < 0:
		return "--rows and --for take more than 0"
	}
	return ""
}

// runPreview runs p with its sinks replaced by the console and its state in a
// folder that is removed.
func (c *cli) runPreview(p *pipelines.Pipeline, f runFlags) (code int, err error) {
	log := slog.New(slog.NewTextHandler(c.err, &slog.HandlerOptions{Level: max(f.logLevel, slog.LevelWarn)}))
	slog.SetDefault(log)
	limitMemory(p.Memory)
	dir, err := os.MkdirTemp("", "frazil-preview-")
	if err != nil {
		return exitFailed, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	store, err := state.Open(dir, state.Options{Logger: log, CacheBytes: p.StateMemory / 8})
	if err != nil {
		return exitFailed, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	var job *engine.Job
	v, err := p.Preview(f.preview.rows, func() { job.Stop() })
	if err != nil {
		return exitFailed, err
	}
	job = engine.NewJob(v.Graph, engine.Options{
		Store: store, Every: p.CheckpointEvery, Memory: p.Memory, StateMemory: p.StateMemory, WALDir: filepath.Join(dir, "wal"), SpoolDir: filepath.Join(dir, "spool"), Log: log,
		UntilEnd: f.end, UntilIdle: f.idle, MaxRetry: f.maxRetry, Preview: true,
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stopSignals := onSignals(job, cancel, log)
	defer stopSignals()
	c.previewBanner(p, v, f.preview)
	if f.preview.wait > 0 {
		defer time.AfterFunc(f.preview.wait, job.Stop).Stop()
	}
	_, err = job.Run(ctx)
	if err != nil && !errors.Is(err, context.Canceled) {
		return exitCode(err), err
	}
	previewSummary(c.err, v, job.Status())
	return exitOK, nil
}

func (c *cli) previewBanner(p *pipelines.Pipeline, v *pipelines.Preview, f previewFlags) {
	fmt.Fprintf(c.err, "PREVIEW of %s: rows are printed, nothing is written to any sink, nothing is committed or acknowledged;\n", p.Name)
	fmt.Fprint(c.err, "the sources are read from their configured start, and the state is thrown away at the end.\n")
	fmt.Fprint(c.err, "Each row begins with the name of its sink, or of the port late or bad that nobody reads:")
	for _, o := range v.Outputs {
		fmt.Fprintf(c.err, " %s", o.Name)
	}
	end := "at the end of the sources, or with Ctrl-C"
	if f.wait > 0 {
		end = fmt.Sprintf("after %s, %s", f.wait, end)
	}
	if f.rows > 0 {
		end = fmt.Sprintf("when every sink has shown %s rows, %s", thousands(f.rows), end)
	}
	fmt.Fprintf(c.err, "\nIt ends %s.\n\n", end)
}

func previewSummary(w io.Writer, v *pipelines.Preview, s engine.Status) {
	fmt.Fprintf(w, "\npreview over: %s records read, nothing was written\n", thousands(s.Read))
	tw := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
	for _, o := range v.Outputs {
		shown, rows := o.Shown.Load(), o.Rows.Load()
		text := fmt.Sprintf("%s rows", thousands(rows))
		if shown < rows {
			text = fmt.Sprintf("%s rows, the first %s shown", thousands(rows), thousands(shown))
		}
		fmt.Fprintf(tw, "  %s\t%s\n", o.Name, text)
	}
	tw.Flush()
}

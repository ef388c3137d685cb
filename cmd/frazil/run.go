package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"frazil/dataflow/component"
	"frazil/dataflow/engine"
	"frazil/pipelines"
	"frazil/state"

	"golang.org/x/term"
)

func init() {
	register(command{"run", "FILE [--until end|idle=DUR] [--preview]", "run a pipeline, or preview it", (*cli).runPipeline})
}

// runFlags are the options of run.
type runFlags struct {
	idle      time.Duration
	end       bool
	maxRetry  time.Duration
	discard   []string
	logFormat string
	logLevel  slog.Level
	standby   bool
	preview   previewFlags
}

func (f *runFlags) define(fs *flag.FlagSet) {
	fs.Func("until", "end: stop at the ends of the sources as they are now; idle=DUR: after so long without a new row", func(s string) error {
		if s == "end" {
			f.end = true
			return nil
		}
		text, ok := strings.CutPrefix(s, "idle=")
		d, err := component.ParseDuration(text)
		if !ok || err != nil || d <= 0 {
			return errors.New("expected end or idle=DUR, as idle=30s")
		}
		f.idle = d.D()
		return nil
	})
	fs.BoolVar(&f.standby, "standby", false, "while another process runs this pipeline, wait, and take over when it has ended")
	fs.DurationVar(&f.maxRetry, "max-retry", 0, "give up after retrying a transient error for so long (default: never)")
	fs.Func("discard-state", "drop the old state of this step; may be repeated", func(s string) error {
		f.discard = append(f.discard, s)
		return nil
	})
	fs.Func("log-format", "text or json (default text)", func(s string) error {
		if s != "text" && s != "json" {
			return errors.New("expected text or json")
		}
		f.logFormat = s
		return nil
	})
	fs.BoolVar(&f.preview.on, "preview", false, "print the rows of every sink instead of writing them; commit and keep nothing")
	fs.Int64Var(&f.preview.rows, "rows", 0, "with --preview: print so many rows of each sink and port, and end when every sink has them (default: all)")
	fs.DurationVar(&f.preview.wait, "for", 0, "with --preview: end after so long")
	fs.TextVar(&f.logLevel, "log-level", slog.LevelInfo, "debug, info, warn or error")
}

func (c *cli) runPipeline(args []string) int {
	var f runFlags
	files, code, ok := c.flags("run", args, f.define)
	if !ok {
		return code
	}
	if len(files) != 1 {
		return c.wrong("run needs exactly one FILE")
	}
	if wrong := f.check(); wrong != "" {
		return c.wrong("%s", wrong)
	}
	p := c.load(files[0])
	if p == nil {
		return exitWrong
	}
	run := c.runLoaded
	if f.preview.on {
		run = c.runPreview
	}
	code, err := run(p, f)
	if err != nil {
		c.failed(err)
	}
	return code
}

func (c *cli) logger(f runFlags, live *progress) *slog.Logger {
	w := live.logWriter(c.err)
	o := &slog.HandlerOptions{Level: f.logLevel}
	if f.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

func (c *cli) runLoaded(p *pipelines.Pipeline, f runFlags) (code int, err error) {
	started := time.Now()
	live := newProgress(c.err, isTerminal(c.err))
	log := c.logger(f, live)
	slog.SetDefault(log)
	limitMemory(p.Memory)
	stopTracing, err := startTracing(p.Name, log)
	if err != nil {
		return exitFailed, err
	}
	defer stopTracing()
	store, err := c.openState(p, f, log)
	if errors.Is(err, errStoodBy) {
		log.Info(err.Error())
		return exitOK, nil
	}
	if err != nil {
		var locked *state.LockedError
		if errors.As(err, &locked) {
			return exitFailed, fmt.Errorf("state directory %s is in use by process %d: stop it first, wait for its end with --standby, or give this pipeline another state.dir", p.StateDir, locked.PID)
		}
		return exitFailed, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	job := engine.NewJob(p.Graph, engine.Options{
		Store: store, Every: p.CheckpointEvery, EveryRows: p.CheckpointRows, EveryBytes: p.CheckpointBytes, Memory: p.Memory, StateMemory: p.StateMemory, WALDir: p.WALDir, SpoolDir: p.SpoolDir, Quarantine: p.Quarantine, Log: log,
		Disks: disksOf(p), DiskFree: state.DiskFree,
		UntilEnd: f.end, UntilIdle: f.idle, MaxRetry: f.maxRetry, Discard: f.discard,
	})
	api, err := serveAPI(p, job, store, log)
	if err != nil {
		return exitFailed, err
	}
	defer api.close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stopSignals := onSignals(job, cancel, log)
	defer stopSignals()
	go releaseWhenIdle(ctx, job)
	log.Info("running", "pipeline", p.Name, "file", p.File, "state", p.StateDir, "http", api.addr())
	live.start(job)
	res, err := job.Run(ctx)
	live.stop()
	if err != nil {
		return exitCode(err), err
	}
	c.summary(c.summaryWriter(p), p, job, res, store, time.Since(started))
	return exitOK, nil
}

// openState opens the state directory; with --standby it waits for the process that has it.
func (c *cli) openState(p *pipelines.Pipeline, f runFlags, log *slog.Logger) (*state.Store, error) {
	stop, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	for said := false; ; said = true {
		store, err := state.Open(p.StateDir, state.Options{Logger: log, CacheBytes: p.StateMemory / 8})
		var locked *state.LockedError
		if !f.standby || !errors.As(err, &locked) {
			return store, err
		}
		if !said {
			log.Info("standing by: the state directory is in use", "state", p.StateDir, "process", locked.PID)
		}
		select {
		case <-stop.Done():
			return nil, errStoodBy
		case <-time.After(standbyEvery):
		}
	}
}

// errStoodBy: the process was asked to end before it had anything to do.
var errStoodBy = errors.New("stopped while standing by")

// standbyEvery is how often it is looked whether the state directory is free.
const standbyEvery = 200 * time.Millisecond

// disksOf are the folders that a full disk would stop.
func disksOf(p *pipelines.Pipeline) []string {
	out := []string{p.StateDir}
	if slices.ContainsFunc(p.Graph.Sources, func(s *engine.Source) bool { return s.Serve != nil }) {
		out = append(out, p.WALDir)
	}
	if slices.ContainsFunc(p.Graph.Sinks, func(s *engine.Sink) bool { return s.Plan.Spools }) {
		out = append(out, p.SpoolDir)
	}
	return out
}

// limitMemory lets garbage grow to several times what lives while there is room,
// since batches are short-lived, and collects harder towards the ceiling. A
// quarter of the ceiling is left for what Go's heap does not count: Pebble's
// cache and memtables, stacks, the mapped program.
func limitMemory(ceiling int64) {
	debug.SetGCPercent(300)
	debug.SetMemoryLimit(ceiling / 4 * 3)
}

// releaseWhenIdle gives memory back to the system when the start-up or a burst of
// rows is over: the collector runs by what is allocated, so that an idle process
// would keep its garbage for minutes.
func releaseWhenIdle(ctx context.Context, job *engine.Job) {
	tick := time.NewTicker(idleCheck)
	defer tick.Stop()
	var last int64
	released := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		read := job.Status().Read
		switch {
		case read != last:
			last, released = read, false
		case !released:
			debug.FreeOSMemory()
			released = true
		}
	}
}

// idleCheck is how long nothing must have been read.
const idleCheck = 2 * time.Second

// summaryWriter is standard output, unless a console sink writes its rows there.
func (c *cli) summaryWriter(p *pipelines.Pipeline) io.Writer {
	for _, s := range p.Graph.Sinks {
		if s.Component == "console" {
			return c.err
		}
	}
	return c.out
}

func exitCode(err error) int {
	if errors.Is(err, engine.ErrChanged) {
		return exitWrong
	}
	return exitFailed
}

// onSignals stops the job gracefully at the first signal, at once at the second.
func onSignals(job *engine.Job, cancel context.CancelFunc, log *slog.Logger) (stop func()) {
	sig := make(chan os.Signal, 2)
	signal.Notify(sig, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		obey(sig, done, time.Now, job.Stop, cancel, log)
	}()
	return func() {
		signal.Stop(sig)
		close(done)
		<-ended
	}
}

// sameSignal is how soon after the first signal another one is not a second wish:
// timeout(1) and terminals signal a process and then its group, and so twice.
const sameSignal = 500 * time.Millisecond

// obey calls stop at the first signal and cancel at later ones, until done.
func obey(sig <-chan os.Signal, done <-chan struct{}, now func() time.Time, stop func(), cancel context.CancelFunc, log *slog.Logger) {
	var first time.Time
	for {
		select {
		case <-done:
			return
		case s := <-sig:
			switch {
			case first.IsZero():
				first = now()
				log.Info("stopping: one last checkpoint; a second signal stops at once", "signal", s.String())
				stop()
			case now().Sub(first) >= sameSignal:
				log.Warn("stopping at once", "signal", s.String())
				cancel()
			}
		}
	}
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

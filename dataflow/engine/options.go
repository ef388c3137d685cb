package engine

import (
	"errors"
	"log/slog"
	"time"

	"frazil/dataflow/checkpoint"
	"frazil/state"
)

// Options is what a program passes in beside the graph.
type Options struct {
	Store *state.Store
	// Every is the time between checkpoints; default 10 s.
	Every time.Duration
	// EveryRows and EveryBytes ask for a checkpoint as soon as so much was read since
	// the last one; 0: time alone decides.
	EveryRows, EveryBytes int64
	// Memory is the ceiling in bytes of queues, state and writers; default 512
	// MiB. StateMemory is the share of keyed state: half of it for what
	// operators keep, half for changes that are not yet written; default 256 MiB.
	Memory, StateMemory int64
	// WALDir is the folder of the write-ahead logs of push sources.
	WALDir string
	// SpoolDir is the folder of what sinks have staged on this machine.
	SpoolDir string
	// Quarantine bounds the rows of unread ports.
	Quarantine QuarantineLimits
	Now        func() time.Time
	Log        *slog.Logger
	// UntilEnd: the ends of all splits are captured at the start, read up to
	// there, then everything is drained. UntilIdle: the same after so long
	// without a new row.
	UntilEnd  bool
	UntilIdle time.Duration
	// MaxRetry bounds how long transient errors are retried; 0: for ever.
	MaxRetry time.Duration
	// Discard names stateful steps whose old state is dropped.
	Discard []string
	// Disks are folders whose disk is looked at for room by DiskFree, which returns
	// the free and all bytes of the disk that a folder is on.
	Disks    []string
	DiskFree func(dir string) (free, total uint64, err error)
	// DiskReserve is how much of a disk of total bytes is kept free; below half of it
	// nothing is read and no epoch begins. Default: state.DiskReserve.
	DiskReserve func(total uint64) uint64
	// LeaveAfter is how long independent parts of the graph that are ready for an
	// epoch wait for those that are not; default 1 s. The epoch is then written without
	// these, which go on from where they were.
	LeaveAfter time.Duration
	// Preview: nothing is kept, so that the sources are told nothing of what is
	// safe; and bad rows are not logged, since they are shown.
	Preview bool
	// Budget bounds a graceful stop; default 30 s.
	Budget time.Duration
	// OnManifest is called with every durable manifest, in order, by one
	// goroutine; for tests and progress.
	OnManifest func(*checkpoint.Manifest)
}

func (o Options) withDefaults() *Options {
	if o.Every == 0 {
		o.Every = 10 * time.Second
	}
	if o.Memory == 0 {
		o.Memory = 512 << 20
	}
	if o.StateMemory == 0 {
		o.StateMemory = 256 << 20
	}
	if o.LeaveAfter == 0 {
		o.LeaveAfter = time.Second
	}
	o.Quarantine = o.Quarantine.withDefaults()
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.DiskReserve == nil {
		o.DiskReserve = state.DiskReserve
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Budget == 0 {
		o.Budget = 30 * time.Second
	}
	return &o
}

var (
	// ErrChanged: the file changed a stateful step in a way that its state does
	// not fit any more.
	ErrChanged = errors.New("the pipeline has changed")
	// ErrTooManyRestarts: a component failed again and again.
	ErrTooManyRestarts = errors.New("too many restarts")
	// ErrNotStopped: a graceful stop took longer than its budget.
	ErrNotStopped = errors.New("not stopped in time")
)

// Restarts allowed in a window of time before the pipeline gives up.
const (
	maxRestarts   = 5
	restartWindow = 10 * time.Minute
	maxBackoff    = 30 * time.Second
)

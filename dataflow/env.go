package dataflow

import (
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Env lends a component what it may use. Nothing reads the wall clock except
// through Now. It belongs to one instance in one task.
type Env struct {
	// Pipeline and Step name where the component stands.
	Pipeline, Step string
	// Task counts from 0 to Tasks-1.
	Task, Tasks int
	// Dir is the folder of the pipeline file: relative inputs start there.
	Dir string
	// State is the instance's keyed state, restored; nil for stateless steps.
	State state.KV
	// Groups is the range of key groups this task owns.
	Groups state.Groups
	// Now is the clock.
	Now func() time.Time
	// Alloc allocates Arrow memory.
	Alloc memory.Allocator
	Log   *slog.Logger
	// Fates counts the step's rows in this task.
	Fates *Fates
	// Broken counts the rules of a contract that rows break, by name.
	Broken *Tally
	// Splits names the splits of SysSplit.
	Splits *SplitTable
	// Closed is shared by all tasks of a step: see ClosedUpTo.
	Closed *ClosedUpTo
	// Last returns the greatest watermark of any split of the sources before the
	// step, for who handles the watermark MaxTime: all of them have ended then, so
	// it follows from their rows alone, which the watermark before MaxTime does not:
	// that depends on which of them ended first. nil: it is not known.
	Last func() Time
	// WALDir is the folder of the write-ahead logs of the pipeline's push sources;
	// each step has one of its own in it. It is made by who needs it.
	WALDir string
	// SpoolDir is the folder of what sinks have staged on this machine; each step has
	// one of its own in it. It is made by who needs it.
	SpoolDir string
	// FS is the file system of WALDir and SpoolDir; nil is the machine's.
	FS state.FS
	// Preview: nothing that the run takes is kept, so that a push source must tell no
	// producer that something is safe.
	Preview bool
	// Served is what the source's Serve made; nil without one.
	Served any
	// NewDecoder makes a decoder of the source's decode block; nil without one.
	NewDecoder func() (Decoder, error)
	// Memory is the budget in bytes of this instance: of a writer or a source what
	// it holds, of a keyed operator the state it keeps in memory beside its KV; what
	// is more can wait in the KV. 0 is no bound.
	Memory int64
}

// SpoolFS is the file system of SpoolDir.
func (e *Env) SpoolFS() state.FS {
	if e.FS == nil {
		return state.OS
	}
	return e.FS
}

// ClosedUpTo is a time up to which a step has closed its windows although the
// watermark had not passed it: the source was drained. It only grows and is
// part of the manifest.
type ClosedUpTo struct {
	t atomic.Int64
	// step is what all tasks of the step share; nil: this is it.
	step *ClosedUpTo
}

// NewClosedUpTo starts at t.
func NewClosedUpTo(t Time) *ClosedUpTo {
	c := &ClosedUpTo{}
	c.t.Store(int64(t))
	return c
}

// Task is what one task of the step holds: Get is the step's, and Raised tells how
// far this task alone has raised it.
func (c *ClosedUpTo) Task() *ClosedUpTo {
	out := NewClosedUpTo(MinTime)
	out.step = c
	return out
}

// Raised is how far this task has raised it, at a barrier exactly what belongs to
// the epoch; MinTime: not at all.
func (c *ClosedUpTo) Raised() Time { return Time(c.t.Load()) }

// Get returns the time as it was when the run started or drained.
func (c *ClosedUpTo) Get() Time {
	switch {
	case c == nil:
		return MinTime
	case c.step != nil:
		return c.step.Get()
	}
	return Time(c.t.Load())
}

// Raise moves it forward to t.
func (c *ClosedUpTo) Raise(t Time) {
	if c.step != nil {
		c.step.Raise(t)
	}
	for {
		old := c.t.Load()
		if int64(t) <= old || c.t.CompareAndSwap(old, int64(t)) {
			return
		}
	}
}

// SplitTable gives each split of a run a small number, for SysSplit. The
// numbers are of this process only. Safe for concurrent use.
type SplitTable struct {
	mu struct {
		sync.RWMutex
		ids     map[splitKey]int32
		names   []splitKey
		where   map[string]Locator
		readers map[int32]Locator
	}
}

type splitKey struct {
	source string
	split  Split
}

// ID returns the number of a split, giving it one if it is new.
func (t *SplitTable) ID(source string, s Split) int32 {
	k := splitKey{source, s}
	t.mu.RLock()
	id, ok := t.mu.ids[k]
	t.mu.RUnlock()
	if ok {
		return id
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if id, ok := t.mu.ids[k]; ok {
		return id
	}
	if t.mu.ids == nil {
		t.mu.ids = map[splitKey]int32{}
	}
	id = int32(len(t.mu.names))
	t.mu.ids[k] = id
	t.mu.names = append(t.mu.names, k)
	return id
}

// Name returns source and split of a number; empty for one it never gave.
func (t *SplitTable) Name(id int32) (source string, s Split) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if id < 0 || int(id) >= len(t.mu.names) {
		return "", ""
	}
	k := t.mu.names[id]
	return k.source, k.split
}

// SetSplitLocator registers who writes positions of one split for people: the
// task that reads it, since only that one may know its files.
func (t *SplitTable) SetSplitLocator(id int32, l Locator) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.readers == nil {
		t.mu.readers = map[int32]Locator{}
	}
	t.mu.readers[id] = l
}

// SetLocator registers who writes positions of a source's other splits.
func (t *SplitTable) SetLocator(source string, l Locator) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.where == nil {
		t.mu.where = map[string]Locator{}
	}
	t.mu.where[source] = l
}

// Origin tells where row i of b comes from, its place as people read it: of a row that
// unnest made with the number of its element behind it, as in file.ndjson:12#3. ok is
// false for a row that an operator made.
func (t *SplitTable) Origin(b arrow.RecordBatch, i int) (source string, split Split, where string, ok bool) {
	s := b.Schema()
	ids, pos := Column(s, SysSplit), Column(s, SysPos)
	if ids < 0 || pos < 0 || b.Column(ids).IsNull(i) {
		return "", "", "", false
	}
	id := b.Column(ids).(*array.Int32).Value(i)
	source, split = t.Name(id)
	where = t.Locate(id, b.Column(pos).(*array.Int64).Value(i))
	for n, c := range ElementColumns(s) {
		mark := "."
		if n == 0 {
			mark = "#"
		}
		where += mark + strconv.Itoa(int(b.Column(c).(*array.Int32).Value(i)))
	}
	return source, split, where, true
}

// Locate writes the place of a row for people.
func (t *SplitTable) Locate(id int32, pos int64) string {
	source, split := t.Name(id)
	t.mu.RLock()
	l := t.mu.readers[id]
	if l == nil {
		l = t.mu.where[source]
	}
	t.mu.RUnlock()
	if l != nil {
		return l.Locate(split, pos)
	}
	return strconv.FormatInt(pos, 10)
}

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"frazil/dataflow"
)

// States of a window.
const (
	WindowOpen     = "open"
	WindowClosed   = "closed"
	WindowNotBegun = "not yet begun"
)

// WindowExplanation says how the windows of one key at one time stand, and what
// they wait for.
type WindowExplanation struct {
	Pipeline string          `json:"pipeline"`
	Step     string          `json:"step"`
	Key      json.RawMessage `json:"key"`
	At       Instant         `json:"at"`
	Now      time.Time       `json:"now"`
	// Watermark is the step's: the least that its tasks have worked up to. Since is
	// when it rose last, as far as this process has seen.
	Watermark Instant   `json:"watermark"`
	Since     time.Time `json:"since"`
	// Greatest event time that the sources upstream have given.
	Greatest Instant           `json:"greatest_event_time"`
	Windows  []ExplainedWindow `json:"windows"`
	// Holds are the splits that keep the first window that is not closed from
	// closing, the furthest behind first. None: nobody does, see OnTheWay.
	Holds []Hold `json:"holds"`
	// OnTheWay: the sources have come far enough, the step has not worked up to it.
	OnTheWay bool `json:"on_the_way"`
	// Waiting rows stand in front of the step for their turn; QueueRows between
	// all tasks.
	Waiting   int64 `json:"waiting_rows"`
	QueueRows int64 `json:"queue_rows"`
}

// ExplainedWindow is one window.
type ExplainedWindow struct {
	State string  `json:"state"`
	Start Instant `json:"window_start"`
	End   Instant `json:"window_end"`
	// Due: it closes when the step's watermark reaches it.
	Due Instant `json:"closes_at"`
	// Holds is the row that it would give now; null: no row of the key.
	Holds json.RawMessage `json:"holds"`
}

// ErrNoWindows: the step keeps no windows by key.
var ErrNoWindows = errors.New("the step has no windows")

// askPatience bounds the wait for a task that is busy.
const askPatience = 10 * time.Second

// ExplainWindow asks the tasks of a step about the windows of a key at a time.
// Any goroutine may call it; it waits for the tasks, which are asked between two
// batches.
func (j *Job) ExplainWindow(ctx context.Context, step, key string, at dataflow.Time) (*WindowExplanation, error) {
	j.mu.Lock()
	p := j.mu.plant
	j.mu.Unlock()
	if p == nil {
		return nil, fmt.Errorf("the pipeline is not connected yet")
	}
	tasks := p.keyed[step]
	if len(tasks) == 0 {
		return nil, fmt.Errorf("%w: %q is %s; steps with windows: %s", ErrNoWindows, step, j.g.kindOf(step), strings.Join(p.explainers(), ", "))
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	found, waiting, err := askAll(ctx, tasks, key, at)
	if err != nil {
		return nil, fmt.Errorf("step %s: %w", step, err)
	}
	return j.explained(p, step, at, found, waiting), nil
}

// askAll asks every task and returns what the one says that holds the key.
func askAll(ctx context.Context, tasks []*keyedTask, key string, at dataflow.Time) (mine dataflow.Explanation, waiting int64, err error) {
	type answer struct {
		dataflow.Explanation
		err error
	}
	answers := make(chan answer, len(tasks))
	for _, t := range tasks {
		x, ok := t.stage.op.(dataflow.Explainer)
		if !ok {
			return mine, 0, fmt.Errorf("%w that can be explained", ErrNoWindows)
		}
		if err := t.in.ask(func() {
			e, err := x.Explain(key, at)
			answers <- answer{e, err}
		}); err != nil {
			return mine, 0, err
		}
	}
	for range tasks {
		select {
		case a := <-answers:
			if a.err != nil {
				return mine, 0, a.err
			}
			waiting += a.Waiting
			if a.Mine || mine.Key == nil {
				mine = a.Explanation
			}
		case <-ctx.Done():
			return mine, 0, fmt.Errorf("it is busy, or waits for a step or sink behind it: no answer (%w)", ctx.Err())
		}
	}
	return mine, waiting, nil
}

// explained puts together what the step says and what its sources do.
func (j *Job) explained(p *plant, step string, at dataflow.Time, found dataflow.Explanation, waiting int64) *WindowExplanation {
	s := j.Status()
	e := &WindowExplanation{
		Pipeline: j.g.Name, Step: step, Key: found.Key, At: Instant(at), Now: j.o.Now(), Waiting: waiting, QueueRows: s.QueueRows,
		Greatest: Instant(dataflow.MinTime), Windows: []ExplainedWindow{}, Holds: []Hold{},
	}
	wm := p.watermarkOf(step)
	e.Watermark, e.Since = Instant(wm), s.Steps[step].Since
	splits := j.Splits()
	for _, name := range j.g.upstream(step) {
		for _, sp := range splits[name] {
			e.Greatest = max(e.Greatest, sp.MaxTime)
		}
	}
	closed := max(wm, p.closed[step].Get())
	next := dataflow.MaxTime
	for _, w := range found.Windows {
		x := ExplainedWindow{State: WindowOpen, Start: Instant(w.Start), End: Instant(w.End), Due: Instant(w.Due), Holds: w.Holds}
		switch {
		case w.Due <= closed:
			x.State = WindowClosed
		case w.Holds == nil && e.Greatest < x.Start:
			x.State = WindowNotBegun
		}
		if x.State != WindowClosed {
			next = min(next, w.Due)
		}
		e.Windows = append(e.Windows, x)
	}
	if len(found.Windows) == 0 {
		next = at
	}
	if next == dataflow.MaxTime || next <= closed {
		return e
	}
	for name, need := range j.g.needsOf(step, next) {
		e.Holds = append(e.Holds, holdsOf(j.g.source(name), splits[name], need, e.Now)...)
	}
	slices.SortStableFunc(e.Holds, func(a, b Hold) int { return strings.Compare(a.Source, b.Source) })
	e.OnTheWay = len(e.Holds) == 0
	return e
}

// watermarkOf is the least watermark that the tasks of a keyed step have worked
// up to.
func (p *plant) watermarkOf(step string) dataflow.Time {
	wm := dataflow.MaxTime
	for _, t := range p.keyed[step] {
		wm = min(wm, dataflow.Time(t.wmNow.Load()))
	}
	return wm
}

// explainers lists the steps that can be asked about windows.
func (p *plant) explainers() []string {
	var out []string
	for name, tasks := range p.keyed {
		if _, ok := tasks[0].stage.op.(dataflow.Explainer); ok {
			out = append(out, name)
		}
	}
	if len(out) == 0 {
		return []string{"none"}
	}
	slices.Sort(out)
	return out
}

// kindOf says in words what a step is.
func (g *Graph) kindOf(step string) string {
	for _, op := range g.Operators {
		if op.Name == step {
			return "a step " + op.Component
		}
	}
	for _, s := range g.Sinks {
		if s.Name == step {
			return "a sink"
		}
	}
	if g.source(step) != nil {
		return "a source"
	}
	return "no step of the pipeline"
}

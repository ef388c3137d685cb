package rehearsal

import (
	"context"
	"encoding/json"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
)

// writer stages rows as JSON in the Part.
type writer struct{ rows []string }

// Write implements dataflow.Writer.
func (w *writer) Write(_ context.Context, b arrow.RecordBatch) (arrow.RecordBatch, error) {
	for i := range int(b.NumRows()) {
		w.rows = append(w.rows, string(dataflow.RowJSON(b, i)))
	}
	return nil, nil
}

// Prepare implements dataflow.Writer.
func (w *writer) Prepare(context.Context, dataflow.Epoch) (dataflow.Pending, error) {
	if len(w.rows) == 0 {
		return nil, nil
	}
	data, err := json.Marshal(w.rows)
	p := dataflow.Part{Rows: int64(len(w.rows)), Data: data}
	w.rows = nil
	return dataflow.PartFunc(func(context.Context) (dataflow.Part, error) { return p, err }), nil
}

// Close implements dataflow.Writer.
func (w *writer) Close() error { return nil }

// target holds a sink's rows; the world's lock guards it.
type target struct {
	world *world
	held  dataflow.Committed
	rows  []string
	// epoch and place of the last commit.
	epoch dataflow.Epoch
	place place
}

// Target implements dataflow.Committer.
func (t *target) Target() dataflow.Target { return "rehearsal" }

// Committed implements dataflow.Committer.
func (t *target) Committed(context.Context) (dataflow.Committed, error) {
	t.world.mu.Lock()
	defer t.world.mu.Unlock()
	out := t.held
	out.ClockComplete = true
	return out, nil
}

// Commit implements dataflow.Committer.
func (t *target) Commit(_ context.Context, c dataflow.Commit) error {
	t.world.mu.Lock()
	defer t.world.mu.Unlock()
	switch dataflow.DecideCommit(t.held, c) {
	case dataflow.Fenced:
		return dataflow.ErrFenced
	case dataflow.Publish:
		for _, p := range c.Parts {
			var rows []string
			if err := json.Unmarshal(p.Data, &rows); err != nil {
				return err
			}
			t.rows = append(t.rows, rows...)
		}
		t.held.Positions = dataflow.MergePositions(t.held.Positions, c.At)
		t.held.Start, t.held.Plan, t.held.Watermarks = c.Start, c.Plan, c.Watermarks
		t.held.Clock = append(t.held.Clock, c.Clock...)
	}
	t.epoch, t.place = c.Epoch, t.world.places[c.Epoch]
	t.world.wake()
	return nil
}

// Claim implements dataflow.Claimer.
func (t *target) Claim(_ context.Context, c dataflow.Claim) error {
	t.world.mu.Lock()
	defer t.world.mu.Unlock()
	if dataflow.DecideClaim(t.held.Claim, c) == dataflow.Fenced {
		return dataflow.ErrFenced
	}
	t.held.Claim = c
	return nil
}

// Close implements dataflow.Committer.
func (t *target) Close() error { return nil }

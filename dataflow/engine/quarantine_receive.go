package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/failpoint"
)

// edgeRows are the rows of one edge that wait for an epoch: those before the last
// barrier, which the next epoch with their region has, and those behind it.
type edgeRows struct {
	sealed, open []waitingRow
	barrier      dataflow.Epoch // the last one that came
	ended        bool
}

// waitingRow is a row to keep or, with a nil row, the id of one that leaves.
type waitingRow struct {
	row  *Quarantined
	gone string
	size int64
}

// run takes what comes in until all edges have ended. It needs no alignment: what
// comes on an edge behind its barrier waits by itself.
func (q *quarantineTask) run(context.Context) error {
	err := q.receive()
	if err == nil || errors.Is(err, errStopped) {
		return err
	}
	return fmt.Errorf("quarantine: %w", err)
}

func (q *quarantineTask) receive() error {
	q.waits = make([]edgeRows, len(q.edges))
	for left := len(q.edges); left > 0; {
		edge, m, err := q.in.take()
		if err != nil {
			return err
		}
		w := &q.waits[edge]
		switch m.kind {
		case msgBatch:
			err = q.take(edge, m)
		case msgBarrier:
			w.sealed, w.open, w.barrier = append(w.sealed, w.open...), nil, m.bar.epoch
			q.aligned(q.edges[edge].region, m.bar.epoch)
		case msgAsk:
			m.ask()
		case msgEnd:
			w.ended = true
			left--
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// edgesOf lists the edges of a region.
func (q *quarantineTask) edgesOf(region int) []int {
	var out []int
	for i, p := range q.edges {
		if p.region == region {
			out = append(out, i)
		}
	}
	return out
}

// aligned reports a barrier once it has come on every edge of its region.
func (q *quarantineTask) aligned(region int, e dataflow.Epoch) {
	for _, i := range q.edgesOf(region) {
		if w := q.waits[i]; w.barrier != e && !w.ended {
			return
		}
	}
	q.report(report{epoch: e, region: region})
}

// rowOverhead is what a row takes in memory beside its payload and text.
const rowOverhead = 256

func (q *quarantineTask) take(edge int, m message) error {
	defer m.batch.Release()
	p, w := q.edges[edge], &q.waits[edge]
	now := q.now().UTC().Truncate(time.Microsecond)
	for i := range int(m.batch.NumRows()) {
		var r waitingRow
		if p.gone {
			r.gone = strAt(m.batch, 0, i)
			r.size = int64(len(r.gone)) + rowOverhead
		} else {
			row := q.row(p, m.batch, i)
			row.At = now
			r.row, r.size = &row, int64(len(row.ID)+len(row.Detail)+len(row.Raw)+len(row.Row))+rowOverhead
		}
		w.open = append(w.open, r)
		q.waiting.Add(r.size)
	}
	return q.room()
}

// cut stores what the regions of an epoch have brought before their barriers. The
// report it returns has the changes of the store up to here.
func (q *quarantineTask) cut(e dataflow.Epoch, regions []int) (report, error) {
	for _, region := range regions {
		for _, i := range q.edgesOf(region) {
			if err := q.settle(&q.waits[i]); err != nil {
				return report{}, fmt.Errorf("quarantine: %w", err)
			}
		}
	}
	if err := errors.Join(q.expire(), q.room(), q.store.save()); err != nil {
		return report{}, fmt.Errorf("quarantine: %w", err)
	}
	r := q.chain.report(e)
	counts := q.store.sum.QuarantineCounts
	r.quarantine = &counts
	return r, nil
}

func (q *quarantineTask) settle(w *edgeRows) error {
	for _, r := range w.sealed {
		q.waiting.Add(-r.size)
		if r.row == nil {
			if err := q.gone(r.gone); err != nil {
				return err
			}
			if err := failpoint.Hit(failpoint.QuarantineTaken); err != nil {
				return err
			}
			continue
		}
		if err := q.store.put(*r.row); err != nil {
			return fmt.Errorf("store %s: %w", r.row.ID, err)
		}
		if err := failpoint.Hit(failpoint.QuarantineKept); err != nil {
			return err
		}
	}
	w.sealed = nil
	return nil
}

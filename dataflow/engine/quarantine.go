package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"frazil/dataflow"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/cespare/xxhash/v2"
)

// QuarantineStep is the name under which the state keeps quarantined rows.
const QuarantineStep = "_quarantine"

// Quarantined is one row of a port that nobody reads.
type Quarantined struct {
	// ID is source/split/position/step.
	ID     string          `json:"id"`
	Step   string          `json:"step"`
	Port   string          `json:"port"`
	Reason string          `json:"reason"`
	Detail string          `json:"detail,omitempty"`
	Source string          `json:"source,omitempty"`
	Split  string          `json:"split,omitempty"`
	Where  string          `json:"position,omitempty"`
	Raw    []byte          `json:"raw,omitempty"`
	Row    json.RawMessage `json:"row,omitempty"`
}

// quarantineTask stores rows of unread ports in the state, bounded in bytes.
// When it is full it stops reading, and so does the pipeline: nothing is lost.
type quarantineTask struct {
	in     *inbox
	kv     *state.TaskKV
	splits *dataflow.SplitTable
	edges  []portInfo // by edge
	limit  int64
	bytes  atomic.Int64
	count  atomic.Int64
	full   func()
	chain  *taskChain
	report func(report)
}

type portInfo struct{ step, port string }

func newQuarantineTask(kv *state.TaskKV, limit int64) (*quarantineTask, error) {
	q := &quarantineTask{kv: kv, limit: limit}
	for g := range state.NumGroups {
		err := kv.Scan(g, nil, nil, func(k, v []byte) error {
			q.bytes.Add(int64(len(k) + len(v)))
			q.count.Add(1)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("load the quarantine: %w", err)
		}
	}
	return q, nil
}

func (q *quarantineTask) run(ctx context.Context) error {
	err := receive(ctx, q.in, q)
	if err == nil || errors.Is(err, errStopped) {
		return err
	}
	return fmt.Errorf("quarantine: %w", err)
}

func (q *quarantineTask) batch(ctx context.Context, edge int, m message) error {
	defer m.batch.Release()
	return q.store(ctx, q.edges[edge], m.batch)
}

func (q *quarantineTask) watermark(context.Context, dataflow.Time) error { return nil }

func (q *quarantineTask) barrier(_ context.Context, b barrier, _ dataflow.Time) error {
	q.report(q.chain.report(b.epoch))
	return nil
}

func (q *quarantineTask) end(context.Context) error { return nil }

func (q *quarantineTask) store(ctx context.Context, p portInfo, b arrow.RecordBatch) error {
	if q.bytes.Load() > q.limit {
		q.full()
		<-ctx.Done()
		return ctx.Err()
	}
	for i := range int(b.NumRows()) {
		row := q.row(p, b, i)
		val, err := json.Marshal(row)
		if err != nil {
			return fmt.Errorf("encode %s: %w", row.ID, err)
		}
		key := []byte(row.ID)
		g := state.GroupOf(xxhash.Sum64(key))
		if old, err := q.kv.Get(g, key); err == nil {
			q.bytes.Add(-int64(len(key) + len(old)))
			q.count.Add(-1)
		}
		if err := q.kv.Set(g, key, val); err != nil {
			return fmt.Errorf("store %s: %w", row.ID, err)
		}
		q.bytes.Add(int64(len(key) + len(val)))
		q.count.Add(1)
	}
	return nil
}

func (q *quarantineTask) row(p portInfo, b arrow.RecordBatch, i int) Quarantined {
	row := Quarantined{Step: p.step, Port: p.port}
	if p.port == dataflow.PortBad {
		row.Reason, row.Detail = strAt(b, 0, i), strAt(b, 1, i)
		row.Source, row.Split, row.Where = strAt(b, 3, i), strAt(b, 4, i), strAt(b, 5, i)
		if raw := b.Column(6).(*array.Binary); raw.IsValid(i) {
			row.Raw = append([]byte(nil), raw.Value(i)...)
		}
		if s := strAt(b, 7, i); s != "" {
			row.Row = json.RawMessage(s)
		}
	} else {
		row.Reason = p.port
		row.Row = dataflow.RowJSON(b, i)
		s := b.Schema()
		if split, pos := dataflow.Column(s, dataflow.SysSplit), dataflow.Column(s, dataflow.SysPos); split >= 0 && pos >= 0 {
			id := b.Column(split).(*array.Int32).Value(i)
			source, name := q.splits.Name(id)
			row.Source, row.Split = source, string(name)
			row.Where = q.splits.Locate(id, b.Column(pos).(*array.Int64).Value(i))
		}
	}
	if row.Source == "" {
		// A row that an operator made has no origin; its content is its name.
		row.ID = row.Step + "/" + strconv.FormatUint(xxhash.Sum64(append([]byte(row.Reason), row.Row...)), 16)
		return row
	}
	row.ID = row.Source + "/" + row.Split + "/" + row.Where + "/" + row.Step
	return row
}

func strAt(b arrow.RecordBatch, col, i int) string {
	a := b.Column(col).(*array.String)
	if a.IsNull(i) {
		return ""
	}
	return a.Value(i)
}

// ReadQuarantine visits the durable rows of the quarantine, by key group. It may
// run beside a job.
func ReadQuarantine(s *state.Store, visit func(Quarantined) error) error {
	v, ok := s.View(QuarantineStep)
	if !ok {
		return nil
	}
	for g := range state.NumGroups {
		err := v.Scan(g, nil, nil, func(_, val []byte) error {
			var row Quarantined
			if err := json.Unmarshal(val, &row); err != nil {
				return fmt.Errorf("decode a quarantined row: %w", err)
			}
			return visit(row)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

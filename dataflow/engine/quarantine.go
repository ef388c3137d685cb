package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/cespare/xxhash/v2"
)

// QuarantineStep is the name under which the state keeps quarantined rows.
const QuarantineStep = "_quarantine"

// Quarantined is one row of a port that nobody reads.
type Quarantined struct {
	// ID is source/split/position/step; where that is taken, "#2" and so on behind
	// it.
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
	// At is when it was kept; zero: by a version that did not note it.
	At time.Time `json:"at,omitzero"`
	// SentAgain: it was sent again and leaves as soon as that was read. It is no
	// part of what is stored.
	SentAgain bool `json:"sent_again,omitempty"`
}

// QuarantineLimits bounds the quarantine.
type QuarantineLimits struct {
	// Bytes; 0: 1 GiB.
	Bytes int64
	// Age of the oldest row; 0: no limit. Older rows are dropped, and counted.
	Age time.Duration
	// DropOldest: when it is full the oldest rows are dropped, and counted; else
	// the pipeline stops reading.
	DropOldest bool
	// AlertRows turns health red from so many rows on; 0: never.
	AlertRows int64
}

func (l QuarantineLimits) withDefaults() QuarantineLimits {
	if l.Bytes == 0 {
		l.Bytes = 1 << 30
	}
	return l
}

// quarantineTask stores rows of unread ports in the state, bounded in bytes.
// When it is full it drops the oldest, if it was told to; else the sources are not
// read until somebody makes room.
//
// Rows come from all regions of the graph, whose barriers are apart: they wait
// beside the store until an epoch that has their region asks for them.
type quarantineTask struct {
	in     *inbox
	store  *quarantineStore
	splits *dataflow.SplitTable
	edges  []portInfo // by edge
	limits QuarantineLimits
	now    func() time.Time
	chain  *taskChain
	report func(report)
	// full is what the sources look at; tell logs that it is.
	full *atomic.Bool
	tell func()
	// waits are the rows of each edge that no epoch has asked for, waiting their
	// size in bytes.
	waits   []edgeRows
	waiting atomic.Int64
	// leaving are rows that were sent again: they count no more, and leave by the
	// edge of their source's task.
	leaving map[string]int64
	freed   int64
	oldest  time.Time // as of the last epoch, zero: there is none
	view    atomic.Pointer[quarantineView]
}

// quarantineView is what others see of the quarantine. It is never changed.
type quarantineView struct {
	counts checkpoint.QuarantineCounts
	groups []QuarantineGroup
	full   bool
	oldest time.Time
}

// portInfo is what an edge brings: rows of a port, or (gone) the ids of rows that
// were read again.
type portInfo struct {
	step, port string
	gone       bool
	region     int
}

func newQuarantineTask(kv *state.TaskKV, limits QuarantineLimits, leaving []string) (*quarantineTask, error) {
	store, err := loadQuarantine(kv)
	if err != nil {
		return nil, fmt.Errorf("load the quarantine: %w", err)
	}
	q := &quarantineTask{store: store, limits: limits.withDefaults(), leaving: map[string]int64{}, full: &atomic.Bool{}}
	if err := errors.Join(q.leave(leaving), q.age()); err != nil {
		return nil, fmt.Errorf("load the quarantine: %w", err)
	}
	q.show()
	return q, nil
}

// used is what counts against the limit.
func (q *quarantineTask) used() int64 { return q.store.sum.Bytes - q.freed }

// room drops the oldest rows where that was asked for, and says whether reading
// may go on. What is on its way to a full quarantine is still kept.
func (q *quarantineTask) room() error {
	if q.limits.DropOldest && q.used() > q.limits.Bytes {
		if err := q.drop(func(time.Time) bool { return q.used() > q.limits.Bytes }); err != nil {
			return err
		}
	}
	full := q.used() > q.limits.Bytes || !q.limits.DropOldest && q.used()+q.waiting.Load() > q.limits.Bytes
	if full && !q.full.Load() {
		q.tell()
	}
	q.full.Store(full)
	q.show()
	return nil
}

// gone takes away a row that was read again. One that is not here yet will come:
// the source is being read anew from before it.
func (q *quarantineTask) gone(id string) error {
	q.freed -= q.leaving[id]
	delete(q.leaving, id)
	found, err := q.store.take(id, byResending)
	if err == nil && !found {
		err = q.store.expect(id)
	}
	if err != nil {
		return fmt.Errorf("take away %s: %w", id, err)
	}
	return nil
}

// leave notes rows that were sent again.
func (q *quarantineTask) leave(ids []string) error {
	for _, id := range ids {
		if _, ok := q.leaving[id]; ok {
			continue
		}
		row, size, err := q.store.get(id)
		if err != nil {
			return err
		}
		if row != nil {
			q.leaving[id] = size
			q.freed += size
		}
	}
	return nil
}

// discard drops rows by somebody's word. It returns how many were there.
func (q *quarantineTask) discard(ids []string) (int, error) {
	n := 0
	for _, id := range ids {
		if _, ok := q.leaving[id]; ok {
			continue
		}
		found, err := q.store.take(id, byDiscarding)
		if err != nil {
			return n, fmt.Errorf("discard %s: %w", id, err)
		}
		if found {
			n++
		}
	}
	return n, nil
}

// expire drops what is older than the limit.
func (q *quarantineTask) expire() error {
	if q.limits.Age == 0 {
		return nil
	}
	if err := q.drop(func(at time.Time) bool { return at.Before(q.now().Add(-q.limits.Age)) }); err != nil {
		return err
	}
	return q.age()
}

// age looks up the oldest row.
func (q *quarantineTask) age() error {
	q.oldest = time.Time{}
	list, _, err := q.store.oldest(nil, 1)
	if err == nil && len(list) > 0 {
		q.oldest = list[0].at
	}
	return err
}

// expired says whether a row is older than the limit, so that an epoch is due even
// if nothing else moves.
func (v *quarantineView) expired(l QuarantineLimits, now time.Time) bool {
	return l.Age > 0 && !v.oldest.IsZero() && v.oldest.Before(now.Add(-l.Age))
}

// drop drops rows, the oldest first, while more says so. Those that were sent
// again stay: they leave when that was read.
func (q *quarantineTask) drop(more func(at time.Time) bool) error {
	var from []byte
	for {
		list, next, err := q.store.oldest(from, 256)
		if err != nil {
			return err
		}
		for _, o := range list {
			if _, ok := q.leaving[o.id]; ok {
				continue
			}
			if !more(o.at) {
				return nil
			}
			if _, err := q.store.take(o.id, byLimit); err != nil {
				return err
			}
		}
		if next == nil {
			return nil
		}
		from = next
	}
}

// show publishes the counts.
func (q *quarantineTask) show() {
	q.view.Store(&quarantineView{counts: q.store.sum.QuarantineCounts, groups: q.store.list(), full: q.full.Load(), oldest: q.oldest})
}

func (q *quarantineTask) row(p portInfo, b arrow.RecordBatch, i int) Quarantined {
	row := Quarantined{Step: p.step, Port: p.port}
	if p.port == dataflow.PortBad {
		row.Reason, row.Detail = strAt(b, 0, i), strAt(b, 1, i)
		row.Source, row.Split, row.Where = strAt(b, 3, i), strAt(b, 4, i), strAt(b, 5, i)
		if raw := b.Column(6).(*array.Binary); raw.IsValid(i) {
			row.Raw = append([]byte{}, raw.Value(i)...)
		}
		if s := strAt(b, 7, i); s != "" {
			row.Row = json.RawMessage(s)
		}
	} else {
		row.Reason = p.port
		row.Row = dataflow.RowJSON(b, i)
		if source, split, where, ok := q.splits.Origin(b, i); ok {
			row.Source, row.Split, row.Where = source, string(split), where
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

// strAt returns a copy: rows outlive their batch.
func strAt(b arrow.RecordBatch, col, i int) string {
	a := b.Column(col).(*array.String)
	if a.IsNull(i) {
		return ""
	}
	return strings.Clone(a.Value(i))
}

// ReadQuarantine visits the durable rows of the quarantine, by key group. It may
// run beside a job.
func ReadQuarantine(s *state.Store, visit func(Quarantined) error) error {
	v, ok := s.View(QuarantineStep)
	if !ok {
		return nil
	}
	for g := range state.NumGroups {
		err := v.Scan(g, []byte{firstRowKey}, nil, func(_, val []byte) error {
			row, err := decodeQuarantined(val)
			if err != nil {
				return err
			}
			return visit(*row)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

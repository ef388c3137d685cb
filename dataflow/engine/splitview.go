package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Instant is an event time as programs and people read it: RFC 3339 with
// microseconds, "-inf" before the first row and "+inf" behind the last.
type Instant dataflow.Time

// String formats i.
func (i Instant) String() string { return dataflow.Time(i).String() }

// MarshalJSON writes the text.
func (i Instant) MarshalJSON() ([]byte, error) { return json.Marshal(i.String()) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (i *Instant) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	switch s {
	case "-inf":
		*i = Instant(dataflow.MinTime)
		return nil
	case "+inf":
		*i = Instant(dataflow.MaxTime)
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return fmt.Errorf("event time %q: %w", s, err)
	}
	*i = Instant(dataflow.TimeOf(t))
	return nil
}

// States of a split.
const (
	SplitReading  = "reading"   // there may be more to read now
	SplitCaughtUp = "caught_up" // there is nothing more now
	SplitPaused   = "paused"    // too far ahead of the slowest one (max_drift)
	SplitIdle     = "idle"      // left out of the watermark
	SplitAtUntil  = "at_end"    // at the place where the run ends
	SplitEnded    = "ended"     // there will never be more
)

// SplitStatus is how one split of a source stands.
type SplitStatus struct {
	Split dataflow.Split `json:"split"`
	State string         `json:"state"`
	// Watermark is the split's own, MaxTime its greatest event time.
	Watermark Instant `json:"watermark"`
	MaxTime   Instant `json:"max_event_time"`
	// Since is when the watermark rose last or, if it has not in this process,
	// when the split was taken up.
	Since time.Time `json:"since"`
	// Rows in this process, and when the last ones came; zero: none.
	Rows    int64     `json:"rows"`
	LastRow time.Time `json:"last_row_at,omitzero"`
	// LastNews is when the source last said anything of the split: rows, a moved
	// position, or that it is caught up. LastLook is when the task that reads it last
	// came round.
	LastNews time.Time `json:"last_news_at,omitzero"`
	LastLook time.Time `json:"-"`
	// CaughtUp is since when nothing more is there; zero: there may be.
	CaughtUp time.Time `json:"caught_up_since,omitzero"`
	// Position is where reading goes on.
	Position string `json:"position"`
	// Top is the row that set MaxTime; nil: none did in this process.
	Top *SplitRow `json:"greatest,omitempty"`
}

// SplitRow is one row of a split.
type SplitRow struct {
	// Where the record stands, as people read it.
	Where string          `json:"position"`
	Time  Instant         `json:"event_time"`
	Read  time.Time       `json:"read_at"`
	Row   json.RawMessage `json:"row"`
}

// live says whether the source's watermark waits for the split.
func (s *SplitStatus) live() bool { return s.State != SplitIdle && s.State != SplitEnded }

// splitViews are the splits of one source task for who asks. The task writes once
// a batch, anybody reads.
type splitViews struct {
	mu struct {
		sync.Mutex
		splits map[dataflow.Split]*splitView
	}
}

// splitView is a SplitStatus and the row that set its greatest time: row of
// batch, which the view owns.
type splitView struct {
	SplitStatus
	id    int32
	batch arrow.RecordBatch
	row   int
	pos   int64
	read  time.Time
}

// keptBytes bounds a batch that is kept for one of its rows; of a larger one the
// row is copied.
const keptBytes = 64 << 10

// rows notes a batch that c has stamped, and the row that moved its clock.
func (v *splitViews) rows(env *dataflow.Env, c *splitClock, b arrow.RecordBatch, now time.Time) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	x := v.of(c)
	x.Rows += b.NumRows()
	x.LastRow, x.LastNews = now, now
	if c.top < 0 {
		return nil
	}
	keep, row := b, c.top
	if dataflow.BatchBytes(b) > keptBytes {
		var err error
		if keep, err = dataflow.TakeBatch(env.Alloc, b, []int32{int32(row)}); err != nil {
			return fmt.Errorf("keep the row that moved the clock: %w", err)
		}
		row = 0
	} else {
		keep.Retain()
	}
	x.drop()
	x.batch, x.row, x.read = keep, row, now
	x.pos = keep.Column(dataflow.Column(keep.Schema(), dataflow.SysPos)).(*array.Int64).Value(row)
	return nil
}

// news notes that the source spoke of the split.
func (v *splitViews) news(c *splitClock, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.of(c).LastNews = now
}

// of returns the view of a split; v is locked.
func (v *splitViews) of(c *splitClock) *splitView {
	x := v.mu.splits[c.split]
	if x == nil {
		if v.mu.splits == nil {
			v.mu.splits = map[dataflow.Split]*splitView{}
		}
		x = &splitView{id: c.id}
		x.Split, x.Watermark = c.split, Instant(dataflow.MinTime)
		v.mu.splits[c.split] = x
	}
	return x
}

// update notes how the task's splits stand.
func (v *splitViews) update(splits map[dataflow.Split]*splitClock, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range splits {
		x := v.of(c)
		if own := Instant(c.own()); own > x.Watermark || x.Since.IsZero() {
			x.Watermark, x.Since = own, now
		}
		if top := Instant(c.maxTime); top != x.MaxTime {
			if x.MaxTime = top; c.top < 0 {
				x.drop() // no row, but a heartbeat moved the clock
			}
		}
		x.State, x.CaughtUp, x.Position, x.LastLook = c.state(), c.caught, string(c.pos), now
	}
}

func (x *splitView) drop() {
	if x.batch != nil {
		x.batch.Release()
		x.batch = nil
	}
}

// list returns copies.
func (v *splitViews) list(t *dataflow.SplitTable) []SplitStatus {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := make([]SplitStatus, 0, len(v.mu.splits))
	for _, x := range v.mu.splits {
		s := x.SplitStatus
		if x.batch != nil {
			s.Top = &SplitRow{Where: t.Locate(x.id, x.pos), Time: s.MaxTime, Read: x.read, Row: dataflow.RowJSON(x.batch, x.row)}
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b SplitStatus) int { return strings.Compare(string(a.Split), string(b.Split)) })
	return out
}

func (v *splitViews) release() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, x := range v.mu.splits {
		x.drop()
	}
}

// state names how the split stands.
func (c *splitClock) state() string {
	switch {
	case c.ended:
		return SplitEnded
	case c.atUntil:
		return SplitAtUntil
	case c.status == checkpoint.Idle:
		return SplitIdle
	case c.paused:
		return SplitPaused
	case !c.caught.IsZero():
		return SplitCaughtUp
	}
	return SplitReading
}

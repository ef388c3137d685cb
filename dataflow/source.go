package dataflow

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sort"

	"github.com/apache/arrow-go/v18/arrow"
)

// Split names one independently ordered part of a source: a partition, a lane
// of files. It is stable over restarts.
type Split string

// Position says where reading goes on in a split: the place of the next row.
// The bytes compare in stream order. Every position a source gives out must be
// readable JSON text or a number, since it is shown to users; it is opaque to
// the engine.
type Position []byte

// Compare orders two positions of one split.
func (p Position) Compare(q Position) int { return bytes.Compare(p, q) }

// Positions holds a position per split and source step.
type Positions map[string]map[Split]Position

// Clone copies p deeply enough that neither map shares with the other.
func (p Positions) Clone() Positions {
	out := make(Positions, len(p))
	for s, m := range p {
		out[s] = maps.Clone(m)
	}
	return out
}

// Get returns the position of a split, nil where there is none.
func (p Positions) Get(step string, s Split) Position { return p[step][s] }

// Set stores a position.
func (p Positions) Set(step string, s Split, pos Position) {
	if p[step] == nil {
		p[step] = map[Split]Position{}
	}
	p[step][s] = pos
}

// Splits lists the splits of a step, sorted.
func (p Positions) Splits(step string) []Split {
	out := make([]Split, 0, len(p[step]))
	for s := range p[step] {
		out = append(out, s)
	}
	sort.Slice(out, func(i, j int) bool { return out[i] < out[j] })
	return out
}

// String is the JSON of p, for messages.
func (p Positions) String() string {
	b, err := p.MarshalJSON()
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// MarshalJSON writes {step: {split: position}} with positions as text.
func (p Positions) MarshalJSON() ([]byte, error) {
	m := make(map[string]map[Split]string, len(p))
	for s, splits := range p {
		m[s] = make(map[Split]string, len(splits))
		for k, v := range splits {
			m[s][k] = string(v)
		}
	}
	return json.Marshal(m)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (p *Positions) UnmarshalJSON(b []byte) error {
	var m map[string]map[Split]string
	if err := json.Unmarshal(b, &m); err != nil {
		return fmt.Errorf("read positions: %w", err)
	}
	*p = Positions{}
	for s, splits := range m {
		for k, v := range splits {
			p.Set(s, k, Position(v))
		}
	}
	return nil
}

// SplitAt is a split with the bounds between which it is read.
type SplitAt struct {
	Split Split
	// From: nil means the configured start.
	From Position
	// Until: nil means for ever.
	Until Position
}

// Source reads the splits assigned to it: partitions, lanes of files, one push
// stream's WAL. The engine runs one Source per source task; Assign, Unassign
// and Poll come from one goroutine, Close may overlap with them.
type Source interface {
	// Assign adds splits. Each is read from From (nil: the configured start) up
	// to exactly Until (nil: for ever), a batch being cut where Until falls; a
	// split that stands at Until may be assigned again.
	Assign(ctx context.Context, splits []SplitAt) error
	// Unassign gives splits up. What was read of them but not returned is
	// forgotten.
	Unassign(ctx context.Context, splits []Split) error
	// Poll blocks for the next batch of one split and returns with it the
	// position just after it: position and data cannot disagree. A Polled may
	// carry no rows and only a moved Next (markers, compaction), CaughtUp,
	// AtUntil or Ended. It returns an empty Polled with no split when max has
	// passed with nothing new to say; ctx ends it early with ctx's error.
	// A source without assigned splits waits for ctx or max.
	Poll(ctx context.Context, max PollLimit) (Polled, error)
	Close() error
}

// PollLimit bounds one Poll.
type PollLimit struct {
	// Rows and Bytes bound the batch; a single record may exceed Bytes.
	Rows, Bytes int
	// Wait bounds the wait for the first record, in microseconds; the batch is
	// closed as soon as the source has nothing more at hand. A Poll may return
	// before it.
	WaitMicros int64
}

// Polled is what one Poll returns. The caller owns Batch and Bad.
type Polled struct {
	Split Split
	// Batch holds the user's columns, then SysPos (the place of each row), then
	// SysArrived where the source stores arrival times. nil: no rows.
	Batch arrow.RecordBatch
	// Bad holds records that could not be decoded, in BadSchema. nil: none.
	Bad arrow.RecordBatch
	// Skipped counts records that are no rows by rule, by reason ("tombstone").
	Skipped map[string]int64
	// Reached: after the rows of Batch the split's event times have come so far,
	// although no row says so (the outside system's heartbeat); nil: nothing is
	// said. It belongs to Next: a source that reads again says it again there.
	Reached *Time
	// Next is where reading goes on, always set when Split is.
	Next Position
	// CaughtUp: nothing more is there now. What idleness is judged by.
	CaughtUp bool
	// AtUntil: the split stands exactly at its Until.
	AtUntil bool
	// Ended: this split will never give another row.
	Ended bool
	// Open: inside a source transaction: no barrier after this batch.
	Open bool
}

// Release frees the batches.
func (p *Polled) Release() {
	if p.Batch != nil {
		p.Batch.Release()
	}
	if p.Bad != nil {
		p.Bad.Release()
	}
}

// Discoverer lists the splits that exist. The engine calls it on one Source at
// the start and again every discovery interval, from a goroutine of its own,
// and assigns what is new, from its beginning.
type Discoverer interface {
	Discover(ctx context.Context) ([]Split, error)
}

// Starter resolves the configured start of splits into durable positions. The
// engine stores them before the first record is read, so that "latest" means
// the same after a crash. Splits found later are not asked: they start at
// their beginning, as Begin says.
type Starter interface {
	// Start returns the position of the configured start per split.
	Start(ctx context.Context, splits []Split) (map[Split]Position, error)
	// Begin returns the position of the first record that exists per split.
	Begin(ctx context.Context, splits []Split) (map[Split]Position, error)
}

// Ender tells where splits end now: the place after the last row that exists
// (Kafka: the last stable offset). "--until end" captures it once.
type Ender interface {
	Ends(ctx context.Context, splits []Split) (map[Split]Position, error)
}

// Pauser holds splits back: those far ahead of the others in event time, so that
// a backfill does not pile up open windows. Pause and Resume come from the
// goroutine that polls, between two Polls. They name assigned splits and return
// at once; on a split that is paused already, or is not, they change nothing.
//
// A paused split gives nothing, neither rows nor news, until it is resumed;
// Poll goes on with the other splits, or waits. Nothing is lost: reading goes on
// at the Next told last. What was known about its end may be outdated by then,
// so a split that is caught up says so again, once that is known anew. Assign of
// a paused split resumes it.
type Pauser interface {
	Pause(splits ...Split)
	Resume(splits ...Split)
}

// Troubled is an optional ability of a Source: it says in words what keeps it from
// reading now, one thing each, as a registry that cannot be reached. It turns health
// red. It is called from any goroutine.
type Troubled interface {
	Trouble() []string
}

// Locator writes the place of a row for people: "fleet.ndjson:12". Without it
// the number in SysPos is shown. It is called from any goroutine.
type Locator interface {
	Locate(split Split, pos int64) string
}

// Acker: Ack tells the outside system that everything up to upTo is safe. It
// may be repeated after a restore and must then do no harm. It is called from
// the coordinator's goroutine, on one Source of the step.
type Acker interface {
	Ack(ctx context.Context, e Epoch, upTo map[Split]Position) error
}

// Decoder turns payloads into rows of one schema. One goroutine uses it.
type Decoder interface {
	// Schema has the user's columns only.
	Schema() *arrow.Schema
	// Append decodes one payload and appends its row. For a payload that cannot
	// be decoded nothing is appended and the reason is returned. It borrows
	// payload.
	Append(payload []byte) *Bad
	// Rows counts rows appended since the last Flush, Bytes estimates their
	// memory.
	Rows() int
	Bytes() int
	// Flush returns the columns, in Schema's order, and starts anew. The caller
	// owns them.
	Flush() []arrow.Array
}

// ExtraCounter is an optional ability of a Decoder: it counts the fields outside
// its schema that it ignored, by name, since it was made. The engine asks from
// the goroutine that decodes. A Source whose decoders are not made by the Env of
// its task (a push source decodes when it takes a record) has it itself.
type ExtraCounter interface {
	Extra() map[string]int64
}

// Bad is why a record is no row.
type Bad struct {
	// Reason is a stable code: [a-z_]+.
	Reason string
	// Detail says what, where, expected, got.
	Detail string
}

// Error makes Bad usable as an error.
func (b *Bad) Error() string { return b.Reason + ": " + b.Detail }

// TopicDecoder is an optional ability of a Decoder whose payloads mean something
// only together with the topic that they came on, and become any number of rows.
type TopicDecoder interface {
	Decoder
	// AppendTopic decodes one payload and appends its rows. What of it is no row is
	// returned, each part with its reason. It borrows payload.
	AppendTopic(topic string, payload []byte) (rows int, bad []Bad)
}

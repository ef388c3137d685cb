package dataflow

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
)

// Target names what one sink writes to, as it names itself: a table and branch,
// a topic, a folder.
type Target string

// Writer stages the rows of one sink task.
type Writer interface {
	// Write stages b. Readers of the target must not see it. It borrows b. Rows
	// the target can never take are returned in bad (BadSchema, the caller owns
	// it) and counted; nil means all were staged. Columns with SysPrefix are
	// never written.
	Write(ctx context.Context, b arrow.RecordBatch) (bad arrow.RecordBatch, err error)
	// Prepare cuts: all rows since the last Prepare belong to e. It returns at
	// once; Pending.Part waits, off the task, until they are durable, still
	// unseen, and described completely: they are committed from the Part alone,
	// maybe by another process. Write of the next epoch goes on meanwhile.
	// A nil Pending says that there were no rows.
	Prepare(ctx context.Context, e Epoch) (Pending, error)
	Close() error
}

// Pending is a cut whose files may still be on their way.
type Pending interface {
	// Part waits until the rows are durable. It is called once, from any
	// goroutine.
	Part(ctx context.Context) (Part, error)
}

// Part describes staged rows completely.
type Part struct {
	// Rows counts them.
	Rows int64 `json:"rows"`
	// Bytes is the size of what is staged, as the target keeps it; 0: not known.
	Bytes int64 `json:"bytes,omitempty"`
	// Data is the sink's own description.
	Data []byte `json:"data"`
}

// PartFunc makes a function a Pending.
type PartFunc func(ctx context.Context) (Part, error)

// Part calls f.
func (f PartFunc) Part(ctx context.Context) (Part, error) { return f(ctx) }

// Committed is what a target itself holds for one pipeline and sink.
type Committed struct {
	// Positions: At of the last commit; nil when there was none.
	Positions Positions
	// Start: where the splits were read from when the pipeline first started, as
	// recorded with it.
	Start Positions
	// Plan is the fingerprint recorded with it.
	Plan string
	// Watermarks per source step recorded with it.
	Watermarks map[string]Time
	// Clock holds the clock decisions recorded with this target's commits, in
	// order, oldest first. ClockComplete is false where some were lost (expired
	// snapshots).
	Clock         []ClockDecision
	ClockComplete bool
	// ID is the target's own identity (a table's UUID): a recreated table has
	// another.
	ID string
	// Claim that stands there; zero: none.
	Claim Claim
	// Commits are the IDs of the last commits, at most KeepCommits; the newest last.
	Commits []string
}

// KeepCommits is of how many commits a target remembers the ID: more than ever wait
// for it at once.
const KeepCommits = 16

// Committer publishes what all writers of one sink staged: one per sink and
// pipeline, called by one goroutine, in the order of epochs.
type Committer interface {
	// Target names what it commits to.
	Target() Target
	// Committed asks the target itself.
	Committed(ctx context.Context) (Committed, error)
	// Commit publishes c's parts together with its positions, all or nothing.
	// Per split of c: the target holds At or later for every one, and c's ID, if c
	// has one and the target any: done already, nil. It holds exactly From for every
	// one, and c's claim if that has one: publish. Anything else: ErrFenced. Looked at
	// again after every reload. From is the At that this target last got; a split
	// unknown to it counts as its start; splits not in c are left as they are.
	Commit(ctx context.Context, c Commit) error
	Close() error
}

// Refuser is a Committer whose target may refuse single rows for good when they are
// committed. They are kept with the reasons where the sink says.
type Refuser interface {
	// Refused counts the rows that the target refused in all commits up to the last one
	// that this process knows of, by any process: it is written with each commit.
	// It may be called from any goroutine.
	Refused() int64
}

// Commit is one publication.
type Commit struct {
	Target Target `json:"target"`
	Epoch  Epoch  `json:"epoch"`
	// ID is this commit's alone, where the same positions need not be the same rows:
	// somewhere upstream rows cannot be made again. Of two processes on copies of a
	// write-ahead log each has records of its own under the same numbers. "" else.
	ID   string    `json:"id,omitempty"`
	From Positions `json:"from"`
	At   Positions `json:"at"`
	// FromWatermarks are the Watermarks of the commit that From comes from.
	FromWatermarks map[string]Time `json:"from_watermarks,omitempty"`
	// Start: where the splits of At were read from at the pipeline's first start.
	Start Positions `json:"start,omitempty"`
	// Plan is the fingerprint of everything upstream.
	Plan string `json:"plan"`
	// Watermarks per source step at the barrier.
	Watermarks map[string]Time `json:"watermarks,omitempty"`
	// Watermark of the sink's input at the barrier.
	Watermark Time `json:"watermark"`
	// Clock decisions upstream since the commit before.
	Clock []ClockDecision `json:"clock,omitempty"`
	// Late counts rows that left by late ports upstream so far.
	Late  int64  `json:"late"`
	Parts []Part `json:"parts"`
	// Claim of the process that commits; zero: it has made none.
	Claim Claim `json:"-"`
}

// Rows counts the rows of all parts.
func (c Commit) Rows() int64 {
	var n int64
	for _, p := range c.Parts {
		n += p.Rows
	}
	return n
}

// Bytes adds up the sizes of all parts.
func (c Commit) Bytes() int64 {
	var n int64
	for _, p := range c.Parts {
		n += p.Bytes
	}
	return n
}

// ClockDecision is something that the clock decided and a replay must repeat:
// from the row with SysPos Pos of a split on its stamp floor is Floor, or
// (Refused) the row at Pos was refused as from the future.
type ClockDecision struct {
	Source  string `json:"source"`
	Split   Split  `json:"split"`
	Pos     int64  `json:"pos"`
	Floor   Time   `json:"floor,omitempty"`
	Refused bool   `json:"refused,omitempty"`
}

// After returns the IDs that a target holds after c, which held held before.
func (c Commit) After(held []string) []string {
	if c.ID == "" {
		return held
	}
	out := append(slices.Clone(held), c.ID)
	return out[max(0, len(out)-KeepCommits):]
}

// Made says whether a target that is where c leads to has come there by c.
func (c Commit) Made(held []string) bool {
	return c.ID == "" || len(held) == 0 || slices.Contains(held, c.ID)
}

// CommitDecision says what a Committer does about one commit.
type CommitDecision int

const (
	// Publish: the target stands exactly at From.
	Publish CommitDecision = iota
	// Done: the target has these rows already.
	Done
	// Fenced: somebody else moved the target.
	Fenced
)

// DecideCommit compares what a target holds with c. Every Committer uses it.
// Positions decide; where they are equal, the watermarks do: time alone can make
// rows (a drain, an idle split that lets a window close), so two commits may
// stand at the same positions.
func DecideCommit(held Committed, c Commit) CommitDecision {
	atLeast, beyond, exact := true, false, true
	for step, splits := range c.At {
		for split, at := range splits {
			have := held.Positions.Get(step, split)
			from := c.From.Get(step, split)
			switch {
			case have == nil || have.Compare(at) < 0:
				atLeast = false
			case have.Compare(at) > 0:
				beyond = true
			}
			if (have == nil) != (from == nil) || have.Compare(from) != 0 {
				exact = false
			}
		}
	}
	ours := c.Claim == (Claim{}) || held.Claim == c.Claim
	if held.Positions == nil {
		if exact && ours {
			return Publish
		}
		return Fenced
	}
	if atLeast && (beyond || CompareWatermarks(held.Watermarks, c.Watermarks) >= 0) {
		if c.Made(held.Commits) {
			return Done
		}
		return Fenced
	}
	if exact && ours && CompareWatermarks(held.Watermarks, c.FromWatermarks) == 0 {
		return Publish
	}
	return Fenced
}

// CompareWatermarks orders two sets of watermarks of one history at the same
// positions: -1, 0 or 1. A step without one counts as MinTime.
func CompareWatermarks(a, b map[string]Time) int {
	get := func(m map[string]Time, k string) Time {
		if t, ok := m[k]; ok {
			return t
		}
		return MinTime
	}
	out := 0
	for _, m := range []map[string]Time{a, b} {
		for k := range m {
			switch x, y := get(a, k), get(b, k); {
			case x < y:
				return -1
			case x > y:
				out = 1
			}
		}
	}
	return out
}

// MergePositions returns held with the splits of at replaced.
func MergePositions(held, at Positions) Positions {
	out := held.Clone()
	for step, splits := range at {
		for split, pos := range splits {
			out.Set(step, split, pos)
		}
	}
	return out
}

// TableReader is an optional ability of a Committer: it reads back what was
// published. "frazil table" uses it.
type TableReader interface {
	// Describe reports the table as it stands; found is false before its first
	// commit.
	Describe(ctx context.Context) (info TableInfo, found bool, err error)
	// Rows calls visit with the published rows; visit borrows the batch.
	Rows(ctx context.Context, visit func(arrow.RecordBatch) error) error
}

// TableInfo describes a published table.
type TableInfo struct {
	Table     string          `json:"table"`
	Rows      int64           `json:"rows"`
	Snapshot  string          `json:"snapshot"`
	Location  string          `json:"location"`
	Snapshots []TableSnapshot `json:"-"`
	Files     []TableFile     `json:"-"`
}

// TableSnapshot is one published state.
type TableSnapshot struct {
	ID        string            `json:"snapshot"`
	Time      string            `json:"time"`
	Operation string            `json:"operation"`
	Summary   map[string]string `json:"summary"`
}

// TableFile is one live data file.
type TableFile struct {
	Path  string `json:"path"`
	Rows  int64  `json:"rows"`
	Bytes int64  `json:"bytes"`
}

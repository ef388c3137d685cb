package spool

import (
	"time"

	"frazil/dataflow"
)

// recordVersion is that of [Record] as JSON.
const recordVersion = 1

// Record is what is known of the commits of one pipeline and sink, as a target that has
// no form of its own for it keeps it: JSON beside the rows.
type Record struct {
	V int `json:"v"`
	// ID is the target's identity.
	ID         string                   `json:"id,omitempty"`
	Positions  dataflow.Positions       `json:"positions"`
	Start      dataflow.Positions       `json:"start,omitempty"`
	Plan       string                   `json:"plan"`
	Watermarks map[string]dataflow.Time `json:"watermarks,omitempty"`
	Claim      dataflow.Claim           `json:"claim"`
	// Commits are the IDs of the last commits that have one.
	Commits []string `json:"commits,omitempty"`
	// Clocks counts the commits that have clock decisions, which are kept elsewhere.
	Clocks int `json:"clocks,omitempty"`
	// Refused counts the rows of all commits that the target refused for good.
	Refused int64 `json:"refused,omitempty"`
	// Epoch, Time, Rows and Late are for people: the commit that wrote this.
	Epoch dataflow.Epoch `json:"epoch"`
	Time  string         `json:"time"`
	Rows  int64          `json:"rows"`
	Late  int64          `json:"late"`
}

// Readable fails if the record was written by a newer version of the program; where
// names the place for people.
func (r Record) Readable(where string) error {
	if r.V > recordVersion {
		return dataflow.Permanentf("%s holds positions of version %d, and this program knows up to %d: use the version that wrote them, or a newer one", where, r.V, recordVersion)
	}
	return nil
}

// Committed is what the record says; the clock's decisions are the caller's to add.
func (r Record) Committed() dataflow.Committed {
	out := dataflow.Committed{ID: r.ID, ClockComplete: true, Claim: r.Claim}
	if len(r.Positions) > 0 {
		out.Positions, out.Start, out.Plan, out.Watermarks = r.Positions, r.Start, r.Plan, r.Watermarks
		out.Commits = r.Commits
	}
	return out
}

// After is the record behind c.
func (r Record) After(c dataflow.Commit, now time.Time) Record {
	out := Record{
		V: recordVersion, ID: r.ID, Claim: r.Claim, Clocks: r.Clocks, Refused: r.Refused, Plan: c.Plan, Watermarks: c.Watermarks, Commits: c.After(r.Commits),
		Positions: dataflow.MergePositions(r.Positions, c.At), Start: dataflow.MergePositions(r.Start, c.Start),
		Epoch: c.Epoch, Time: stamp(now), Rows: c.Rows(), Late: c.Late,
	}
	if len(c.Clock) > 0 {
		out.Clocks++
	}
	return out
}

// Claimed is the record once claim stands.
func (r Record) Claimed(claim dataflow.Claim, now time.Time) Record {
	r.V, r.Claim, r.Time = recordVersion, claim, stamp(now)
	return r
}

func stamp(now time.Time) string { return now.UTC().Format(time.RFC3339Nano) }

package dataflow

import "sync/atomic"

// Fates counts what became of the rows of one step in one task. A component
// adds once per batch; any goroutine may read. The law of a step, exact at
// every aligned barrier:
//
//	in + held before = passed + filtered + late + duplicate + bad + absorbed + expired + held
//
// and of a sink: in = staged + superseded + muted + bad. Rows that a step makes
// itself (results of a window) count as created. In is counted by the engine,
// and so is what leaves by a port; everything else by the component.
type Fates struct {
	In, Passed, Filtered, Late, PartlyLate, Duplicate, Bad, Absorbed, Expired, Created atomic.Int64
	// Held is a gauge: rows that wait inside the step now.
	Held atomic.Int64
	// Staged, Superseded and Muted are a sink's, counted by the engine, but for
	// Superseded.
	Staged, Superseded, Muted atomic.Int64
}

// Counts is Fates at one moment, summed over tasks and runs.
type Counts struct {
	In         int64 `json:"in"`
	Passed     int64 `json:"passed,omitempty"`
	Filtered   int64 `json:"filtered,omitempty"`
	Late       int64 `json:"late,omitempty"`
	PartlyLate int64 `json:"partly_late,omitempty"`
	Duplicate  int64 `json:"duplicate,omitempty"`
	Bad        int64 `json:"bad,omitempty"`
	Absorbed   int64 `json:"absorbed,omitempty"`
	Expired    int64 `json:"expired,omitempty"`
	Created    int64 `json:"created,omitempty"`
	Held       int64 `json:"held,omitempty"`
	Staged     int64 `json:"staged,omitempty"`
	Superseded int64 `json:"superseded,omitempty"`
	Muted      int64 `json:"muted,omitempty"`
	// Refused is how many of the staged rows the target refused for good at a commit, as
	// its own record said at the moment of the checkpoint; it stands in no law.
	Refused int64 `json:"refused,omitempty"`
}

// Load reads all counters.
func (f *Fates) Load() Counts {
	return Counts{
		In: f.In.Load(), Passed: f.Passed.Load(), Filtered: f.Filtered.Load(), Late: f.Late.Load(),
		PartlyLate: f.PartlyLate.Load(), Duplicate: f.Duplicate.Load(), Bad: f.Bad.Load(),
		Absorbed: f.Absorbed.Load(), Expired: f.Expired.Load(), Created: f.Created.Load(),
		Held: f.Held.Load(), Staged: f.Staged.Load(), Superseded: f.Superseded.Load(), Muted: f.Muted.Load(),
	}
}

// Plus adds o to c, counter by counter.
func (c Counts) Plus(o Counts) Counts {
	return Counts{
		In: c.In + o.In, Passed: c.Passed + o.Passed, Filtered: c.Filtered + o.Filtered, Late: c.Late + o.Late,
		PartlyLate: c.PartlyLate + o.PartlyLate, Duplicate: c.Duplicate + o.Duplicate, Bad: c.Bad + o.Bad,
		Absorbed: c.Absorbed + o.Absorbed, Expired: c.Expired + o.Expired, Created: c.Created + o.Created,
		Held: c.Held + o.Held, Staged: c.Staged + o.Staged, Superseded: c.Superseded + o.Superseded, Muted: c.Muted + o.Muted,
		Refused: max(c.Refused, o.Refused),
	}
}

// Balance is what the step's law leaves over: 0 when it holds. c counts from
// the pipeline's first start, when nothing was held.
func (c Counts) Balance() int64 {
	return c.In - (c.Passed + c.Filtered + c.Late + c.Duplicate + c.Bad + c.Absorbed + c.Expired + c.Held +
		c.Staged + c.Superseded + c.Muted)
}

package checkpoint

import (
	"encoding/json"
	"fmt"
	"slices"

	"frazil/dataflow"
)

// ManifestVersion is the version of the manifest's JSON; see
// docs/state-format.md for the rule of changing it.
const ManifestVersion = 1

// Manifest is everything about an epoch but the keyed state, with which it is
// written in one batch.
type Manifest struct {
	Version  int            `json:"version"`
	Pipeline string         `json:"pipeline"`
	Epoch    dataflow.Epoch `json:"epoch"`
	// Steps holds the fingerprint of every stateful step.
	Steps map[string]string `json:"steps"`
	// Sources by step.
	Sources map[string]*SourceState `json:"sources"`
	// Closed: see dataflow.ClosedUpTo, by step.
	Closed map[string]dataflow.Time `json:"closed,omitempty"`
	// Targets by sink step.
	Targets map[string]*TargetState `json:"targets"`
	Ledger  Ledger                  `json:"ledger"`
	// Quarantine counts the rows of unread ports; nil: there never was one.
	Quarantine *QuarantineCounts `json:"quarantine,omitempty"`
	// Drained: the sources had ended and everything was flushed.
	Drained bool `json:"drained,omitempty"`
	// Refused: a target has refused this state, since another process has taken over.
	Refused bool `json:"refused,omitempty"`
}

// SourceState is one source step at a barrier.
type SourceState struct {
	// Watermark over the live splits; it never falls.
	Watermark dataflow.Time                  `json:"watermark"`
	Splits    map[dataflow.Split]*SplitState `json:"splits"`
	Start     map[dataflow.Split]string      `json:"start,omitempty"`
	// Skipped counts records that are no rows by rule, by reason; Extra fields
	// outside the decode schema, by name. Since the first start.
	Extra   map[string]int64 `json:"extra_fields,omitempty"`
	Skipped map[string]int64 `json:"skipped,omitempty"`
}

// SplitStatus says how a split takes part in its source's watermark.
type SplitStatus string

// The states of a split.
const (
	Live  SplitStatus = "live"
	Idle  SplitStatus = "idle"
	Ended SplitStatus = "ended"
)

// SplitState is one split at a barrier.
type SplitState struct {
	// Position is the place of the next row.
	Position string `json:"position"`
	// MaxTime is the greatest event time seen; MinTime before the first row.
	MaxTime dataflow.Time `json:"max_time"`
	// Floor bounds stamps from below: the source's watermark when the split was
	// found or woke up.
	Floor  dataflow.Time `json:"floor"`
	Status SplitStatus   `json:"status"`
}

// TargetState is one sink at a barrier.
type TargetState struct {
	Target dataflow.Target `json:"target"`
	// ID is the target's own identity when it was last looked at.
	ID string `json:"id,omitempty"`
	// Done is At of the last commit known to have happened, DoneWatermarks its
	// Watermarks.
	Done           dataflow.Positions       `json:"done,omitempty"`
	DoneWatermarks map[string]dataflow.Time `json:"done_watermarks,omitempty"`
	// Pending commits, in order.
	Pending []dataflow.Commit `json:"pending,omitempty"`
	// Clock decisions upstream since the last commit.
	Clock []dataflow.ClockDecision `json:"clock,omitempty"`
}

// From is the At of the newest commit, pending or done, and its Watermarks.
func (t *TargetState) From() (dataflow.Positions, map[string]dataflow.Time) {
	if n := len(t.Pending); n > 0 {
		return dataflow.MergePositions(t.Done, t.Pending[n-1].At), t.Pending[n-1].Watermarks
	}
	return t.Done, t.DoneWatermarks
}

// Complete moves the head of Pending into Done.
func (t *TargetState) Complete() dataflow.Commit {
	c := t.Pending[0]
	t.Done, t.DoneWatermarks = dataflow.MergePositions(t.Done, c.At), c.Watermarks
	t.Pending = slices.Clone(t.Pending[1:])
	return c
}

// Encode writes m.
func (m *Manifest) Encode() ([]byte, error) {
	m.Version = ManifestVersion
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode manifest of %s: %w", m.Epoch, err)
	}
	return b, nil
}

// Decode reads a manifest. nil bytes give nil.
func Decode(b []byte) (*Manifest, error) {
	if b == nil {
		return nil, nil
	}
	m := &Manifest{}
	err := json.Unmarshal(b, m)
	// A newer one may not fit, but its version is where it was.
	var v struct{ Version int }
	if json.Unmarshal(b, &v) == nil && v.Version > ManifestVersion {
		return nil, fmt.Errorf("the manifest of the last epoch has version %d, this program knows versions up to %d: the state was written by a newer version of the program: use that version, or start with an empty state directory", v.Version, ManifestVersion)
	}
	if err != nil {
		return nil, fmt.Errorf("decode manifest: %w", err)
	}
	if m.Version != ManifestVersion {
		return nil, fmt.Errorf("the manifest of the last epoch has version %d, which is none: the state is damaged", m.Version)
	}
	return m, nil
}

// Watermarks of all sources.
func (m *Manifest) Watermarks() map[string]dataflow.Time {
	out := map[string]dataflow.Time{}
	for step, s := range m.Sources {
		out[step] = s.Watermark
	}
	return out
}

// Positions of all splits of all sources.
func (m *Manifest) Positions() dataflow.Positions {
	out := dataflow.Positions{}
	for step, s := range m.Sources {
		for split, st := range s.Splits {
			out.Set(step, split, dataflow.Position(st.Position))
		}
	}
	return out
}

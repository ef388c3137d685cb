package engine

import (
	"crypto/rand"
	"errors"
	"fmt"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
)

// Two processes on copies of one state make the same rows of the same positions, as
// long as their sources can be read by both. What producers send to one of them is in
// its write-ahead log alone, under numbers that the other one gives to other records.
// So a commit of such rows has an ID, and whoever was refused by a target does not go
// on as if what is there were its own.

// errRefused ends a start of a state that was refused.
var errRefused = errors.New("this state was refused by its targets, since another process has taken them over, on a copy of the state: go on with that one; what producers have sent to this one since stands in its write-ahead log and in no target (frazil wal show)")

// pushed says whether the sink gets rows that producers send to this process.
func (g *Graph) pushed(sink string) bool {
	for _, name := range g.upstream(sink) {
		if s := g.source(name); s != nil && s.Serve != nil {
			return true
		}
	}
	return false
}

func (g *Graph) anyPushed() bool {
	for _, s := range g.Sinks {
		if s.NewCommitter != nil && g.pushed(s.Name) {
			return true
		}
	}
	return false
}

// commitID is a new one where the same positions need not be the same rows.
func (g *Graph) commitID(s *Sink) string {
	if s.NotReplayable == "" && !g.pushed(s.Name) {
		return ""
	}
	return rand.Text()[:12]
}

// checkTwin refuses what would take the rows of another process for those of this
// one's log: a replay to where that one has moved a target meanwhile. A target that is
// where this state has brought it is not its business. err is what stands in the way of
// any replay.
func (c *coordinator) checkTwin(rec checkpoint.Recovery, err error) error {
	if err != nil {
		if errors.Is(err, checkpoint.ErrCannotResume) && c.manifest != nil && c.manifest.Refused && c.j.g.anyPushed() {
			return fmt.Errorf("%w; %w", err, errRefused)
		}
		return err
	}
	for _, name := range rec.Muted {
		switch {
		case c.committer[name] == nil || !c.j.g.pushed(name):
		case c.manifest != nil && c.manifest.Refused:
			return fmt.Errorf("sink %s: %w", name, dataflow.Permanent(errRefused))
		case c.j.moved:
			return fmt.Errorf("sink %s: %w", name, dataflow.ErrFenced)
		}
	}
	return nil
}

// keepRefusal notes in the state that it was refused, where nothing else would tell
// at the next start.
func (j *Job) keepRefusal(cause error) error {
	if !errors.Is(cause, dataflow.ErrFenced) || !j.g.anyPushed() {
		return cause
	}
	j.o.Store.Reset()
	raw, err := j.o.Store.Manifest()
	if err != nil {
		return errors.Join(cause, err)
	}
	m, err := checkpoint.Decode(raw)
	if err != nil || m == nil {
		return errors.Join(cause, err)
	}
	m.Refused = true
	if raw, err = m.Encode(); err == nil {
		err = j.o.Store.Write(nil, raw)
	}
	if err != nil {
		return errors.Join(cause, fmt.Errorf("note the refusal: %w", err))
	}
	return cause
}

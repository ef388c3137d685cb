package engine

import (
	"time"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
)

// align pauses the task's splits that are further ahead of the slowest one than
// event_time allows, and resumes the others. The slowest is never ahead of
// itself, so somebody always goes on: it is looked for among the splits that may
// have more to read, whichever task reads them. Nothing is paused in a replay,
// which reads each split up to a place that was reached without it.
//
// It changes no row and no stamp, only when rows come.
func (t *sourceTask) align() {
	p, ok := t.source.(dataflow.Pauser)
	if !ok || t.src.EventTime == nil || t.src.EventTime.Processing || t.open {
		return
	}
	for {
		most := t.furthest()
		held := false
		for _, c := range t.splits {
			if c.fixed {
				continue
			}
			ahead := c.own() > most && !c.atUntil && !c.ended && c.status == checkpoint.Live
			held = held || ahead
			switch {
			case ahead && !c.paused:
				p.Pause(c.split)
				// What it said about its end is outdated when it is resumed, and while it
				// is paused it must not turn idle.
				c.paused, c.caught = true, time.Time{}
				t.tracker.set(c.split, c.tracked())
			case !ahead && c.paused:
				p.Resume(c.split)
				c.paused = false
				t.tracker.set(c.split, c.tracked())
			}
		}
		if !held {
			return
		}
		// Whoever moves the slowest split on from here pokes this task. It may have
		// moved just before.
		t.parked.Store(true)
		if t.furthest() == most {
			return
		}
	}
}

// furthest is the greatest watermark with which a split is read on. At the
// ceiling of the memory only the slowest splits are: what waits is let go by them.
func (t *sourceTask) furthest() dataflow.Time {
	drift := t.src.EventTime.MaxDrift
	switch {
	case t.stamper.replaying, drift == 0 && !t.paused.Load():
		return dataflow.MaxTime
	case t.paused.Load():
		drift = 0
	}
	return t.tracker.slow().Add(drift)
}

// rests says whether nothing more can be read of any of the task's splits now.
func (t *sourceTask) rests() bool {
	if t.fixedReady() {
		return false
	}
	for _, c := range t.splits {
		if c.more() && !c.paused {
			return false
		}
	}
	return true
}

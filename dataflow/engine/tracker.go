package engine

import (
	"sync"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
)

// tracker holds the watermarks of all splits of one source, shared by its
// tasks. Its watermark w is the least over the live splits and never falls;
// every task sends w. A split that is found later or wakes up goes on from w,
// so that no window that w has closed gets a row whose own stamp says that it
// is still open.
type tracker struct {
	mu       sync.Mutex
	w        dataflow.Time
	splits   map[dataflow.Split]trackedSplit
	finished map[dataflow.Split]bool
	// replaying: no split is idle. Which one was, and when, is what the recorded
	// decisions say, and raise at the end.
	replaying bool
	// slowest is the least watermark of the splits that have more to read, in this
	// stretch and now; MaxTime: there are none. Splits that are far ahead of it
	// wait (EventTime.MaxDrift). It is not w: a split that is caught up, or stands
	// where it is read to, cannot catch up however long the others wait.
	slowest dataflow.Time
	// held keeps w from rising above it, if holds: rows that were sent again are
	// stamped with it and not yet read.
	held  dataflow.Time
	holds bool
	// rise is called after w has risen, or slowest if a split waits for that,
	// without the lock.
	rise func()
}

type trackedSplit struct {
	own  dataflow.Time
	live bool
	// more: it is not known that there is nothing more to read.
	more bool
	// paused: it waits for the slowest to rise.
	paused bool
}

func newTracker(w dataflow.Time) *tracker {
	return &tracker{w: w, splits: map[dataflow.Split]trackedSplit{}, finished: map[dataflow.Split]bool{}, slowest: dataflow.MinTime, rise: func() {}}
}

// register adds a split before anything runs: all of them, before the first set,
// since w is a minimum over those that are known.
func (t *tracker) register(s dataflow.Split, own dataflow.Time, live bool) {
	t.splits[s] = trackedSplit{own: own, live: live, more: true}
}

// set notes how a split stands now.
func (t *tracker) set(s dataflow.Split, now trackedSplit) {
	if t.note(s, now) {
		t.rise()
	}
}

func (t *tracker) note(s dataflow.Split, now trackedSplit) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.splits[s] = now
	least, slowest, any, waits := dataflow.MaxTime, dataflow.MaxTime, false, false
	for _, x := range t.splits {
		if x.live || t.replaying {
			any = true
			least = min(least, x.own)
		}
		if x.live && x.more {
			slowest = min(slowest, x.own)
		}
		waits = waits || x.paused
	}
	if t.holds {
		least = min(least, t.held)
	}
	rose := waits && slowest > t.slowest
	t.slowest = slowest
	if any && least > t.w {
		t.w, rose = least, true
	}
	return rose
}

// hold keeps w where it is until setHold says otherwise, and returns it.
func (t *tracker) hold() dataflow.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.holds {
		t.holds, t.held = true, t.w
	}
	return t.w
}

// setHold keeps w from rising above at, or lets it go when the next split is
// noted.
func (t *tracker) setHold(on bool, at dataflow.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holds, t.held = on, at
}

// slow returns the least watermark of the splits that have more to read.
func (t *tracker) slow() dataflow.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.slowest
}

// get returns the source's watermark.
func (t *tracker) get() dataflow.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.w
}

// greatest returns the greatest watermark of a split, which no order in which
// splits are read or end decides.
func (t *tracker) greatest() dataflow.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.w
	for _, s := range t.splits {
		out = max(out, s.own)
	}
	return out
}

// finish notes that a split will never give another row and says whether all
// have said so.
func (t *tracker) finish(s dataflow.Split) bool {
	t.mu.Lock()
	t.finished[s] = true
	all := len(t.finished) == len(t.splits)
	t.mu.Unlock()
	if all {
		t.rise()
	}
	return all
}

// allFinished says whether no split will ever give another row.
func (t *tracker) allFinished() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.splits) > 0 && len(t.finished) == len(t.splits)
}

// join registers a split as live and returns the floor of its stamps.
func (t *tracker) join(s dataflow.Split, own dataflow.Time) dataflow.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	floor := t.w
	t.splits[s] = trackedSplit{own: max(own, floor), live: true, more: true}
	delete(t.finished, s)
	return floor
}

// setReplaying begins or ends a stretch of a replay.
func (t *tracker) setReplaying(on bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.replaying = on
}

// raise lifts w, at the end of a replay.
func (t *tracker) raise(w dataflow.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.w = max(t.w, w)
}

// splitClock is one split as its task sees it. The task's goroutine owns it.
type splitClock struct {
	split   dataflow.Split
	id      int32
	pos     dataflow.Position
	maxTime dataflow.Time
	floor   dataflow.Time
	status  checkpoint.SplitStatus
	bound   time.Duration
	// caught is when the split was first seen to be caught up; zero: it is not.
	caught time.Time
	// atUntil: nothing more is read of it in this stretch; ended: in this run.
	atUntil, ended bool
	// paused: its source holds it back, since it is too far ahead of the others.
	paused bool
	// fixed: its rows were sent again; it stands at the stamp of the last one.
	fixed bool
	// top is the row of the last batch that set maxTime, -1 if none did.
	top int
	// replay holds clock decisions still to be repeated, by position.
	replay []dataflow.ClockDecision
}

// live says whether the source's watermark waits for the split. One that had
// ended in an earlier run may have more now: until it says that it has ended, it
// is waited for, since otherwise the split that is read first would close the
// windows of the others. Its rows go on from the source's watermark, as those of
// a split that wakes up.
func (c *splitClock) live() bool {
	return c.status == checkpoint.Live || c.status == checkpoint.Ended && !c.ended
}

// more says whether more of it may be there to read, as far as is known.
func (c *splitClock) more() bool { return !c.atUntil && !c.ended && c.caught.IsZero() }

// tracked is what others need to know of the split.
func (c *splitClock) tracked() trackedSplit {
	return trackedSplit{own: c.own(), live: c.live(), more: c.more(), paused: c.paused}
}

// own is the split's watermark.
func (c *splitClock) own() dataflow.Time {
	if c.maxTime == dataflow.MinTime {
		return c.floor
	}
	return max(c.floor, c.maxTime.Sub(c.bound))
}

// stamp fills stamps with the watermark each row meets, and moves the clock.
// pos is only looked at while decisions are repeated.
func (c *splitClock) stamp(times []int64, pos []int64, stamps []int64) {
	if c.fixed {
		c.top = -1
		for i := range stamps {
			stamps[i] = int64(c.floor)
		}
		return
	}
	wm, top := int64(c.own()), int64(c.maxTime)
	bound := c.bound.Microseconds()
	last := -1
	for i, t := range times {
		for len(c.replay) > 0 && c.replay[0].Pos <= pos[i] {
			if d := c.replay[0]; !d.Refused && int64(d.Floor) > wm {
				wm, c.floor = int64(d.Floor), max(c.floor, d.Floor)
			}
			c.replay = c.replay[1:]
		}
		stamps[i] = wm
		if t > top {
			top, last = t, i
			if w := t - bound; w > wm {
				wm = w
			}
		}
	}
	c.maxTime, c.top = dataflow.Time(top), last
}

// goOnFrom settles where a split stands that is behind w, the source's watermark: a
// replay has lifted that to what a target had recorded, which did not wait for the
// split. Either it was found later than that, and so it is now, or it was idle.
func (c *splitClock) goOnFrom(w dataflow.Time) {
	switch {
	case c.status != checkpoint.Live || c.own() >= w:
	case c.maxTime == dataflow.MinTime:
		c.floor = w
	default:
		c.status = checkpoint.Idle
	}
}

// read is the event time of rows of processing time: the clock's, but never behind
// an earlier one.
func (c *splitClock) read(now time.Time) dataflow.Time {
	return max(dataflow.TimeOf(now), c.own())
}

// reach moves the clock without a row. The clock of a split that was found later
// starts with its first row, since that is a decision which is recorded.
func (c *splitClock) reach(t dataflow.Time) {
	if c.maxTime != dataflow.MinTime || c.floor == dataflow.MinTime {
		if t > c.maxTime {
			c.maxTime, c.top = t, -1
		}
	}
}

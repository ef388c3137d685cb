package operators

import "frazil/dataflow"

// orderedClock knows which windows are to give an early result by the clock:
// those with new rows, a fixed time after the first of them. The times are looked
// at with each batch, watermark and checkpoint.
type orderedClock struct {
	store *orderedStore
	after int64 // microseconds; 0: no such results
	now   int64 // of the clock, when it was last read
	queue []orderedTimer
}

func (c *orderedClock) read(env *dataflow.Env) {
	if c.after > 0 {
		c.now = max(1, env.Now().UnixMicro())
	}
}

// wait starts the time of a window with new rows, if it does not run yet.
func (c *orderedClock) wait(id uint32) {
	x := &c.store.windows[id]
	if c.after == 0 || x.since != 0 {
		return
	}
	x.since = c.now
	c.queue = append(c.queue, orderedTimer{c.now + c.after, id, x.gen})
}

// next returns a window whose time is over, or 0.
func (c *orderedClock) next() uint32 {
	for len(c.queue) > 0 && c.queue[0].at <= c.now {
		t := c.queue[0]
		c.queue = c.queue[1:]
		if x := &c.store.windows[t.id]; x.gen == t.gen && x.since != 0 && x.since+c.after <= c.now {
			return t.id
		}
	}
	return 0
}

// giveByClock gives the early results whose time has come.
func (w *windowOrdered) giveByClock() error {
	if w.clock.after == 0 {
		return nil
	}
	w.clock.read(w.env)
	for {
		id := w.clock.next()
		if id == 0 {
			return nil
		}
		if err := w.give(id, timingEarly, w.rowStamp()); err != nil {
			return err
		}
	}
}

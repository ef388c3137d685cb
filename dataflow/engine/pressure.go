package engine

import "frazil/dataflow/checkpoint"

// What is done about changes of the state that no epoch has made durable yet. They
// may take half of the memory for state (the other half is for what operators keep:
// see Graph.StateShare). Changes that are being written count twice: beside them are the
// tables that are made of them.
//
//   - At an eighth of the memory for state an epoch is asked for.
//   - Where an epoch is being written and the changes behind its barrier fill the
//     half, the tasks that have passed it take nothing more until it is durable.
//     Nothing waits for them there: what the epoch needs of them they have sent on.
//   - At a quarter, without an epoch that would take them away (a barrier is slow,
//     or commits wait), reading stops.
//
// What still goes beyond is what the rows in the queues of keyed steps change until
// a barrier behind them comes through; so these queues are short.
const (
	earlyEpochPart  = 8
	pausePart       = 4
	unwrittenPart   = 2
	keyedQueuesPart = 16
)

// unwritten is the state in bytes that waits for an epoch: changes, and those of
// them that are being written.
func (p *plant) unwritten() (all, frozen int64) {
	for _, ts := range p.keyed {
		for _, t := range ts {
			all += t.unwritten.Load()
			for _, kv := range t.chain.kvs {
				all += kv.DirtyBytes()
				frozen += kv.FrozenBytes()
			}
		}
	}
	if p.quar != nil { // Bad rows are kept by an epoch as well.
		all += p.quar.waiting.Load()
		for _, kv := range p.quar.chain.kvs {
			all += kv.DirtyBytes()
			frozen += kv.FrozenBytes()
		}
	}
	return all, min(frozen, all)
}

// relieve asks for an epoch, and lets reading stop, when much state waits for it.
func (c *coordinator) relieve() error {
	limit := c.j.o.StateMemory
	all, frozen := c.plant.unwritten()
	c.plant.paused.Store(all-frozen > limit/pausePart || c.held() > c.j.o.Memory/4)
	if all-frozen > limit/earlyEpochPart {
		return c.step(checkpoint.Tick{})
	}
	return nil
}

// released lets the tasks go on that waited for the epoch that is durable now.
func (p *plant) released() {
	for _, ts := range p.keyed {
		for _, t := range ts {
			t.in.release()
		}
	}
}

// press is called by a task that has changed its state.
func (t *keyedTask) press() {
	all, frozen := t.plant.unwritten()
	limit := t.plant.o.StateMemory
	if all-frozen > limit/earlyEpochPart {
		select {
		case t.plant.pressed <- struct{}{}:
		default:
		}
	}
	if all+frozen > limit/unwrittenPart {
		t.in.hold(t.beingWritten)
	}
}

// beingWritten says whether changes of the task are.
func (t *keyedTask) beingWritten() bool {
	for _, kv := range t.chain.kvs {
		if kv.FrozenBytes() > 0 {
			return true
		}
	}
	return false
}

// heldRowBytes is what a row that waits inside a step is taken to weigh.
const heldRowBytes = 256

// held estimates the bytes of rows that wait inside steps for a watermark.
func (c *coordinator) held() int64 {
	var n int64
	for _, ts := range c.plant.keyed {
		for _, t := range ts {
			n += t.stage.fates.Held.Load() * heldRowBytes
		}
	}
	return n
}

package engine

import (
	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
	"frazil/state"
)

// report is what a task hands over at a barrier: exactly the events before it
// on every input (I1).
type report struct {
	epoch  dataflow.Epoch
	region int
	counts map[string]dataflow.Counts
	sent   map[string]int64
	deltas []*state.Delta
	// closed is up to where this task has closed windows, by step.
	closed map[string]dataflow.Time
	source *sourceReport
	sink   *sinkReport
	// quarantine is set in the one that the quarantine's task gives for an epoch.
	quarantine *checkpoint.QuarantineCounts
}

type sourceReport struct {
	step string
	// watermark of the source as this task last sent it; sent is the same but
	// for a drain or an end, where it is MaxTime.
	watermark, sent dataflow.Time
	splits          map[dataflow.Split]*checkpoint.SplitState
	clock           []dataflow.ClockDecision
	// skipped records by reason and fields outside the schema by name, since the
	// last barrier.
	skipped, extra map[string]int64
}

type sinkReport struct {
	step      string
	watermark dataflow.Time
	pending   dataflow.Pending // nil: no rows
}

// taskChain lists the instances that one task drives, for its reports.
type taskChain struct {
	region int
	fates  []namedFates
	ports  []*outPort
	ops    []*opStage
	kvs    []*state.TaskKV
	// closed belongs to the keyed step of the task; nil: it has none.
	closed *dataflow.ClosedUpTo
}

type namedFates struct {
	step  string
	fates *dataflow.Fates
}

func (c *taskChain) report(e dataflow.Epoch) report {
	r := report{epoch: e, region: c.region, counts: map[string]dataflow.Counts{}, sent: map[string]int64{}}
	for _, f := range c.fates {
		r.counts[f.step] = r.counts[f.step].Plus(f.fates.Load())
	}
	for _, p := range c.ports {
		if p.name != "" {
			r.sent[p.name] += p.sent.Load()
		}
	}
	if c.closed != nil {
		r.closed = map[string]dataflow.Time{c.ops[0].step: c.closed.Raised()}
	}
	for _, kv := range c.kvs {
		r.deltas = append(r.deltas, kv.Freeze())
	}
	return r
}

// close closes the operators of the chain, all of them whatever happens.
func (c *taskChain) close() error {
	var first error
	for _, s := range c.ops {
		if err := s.op.Close(); err != nil && first == nil {
			first = s.wrap(err)
		}
	}
	return first
}

func portName(step, port string) string {
	if port == dataflow.PortOut {
		return step
	}
	return step + "." + port
}

package rehearsal

import (
	"fmt"
	"slices"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/engine"
)

// Lane is a split of a source step.
type Lane struct {
	Source string
	Split  dataflow.Split
}

// Record is one record of a lane.
type Record struct {
	Payload []byte
	// Arrived is when it came; MinTime: not known.
	Arrived dataflow.Time
	// Meta is a JSON object with the columns that the source gives beside those of
	// the payload; nil: they are null.
	Meta []byte
	// Reached: there is no payload, the split's event times have come so far.
	Reached *dataflow.Time
}

// Kind is what a step does.
type Kind int

// The kinds of steps.
const (
	Read       Kind = iota // the next N records of Lane
	Idle                   // Lane is caught up for D
	Clock                  // the clock goes on by D
	Sync                   // every task sends its source's watermark
	Checkpoint             // an epoch
	Show                   // an epoch; what is committed then is noted
	Kill                   // a crash; the run goes on from the last epoch
	Restart                // a stop with a checkpoint, and a start
	Drain                  // the sources end and everything is flushed; a start
)

// Step is one thing that happens.
type Step struct {
	Kind Kind
	Lane Lane
	N    int
	D    time.Duration
}

// fence says whether records before and after s must not be swapped.
func (s Step) fence() bool { return s.Kind != Read && s.Kind != Checkpoint }

// Piece is what is played. Make it with [New].
type Piece struct {
	// Lanes in the order in which they end; Records of each.
	Lanes   []Lane
	Records map[Lane][]Record
	// Steps, the last of which is a Drain.
	Steps []Step
	// Start is what the clock shows in the beginning.
	Start time.Time

	load    func(parallelism int) (*engine.Graph, error)
	sources []string
	// Sinks by name in the order of the graph; Schema and Key of each.
	Sinks []Output
	// ChangeReaders read changes and ChangeMakers give some: how many is free, so
	// no count of them is the same in all variants.
	ChangeReaders, ChangeMakers map[string]bool
	// shuffles: other interleavings must give the same; replays: a lost state can
	// be made again.
	shuffles, replays bool
	// free: a step may give other rows whatever the order is, by the clock.
	free bool
}

// Output is one sink of a piece.
type Output struct {
	Name string
	// Stream that it reads. Of a changelog the table is noted that its changes
	// make.
	Stream dataflow.Stream
}

// New prepares a piece around the graph that load makes for a parallelism. Its
// sources and sinks are replaced; load is called once for each variant.
func New(load func(parallelism int) (*engine.Graph, error)) (*Piece, error) {
	g, err := load(1)
	if err != nil {
		return nil, err
	}
	p := &Piece{load: load, Records: map[Lane][]Record{}}
	p.shuffles, p.replays = true, len(g.Sources) == 1
	for _, src := range g.Sources {
		p.sources = append(p.sources, src.Name)
		if src.Tasks == 1 {
			p.shuffles, p.replays = false, false
		}
	}
	for _, op := range g.Operators {
		p.free = p.free || op.Plan.NotReplayable != "" && !op.Plan.ByOrder
	}
	p.ChangeMakers, p.ChangeReaders = Changes(g)
	for _, k := range g.Sinks {
		p.Sinks = append(p.Sinks, Output{Name: k.Name, Stream: StreamOf(g, k.Input)})
		if k.NotReplayable != "" {
			p.shuffles, p.replays = false, false
		}
	}
	return p, nil
}

// Changes tells which steps give changes and which read some.
func Changes(g *engine.Graph) (makers, readers map[string]bool) {
	makers, readers = map[string]bool{}, map[string]bool{}
	for _, op := range g.Operators {
		for _, in := range op.Inputs {
			readers[op.Name] = readers[op.Name] || StreamOf(g, in).Changelog
		}
		for _, port := range op.Plan.Ports {
			makers[op.Name] = makers[op.Name] || port.Stream.Changelog
		}
	}
	for _, k := range g.Sinks {
		readers[k.Name] = StreamOf(g, k.Input).Changelog
	}
	return makers, readers
}

// StreamOf is what a port of g gives.
func StreamOf(g *engine.Graph, ref engine.PortRef) dataflow.Stream {
	for _, s := range g.Sources {
		if s.Name == ref.Step {
			return s.Ports()[ref.Port].Stream
		}
	}
	for _, op := range g.Operators {
		if op.Name == ref.Step {
			return op.Plan.Ports[ref.Port].Stream
		}
	}
	return dataflow.Stream{}
}

// Add appends records to a lane and a step that reads them: the last one, if
// that reads the same lane.
func (p *Piece) Add(l Lane, records ...Record) {
	p.Records[l] = append(p.Records[l], records...)
	if n := len(p.Steps); n > 0 && p.Steps[n-1].Kind == Read && p.Steps[n-1].Lane == l {
		p.Steps[n-1].N += len(records)
		return
	}
	p.Steps = append(p.Steps, Step{Kind: Read, Lane: l, N: len(records)})
}

// AddLane makes a lane known.
func (p *Piece) AddLane(l Lane) {
	if !slices.Contains(p.Lanes, l) {
		p.Lanes = append(p.Lanes, l)
	}
}

// Finish gives every source that has none a lane, and the piece its Drain.
func (p *Piece) Finish() {
	for _, s := range p.sources {
		if len(p.splits(s)) == 0 {
			p.AddLane(Lane{Source: s, Split: "p0"})
		}
	}
	if n := len(p.Steps); n == 0 || p.Steps[n-1].Kind != Drain {
		p.Steps = append(p.Steps, Step{Kind: Drain})
	}
}

// check finds mistakes of whoever made the piece.
func (p *Piece) check() error {
	if n := len(p.Steps); n == 0 || p.Steps[n-1].Kind != Drain {
		return fmt.Errorf("the last step is no drain")
	}
	for _, s := range p.Steps {
		if (s.Kind == Read || s.Kind == Idle) && !slices.Contains(p.Lanes, s.Lane) {
			return fmt.Errorf("a step names the lane %s/%s, which is not there", s.Lane.Source, s.Lane.Split)
		}
	}
	return nil
}

// splits of one source, in order.
func (p *Piece) splits(source string) []dataflow.Split {
	var out []dataflow.Split
	for _, l := range p.Lanes {
		if l.Source == source {
			out = append(out, l.Split)
		}
	}
	return out
}

package pipelines

import (
	"fmt"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/engine"

	"github.com/apache/arrow-go/v18/arrow"
)

// defaultDiscovery is how often new splits are looked for.
const defaultDiscovery = 30 * time.Second

// eventTimeConfig is the event_time block of a source.
type eventTimeConfig struct {
	// Column that holds the event time: timestamptz, or timestamp taken as UTC.
	// Required, unless processing_time takes its place.
	Column string `yaml:"column" choose:"one"`
	// OutOfOrderness is how much later than the largest event time so far a row
	// may be without being late, per split. Required with column.
	OutOfOrderness component.Duration `yaml:"out_of_orderness"`
	// ProcessingTime gives each row the time of the clock when it was read, and
	// the watermark follows the clock: windows are windows of processing time. No
	// row is late. The source cannot be replayed: a row that is read again after a
	// crash gets another time. Default: false.
	ProcessingTime bool `yaml:"processing_time" choose:"one"`
	// IdleAfter leaves a split out of the watermark once it has been caught up,
	// without a row, for so long. Default: off.
	IdleAfter component.Duration `yaml:"idle_after"`
	// MaxAhead refuses a row (port bad) whose event time is further ahead of its
	// arrival. Default: off.
	MaxAhead component.Duration `yaml:"max_ahead"`
	// MaxDrift holds splits back that are further ahead of the slowest one in event
	// time, so that a backfill of uneven splits does not pile up open windows. A
	// split that has nothing more to read is not waited for. It changes no result.
	// Default: off.
	MaxDrift component.Duration `yaml:"max_drift"`
	// DiscoverEvery is how often new splits are looked for. Default: 30s.
	DiscoverEvery component.Duration `yaml:"discover_every"`
}

func (l *loader) readEventTime(s *step) {
	n := s.node.Get("event_time")
	if n == nil {
		return
	}
	s.eventTime = &eventTimeConfig{DiscoverEvery: component.Duration(defaultDiscovery)}
	l.problems = append(l.problems, component.Decode(n, s.eventTime)...)
	if !s.eventTime.ProcessingTime {
		for _, key := range []string{"column", "out_of_orderness"} {
			if n.Get(key) == nil {
				l.add(n, key, "required key %q is missing", key)
			}
		}
		return
	}
	for _, key := range []string{"column", "out_of_orderness", "idle_after", "max_ahead", "max_drift"} {
		if k := n.Get(key); k != nil {
			l.add(k, "", "%s is about times that rows carry: leave it out beside processing_time", key)
		}
	}
}

// printed is what the fingerprint of a source covers: not what changes no row.
func (c *eventTimeConfig) printed() *eventTimeConfig {
	if c == nil {
		return nil
	}
	out := *c
	out.MaxDrift = 0
	return &out
}

// planEventTime checks the block against the columns of the source.
func planEventTime(c *eventTimeConfig, source string, plan component.SourcePlan) (*engine.EventTime, error) {
	if c.DiscoverEvery.D() < time.Second {
		return nil, component.Badf("discover_every", "expected 1s or more, got %s", c.DiscoverEvery)
	}
	if c.ProcessingTime {
		return &engine.EventTime{Processing: true}, nil
	}
	schema := plan.Schema
	var names []string
	for _, f := range dataflow.UserFields(schema) {
		names = append(names, f.Name)
	}
	i := dataflow.Column(schema, c.Column)
	if i < 0 || dataflow.IsSystem(c.Column) {
		return nil, component.Badf("column", "the source has no column %q%s; columns: %s", c.Column, component.DidYouMean(c.Column, names), component.Names(names))
	}
	t := schema.Field(i).Type
	if t.ID() != arrow.TIMESTAMP {
		return nil, component.Badf("column", "%s", notATime(c.Column, t))
	}
	if c.MaxDrift > 0 && !plan.Pauses {
		return nil, component.Badf("max_drift", "the source %s cannot hold some of its splits back: leave max_drift out", source)
	}
	return &engine.EventTime{
		Column: c.Column, OutOfOrderness: c.OutOfOrderness.D(), IdleAfter: c.IdleAfter.D(), MaxAhead: c.MaxAhead.D(), MaxDrift: c.MaxDrift.D(),
	}, nil
}

func notATime(column string, t arrow.DataType) string {
	name := dataflow.TypeName(t)
	if arrow.IsInteger(t.ID()) || arrow.IsFloating(t.ID()) || arrow.IsDecimal(t.ID()) {
		return fmt.Sprintf("column %q is %s: a number that is a time names its unit; write timestamptz(ms), or (s), (us), (ns), as its type in the decode schema", column, name)
	}
	if t.ID() == arrow.STRING {
		return fmt.Sprintf("column %q is %s: expected timestamptz; text times are RFC 3339, write timestamptz as its type in the decode schema", column, name)
	}
	return fmt.Sprintf("column %q is %s: expected timestamptz or timestamp", column, name)
}

package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"frazil/dataflow"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// version of the records of the positions topic.
const version = 1

// recordKey is the key of a record of the positions topic.
type recordKey struct {
	Pipeline string `json:"pipeline"`
	Sink     string `json:"sink"`
	// Clock numbers the records that hold clock decisions, from 1; 0: this one holds
	// positions.
	Clock int `json:"clock,omitempty"`
}

// record is what the topic holds of one pipeline and sink: the newest one counts.
type record struct {
	V          int                      `json:"v"`
	Positions  dataflow.Positions       `json:"positions"`
	Start      dataflow.Positions       `json:"start,omitempty"`
	Plan       string                   `json:"plan"`
	Watermarks map[string]dataflow.Time `json:"watermarks,omitempty"`
	Claim      dataflow.Claim           `json:"claim"`
	// Commits are the IDs of the last commits that have one.
	Commits []string `json:"commits,omitempty"`
	// Clocks counts the records of clock decisions.
	Clocks int `json:"clocks,omitempty"`
	// Epoch, Time, Rows and Late are for people: the commit that wrote this.
	Epoch dataflow.Epoch `json:"epoch"`
	Time  string         `json:"time"`
	Rows  int64          `json:"rows"`
	Late  int64          `json:"late"`
}

// positions follows the topic that holds the positions, in the order of its log.
type positions struct {
	cfg            Config
	pipeline, sink string
	client         *kgo.Client
	admin          *kadm.Client
	// next is the offset that was not read yet; id and topicID are the topic's.
	next    int64
	id      string
	topicID kadm.TopicID
	// least is where the topic ends at least: behind what this process has committed. A
	// broker that has just started again may not know yet how far it was; short is since
	// when it says less.
	least int64
	short time.Time
	now   func() time.Time
	// openFor is how long open transactions are waited for.
	openFor time.Duration

	held   *record // nil: there is none
	clocks map[int][]dataflow.ClockDecision
}

func newPositions(env *dataflow.Env, cfg Config) (*positions, error) {
	cl, err := newClient(env, cfg)
	if err != nil {
		return nil, err
	}
	now := env.Now
	if now == nil {
		now = time.Now
	}
	return &positions{cfg: cfg, pipeline: env.Pipeline, sink: env.Step, client: cl, admin: kadm.NewClient(cl), now: now, openFor: openFor, clocks: map[int][]dataflow.ClockDecision{}}, nil
}

func (p *positions) close() { p.client.Close() }

// make makes the topic if it is not there.
func (p *positions) make(ctx context.Context) error {
	all, err := p.admin.ListTopics(ctx, p.cfg.PositionsTopic)
	if err != nil {
		return classify(fmt.Errorf("look for topic %q: %w", p.cfg.PositionsTopic, err))
	}
	if all.Has(p.cfg.PositionsTopic) {
		return nil
	}
	if err := create(ctx, p.admin, p.cfg.PositionsTopic, TopicConfig{Partitions: 1, ReplicationFactor: -1, Config: map[string]string{"cleanup.policy": "compact"}}); err != nil {
		return err
	}
	return p.known(ctx)
}

// madeWithin bounds the wait until a broker knows of a topic that was made.
const madeWithin = 10 * time.Second

// known waits until the broker that leads the topic knows of it: that is a moment after it
// was made.
func (p *positions) known(ctx context.Context) error {
	for began := time.Now(); ; {
		ends, err := p.admin.ListEndOffsets(ctx, p.cfg.PositionsTopic)
		if err == nil {
			err = ends.Error()
		}
		if !errors.Is(err, kerr.UnknownTopicOrPartition) || time.Since(began) > madeWithin {
			return classify(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// shortFor is how long a topic may end before what was read or committed.
const shortFor = time.Minute

// isWhole fails where the topic ends before what is known to be in it: with an error that
// time may heal, and after a while with one that it does not.
func (p *positions) isWhole(end int64) error {
	least := max(p.next, p.least)
	if end >= least {
		p.short = time.Time{}
		return nil
	}
	now := p.now()
	if p.short.IsZero() {
		p.short = now
	}
	if now.Sub(p.short) < shortFor {
		return dataflow.Unavailable(fmt.Errorf("topic %q ends at %d, and had records up to %d: its broker has not caught up with its own log", p.cfg.PositionsTopic, end, least))
	}
	return dataflow.Permanentf("topic %q has lost records: it ends at %d, and had some up to %d. The positions in it are those of the tables' last commits: restore it, or give the sink another positions_topic and topic to start afresh", p.cfg.PositionsTopic, end, least)
}

// take reads one record.
func (p *positions) take(r *kgo.Record) error {
	var k recordKey
	if err := json.Unmarshal(r.Key, &k); err != nil {
		return dataflow.Permanentf("offset %d of topic %q has the key %q, which is none of Frazil's: use another positions_topic", r.Offset, r.Topic, r.Key)
	}
	if k.Pipeline != p.pipeline || k.Sink != p.sink {
		return nil
	}
	unreadable := func(err error) error {
		return dataflow.Permanentf("offset %d of topic %q cannot be read: %w", r.Offset, r.Topic, err)
	}
	if k.Clock > 0 {
		var c []dataflow.ClockDecision
		if err := json.Unmarshal(r.Value, &c); err != nil {
			return unreadable(err)
		}
		p.clocks[k.Clock] = c
		return nil
	}
	if r.Value == nil {
		p.held = nil // Somebody removed it.
		return nil
	}
	var x record
	if err := json.Unmarshal(r.Value, &x); err != nil {
		return unreadable(err)
	}
	if x.V > version {
		return dataflow.Permanentf("offset %d of topic %q is of version %d, and this program knows up to %d: use the version that wrote it, or a newer one", r.Offset, r.Topic, x.V, version)
	}
	p.held = &x
	return nil
}

// committed is what the topic holds.
func (p *positions) committed() dataflow.Committed {
	out := dataflow.Committed{ID: p.id, ClockComplete: true}
	if p.held == nil {
		return out
	}
	out.Claim = p.held.Claim
	if len(p.held.Positions) > 0 {
		out.Positions, out.Start, out.Plan, out.Watermarks = p.held.Positions, p.held.Start, p.held.Plan, p.held.Watermarks
		out.Commits = p.held.Commits
	}
	for n := 1; n <= p.held.Clocks; n++ {
		c, ok := p.clocks[n]
		out.ClockComplete = out.ClockComplete && ok
		out.Clock = append(out.Clock, c...)
	}
	return out
}

// apply takes what was just committed, up to before the offset end, for read.
func (p *positions) apply(next record, clock []dataflow.ClockDecision, end int64) {
	p.least = max(p.least, end)
	next.Clocks = p.clockCount(clock)
	if len(clock) > 0 {
		p.clocks[next.Clocks] = clock
	}
	p.held = &next
}

// clockCount counts the records of clock decisions when clock is there too.
func (p *positions) clockCount(clock []dataflow.ClockDecision) int {
	n := 0
	if p.held != nil {
		n = p.held.Clocks
	}
	if len(clock) > 0 {
		n++
	}
	return n
}

// records are those that put next in the place of what is held, with new clock
// decisions.
func (p *positions) records(next record, clock []dataflow.ClockDecision) ([]*kgo.Record, error) {
	next.V, next.Clocks = version, p.clockCount(clock)
	var out []*kgo.Record
	add := func(k recordKey, value any) error {
		key, err := json.Marshal(k)
		if err != nil {
			return err
		}
		text, err := json.Marshal(value)
		out = append(out, &kgo.Record{Topic: p.cfg.PositionsTopic, Partition: 0, Key: key, Value: text})
		return err
	}
	if len(clock) > 0 {
		if err := add(recordKey{p.pipeline, p.sink, next.Clocks}, clock); err != nil {
			return nil, err
		}
	}
	return out, add(recordKey{Pipeline: p.pipeline, Sink: p.sink}, next)
}

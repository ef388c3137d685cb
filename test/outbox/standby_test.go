package outbox

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"frazil/dataflow/flowtest/program"
	"frazil/dataflow/flowtest/rig"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const twice = `
sources:
  events: {outbox: {%s}}
sinks:
  relay:
    from: events
    kafka:
      brokers: [%q]
      topic: %s
      key: aggregate_id
      value: payload
      headers: {id: id}
      create_topics: {partitions: 1, replication_factor: 1}
checkpoint: {every: 100ms}
`

// pair is two instances of one relay, which share a state directory, and a shop that goes
// on writing.
type pair struct {
	t      *testing.T
	s      *shop
	place  *program.Place
	broker string
	topic  string
}

func newPair(t *testing.T, m mode) *pair {
	t.Helper()
	_, s, source := m.open(t, 1)
	name := fmt.Sprintf("twice-%d", time.Now().UnixNano())
	p := &pair{t: t, s: s, broker: rig.Kafka(t), topic: name}
	p.place = program.New(t, name, fmt.Sprintf(twice, source, p.broker, p.topic))
	s.work(1, 3)
	return p
}

// count is how many records a reader of what is committed sees.
func (p *pair) count() int {
	p.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(p.broker))
	must(p.t, err)
	defer cl.Close()
	there, err := kadm.NewClient(cl).ListTopics(p.t.Context())
	must(p.t, err)
	if !there.Has(p.topic) {
		return 0
	}
	return len(rig.Committed(p.t, p.broker, p.topic))
}

// grows waits until r has relayed more.
func (p *pair) grows(r *program.Process) {
	p.t.Helper()
	before := p.count()
	r.Until("more records", func() bool { return p.count() > before+20 })
}

// end compares the topic with what the shop has committed.
func (p *pair) end(r *program.Process) {
	p.t.Helper()
	p.s.close()
	p.s.last()
	want := p.s.events()
	r.Until("the last record", func() bool { return p.count() >= len(want) })
	r.Terminate()
	if wrong := compare(readTopic(p.t, p.broker, p.topic), want); wrong != "" {
		p.t.Error(wrong)
	}
}

// TestAStandbyTakesOver: of two instances the second is refused, or waits with --standby and
// goes on where the first was killed, again and again; each event is in the topic once, in
// the order of its aggregate.
func TestAStandbyTakesOver(t *testing.T) {
	program.Long(t)
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, m)
			running := p.place.Start(nil, "run", p.place.File)
			p.grows(running)
			p.place.Fail(1, []string{"is in use by process", "--standby"}, "run", p.place.File)
			for range 4 {
				other := p.place.Start(nil, "run", "--standby", p.place.File)
				other.Until("it stands by", func() bool { return strings.Contains(other.Stderr.String(), "standing by") })
				p.grows(running)
				running.Kill()
				p.grows(other)
				running = other
			}
			idle := p.place.Start(nil, "run", "--standby", p.place.File)
			idle.Until("it stands by", func() bool { return strings.Contains(idle.Stderr.String(), "standing by") })
			idle.Terminate()
			p.end(running)
		})
	}
}

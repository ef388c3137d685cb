package network

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// dataStart is the first event time; events move on from it in milliseconds.
var dataStart = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)

// windowWidth is the pipeline's.
const windowWidth = 10 * time.Second

// event is a record that was sent, and its place where the server told one.
type event struct {
	id   int
	part int32
	at   int64
	et   time.Time
}

// check tells a row that was changed on its way.
func (e event) check() string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%d %d", e.id, e.et.UnixMilli())))[:16]
}

func (e event) payload() []byte {
	return fmt.Appendf(nil, `{"id":%d,"et":%d,"check":%q}`, e.id, e.et.UnixMilli(), e.check())
}

func instant(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// sent is what was sent and acknowledged.
type sent struct {
	mu     sync.Mutex
	rng    *rand.Rand
	events []event
	next   int
	now    time.Duration
}

func newSent(seed uint64) *sent { return &sent{rng: rand.New(rand.NewPCG(seed, 1))} }

// make makes the next event.
func (s *sent) make(parts int32) event {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	s.now += time.Duration(s.rng.IntN(50)) * time.Millisecond
	// Up to 2 s behind, within the 5 s that the pipeline waits.
	return event{id: s.next, part: s.rng.Int32N(parts), et: dataStart.Add(s.now - time.Duration(s.rng.IntN(2000))*time.Millisecond)}
}

func (s *sent) add(e event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

// rows are those that the tables must hold: all events, and the windows that end
// before the last of each partition.
func (s *sent) rows() (raw, windows []string) {
	type key struct {
		part  int32
		start time.Time
	}
	type group struct{ n, sum int }
	groups := map[key]*group{}
	for _, e := range s.events {
		raw = append(raw, fmt.Sprintf(`{"id":%d,"part":%d,"at":%d,"et":%q,"check":%q}`, e.id, e.part, e.at, instant(e.et), e.check()))
		k := key{e.part, e.et.Truncate(windowWidth)}
		if groups[k] == nil {
			groups[k] = &group{}
		}
		groups[k].n++
		groups[k].sum += e.id
	}
	maps.DeleteFunc(groups, func(k key, _ *group) bool { return k.start.After(dataStart.Add(lastEvent / 2)) })
	for k, g := range groups {
		windows = append(windows, fmt.Sprintf(`{"part":%d,"window_start":%q,"window_end":%q,"n":%d,"s":%d}`,
			k.part, instant(k.start), instant(k.start.Add(windowWidth)), g.n, g.sum))
	}
	return raw, windows
}

// lastEvent is when, after dataStart, the last event of each partition is: far
// beyond all others, so that their windows close.
const lastEvent = 1000 * time.Hour

// topic is a topic of one portion and its producer, which does not use the link.
type topic struct {
	t      *testing.T
	name   string
	parts  int32
	client *kgo.Client
	sent   *sent
	flying sync.WaitGroup
	failed chan error
}

func newTopic(t *testing.T, broker, name string, parts int32, seed uint64) *topic {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.MetadataMinAge(50*time.Millisecond), kgo.MetadataMaxAge(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	keep := "-1"
	resp, err := kadm.NewClient(cl).CreateTopic(t.Context(), parts, 1, map[string]*string{"retention.ms": &keep}, name)
	if err != nil || resp.Err != nil {
		t.Fatal(err, resp.Err)
	}
	return &topic{t: t, name: name, parts: parts, client: cl, sent: newSent(seed), failed: make(chan error, 1)}
}

func (p *topic) log() *sent { return p.sent }

// put sends one event; the producer repeats it until the broker has it, once.
func (p *topic) put(e event) {
	p.flying.Add(1)
	p.client.Produce(context.Background(), &kgo.Record{Topic: p.name, Partition: e.part, Value: e.payload()}, func(r *kgo.Record, err error) {
		defer p.flying.Done()
		if err != nil {
			select {
			case p.failed <- err:
			default:
			}
			return
		}
		e.at = r.Offset
		p.sent.add(e)
	})
}

// feed sends some events ten times a second until the returned function is called,
// which then sends the last ones and waits until the broker has all.
func (p *topic) feed() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			for range 20 {
				p.put(p.sent.make(p.parts))
			}
			select {
			case <-tick.C:
			case <-quit:
				return
			}
		}
	}()
	return func() {
		p.t.Helper()
		close(quit)
		<-done
		for part := range p.parts {
			e := p.sent.make(1)
			e.part, e.et = part, dataStart.Add(lastEvent)
			p.put(e)
		}
		p.flying.Wait()
		select {
		case err := <-p.failed:
			p.t.Fatalf("produce: %v", err)
		default:
		}
	}
}

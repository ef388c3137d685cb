package crash_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"frazil/dataflow/flowtest/program"
	"frazil/dataflow/flowtest/rig"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestUntilIdleEndsWhenNothingComes(t *testing.T) {
	program.Long(t)
	b := newBroker(t, kafka(t))
	topic := b.topic(2)
	b.put(values(topic, 0, ids(1, 2)...)...)
	p := newPlace(t, "case", appending(b, topic, "200ms"))
	idle := func() string { return p.Run("run", p.File, "--until", "idle=1s") }
	idle()
	p.wantIDs(1, 2)
	before := fmt.Sprint(p.List())
	if out := idle(); !strings.Contains(out, "nothing more to do") {
		t.Errorf("a second run says:\n%s", out)
	}
	if after := fmt.Sprint(p.List()); after != before {
		t.Errorf("a second run changed the table from %s to %s", before, after)
	}
	b.put(values(topic, 1, ids(3)...)...)
	idle()
	p.wantIDs(1, 2, 3)
}

func TestPartitionsAddedWhileRunningAreReadFromTheirStart(t *testing.T) {
	program.Long(t)
	b := newBroker(t, kafka(t))
	topic := b.topic(1)
	b.put(values(topic, 0, at(1, 1))...)
	p := newPlace(t, "case", timed(b, topic, "5s", ", discover_every: 1s", "k"))
	p.Write(p.File, strings.Replace(p.Text(), "group:", "start: latest, group:", 1))
	r := p.Start(nil, "run", p.File)
	// The start is latest: what is there is not read, what comes is.
	r.Until("the state", func() bool { return strings.Contains(r.Stderr.String(), "running") })
	r.Until("a row of the first partition", func() bool {
		b.put(values(topic, 0, at(2, 10))...)
		return p.List()["t.raw"].Snapshot != ""
	})
	b.put(values(topic, 0, at(3, 100))...)
	if _, err := b.admin.CreatePartitions(t.Context(), 2, topic); err != nil {
		t.Fatal(err)
	}
	var late []*kgo.Record
	for i := range 5 {
		late = append(late, values(topic, int32(1+i%2), at(4, 1000+i))...)
	}
	program.Await(t, "the new partitions", func() bool { return b.cl.ProduceSync(t.Context(), late[0]).FirstErr() == nil })
	b.put(late[1:]...)
	want := map[string]int{"1000": 1, "1001": 1, "1002": 1, "1003": 1, "1004": 1, "100": 1}
	values := func() map[string]int {
		got := map[string]int{}
		for _, r := range p.Rows("t.raw") {
			got[fmt.Sprint(r["v"])]++
		}
		return got
	}
	r.Until("the rows of the new partitions", func() bool {
		got := values()
		for v := range want {
			if got[v] == 0 {
				return false
			}
		}
		return true
	})
	r.Terminate()
	for v, n := range values() {
		if v != "10" && n != want[v] {
			t.Errorf("the row %s is there %d times, want %d", v, n, want[v])
		}
	}
}

func TestABrokerThatRestartsUnderLoadLosesNothing(t *testing.T) {
	program.Long(t)
	own := rig.NewBroker(t)
	b := newBroker(t, own.Addr)
	topic := b.topic(2)
	p := newPlace(t, "case", appending(b, topic, "200ms"))
	r := p.Start(nil, "run", p.File)
	n := 0
	// load writes without waiting, so that the broker goes down in the midst.
	load := func() (all chan error, count int) {
		all = make(chan error, 3000)
		for range 3000 {
			n++
			b.cl.Produce(t.Context(), values(topic, int32(n%2), fmt.Sprintf(`{"id":%d}`, n))[0], func(_ *kgo.Record, err error) { all <- err })
		}
		return all, 3000
	}
	for _, down := range []func(){own.Stop, own.Kill} {
		acks, count := load()
		if err := <-acks; err != nil {
			t.Fatal(err)
		}
		down()
		if err := own.Start(); err != nil {
			t.Fatal(err)
		}
		for range count - 1 {
			if err := <-acks; err != nil {
				t.Fatal(err)
			}
		}
		r.Until("all rows in the table", func() bool { return p.List()["t.r"].Rows.String() == fmt.Sprint(n) })
	}
	r.Terminate()
	var all []int
	for i := range n {
		all = append(all, i+1)
	}
	p.wantIDs(all...)
	if strings.Contains(r.Stderr.String(), "level=ERROR") {
		t.Errorf("the program did not take it calmly:\n%s", program.Tail(r.Stderr.String(), 3000))
	}
}

func TestARecreatedTopicIsAGap(t *testing.T) {
	program.Long(t)
	b := newBroker(t, kafka(t))
	topic := b.topic(1)
	b.put(values(topic, 0, ids(1, 2, 3)...)...)
	p := newPlace(t, "case", appending(b, topic, "200ms"))
	p.ToEnd()
	if _, err := b.admin.DeleteTopics(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	program.Await(t, "the topic to be made again", func() bool {
		resp, err := b.admin.CreateTopic(t.Context(), 1, 1, nil, topic)
		return err == nil && resp.Err == nil
	})
	cl := b.client() // The other one knows the topic that is gone.
	program.Await(t, "the new topic", func() bool {
		return cl.ProduceSync(t.Context(), values(topic, 0, ids(11, 12, 13, 14, 15)...)...).FirstErr() == nil
	})
	p.Fail(1, []string{topic, "recreated"}, "run", p.File, "--until", "end")
	p.wantIDs(1, 2, 3)
	p.Write(p.File, strings.Replace(p.Text(), "group:", "on_gap: continue, group:", 1))
	p.ToEnd()
	p.wantIDs(1, 2, 3, 11, 12, 13, 14, 15)
}

// The clock decides that a split is idle, and from where it goes on: tables tell,
// and a run without the state repeats it.
func TestClockDecisionsAreRepeatedWithoutTheState(t *testing.T) {
	program.Long(t)
	b := newBroker(t, kafka(t))
	topic := b.topic(3)
	p := newPlace(t, "main-job", mainOnTopic(b, topic, "event", "500ms"))
	x := &trial{place: p, feed: &topicFeeder{lying{}, b}, order: "event", rng: program.Random(t), decisions: map[decision]bool{}}
	// Splits take turns, each long enough for the others to turn idle.
	s := shape{weights: []int{1, 1, 1}, records: 12_000, across: true, tombstones: true}
	for i := range s.weights {
		s.splits = append(s.splits, fmt.Sprintf("%s/%d", topic, i))
	}
	x.records = makeRecords(x.rng, s)
	r := p.Start(nil, "run", p.File)
	const turns = 12
	for i := range turns {
		from := time.Now()
		part := x.records[i*len(x.records)/turns : (i+1)*len(x.records)/turns]
		mine, others := part[:0:0], part[:0:0]
		for _, rec := range part {
			if rec.split == s.splits[i%3] {
				mine = append(mine, rec)
			} else {
				others = append(others, rec)
			}
		}
		x.feed.put(mine[:len(mine)/2])
		r.Until("the turn to be over", func() bool { return time.Since(from) > time.Second })
		x.feed.put(mine[len(mine)/2:])
		x.feed.put(others)
	}
	r.Terminate()
	p.ToEnd()
	x.checkEnd()
	if len(x.decisions) == 0 {
		t.Error("no split ever woke up: the input shows nothing")
	}
	before := fmt.Sprint(p.Contents())
	p.RemoveState("state")
	p.ToEnd()
	if now := fmt.Sprint(p.Contents()); now != before {
		t.Errorf("a run without the state changed the tables from\n%s to\n%s", before, now)
	}
	x.checkEnd()
}

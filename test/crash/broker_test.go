package crash_test

import (
	"fmt"
	"maps"
	"math/rand"
	"strings"
	"testing"
	"time"

	"frazil/dataflow/flowtest/program"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// broker fills topics and looks at groups.
type broker struct {
	t     *testing.T
	addr  string
	cl    *kgo.Client
	admin *kadm.Client
}

// newBroker connects to the broker at addr.
func newBroker(t *testing.T, addr string) *broker {
	t.Helper()
	b := &broker{t: t, addr: addr}
	b.cl = b.client()
	b.admin = kadm.NewClient(b.cl)
	return b
}

func (b *broker) client(opts ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(b.addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.MetadataMinAge(50 * time.Millisecond), kgo.MetadataMaxAge(time.Second), kgo.RecordDeliveryTimeout(program.Patience),
	}, opts...)...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(cl.Close)
	return cl
}

// topic makes a topic with a name of its own.
func (b *broker) topic(partitions int32) string {
	b.t.Helper()
	name := fmt.Sprintf("crash-%s-%08x", strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(b.t.Name())), rand.Uint32())
	b.create(name, partitions)
	return name
}

// create makes a topic that keeps old event times.
func (b *broker) create(name string, partitions int32) {
	b.t.Helper()
	keep := "-1"
	resp, err := b.admin.CreateTopic(b.t.Context(), partitions, 1, map[string]*string{"retention.ms": &keep}, name)
	if err != nil || resp.Err != nil {
		b.t.Fatal(err, resp.Err)
	}
}

// put writes records in one go and waits until the broker has them.
func (b *broker) put(records ...*kgo.Record) {
	b.t.Helper()
	if err := b.cl.ProduceSync(b.t.Context(), records...).FirstErr(); err != nil {
		b.t.Fatal(err)
	}
}

// values makes records of one partition.
func values(topic string, partition int32, values ...string) []*kgo.Record {
	var out []*kgo.Record
	for _, v := range values {
		out = append(out, &kgo.Record{Topic: topic, Partition: partition, Value: []byte(v)})
	}
	return out
}

// offsets are the group's offsets by partition; absent ones are left out.
func (b *broker) offsets(group, topic string) map[int32]int64 {
	b.t.Helper()
	resp, err := b.admin.FetchOffsets(b.t.Context(), group)
	if err != nil {
		b.t.Fatal(err)
	}
	out := map[int32]int64{}
	for p, o := range resp[topic] {
		if o.Err != nil {
			b.t.Fatal(o.Err)
		}
		if o.At >= 0 {
			out[p] = o.At
		}
	}
	return out
}

// awaitOffsets waits until the group stands at want.
func (b *broker) awaitOffsets(group, topic string, want map[int32]int64) {
	b.t.Helper()
	var got map[int32]int64
	end := time.Now().Add(30 * time.Second)
	program.Await(b.t, fmt.Sprintf("group offsets %v of %s", want, group), func() bool {
		got = b.offsets(group, topic)
		if time.Now().After(end) {
			b.t.Fatalf("the group %s stands at %v, want %v", group, got, want)
		}
		return maps.Equal(got, want)
	})
}

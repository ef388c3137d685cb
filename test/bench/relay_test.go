package bench

import (
	"fmt"
	"sort"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// toKafka relays the bids above the price to a topic, exactly once.
func toKafka(broker, topic string) string {
	return fmt.Sprintf(`operators:
  dear: {from: bids, filter: {where: "price > %d"}}
sinks:
  out: {from: dear, kafka: {brokers: [%q], topic: %s, create_topics: {partitions: %d, replication_factor: 1}}}
`, minPrice, broker, topic, partitions) + checkpoint
}

// TestRelayOutput compares what a relay writes, record by record, as readers of committed
// records see it.
func TestRelayOutput(t *testing.T) {
	broker := brokerOf(t)
	in := bidTopic(t, broker, smallRows)
	out := in + "-relayed"
	remove(t, broker, out)
	j := newJob(t, fromKafka(broker, in)+toKafka(broker, out))
	j.run("--until", "end")
	var want []string
	for i := range int64(smallRows) {
		if b := bidAt(i); b.price > minPrice {
			want = append(want, relayed(b))
		}
	}
	sort.Strings(want)
	compareRows(t, committed(t, broker, out), want)
}

// relayed is a bid as the sink writes it.
func relayed(b bid) string {
	text := string(b.appendJSON(nil))
	return strings.Replace(text, fmt.Sprintf(`"dateTime":%d`, b.dateTime), fmt.Sprintf(`"dateTime":%q`, timeText(b.dateTime*1000)), 1)
}

func BenchmarkRelay(b *testing.B) {
	n := rowsOf(b, 10_000_000)
	broker := brokerOf(b)
	in := bidTopic(b, broker, n)
	measure(b, n, func() usage {
		out := in + "-relayed"
		remove(b, broker, out)
		u, _ := newJob(b, fromKafka(broker, in)+toKafka(broker, out)).run("--until", "end")
		return u
	})
}

// remove deletes a topic, and the positions that stand for it.
func remove(tb testing.TB, broker, topic string) {
	tb.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		tb.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).DeleteTopics(tb.Context(), topic, "frazil-positions"); err != nil {
		tb.Fatal(err)
	}
}

// committed reads the values of a topic.
func committed(t *testing.T, broker, topic string) (out []string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	for len(left) > 0 {
		fetches := cl.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				out = append(out, string(r.Value))
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return out
}

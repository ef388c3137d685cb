package bench

import (
	"fmt"
	"sort"
	"strings"
	"testing"

	"frazil/dataflow/flowtest/rig"

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
	var got []string
	for _, r := range rig.Committed(t, broker, out) {
		got = append(got, string(r.Value))
	}
	compareRows(t, got, want)
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

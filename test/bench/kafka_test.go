package bench

import (
	"fmt"
	"testing"

	"frazil/dataflow/flowtest/rig"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// partitions of a topic of bids; bid i stands in partition i % partitions.
const partitions = 4

func brokerOf(tb testing.TB) string { return rig.Kafka(tb) }

// bidTopic fills a topic with n bids, if it is not there.
func bidTopic(tb testing.TB, broker string, n int64) string {
	tb.Helper()
	topic := fmt.Sprintf("frazil-bench-%d-%d", seed, n)
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.SnappyCompression()), kgo.ProducerBatchMaxBytes(1_000_000), kgo.MaxBufferedRecords(100_000))
	if err != nil {
		tb.Fatal(err)
	}
	defer cl.Close()
	ctx := tb.Context()
	admin := kadm.NewClient(cl)
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err == nil && ends.Error() == nil {
		var have int64
		ends.Each(func(o kadm.ListedOffset) { have += o.Offset })
		if have == n {
			return topic
		}
		if _, err := admin.DeleteTopic(ctx, topic); err != nil {
			tb.Fatal(err)
		}
	}
	keep := "-1"
	if _, err := admin.CreateTopic(ctx, partitions, 1, map[string]*string{"retention.ms": &keep}, topic); err != nil {
		tb.Fatal(err)
	}
	failed := make(chan error, 1)
	for i := range n {
		cl.Produce(ctx, &kgo.Record{Topic: topic, Partition: int32(i % partitions), Value: bidAt(i).appendJSON(nil)}, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		tb.Fatal(err)
	}
	select {
	case err := <-failed:
		tb.Fatal(err)
	default:
	}
	return topic
}

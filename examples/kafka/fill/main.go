// Command fill writes orders into a Kafka topic: always the same ones for a seed.
// Some are written twice, some to another partition the second time, and some
// are no JSON.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// partitions of the topic.
const partitions = 4

// order is one order of a shop.
type order struct {
	id, shop string
	at       time.Time
	cents    int64
}

func (o order) json() []byte {
	return fmt.Appendf(nil, `{"order":%q,"shop":%q,"ts":%d,"cents":%d}`, o.id, o.shop, o.at.UnixMilli(), o.cents)
}

// message is one record of the topic.
type message struct {
	partition int32
	order     order
	// broken: the record is no JSON.
	broken bool
}

var shops = []string{"Bergen", "Cork", "Graz", "Porto", "Turku"}

// messages makes n records. An order comes at most 5 s after it was made.
func messages(n int, seed int64) []message {
	rng := rand.New(rand.NewSource(seed))
	now := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	var out []message
	for len(out) < n {
		now = now.Add(time.Duration(rng.Int63n(int64(20 * time.Millisecond))))
		m := message{partition: int32(rng.Intn(partitions))}
		switch x := rng.Float64(); {
		case x < 0.001:
			m.broken = true
		case x < 0.05 && len(out) > 100 && !out[len(out)-50].broken:
			m.order = out[len(out)-50].order
		default:
			m.order = order{fmt.Sprintf("order-%d", len(out)), shops[rng.Intn(len(shops))], now.Add(-time.Duration(rng.Int63n(int64(4 * time.Second)))), rng.Int63n(20_000)}
		}
		out = append(out, m)
	}
	return out
}

func main() {
	broker := flag.String("broker", "127.0.0.1:9092", "host:port of a broker")
	topic := flag.String("topic", "orders", "topic to fill; it is made if it does not exist")
	n := flag.Int("events", 200_000, "number of records")
	seed := flag.Int64("seed", 1, "seed of the records")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := fill(ctx, *broker, *topic, messages(*n, *seed)); err != nil {
		log.Fatalf("fill %s: %v", *topic, err)
	}
	fmt.Printf("%d records written to the topic %s at %s\n", *n, *topic, *broker)
}

// fill writes all messages, in order within a partition.
func fill(ctx context.Context, broker, topic string, all []message) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(5*time.Millisecond))
	if err != nil {
		return err
	}
	defer cl.Close()
	// Retention goes by the time of a record; these are to stay.
	keep := "-1"
	_, err = kadm.NewClient(cl).CreateTopic(ctx, partitions, 1, map[string]*string{"retention.ms": &keep}, topic)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("create the topic: %w", err)
	}
	failed := make(chan error, 1)
	for _, m := range all {
		r := &kgo.Record{Topic: topic, Partition: m.partition, Value: m.order.json()}
		if m.broken {
			r.Value = []byte(`{"order":`)
		}
		cl.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

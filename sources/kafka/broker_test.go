package kafka

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"frazil/dataflow"
	servers "frazil/dataflow/flowtest/rig"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// realRig is a rig on a real broker.
func realRig(t *testing.T) *rig {
	t.Helper()
	return brokerRig(t, []string{servers.Kafka(t)})
}

// fresh makes a topic of a name that no earlier run used.
func (r *rig) fresh(partitions int32, configs map[string]*string) string {
	r.t.Helper()
	topic := fmt.Sprintf("frazil-%d-%d", time.Now().UnixNano(), rand.Uint32())
	r.create(topic, partitions, configs)
	r.t.Cleanup(func() {
		c, err := kgo.NewClient(kgo.SeedBrokers(r.brokers...))
		if err != nil {
			return
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := kadm.NewClient(c).DeleteTopic(ctx, topic); err != nil {
			r.t.Log(err)
		}
	})
	return topic
}

func TestBrokerTransactions(t *testing.T) {
	r := realRig(t)
	transactions(t, r, r.fresh(1, nil))
}

func TestBrokerCodecs(t *testing.T) {
	r := realRig(t)
	allCodecs(t, r, r.fresh(1, nil))
	// The broker recompresses what producers send.
	for _, codec := range []string{"zstd", "gzip", "lz4", "snappy", "uncompressed"} {
		allCodecs(t, r, r.fresh(1, map[string]*string{"compression.type": kadm.StringPtr(codec)}))
	}
}

// Transactions of several producers in several partitions, committed and
// aborted at random, some empty of committed records: a bounded read gives
// exactly the committed ones, and every resume point gives the rest.
func TestBrokerRandomTransactions(t *testing.T) {
	r := realRig(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	topic := r.fresh(3, nil)
	producers := []*kgo.Client{r.newClient(), r.newClient(kgo.TransactionalID(topic + "-1")), r.newClient(kgo.TransactionalID(topic + "-2"))}
	model := map[dataflow.Split][]string{}
	for i := range 60 {
		k := rnd.IntN(3)
		commit := rnd.IntN(3) > 0
		if k > 0 {
			if err := producers[k].BeginTransaction(); err != nil {
				t.Fatal(err)
			}
		}
		for j := range rnd.IntN(4) {
			rec := &kgo.Record{Topic: topic, Partition: rnd.Int32N(3), Value: fmt.Appendf(nil, "v%d.%d", i, j)}
			r.putRecord(producers[k], rec)
			if k == 0 || commit {
				split := splitName(topic, rec.Partition)
				model[split] = append(model[split], fmt.Sprintf("%d=%s", rec.Offset, rec.Value))
			}
		}
		if k > 0 {
			if err := producers[k].EndTransaction(t.Context(), kgo.TransactionEndTry(commit)); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := r.source(r.config(topic))
	h := r.bounded(s)
	for p := range int32(3) {
		split := splitName(topic, p)
		want(t, string(split), h[split].rows, model[split])
		end := h[split].next
		for range 10 {
			mid := end
			mid.offset = rnd.Int64N(end.offset + 1)
			k := 0
			for _, row := range model[split] {
				var off int64
				if _, err := fmt.Sscanf(row, "%d=", &off); err != nil {
					t.Fatal(err)
				}
				if off < mid.offset {
					k++
				}
			}
			part := harvest{}
			r.assign(s, dataflow.SplitAt{Split: split, From: mid.encode(), Until: end.encode()})
			part.until(t, s, part.allAtUntil(1))
			want(t, fmt.Sprintf("%s from %d", split, mid.offset), part[split].rows, model[split][k:])
		}
	}
}

func TestBrokerGaps(t *testing.T) {
	r := realRig(t)
	topic := r.fresh(1, nil)
	split := splitName(topic, 0)
	r.put(r.client, topic, 0, "a", "b", "c", "d")
	s := r.source(r.config(topic))
	from := r.begin(s, split)
	from.offset = 1
	r.deleteBefore(topic, 0, 2)
	r.assign(s, dataflow.SplitAt{Split: split, From: from.encode()})
	wantGap(t, pollError(t, s), "offset 1 is wanted", "offsets 2 to 4")

	from.offset = 3
	r.recreate(topic, 1)
	r.put(r.client, topic, 0, "x", "y", "z", "w", "v")
	s = r.source(r.config(topic))
	r.assign(s, dataflow.SplitAt{Split: split, From: from.encode()})
	wantGap(t, pollError(t, s), "deleted and created again")

	cfg := r.config(topic)
	cfg.OnGap = gapContinue
	s = r.source(cfg)
	r.assign(s, dataflow.SplitAt{Split: split, From: from.encode()})
	h := harvest{}
	h.until(t, s, func() bool { return h[split] != nil && h[split].next.offset == 5 })
	// Once more while it is read.
	r.recreate(topic, 1)
	r.put(r.client, topic, 0, "1", "2")
	h.until(t, s, func() bool { return h[split].next.gen == 2 && h[split].next.offset == 2 })
	if n := len(h[split].rows); n != 7 {
		t.Errorf("%d rows, want the 5 of one topic and the 2 of the next: %v", n, h[split].rows)
	}
}

func TestBrokerArrivalIsLogAppendTime(t *testing.T) {
	r := realRig(t)
	topic := r.fresh(1, map[string]*string{"message.timestamp.type": kadm.StringPtr("LogAppendTime")})
	r.putRecord(r.client, &kgo.Record{Topic: topic, Value: []byte("v"), Timestamp: time.UnixMilli(1000)})
	cfg := r.config(topic)
	cfg.Metadata.Timestamp = "at"
	s := r.source(cfg)
	r.assign(s, dataflow.SplitAt{Split: splitName(topic, 0)})
	for {
		p, err := s.Poll(t.Context(), testLimit)
		if err != nil {
			t.Fatal(err)
		}
		if p.Batch == nil {
			continue
		}
		arrived := p.Batch.Column(3).(*array.Int64)
		at := p.Batch.Column(1).(*array.Timestamp)
		if arrived.IsNull(0) || arrived.Value(0) != int64(at.Value(0)) || arrived.Value(0) < 1e15 {
			t.Errorf("arrived %v, timestamp %v: want both the broker's time", arrived, at)
		}
		p.Release()
		return
	}
}

func TestBrokerNewPartitions(t *testing.T) {
	r := realRig(t)
	topic := r.fresh(1, nil)
	s := r.source(r.config(topic))
	if _, err := r.admin.CreatePartitions(t.Context(), 1, topic); err != nil {
		t.Fatal(err)
	}
	var splits []dataflow.Split
	for len(splits) < 2 {
		var err error
		if splits, err = s.Discover(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	begin, err := s.Begin(t.Context(), splits)
	if err != nil {
		t.Fatal(err)
	}
	r.put(r.newClient(), topic, 1, "a", "b")
	r.assign(s, dataflow.SplitAt{Split: splits[1], From: begin[splits[1]]})
	h := harvest{}
	h.until(t, s, func() bool { return h[splits[1]] != nil && h[splits[1]].next.offset == 2 })
	want(t, "rows", h[splits[1]].rows, []string{"0=a", "1=b"})
}

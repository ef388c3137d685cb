package kafka

import (
	"context"
	"fmt"
	"strings"
	"time"

	"frazil/dataflow"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// fetchWait is how long a broker waits for something new, and fetchBytes how much it
	// gives at most, but for a batch that is larger.
	fetchWait  = 200 * time.Millisecond
	fetchBytes = 1 << 20
	// openFor is how long transactions that are open are waited for before that is said.
	openFor = 15 * time.Second
)

// read reads up to the end of the topic as it is now, and waits for transactions that
// are open there: for openFor, then it is an error that time may heal.
//
// It asks for itself instead of consuming: an offset may hold no record any more
// (compaction), and only who asks learns that what is asked for is held back, and by whom.
func (p *positions) read(ctx context.Context) error {
	topic := p.cfg.PositionsTopic
	end, err := offset(ctx, topic, "end", p.admin.ListEndOffsets)
	if err != nil {
		return err
	}
	leader, err := p.same(ctx)
	if err != nil {
		return err
	}
	if err := p.isWhole(end); err != nil {
		return err
	}
	if p.next == 0 {
		if p.next, err = offset(ctx, topic, "start", p.admin.ListStartOffsets); err != nil {
			return err
		}
	}
	var open time.Time // Since when nothing more is given; zero: it is.
	for p.next < end {
		got, next, err := p.fetch(ctx, leader)
		if err != nil {
			return classify(fmt.Errorf("read topic %q at %d: %w", topic, p.next, err))
		}
		for _, r := range got.Records {
			if err := p.take(r); err != nil {
				return err
			}
		}
		switch {
		case next > p.next:
			p.next, open = next, time.Time{}
		case open.IsZero():
			open = time.Now()
		case time.Since(open) > p.openFor:
			return dataflow.Unavailable(p.heldBack(ctx, got.LastStableOffset, end))
		}
	}
	return nil
}

// offset asks for the start or the end of the topic.
func offset(ctx context.Context, topic, which string, list func(context.Context, ...string) (kadm.ListedOffsets, error)) (int64, error) {
	all, err := list(ctx, topic)
	if err == nil {
		err = all.Error()
	}
	o, ok := all.Lookup(topic, 0)
	if err == nil && !ok {
		err = kerr.UnknownTopicOrPartition
	}
	if err != nil {
		return 0, classify(fmt.Errorf("ask for the %s of topic %q: %w", which, topic, err))
	}
	return o.Offset, nil
}

// same gives the broker that leads the topic, and fails when the topic was made anew.
func (p *positions) same(ctx context.Context) (leader int32, err error) {
	topic := p.cfg.PositionsTopic
	all, err := p.admin.ListTopics(ctx, topic)
	if err != nil {
		return 0, classify(fmt.Errorf("look for topic %q: %w", topic, err))
	}
	d := all[topic]
	if err := d.Err; err != nil {
		return 0, classify(fmt.Errorf("look for topic %q: %w", topic, err))
	}
	id := d.ID.String()
	if p.id != "" && id != p.id {
		return 0, dataflow.Permanentf("topic %q was made anew while the pipeline ran: its id was %s and is %s", topic, p.id, id)
	}
	p.id, p.topicID = id, d.ID
	if d.Partitions[0].Leader < 0 {
		return 0, dataflow.Unavailable(fmt.Errorf("topic %q has no broker that leads it: %w", topic, kerr.LeaderNotAvailable))
	}
	return d.Partitions[0].Leader, nil
}

// fetch asks for committed records from p.next on, and gives where to go on.
func (p *positions) fetch(ctx context.Context, leader int32) (kgo.FetchPartition, int64, error) {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(fetchWait.Milliseconds()), 1, fetchBytes
	req.IsolationLevel = 1 // read_committed
	req.SessionEpoch = -1  // no session
	part := kmsg.NewFetchRequestTopicPartition()
	part.FetchOffset, part.PartitionMaxBytes = p.next, fetchBytes
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = p.cfg.PositionsTopic, p.topicID
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	got, err := p.client.Broker(int(leader)).RetriableRequest(ctx, req)
	if err != nil {
		return kgo.FetchPartition{}, 0, err
	}
	resp := got.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return kgo.FetchPartition{}, 0, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return kgo.FetchPartition{}, 0, fmt.Errorf("the broker answers for %d topics, asked for one", len(resp.Topics))
	}
	out, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		Offset: p.next, Topic: p.cfg.PositionsTopic, IsolationLevel: kgo.ReadCommitted(),
	}, &resp.Topics[0].Partitions[0], kgo.DefaultDecompressor(), nil)
	return out, next, out.Err
}

// heldBack says who keeps what is behind the offset stable from being read.
func (p *positions) heldBack(ctx context.Context, stable, end int64) error {
	topic := p.cfg.PositionsTopic
	var who []string
	all, err := p.admin.DescribeProducers(ctx, kadm.TopicsSet{topic: {0: {}}})
	all.EachProducer(func(d kadm.DescribedProducer) {
		if d.CurrentTxnStartOffset >= 0 {
			who = append(who, fmt.Sprintf("producer %d (epoch %d) since %s, from offset %d on",
				d.ProducerID, d.ProducerEpoch, time.UnixMilli(d.LastTimestamp).UTC().Format(time.RFC3339), d.CurrentTxnStartOffset))
		}
	})
	switch {
	case err != nil:
		who = []string{fmt.Sprintf("its producers are not told: %v", err)}
	case len(who) == 0:
		who = []string{"the broker names no producer"}
	}
	return fmt.Errorf("topic %q is held back at offset %d of %d by an open transaction (%s). It ends when its pipeline commits or starts again, or when the broker gives it up after its transaction_timeout; one that stays is ended by: kafka-transactions.sh --bootstrap-server %s abort --topic %s --partition 0 --start-offset %d",
		topic, stable, end, strings.Join(who, "; "), p.cfg.Brokers[0], topic, stable)
}

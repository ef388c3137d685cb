package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/brokers"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// askTimeout bounds one question to the brokers, retries included.
	askTimeout = 20 * time.Second
	dialLimit  = 5 * time.Second
)

// newClient makes a client with what all of the sink have in common; files are relative
// to the folder of env.
func newClient(env *dataflow.Env, cfg Config, more ...kgo.Opt) (*kgo.Client, error) {
	opts, err := cfg.Options(env.Dir)
	if err != nil {
		return nil, err
	}
	opts = append(opts, kgo.DialTimeout(dialLimit), kgo.RetryTimeout(askTimeout), kgo.MetadataMinAge(100*time.Millisecond))
	cl, err := kgo.NewClient(append(opts, more...)...)
	return cl, dataflow.Permanent(err)
}

// producerOptions are those of clients that send rows. memory bounds the records that
// are under way, in bytes; 0: it is not bounded here.
func producerOptions(cfg Config, memory int64) []kgo.Opt {
	out := []kgo.Opt{
		kgo.RecordPartitioner(partitioner{kgo.StickyKeyPartitioner(nil)}),
		kgo.ProducerBatchMaxBytes(int32(cfg.MaxRecord) + batchOverhead),
		kgo.ProducerBatchCompression(codecs[cfg.Compression]),
		kgo.MaxBufferedRecords(1 << 18),
		// A topic that was deleted is an error, not something to wait for.
		kgo.UnknownTopicRetries(5),
	}
	if memory > 0 {
		out = append(out, kgo.MaxBufferedBytes(int(max(memory, int64(cfg.MaxRecord)+batchOverhead))))
	}
	return out
}

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

// partitioner lets a record that names its partition have it.
type partitioner struct{ kgo.Partitioner }

func (p partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return topicPartitioner{p.Partitioner.ForTopic(topic)}
}

type topicPartitioner struct{ kgo.TopicPartitioner }

// RequiresConsistency implements kgo.TopicPartitioner.
func (p topicPartitioner) RequiresConsistency(r *kgo.Record) bool {
	return r.Partition >= 0 || p.TopicPartitioner.RequiresConsistency(r)
}

// Partition implements kgo.TopicPartitioner.
func (p topicPartitioner) Partition(r *kgo.Record, n int) int {
	if r.Partition >= 0 {
		return int(r.Partition) // One that is not there fails the record.
	}
	return p.TopicPartitioner.Partition(r, n)
}

// denied are refusals of what the sink asks, beside those that all clients meet.
var denied = []*kerr.Error{
	kerr.InvalidTransactionTimeout, kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.PolicyViolation, kerr.InvalidReplicationFactor, kerr.InvalidPartitions, kerr.InvalidConfig,
}

// classify marks refusals permanent, and all else as a server that time heals.
func classify(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	if brokers.IsRefusal(err) {
		return dataflow.Permanent(err)
	}
	for _, e := range denied {
		if errors.Is(err, e) {
			return dataflow.Permanent(err)
		}
	}
	return dataflow.Unavailable(err)
}

// isFenced says whether err tells that another producer has begun under the same
// transactional id.
func isFenced(err error) bool {
	for _, e := range []*kerr.Error{kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.InvalidProducerIDMapping, kerr.UnknownProducerID, kerr.InvalidTxnState} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// topics looks for topics, and makes them where the config says so.
type topics struct {
	cfg   Config
	admin *kadm.Client
	now   func() time.Time
	// missing are topics that were not there, and until when that is believed.
	missing map[string]time.Time
}

func newTopics(env *dataflow.Env, cfg Config, cl *kgo.Client) *topics {
	return &topics{cfg: cfg, admin: kadm.NewClient(cl), now: env.Now, missing: map[string]time.Time{}}
}

const (
	// A topic that was just made is not known to all brokers at once.
	lookAgain, looks = 200 * time.Millisecond, 6
	// believed is how long a topic that is not there is not looked for again.
	believed = 10 * time.Second
)

// there says whether a topic is there.
func (t *topics) there(ctx context.Context, name string) (bool, error) {
	if until, ok := t.missing[name]; ok && t.now().Before(until) {
		return false, nil
	}
	for look := 1; ; look++ {
		there, err := t.look(ctx, name)
		if there || err != nil {
			delete(t.missing, name)
			return there, err
		}
		if c := t.cfg.CreateTopics; c != nil && look == 1 {
			if err := create(ctx, t.admin, name, *c); err != nil {
				return false, err
			}
		}
		if look == looks && t.cfg.CreateTopics != nil {
			return true, nil // It was made; the producer waits on.
		}
		if look == looks {
			if len(t.missing) > 1000 {
				clear(t.missing)
			}
			t.missing[name] = t.now().Add(believed)
			return false, nil
		}
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

func (t *topics) look(ctx context.Context, name string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	all, err := t.admin.ListTopics(ctx, name)
	if err != nil {
		return false, classify(fmt.Errorf("look for topic %q: %w", name, err))
	}
	if err := all[name].Err; err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return false, classify(fmt.Errorf("look for topic %q: %w", name, err))
	}
	return all.Has(name), nil
}

// create makes a topic; another one may have been faster.
func create(ctx context.Context, admin *kadm.Client, name string, c TopicConfig) error {
	configs := map[string]*string{}
	for k, v := range c.Config {
		configs[k] = &v
	}
	r, err := admin.CreateTopic(ctx, c.Partitions, c.ReplicationFactor, configs, name)
	if err == nil {
		err = r.Err
	}
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return classify(fmt.Errorf("make topic %q: %w (%s)", name, err, r.ErrMessage))
	}
	return nil
}

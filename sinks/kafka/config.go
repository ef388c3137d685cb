package kafka

import (
	"fmt"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/brokers"
	"frazil/dataflow/component"
)

// Config is what a user writes under "kafka".
type Config struct {
	brokers.Config `yaml:",inline"`

	// Topic of the records. {EXPRESSION} in it is replaced by the value of each row,
	// as in orders.{region}; a row for which that is null or no valid name is bad
	// (invalid_topic).
	Topic string `yaml:"topic,required"`
	// Key is an expression whose text or bytes are the record's key; null is no key.
	// Other types are written as text. Default: none; of a changelog, its key: the
	// text of a single column, else a JSON object.
	Key string `yaml:"key"`
	// Value is an expression whose text or bytes are the record's value; null is no
	// value (a tombstone). Default: a JSON object of all columns.
	Value string `yaml:"value"`
	// Encode writes all columns as the value in a schema of a registry. Default: a JSON
	// object without one.
	Encode *EncodeConfig `yaml:"encode"`
	// Headers maps names of headers to expressions; one that is null is left out.
	// Default: none.
	Headers component.NamedExprs `yaml:"headers"`
	// CloudEvents makes records events by CloudEvents 1.0, in the binary mode of the Kafka
	// binding: attributes are headers, the value is the data. Default: none.
	CloudEvents *EventConfig `yaml:"cloudevents"`
	// Partition is an expression whose value is the number of the partition. Default:
	// by the hash of the key, as Kafka's own clients do it.
	Partition string `yaml:"partition"`
	// Timestamp is an expression of type timestamptz or timestamp. Default: when the
	// record is sent.
	Timestamp string `yaml:"timestamp"`
	// Delivery is exactly_once (default: rows and positions in one transaction with
	// each checkpoint) or at_least_once (rows are sent as they come by an idempotent
	// producer; after a crash those since the last checkpoint are sent again).
	Delivery string `yaml:"delivery" oneof:"exactly_once,at_least_once"`
	// CreateTopics makes topics that are not there. Default: none is made: a topic
	// that is written out must exist, and rows of others are bad (unknown_topic).
	CreateTopics *TopicConfig `yaml:"create_topics"`
	// PositionsTopic is the compacted topic with the positions of all pipelines; it
	// is made when it is not there. Default: frazil-positions.
	PositionsTopic string `yaml:"positions_topic"`
	// TransactionTimeout is after how long the broker gives up a transaction whose
	// producer is gone; readers wait so long at most. The broker has a maximum
	// (transaction.max.timeout.ms, 15m). Default: 1m.
	TransactionTimeout component.Duration `yaml:"transaction_timeout"`
	// MaxRecord bounds a record, in bytes. A larger one is bad (too_large). The topic's
	// max.message.bytes must not be smaller. Default: 1MiB, less what a batch adds.
	MaxRecord component.Bytes `yaml:"max_record"`
	// Compression of batches: none, gzip, snappy, lz4 or zstd. Default: snappy.
	Compression string `yaml:"compression" oneof:"none,gzip,snappy,lz4,zstd"`
	// Linger is how long records wait for others of their partition, with
	// at_least_once. Default: 5ms.
	Linger component.Duration `yaml:"linger"`
}

// TopicConfig is how topics are made.
type TopicConfig struct {
	// Partitions of each. Default: the broker's.
	Partitions int32 `yaml:"partitions"`
	// ReplicationFactor of each. Default: the broker's.
	ReplicationFactor int16 `yaml:"replication_factor"`
	// Config of each, by Kafka's names, as cleanup.policy: compact. Default: the
	// broker's.
	Config map[string]string `yaml:"config"`
}

// SetDefaults implements component.Defaulter.
func (c *TopicConfig) SetDefaults() { *c = TopicConfig{Partitions: -1, ReplicationFactor: -1} }

// Values of Delivery.
const (
	exactlyOnce = "exactly_once"
	atLeastOnce = "at_least_once"
)

// batchOverhead is what a batch of one record adds to it.
const batchOverhead = 128

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Config: brokers.Default(), Delivery: exactlyOnce, PositionsTopic: "frazil-positions", TransactionTimeout: component.Duration(time.Minute),
		MaxRecord: 1<<20 - batchOverhead, Compression: "snappy", Linger: component.Duration(5 * time.Millisecond),
	}
}

func init() {
	component.RegisterSink(component.Sink[Config]{
		Name:    "kafka",
		Summary: "Writes rows as records to Kafka topics, exactly once in transactions, or at least once as they come.",
		Doc: `Delivery: exactly once for readers with isolation read_committed. Rows wait in files of the spool folder until
their checkpoint is durable and are then sent in one transaction with the positions they belong to. A broker that is
away, a transaction that it gave up and a fenced producer lose and double nothing. Of two processes on copies of one
state directory one is fenced. With delivery at_least_once rows are sent as they come and may come again after a crash.

Order: of one key, as they arrive. A changelog is written as upserts: the rows of a key in their order, a deleted one
as a tombstone.

Bad rows: a row whose topic, key, value, header, partition or timestamp cannot be computed, whose topic is not there,
or which is larger than max_record, leaves by the port "bad".

Memory: the records of one commit that are under way to the brokers, at most an eighth of the memory.`,
		Changes:      component.ChangesApplied,
		Default:      DefaultConfig,
		Plan:         plan,
		NewWriter:    newWriter,
		NewCommitter: newCommitter,
	})
}

func plan(in component.SinkIn, cfg Config) (component.SinkPlan, error) {
	problems := check(cfg)
	if _, more := newLayout(in.Input, cfg); len(more) > 0 {
		problems = append(problems, more...)
	}
	if _, more := newEncoding(in, cfg); len(more) > 0 {
		problems = append(problems, more...)
	}
	if len(problems) > 0 {
		return component.SinkPlan{}, problems
	}
	through := cfg.Delivery == atLeastOnce
	return component.SinkPlan{Target: string(target(in.Step, cfg)), Tasks: 1, WritesThrough: through, Spools: !through}, nil
}

// target names the step too: several sinks may write to one topic, each with positions
// of its own.
func target(step string, cfg Config) dataflow.Target {
	return dataflow.Target(fmt.Sprintf("kafka:%s (%s)", cfg.Topic, step))
}

// check finds what is wrong with a config by itself.
func check(cfg Config) component.Problems {
	var out component.Problems
	bad := func(path, format string, args ...any) {
		out = append(out, component.Problem{Path: path, Msg: fmt.Sprintf(format, args...)})
	}
	out = append(out, cfg.Check()...)
	if !brokers.ValidTopic(cfg.PositionsTopic) {
		bad("positions_topic", "topic %q: expected 1 to 249 of the characters a-z A-Z 0-9 . _ -", cfg.PositionsTopic)
	}
	if d := cfg.TransactionTimeout.D(); d < time.Second {
		bad("transaction_timeout", "%s: expected at least 1s", d)
	}
	if cfg.MaxRecord < 1<<10 || cfg.MaxRecord > 512<<20 {
		bad("max_record", "%s: expected 1KiB to 512MiB", cfg.MaxRecord)
	}
	if d := cfg.Linger.D(); d < 0 || d > time.Minute {
		bad("linger", "%s: expected 0s to 1m", d)
	}
	return out
}

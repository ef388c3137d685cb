package kafka

import (
	"fmt"
	"net"
	"strings"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
)

// Config is what a user writes under "kafka".
type Config struct {
	// Brokers to ask first, as host:port. The others are learned from them.
	Brokers []string `yaml:"brokers,required"`
	// Topics to read, by their exact names. All partitions are read, also those
	// that are added later.
	Topics []string `yaml:"topics,required"`
	// Start says where the very first run begins: earliest or latest. Default:
	// earliest. What it resolved to is stored before the first record is read;
	// partitions found later are read from their beginning.
	Start string `yaml:"start"`
	// Isolation is read_committed (default: no record of an open or aborted
	// transaction is read) or read_uncommitted.
	Isolation string `yaml:"isolation" oneof:"read_committed,read_uncommitted"`
	// OnGap says what happens when records that should be read no longer exist
	// (retention was faster, the topic was recreated, the log was truncated):
	// fail (default) stops with the partition, what was wanted and what there is;
	// continue goes on at the first record that exists, logged and counted.
	OnGap string `yaml:"on_gap" oneof:"fail,continue"`
	// Metadata adds columns behind the decoded ones. Each entry names the column
	// to make. Default: none.
	Metadata Metadata `yaml:"metadata"`
	// Group is the consumer group whose offsets mirror what is committed in the
	// targets, for lag tools. It is never read. Default: the pipeline's name.
	Group string `yaml:"group"`
	// FetchMax bounds one answer of one broker, in bytes as they travel
	// (compressed), 64KiB to 64MiB. A larger one costs memory and gives larger
	// batches. An eighth of the source's share of the memory is not exceeded.
	// Default: 2MiB.
	FetchMax component.Bytes `yaml:"fetch_max"`
	// ClientID is what brokers see in their logs and quotas. Default: frazil.
	ClientID string `yaml:"client_id"`
}

// Metadata names the columns that hold what Kafka stores beside the value.
type Metadata struct {
	// Key: binary, null where the record has none.
	Key string `yaml:"key"`
	// Headers: list<struct{key: string, value: binary}>, in the record's order.
	Headers string `yaml:"headers"`
	// Timestamp: timestamptz, by the producer or the broker as the topic says;
	// null for records of a format without.
	Timestamp string `yaml:"timestamp"`
	// Topic: string.
	Topic string `yaml:"topic"`
	// Partition: int32.
	Partition string `yaml:"partition"`
	// Offset: int64.
	Offset string `yaml:"offset"`
}

// Values of Start, Isolation and OnGap.
const (
	startEarliest   = "earliest"
	startLatest     = "latest"
	readCommitted   = "read_committed"
	readUncommitted = "read_uncommitted"
	gapFail         = "fail"
	gapContinue     = "continue"
)

// Bounds of fetch_max: less than one record batch makes no sense, and the
// client refuses answers over 100 MiB.
const (
	minFetch = 64 << 10
	maxFetch = 64 << 20
)

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{Start: startEarliest, Isolation: readCommitted, OnGap: gapFail, FetchMax: 2 << 20, ClientID: "frazil"}
}

func init() {
	component.RegisterSource(component.Source[Config]{
		Name:    "kafka",
		Summary: "Reads Kafka topics; positions are kept by the pipeline, not by a consumer group.",
		Doc: `Delivery: each record is read exactly once per run of positions. Positions are stored with the state and in the targets; the consumer group's offsets are only a mirror, written after the commit. With isolation read_committed neither markers nor records of aborted or open transactions are seen, and the position moves past them.

Ordering: by offset within a partition. A partition is one split.

Bad records: a value that cannot be decoded leaves by the port "bad" with its bytes, topic, partition and offset. A null value (a tombstone) is no row; it is counted as "tombstone".

Gaps: where records that should be read are gone, on_gap decides. A topic that was deleted and created again is noticed by its id.

Replay: the same records are read again from the same positions, unless the topic is compacted: then older versions of a key disappear, and a replay may differ. A warning in the log names such topics.

Memory: per broker one answer of fetch_max bytes is decoded while the next one waits, both decompressed, with about 200 bytes a record.`,
		Default: DefaultConfig,
		Plan:    plan,
		New:     newSource,
	})
}

// column is a metadata column that is asked for.
type column struct {
	kind string // the key in YAML
	name string
	typ  arrow.DataType
}

var headersType = arrow.ListOf(arrow.StructOf(
	arrow.Field{Name: "key", Type: dataflow.TypeString},
	arrow.Field{Name: "value", Type: dataflow.TypeBinary, Nullable: true},
))

// columns lists the metadata columns in the order in which they stand in rows.
func (m Metadata) columns() []column {
	var out []column
	for _, c := range []column{
		{"key", m.Key, dataflow.TypeBinary},
		{"headers", m.Headers, headersType},
		{"timestamp", m.Timestamp, dataflow.TypeTimestampTZ},
		{"topic", m.Topic, dataflow.TypeString},
		{"partition", m.Partition, dataflow.TypeInt32},
		{"offset", m.Offset, dataflow.TypeInt64},
	} {
		if c.name != "" {
			out = append(out, c)
		}
	}
	return out
}

func plan(in component.SourceIn, cfg Config) (component.SourcePlan, error) {
	problems := check(cfg)
	if in.Decoded == nil {
		problems = append(problems, component.Problem{Msg: "kafka gives bytes, and the step has no decode block to make rows of them: write decode: {json: {schema: {...}}} beside kafka"})
		return component.SourcePlan{}, problems
	}
	fields := append([]arrow.Field{}, in.Decoded.Fields()...)
	seen := map[string]string{}
	for _, f := range fields {
		seen[f.Name] = "is a decoded column already"
	}
	for _, c := range cfg.Metadata.columns() {
		path := "metadata." + c.kind
		switch {
		case seen[c.name] != "":
			problems = append(problems, component.Problem{Path: path, Msg: fmt.Sprintf("column %q %s: choose another name", c.name, seen[c.name])})
		case dataflow.IsSystem(c.name):
			problems = append(problems, component.Problem{Path: path, Msg: fmt.Sprintf("column %q: names that begin with %q are reserved", c.name, dataflow.SysPrefix)})
		}
		seen[c.name] = "is the column of metadata." + c.kind + " already"
		nullable := c.kind == "key" || c.kind == "headers" || c.kind == "timestamp"
		fields = append(fields, arrow.Field{Name: c.name, Type: c.typ, Nullable: nullable})
	}
	if len(problems) > 0 {
		return component.SourcePlan{}, problems
	}
	return component.SourcePlan{Schema: arrow.NewSchema(fields, nil), Arrived: true, Pauses: true}, nil
}

// check finds what is wrong with a config by itself.
func check(cfg Config) component.Problems {
	var out component.Problems
	bad := func(path, format string, args ...any) {
		out = append(out, component.Problem{Path: path, Msg: fmt.Sprintf(format, args...)})
	}
	if len(cfg.Brokers) == 0 {
		bad("brokers", "no broker: write at least one host:port")
	}
	for i, b := range cfg.Brokers {
		if _, port, err := net.SplitHostPort(b); err != nil || port == "" {
			bad(fmt.Sprintf("brokers[%d]", i), "broker %q: expected host:port, as localhost:9092", b)
		}
	}
	if len(cfg.Topics) == 0 {
		bad("topics", "no topic: write at least one name")
	}
	seen := map[string]bool{}
	for i, t := range cfg.Topics {
		path := fmt.Sprintf("topics[%d]", i)
		if !validTopic(t) {
			bad(path, "topic %q: expected 1 to 249 of the characters a-z A-Z 0-9 . _ -", t)
		} else if seen[t] {
			bad(path, "topic %q is named twice", t)
		}
		seen[t] = true
	}
	oneOf := func(path, got string, want ...string) {
		for _, w := range want {
			if got == w {
				return
			}
		}
		bad(path, "%q: expected %s", got, strings.Join(want, " or "))
	}
	oneOf("start", cfg.Start, startEarliest, startLatest)
	oneOf("isolation", cfg.Isolation, readCommitted, readUncommitted)
	oneOf("on_gap", cfg.OnGap, gapFail, gapContinue)
	if cfg.FetchMax < minFetch || cfg.FetchMax > maxFetch {
		bad("fetch_max", "%s: expected %s to %s", cfg.FetchMax, component.Bytes(minFetch), component.Bytes(maxFetch))
	}
	return out
}

// validTopic is Kafka's own rule for names.
func validTopic(t string) bool {
	if t == "" || t == "." || t == ".." || len(t) > 249 {
		return false
	}
	for _, r := range t {
		if !(r == '.' || r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			return false
		}
	}
	return true
}

package kafka

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/brokers"
	"frazil/dataflow/codec"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
)

// Config is what a user writes under "kafka".
type Config struct {
	brokers.Config `yaml:",inline"`

	// Topics to read, by their exact names. All partitions are read, also those
	// that are added later.
	Topics []string `yaml:"topics"`
	// TopicPattern is a regular expression (RE2) for the whole names of more topics to
	// read, as orders\\..+; topics that are made later are found. Those that begin with
	// __ are left out. Default: none.
	TopicPattern string `yaml:"topic_pattern"`
	// Start says where the very first run begins: earliest, latest, or a time, as
	// 2026-03-01T00:00:00Z: at the first record whose timestamp is not before it.
	// Default: earliest. What it resolved to is stored before the first record is read;
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
	// Key decodes the records' keys, as the step's decode block does with the values:
	// {text: {column: device}}, {avro: {registry: ..., subject: ...}}. Its columns stand
	// behind those of the value, and are null where a record has no key. A record whose
	// key cannot be decoded is bad. Default: keys are not read.
	Key *codec.Config `yaml:"key"`
	// CloudEvents: true reads records as CloudEvents 1.0, of both modes of the Kafka
	// binding: the decode block gets the data of each, metadata the attributes. A record
	// that is no event is bad (invalid_event). Default: false.
	CloudEvents bool `yaml:"cloudevents"`
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
}

// Metadata names the columns that hold what Kafka stores beside the value.
type Metadata struct {
	// Key: binary, null where the record has none.
	Key string `yaml:"key"`
	// Headers: list<struct{key: string, value: binary}>, in the record's order.
	Headers string `yaml:"headers"`
	// Header makes a string column of each header named, null where it is missing:
	// {traceparent: trace}. Of several values the last one counts; one that is no UTF-8
	// makes the record bad.
	Header map[string]string `yaml:"header"`
	// Timestamp: timestamptz, by the producer or the broker as the topic says;
	// null for records of a format without.
	Timestamp string `yaml:"timestamp"`
	// Topic: string.
	Topic string `yaml:"topic"`
	// Partition: int32.
	Partition string `yaml:"partition"`
	// Offset: int64.
	Offset string `yaml:"offset"`

	codec.EventMetadata `yaml:",inline"`
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
	return Config{Config: brokers.Default(), Start: startEarliest, Isolation: readCommitted, OnGap: gapFail, FetchMax: 2 << 20}
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
	add := func(path string, f arrow.Field, what string) {
		switch {
		case seen[f.Name] != "":
			problems = append(problems, component.Problem{Path: path, Msg: fmt.Sprintf("column %q %s: choose another name", f.Name, seen[f.Name])})
		case dataflow.IsSystem(f.Name):
			problems = append(problems, component.Problem{Path: path, Msg: fmt.Sprintf("column %q: names that begin with %q are reserved", f.Name, dataflow.SysPrefix)})
		}
		seen[f.Name] = what
		fields = append(fields, f)
	}
	if cfg.Key != nil {
		keys, err := planKey(in, cfg.Key)
		if err != nil {
			problems = append(problems, err...)
		}
		for _, f := range keys {
			add("key", f, "is a column of the key already")
		}
	}
	for _, c := range cfg.Metadata.columns() {
		add("metadata."+c.path, arrow.Field{Name: c.name, Type: c.typ, Nullable: c.nullable}, "is the column of metadata."+c.path+" already")
	}
	if len(problems) > 0 {
		return component.SourcePlan{}, problems
	}
	return component.SourcePlan{Schema: arrow.NewSchema(fields, nil), Arrived: true, Pauses: true, Waits: true}, nil
}

// planKey returns the columns of keys, which may be missing.
func planKey(in component.SourceIn, key *codec.Config) ([]arrow.Field, component.Problems) {
	err := key.Bind(in.Dir, in.Schemas)
	var schema *arrow.Schema
	if err == nil {
		schema, err = key.ArrowSchema()
	}
	if err == nil && key.NeedsTopic() {
		err = component.Badf("", "this format reads payloads together with their topics: it is for mqtt")
	}
	if err != nil {
		out := component.AsProblems(err)
		for i := range out {
			out[i].Path = component.Join("key", out[i].Path)
		}
		return nil, out
	}
	fields := append([]arrow.Field{}, schema.Fields()...)
	for i := range fields {
		fields[i].Nullable = true
	}
	return fields, nil
}

// check finds what is wrong with a config by itself.
func check(cfg Config) component.Problems {
	var out component.Problems
	bad := func(path, format string, args ...any) {
		out = append(out, component.Problem{Path: path, Msg: fmt.Sprintf(format, args...)})
	}
	out = append(out, cfg.Check()...)
	if len(cfg.Topics) == 0 && cfg.TopicPattern == "" {
		bad("topics", "no topic: write at least one name, or topic_pattern")
	}
	if _, err := cfg.pattern(); err != nil {
		bad("topic_pattern", "%q is no regular expression: %s", cfg.TopicPattern, err)
	}
	seen := map[string]bool{}
	for i, t := range cfg.Topics {
		path := fmt.Sprintf("topics[%d]", i)
		if !brokers.ValidTopic(t) {
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
	if _, ok := cfg.startTime(); !ok && cfg.Start != startEarliest && cfg.Start != startLatest {
		bad("start", "%q: expected earliest, latest, or a time with its zone, as 2026-03-01T00:00:00Z", cfg.Start)
	}
	oneOf("isolation", cfg.Isolation, readCommitted, readUncommitted)
	oneOf("on_gap", cfg.OnGap, gapFail, gapContinue)
	if m := cfg.Metadata.EventMetadata; m != (codec.EventMetadata{}) && !cfg.CloudEvents {
		bad("metadata", "columns of attributes (ce_...) are of CloudEvents: write cloudevents: true beside metadata")
	}
	if cfg.FetchMax < minFetch || cfg.FetchMax > maxFetch {
		bad("fetch_max", "%s: expected %s to %s", cfg.FetchMax, component.Bytes(minFetch), component.Bytes(maxFetch))
	}
	return out
}

// pattern is the compiled topic_pattern, nil without one.
func (c Config) pattern() (*regexp.Regexp, error) {
	if c.TopicPattern == "" {
		return nil, nil
	}
	if _, err := regexp.Compile(c.TopicPattern); err != nil {
		return nil, err
	}
	return regexp.Compile("^(?:" + c.TopicPattern + ")$")
}

// startTime is the time in start, if it is one.
func (c Config) startTime() (t time.Time, ok bool) {
	t, err := time.Parse(time.RFC3339Nano, c.Start)
	return t, err == nil
}

package kafka

import (
	"errors"
	"strings"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/brokers"
	"frazil/dataflow/component"
)

func TestPlanGivesDecodedThenMetadataColumns(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Brokers, cfg.Topics = []string{"localhost:9092"}, []string{"t"}
	cfg.Metadata = Metadata{Offset: "o", Key: "k", Headers: "h", Timestamp: "ts", Topic: "tp", Partition: "p"}
	plan, err := plan(component.SourceIn{Decoded: textSchema}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range plan.Schema.Fields() {
		s := f.Name + " " + dataflow.TypeName(f.Type)
		if f.Nullable {
			s += " null"
		}
		got = append(got, s)
	}
	want(t, "schema", got, []string{"v string", "k binary null", "h list<struct{key: string, value: binary}> null", "ts timestamptz null", "tp string", "p int32", "o int64"})
	if plan.Bounded || plan.NotReplayable != "" || !plan.Arrived {
		t.Errorf("plan %+v: want a replayable source without end, with arrival times", plan)
	}
}

func TestWrongConfigsAreRefusedWithTheirPath(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		path   string
		msg    string
	}{
		"no broker":       {func(c *Config) { c.Brokers = nil }, "brokers", "at least one"},
		"no port":         {func(c *Config) { c.Brokers = []string{"a:1", "b"} }, "brokers[1]", "host:port"},
		"no topic":        {func(c *Config) { c.Topics = nil }, "topics", "at least one"},
		"a pattern":       {func(c *Config) { c.Topics = []string{"a.*"} }, "topics[0]", "characters"},
		"no expression":   {func(c *Config) { c.TopicPattern = "a(" }, "topic_pattern", "no regular expression"},
		"a bare password": {func(c *Config) { c.SASL = &brokers.SASL{Mechanism: "PLAIN"} }, "sasl.mechanism", "not encrypted"},
		"half a pair":     {func(c *Config) { c.TLS = &component.ClientTLS{Cert: "c"} }, "tls", "cert and key"},
		"twice":           {func(c *Config) { c.Topics = []string{"a", "a"} }, "topics[1]", "twice"},
		"start":           {func(c *Config) { c.Start = "beginning" }, "start", "earliest, latest, or a time"},
		"isolation":       {func(c *Config) { c.Isolation = "committed" }, "isolation", "read_committed or read_uncommitted"},
		"gap":             {func(c *Config) { c.OnGap = "ignore" }, "on_gap", "fail or continue"},
		"small fetches":   {func(c *Config) { c.FetchMax = 10 }, "fetch_max", "64KiB"},
		"taken column":    {func(c *Config) { c.Metadata.Key = "v" }, "metadata.key", "decoded column"},
		"twice a column":  {func(c *Config) { c.Metadata = Metadata{Key: "x", Offset: "x"} }, "metadata.offset", "metadata.key"},
		"reserved column": {func(c *Config) { c.Metadata.Offset = "_pos" }, "metadata.offset", "reserved"},
	} {
		cfg := DefaultConfig()
		cfg.Brokers, cfg.Topics = []string{"localhost:9092"}, []string{"t"}
		c.change(&cfg)
		_, err := plan(component.SourceIn{Decoded: textSchema}, cfg)
		var p component.Problems
		if !errors.As(err, &p) || len(p) != 1 || p[0].Path != c.path || !strings.Contains(p[0].Msg, c.msg) {
			t.Errorf("%s: got %v, want %q at %s", name, err, c.msg, c.path)
		}
	}
	cfg := DefaultConfig()
	cfg.Brokers, cfg.Topics = []string{"localhost:9092"}, []string{"t"}
	if _, err := plan(component.SourceIn{}, cfg); err == nil || !strings.Contains(err.Error(), "decode") {
		t.Errorf("got %v, want that decode is missing", err)
	}
}

func TestSourceIsRegistered(t *testing.T) {
	spec := component.SourceNamed("kafka")
	if spec == nil {
		t.Fatal("not registered")
	}
	if cfg, ok := spec.NewConfig().(*Config); !ok || cfg.Start != startEarliest {
		t.Errorf("defaults %+v", cfg)
	}
}

// The text of a position is stored in states and tables: it may not change.
func TestPositionTextIsAFormat(t *testing.T) {
	p := position{gen: 2, offset: 42, id: "lQY2kVYZTZCgVp5Qs0Q_Dg"}
	const text = `{"gen":"002","offset":"0000000000000000042","topic_id":"lQY2kVYZTZCgVp5Qs0Q_Dg"}`
	if got := string(p.encode()); got != text {
		t.Errorf("got %s, want %s", got, text)
	}
	if got, err := parsePosition([]byte(text)); err != nil || got != p {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{``, `12`, `{}`, `{"gen":"2","offset":"42","topic_id":""}`, text + " ", strings.Replace(text, "42", "-2", 1)} {
		if _, err := parsePosition([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestPositionsCompareAsTextsDo(t *testing.T) {
	var all []position
	for _, gen := range []int{0, 1, 9, 10, 999} {
		for _, off := range []int64{0, 1, 9, 10, 99, 1 << 40, 1<<48 - 1} {
			all = append(all, position{gen: gen, offset: off, id: "x"})
		}
	}
	for i, p := range all {
		for j, q := range all {
			if (p.encode().Compare(q.encode()) < 0) != (i < j) || p.before(q) != (i < j) || (p.sys() < q.sys()) != (i < j) {
				t.Errorf("%+v and %+v", p, q)
			}
		}
	}
}

func TestSplitNames(t *testing.T) {
	topic, p, err := parseSplit(splitName("a.b_c-d", 12))
	if err != nil || topic != "a.b_c-d" || p != 12 {
		t.Error(topic, p, err)
	}
	for _, s := range []dataflow.Split{"", "a", "a/", "/1", "a/-1", "a/99999999999"} {
		if _, _, err := parseSplit(s); err == nil {
			t.Errorf("split %q was read", s)
		}
	}
}

// What the slabs keep is bounded, and all of it can be given back.
func TestSlabsAreBounded(t *testing.T) {
	s := &slabs{limit: 10 * recordSize}
	s.PutRecords(s.GetRecords(6))
	s.PutRecords(s.GetRecords(8)) // too large beside the first
	s.PutDecompressBytes(make([]byte, 10, 100))
	if s.mu.kept != 6*recordSize+100 || len(s.mu.records) != 1 || len(s.mu.bytes) != 1 {
		t.Errorf("kept %d bytes in %d and %d slices", s.mu.kept, len(s.mu.records), len(s.mu.bytes))
	}
	if b := s.GetDecompressBytes(make([]byte, 20), 1); cap(b) != 100 || s.mu.kept != 6*recordSize {
		t.Errorf("got a slice of %d bytes, want the kept one of 100", cap(b))
	}
	s.drop()
	if s.mu.kept != 0 || s.mu.records != nil || s.mu.bytes != nil {
		t.Error("something is kept after drop")
	}
}

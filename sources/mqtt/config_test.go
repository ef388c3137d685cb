package mqtt

import (
	"errors"
	"strings"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
)

var lineSchema = arrow.NewSchema([]arrow.Field{{Name: "line", Type: dataflow.TypeString}}, nil)

func valid() Config {
	cfg := DefaultConfig()
	cfg.Broker, cfg.Topics, cfg.ClientID = "mqtt://localhost", []string{"plants/{site}/+/temp", "other/#"}, "c"
	return cfg
}

func TestPlanGivesDecodedThenTopicThenMetadataColumns(t *testing.T) {
	cfg := valid()
	cfg.Metadata = Metadata{CorrelationData: "cd", Topic: "tp", UserProperties: "up", ReceivedAt: "at", QoS: "q"}
	plan, err := plan(component.SourceIn{Decoded: lineSchema}, cfg)
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
	want := "line string, site string null, tp string, q int32, at timestamptz, up list<struct{key: string, value: string}> null, cd binary null"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

// C26, 13 and 14, and what else can be wrong.
func TestWrongConfigsAreRefusedWithTheirPath(t *testing.T) {
	for name, c := range map[string]struct {
		change    func(*Config)
		path, msg string
	}{
		"no client id":     {func(c *Config) { c.ClientID = "" }, "client_id", `source "in" reads with qos 1`},
		"overlap":          {func(c *Config) { c.Topics = []string{"a/+", "a/b"} }, "topics[1]", `"a/b" overlaps "a/+"`},
		"no topics":        {func(c *Config) { c.Topics = nil }, "topics", "at least one"},
		"a wrong filter":   {func(c *Config) { c.Topics = []string{"a#"} }, "topics[0]", "whole levels"},
		"names twice":      {func(c *Config) { c.ColumnsFromTopic = []string{"a/{x}"} }, "topics[0]", "columns_from_topic"},
		"a scheme":         {func(c *Config) { c.Broker = "http://x" }, "broker", "mqtts://"},
		"a password there": {func(c *Config) { c.Broker = "mqtt://u:p@x" }, "broker", "user and password beside"},
		"tls without":      {func(c *Config) { c.TLS.CA = "x" }, "tls", "mqtts://"},
		"half of a pair":   {func(c *Config) { c.Broker, c.TLS.Cert = "mqtts://x", "x" }, "tls", "belong together"},
		"qos":              {func(c *Config) { c.QoS = 3 }, "qos", "0, 1 or 2"},
		"connections":      {func(c *Config) { c.Connections = 2 }, "connections", "share"},
		"receive maximum":  {func(c *Config) { c.ReceiveMaximum = 0 }, "receive_maximum", "65535"},
		"expiry":           {func(c *Config) { c.SessionExpiry = 0 }, "session_expiry", "1s"},
		"keep alive":       {func(c *Config) { c.KeepAlive = 0 }, "keep_alive", "1s"},
		"a group":          {func(c *Config) { c.Share = "a/b" }, "share", "without /"},
		"a column":         {func(c *Config) { c.Metadata.Topic = "line" }, "metadata.topic", "decoded column"},
		"a level":          {func(c *Config) { c.Topics = []string{"{line}"} }, "topics", "decoded column"},
		"a reserved name":  {func(c *Config) { c.Metadata.QoS = "_q" }, "metadata.qos", "reserved"},
		"status":           {func(c *Config) { c.Status = &StatusConfig{Topic: "a/+"} }, "status.topic", "without wildcards"},
		"buffer":           {func(c *Config) { c.Buffer.Bytes = 1 }, "buffer.bytes", "1MiB"},
	} {
		cfg := valid()
		c.change(&cfg)
		_, err := plan(component.SourceIn{PlanEnv: component.PlanEnv{Step: "in"}, Decoded: lineSchema}, cfg)
		var p component.Problems
		if !errors.As(err, &p) || len(p) != 1 || p[0].Path != c.path || !strings.Contains(p[0].Msg, c.msg) {
			t.Errorf("%s: got %v, want %q at %s", name, err, c.msg, c.path)
		}
	}
	if _, err := plan(component.SourceIn{}, valid()); err == nil || !strings.Contains(err.Error(), "decode") {
		t.Errorf("got %v, want that decode is missing", err)
	}
	shared := valid()
	shared.Share = "g"
	if _, err := plan(component.SourceIn{Decoded: lineSchema, ByTopic: true}, shared); err == nil || !strings.Contains(err.Error(), "Sparkplug") {
		t.Errorf("got %v, want that Sparkplug is not shared", err)
	}
}

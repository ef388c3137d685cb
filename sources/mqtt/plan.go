package mqtt

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/ingest"

	"github.com/apache/arrow-go/v18/arrow"
)

func init() {
	component.RegisterSource(component.Source[Config]{
		Name:    "mqtt",
		Summary: "Subscribes to an MQTT broker, version 5 or 3.1.1; a message is acknowledged when it is synced to the write-ahead log.",
		Doc: `Delivery: qos 1 and 2 lose nothing that the broker holds for the session: acknowledgements go out after the sync, in the order of receipt. With qos 1 the broker sends again what it has no acknowledgement for, after a lost connection or a kill, so a row may come twice: a dedup step by a key in the payload takes it out. With qos 2 the source recognises what is sent again, also after a kill, as long as idempotency.keep. With qos 0 nothing is sure.

Ordering: as the broker sends them, per connection.

Bad records: a payload that cannot be decoded, or whose topic matches no pattern, leaves by the port "bad" with its bytes, and is acknowledged. An empty payload, which clears a retained message, is no record; it is counted (empty_skipped).

Back-pressure: over the high-water mark of the log (buffer) nothing is acknowledged, and the broker stops sending at receive_maximum; messages of qos 0 are dropped then and counted (qos0_dropped).

Replay: what is not committed is read again from the write-ahead log.

Memory: receive_maximum messages per connection, and 8 MiB of messages of qos 0.`,
		Default: DefaultConfig,
		Plan:    plan,
		Serve:   func(ctx context.Context, env *dataflow.Env, cfg Config) (io.Closer, error) { return serve(env, cfg) },
		New: func(_ context.Context, env *dataflow.Env, _ Config) (dataflow.Source, error) {
			return env.Served.(*server).stream.Source(env), nil
		},
	})
}

func plan(in component.SourceIn, cfg Config) (component.SourcePlan, error) {
	_, patterns, problems := check(in.Step, cfg)
	if in.ByTopic && cfg.Share != "" {
		problems = append(problems, component.Problem{Path: "share", Msg: "the messages of a Sparkplug node must come to one client, in their order: leave share out"})
	}
	if in.Decoded == nil {
		problems = append(problems, component.Problem{Msg: "mqtt gives bytes, and the step has no decode block to make rows of them: write decode: {json: {schema: {...}}} beside mqtt"})
		return component.SourcePlan{}, problems
	}
	cols := columnsOf(cfg, patterns)
	seen := map[string]string{}
	for _, f := range in.Decoded.Fields() {
		seen[f.Name] = "is a decoded column already"
	}
	for _, c := range cols {
		switch {
		case seen[c.field.Name] != "":
			problems = append(problems, component.Problem{Path: c.path, Msg: fmt.Sprintf("column %q %s: choose another name", c.field.Name, seen[c.field.Name])})
		case dataflow.IsSystem(c.field.Name):
			problems = append(problems, component.Problem{Path: c.path, Msg: fmt.Sprintf("column %q: names that begin with %q are reserved", c.field.Name, dataflow.SysPrefix)})
		}
		seen[c.field.Name] = "is a column of " + c.path + " already"
	}
	if len(problems) > 0 {
		return component.SourcePlan{}, problems
	}
	spec := ingest.Spec{Decoded: in.Decoded, Meta: fieldsOf(cols)}
	out := component.SourcePlan{Schema: spec.Schema(), Tasks: 1, Arrived: true, Pauses: true, Topics: true}
	if cfg.ClientID != "" {
		out.Target = fmt.Sprintf("client id %q at %s", cfg.ClientID, cfg.Broker)
	}
	return out, nil
}

// check finds what is wrong with a config by itself, and reads its filters and
// patterns.
func check(step string, cfg Config) (subs, patterns []pattern, out component.Problems) {
	bad := func(path, format string, args ...any) {
		out = append(out, component.Problem{Path: path, Msg: fmt.Sprintf(format, args...)})
	}
	out = append(out, cfg.Config.Check()...)
	checkBroker(cfg, bad)
	subs = parseAll("topics", cfg.Topics, bad)
	if len(cfg.Topics) == 0 {
		bad("topics", "no filter: write at least one, as plants/+/temp")
	}
	for i, a := range subs {
		for j, b := range subs[:i] {
			if a.overlaps(b) {
				bad(fmt.Sprintf("topics[%d]", i), "filter %q overlaps %q (topics[%d]): a broker may send one message once for each of them. Write filters that no topic matches twice, or one that holds both", a.text, b.text, j)
			}
		}
	}
	patterns = subs
	if len(cfg.ColumnsFromTopic) > 0 {
		patterns = parseAll("columns_from_topic", cfg.ColumnsFromTopic, bad)
		for i, s := range subs {
			if len(s.names()) > 0 {
				bad(fmt.Sprintf("topics[%d]", i), "filter %q names levels, and so does columns_from_topic: write + here, and {name} there", s.text)
			}
		}
	}
	checkSession(step, cfg, bad)
	if cfg.MaxPayload < 1 || cfg.MaxPayload > 256<<20 {
		bad("max_payload", "%s: expected 1B to 256MiB", cfg.MaxPayload)
	}
	if st := cfg.Status; st != nil {
		if st.Topic == "" || strings.ContainsAny(st.Topic, "+#\x00") {
			bad("status.topic", "%q: expected a topic without wildcards", st.Topic)
		}
		if st.QoS < 0 || st.QoS > 2 {
			bad("status.qos", "%d: expected 0, 1 or 2", st.QoS)
		}
	}
	return subs, patterns, out
}

func checkBroker(cfg Config, bad func(path, format string, args ...any)) {
	u, err := brokerURL(cfg.Broker)
	switch {
	case err != nil:
		bad("broker", "%v", err)
		return
	case !secure(u) && cfg.TLS != component.ClientTLS{}:
		bad("tls", "broker %s is without TLS: write mqtts:// or wss://", cfg.Broker)
	}
	for _, p := range cfg.TLS.Check("tls") {
		bad(p.Path, "%s", p.Msg)
	}
	if cfg.Version == version3 && cfg.Password != "" && cfg.User == "" {
		bad("user", "version 3.1.1 has no password without a user")
	}
}

func checkSession(step string, cfg Config, bad func(path, format string, args ...any)) {
	if cfg.QoS < 0 || cfg.QoS > 2 {
		bad("qos", "%d: expected 0, 1 or 2", cfg.QoS)
	}
	if cfg.QoS > 0 && cfg.ClientID == "" {
		bad("client_id", "source %q reads with qos %d and has no client id, so that the broker could hold nothing for it while it is down: write client_id: NAME, a name of its own that stays the same", step, cfg.QoS)
	}
	if cfg.Version != version5 && cfg.Version != version3 {
		bad("version", "%q: expected \"5\" or \"3.1.1\"", cfg.Version)
	}
	if d := cfg.SessionExpiry.D(); cfg.QoS > 0 && d < time.Second || d > 1<<31*time.Second {
		bad("session_expiry", "%s: expected 1s or more", cfg.SessionExpiry)
	}
	if cfg.ReceiveMaximum < 1 || cfg.ReceiveMaximum > 65535 {
		bad("receive_maximum", "%d: expected 1 to 65535", cfg.ReceiveMaximum)
	}
	if d := cfg.KeepAlive.D(); d < time.Second || d > 18*time.Hour {
		bad("keep_alive", "%s: expected 1s to 18h", cfg.KeepAlive)
	}
	if !slices.Contains([]string{retainedSkip, retainedFirst, retainedKeep}, cfg.Retained) {
		bad("retained", "%q: expected skip, first or keep", cfg.Retained)
	}
	if cfg.Connections < 1 || cfg.Connections > 64 {
		bad("connections", "%d: expected 1 to 64", cfg.Connections)
	}
	if cfg.Connections > 1 && cfg.Share == "" {
		bad("connections", "%d connections would each get every message: write share: GROUP as well", cfg.Connections)
	}
	if strings.ContainsAny(cfg.Share, "/+#\x00") {
		bad("share", "%q: expected a name without /, + and #", cfg.Share)
	}
}

func parseAll(path string, texts []string, bad func(path, format string, args ...any)) []pattern {
	var out []pattern
	for i, text := range texts {
		p, err := parsePattern(text)
		if err != nil {
			bad(fmt.Sprintf("%s[%d]", path, i), "%v", err)
			continue
		}
		out = append(out, p)
	}
	return out
}

// brokerURL reads the address, with the port that its scheme has by itself.
func brokerURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	ports := map[string]string{"mqtt": "1883", "tcp": "1883", "mqtts": "8883", "ssl": "8883", "tls": "8883", "ws": "80", "wss": "443"}
	if err != nil || u.Hostname() == "" || ports[u.Scheme] == "" {
		return nil, fmt.Errorf("expected mqtt://HOST:1883, mqtts://HOST:8883, ws:// or wss://HOST/PATH")
	}
	if u.User != nil {
		return nil, fmt.Errorf("the address holds a user or a password: write user and password beside it")
	}
	if u.Port() == "" {
		u.Host += ":" + ports[u.Scheme]
	}
	return u, nil
}

func secure(u *url.URL) bool {
	return slices.Contains([]string{"mqtts", "ssl", "tls", "wss"}, u.Scheme)
}

// column is one behind the decoded ones.
type column struct {
	path  string // in the file
	field arrow.Field
	kind  string // of Metadata; "": a level of the topic
}

// columnsOf lists the columns of topics, then the metadata, in the order in which
// they stand in rows.
func columnsOf(cfg Config, patterns []pattern) []column {
	path := "topics"
	if len(cfg.ColumnsFromTopic) > 0 {
		path = "columns_from_topic"
	}
	var out []column
	for _, name := range levelNames(patterns) {
		always := !slices.ContainsFunc(patterns, func(p pattern) bool { return !slices.Contains(p.names(), name) })
		out = append(out, column{path: path, field: arrow.Field{Name: name, Type: dataflow.TypeString, Nullable: !always}})
	}
	m := cfg.Metadata
	for _, c := range []struct {
		kind, name string
		typ        arrow.DataType
		nullable   bool
	}{
		{"topic", m.Topic, dataflow.TypeString, false},
		{"qos", m.QoS, dataflow.TypeInt32, false},
		{"retained", m.Retained, dataflow.TypeBool, false},
		{"redelivered", m.Redelivered, dataflow.TypeBool, false},
		{"message_id", m.MessageID, dataflow.TypeInt32, true},
		{"received_at", m.ReceivedAt, dataflow.TypeTimestampTZ, false},
		{"user_properties", m.UserProperties, userPropertiesType, true},
		{"content_type", m.ContentType, dataflow.TypeString, true},
		{"expiry", m.Expiry, dataflow.TypeInt64, true},
		{"response_topic", m.ResponseTopic, dataflow.TypeString, true},
		{"correlation_data", m.CorrelationData, dataflow.TypeBinary, true},
	} {
		if c.name != "" {
			out = append(out, column{"metadata." + c.kind, arrow.Field{Name: c.name, Type: c.typ, Nullable: c.nullable}, c.kind})
		}
	}
	return out
}

// levelNames are the names of levels, in the order in which they come first.
func levelNames(patterns []pattern) []string {
	var out []string
	for _, p := range patterns {
		for _, name := range p.names() {
			if !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

func fieldsOf(cols []column) []arrow.Field {
	var out []arrow.Field
	for _, c := range cols {
		out = append(out, c.field)
	}
	return out
}

var userPropertiesType = arrow.ListOf(arrow.StructOf(
	arrow.Field{Name: "key", Type: dataflow.TypeString},
	arrow.Field{Name: "value", Type: dataflow.TypeString},
))

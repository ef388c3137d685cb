package mqtt

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/spool"
	"frazil/operators/expr"
)

// Config is what a user writes under "mqtt".
type Config struct {
	// Broker is its address: mqtt://HOST:1883 or mqtts://HOST:8883. It must speak
	// version 5.
	Broker string `yaml:"broker,required"`
	// Topic to publish to. {EXPRESSION} in it is replaced by the value of each row, as in
	// plants/{plant}/alarms; a row for which that is null or no valid name is bad
	// (invalid_topic).
	Topic string `yaml:"topic,required"`
	// Payload is an expression whose text or bytes are the message; null is an empty
	// one. Default: a JSON object of all columns.
	Payload string `yaml:"payload"`
	// QoS is 0 (at most once: nothing is acknowledged), 1 (at least once) or 2. Default:
	// 1.
	QoS int `yaml:"qos"`
	// Retain is an expression of type bool: whether the broker keeps the message for
	// those who subscribe later. Default: false.
	Retain string `yaml:"retain"`
	// UserProperties maps names to expressions; one that is null is left out. Default:
	// none.
	UserProperties component.NamedExprs `yaml:"user_properties"`
	// ContentType of the payload. Default: application/json without payload, else none.
	ContentType string `yaml:"content_type"`
	// Expiry is after how long the broker drops a message that it could not deliver, in
	// whole seconds. Default: off, never.
	Expiry component.Duration `yaml:"expiry"`
	// ClientID names us at the broker; a second connection of the same name ends the
	// first. Default: frazil-PIPELINE-SINK.
	ClientID string `yaml:"client_id"`
	// InFlight is how many messages of qos 1 and 2 may be under way, 1 to 65535; the
	// broker may allow fewer. Default: 1000.
	InFlight int `yaml:"in_flight"`
	// KeepAlive is after which silence the connection is tested, 1s to 18h. Default:
	// 30s.
	KeepAlive component.Duration `yaml:"keep_alive"`
	// User to log in with. Default: none.
	User string `yaml:"user"`
	// Password to log in with. Default: none.
	Password component.Secret `yaml:"password"`
	// TLS settings of mqtts.
	TLS component.ClientTLS `yaml:"tls"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{QoS: 1, InFlight: 1000, KeepAlive: component.Duration(30 * time.Second)}
}

func init() {
	component.RegisterSink(component.Sink[Config]{
		Name:    "mqtt",
		Summary: "Publishes rows to an MQTT 5 broker, at least once.",
		Doc: `Delivery: at least once, with qos 1 and 2. Rows wait in files of the spool folder until their checkpoint is
durable and are then published; the commit is done when the broker has acknowledged all of them (PUBACK, PUBCOMP).
Messages that were under way when a connection was lost or the process was killed are published again, also with qos 2.
With qos 0 the broker has read all of them when the commit is done. Positions are kept in the spool folder.

Order: as the rows arrive.

Refused messages: what the broker refuses for good (its topic, its size, its payload's format) goes to a file in the
folder refused of the sink's spool, with the broker's reason.

Bad rows: a row whose topic, payload, retain or property cannot be computed leaves by the port "bad".

Memory: in_flight messages.`,
		Changes:   component.ChangesAsRows,
		Default:   DefaultConfig,
		Plan:      plan,
		NewWriter: newWriter,
		NewCommitter: func(_ context.Context, env *dataflow.Env, in component.SinkIn, cfg Config) (dataflow.Committer, error) {
			s, err := newSender(env, cfg)
			if err != nil {
				return nil, err
			}
			return spool.NewCommitter(env, target(in.Step, cfg), s), nil
		},
	})
}

func plan(in component.SinkIn, cfg Config) (component.SinkPlan, error) {
	_, problems := newLayout(in.Input, cfg)
	if problems = append(check(cfg), problems...); len(problems) > 0 {
		return component.SinkPlan{}, problems
	}
	return component.SinkPlan{Target: string(target(in.Step, cfg)), Tasks: 1, Spools: true}, nil
}

// target names the step too: several sinks may publish to one topic.
func target(step string, cfg Config) dataflow.Target {
	return dataflow.Target(fmt.Sprintf("mqtt:%s (%s)", cfg.Topic, step))
}

// check finds what is wrong with a config by itself.
func check(cfg Config) component.Problems {
	var out component.Problems
	bad := func(path, format string, args ...any) {
		out = append(out, component.Problem{Path: path, Msg: fmt.Sprintf(format, args...)})
	}
	if _, err := brokerURL(cfg.Broker); err != nil {
		bad("broker", "%v", err)
	}
	if cfg.QoS < 0 || cfg.QoS > 2 {
		bad("qos", "%d: expected 0, 1 or 2", cfg.QoS)
	}
	if d := cfg.Expiry.D(); d%time.Second != 0 || d > 1<<32*time.Second-time.Second {
		bad("expiry", "%s: expected whole seconds", cfg.Expiry)
	}
	if cfg.InFlight < 1 || cfg.InFlight > 65535 {
		bad("in_flight", "%d: expected 1 to 65535", cfg.InFlight)
	}
	if d := cfg.KeepAlive.D(); d < time.Second || d > 18*time.Hour {
		bad("keep_alive", "%s: expected 1s to 18h", cfg.KeepAlive)
	}
	if cfg.Password != "" && cfg.User == "" {
		bad("password", "a password needs a user")
	}
	return append(out, cfg.TLS.Check("tls")...)
}

// brokerURL reads the address of a broker and adds the port that is usual.
func brokerURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil || u.Scheme != "mqtt" && u.Scheme != "mqtts" {
		return nil, fmt.Errorf("expected mqtt://HOST:PORT or mqtts://HOST:PORT")
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), map[string]string{"mqtt": "1883", "mqtts": "8883"}[u.Scheme])
	}
	return u, nil
}

// layout says where the parts of a message come from.
type layout struct {
	topic           *expr.Template
	payload, retain *expr.Expr // nil: there is none
	properties      []property
}

type property struct {
	name string
	expr *expr.Expr
}

func newLayout(in dataflow.Stream, cfg Config) (*layout, component.Problems) {
	l := &layout{}
	var out component.Problems
	compile := func(path, text string) *expr.Expr {
		if text == "" {
			return nil
		}
		e, err := expr.Compile(text, in.Schema)
		if err != nil {
			out = append(out, expr.Problem(path, err))
		}
		return e
	}
	var problems component.Problems
	if l.topic, problems = expr.ParseTemplate("topic", cfg.Topic, in.Schema); problems == nil {
		if name, ok := l.topic.Constant(); ok {
			if why := checkTopic(name); why != "" {
				problems = component.Problems{{Path: "topic", Msg: why}}
			}
		}
	}
	out = append(out, problems...)
	l.payload, l.retain = compile("payload", cfg.Payload), compile("retain", cfg.Retain)
	if l.retain != nil && dataflow.TypeName(l.retain.Type()) != "bool" {
		out = append(out, component.Problem{Path: "retain", Msg: fmt.Sprintf("expected bool, this expression gives %s", dataflow.TypeName(l.retain.Type()))})
	}
	for _, p := range cfg.UserProperties {
		l.properties = append(l.properties, property{p.Name, compile("user_properties."+p.Name, p.Expr)})
	}
	return l, out
}

// checkTopic says why no message can have the topic; "" if one can.
func checkTopic(name string) string {
	switch {
	case name == "":
		return "the topic is empty"
	case strings.ContainsAny(name, "+#\x00"):
		return fmt.Sprintf("topic %q: the characters + and # are for those who subscribe, and U+0000 for nobody", name)
	case len(name) > 65535 || !utf8.ValidString(name):
		return "the topic is no text of at most 65535 bytes"
	}
	return ""
}

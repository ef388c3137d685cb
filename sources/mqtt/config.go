package mqtt

import (
	"time"

	"frazil/dataflow/component"
	"frazil/dataflow/ingest"
)

// Config is what a user writes under "mqtt".
type Config struct {
	// Broker is its address: mqtt://HOST:1883, mqtts://HOST:8883, ws://HOST/PATH or
	// wss://HOST/PATH. Required.
	Broker string `yaml:"broker,required"`
	// Topics are the filters to subscribe to. + stands for one level, # at the end
	// for all that follow, {name} for one level that becomes a column of texts. Two
	// filters of a source may not overlap. Required.
	Topics []string `yaml:"topics,required"`
	// ColumnsFromTopic are patterns that make columns of topics, the first that
	// matches counts; a message whose topic matches none is bad (no_topic_pattern).
	// Levels are split at each /, empty ones included; a column that a pattern does
	// not name is null. Default: the filters in topics.
	ColumnsFromTopic []string `yaml:"columns_from_topic"`
	// QoS is what is asked for: 0 (at most once), 1 (at least once) or 2. Default: 1.
	QoS int `yaml:"qos"`
	// ClientID names the session at the broker. It must stay the same over restarts
	// and belong to this source alone. Needed for qos 1 and 2; for qos 0 the default
	// is a random one. With connections over 1, -0, -1, ... is added.
	ClientID string `yaml:"client_id"`
	// Version of the protocol, in quotes: "5" or "3.1.1". Default: "5".
	Version string `yaml:"version" oneof:"5,3.1.1"`
	// SessionExpiry is how long the broker keeps the session, and what it holds for
	// it, while the source is not connected. With version 3.1.1 the broker decides.
	// Default: 24h.
	SessionExpiry component.Duration `yaml:"session_expiry"`
	// ReceiveMaximum is how many messages of qos 1 and 2 the broker may send without
	// an acknowledgement, 1 to 65535: what bounds the memory of each connection, and
	// what flows between two syncs of the write-ahead log. Many brokers have a limit
	// of their own (mosquitto: max_inflight_messages, 20), and with version 3.1.1
	// only that. Default: 1000.
	ReceiveMaximum int `yaml:"receive_maximum"`
	// KeepAlive is after which silence the connection is tested, 1s to 18h. Default:
	// 30s.
	KeepAlive component.Duration `yaml:"keep_alive"`
	// Retained says what happens to messages that the broker kept from before the
	// subscription: skip (counted), first (rows, when the subscription is new) or
	// keep (rows, each time the broker sends them, that is with each new
	// connection). Default: skip.
	Retained string `yaml:"retained" oneof:"skip,first,keep"`
	// Share makes it a shared subscription of this group: each message goes to one
	// connection of the group only. Default: none.
	Share string `yaml:"share"`
	// Connections to the broker, 1 to 64; more than one only with share. Default: 1.
	Connections int `yaml:"connections"`
	// Compression of the payloads: none, gzip, zstd or auto (by their first bytes).
	// Default: none.
	Compression string `yaml:"compression" oneof:"none,gzip,zstd,auto"`
	// MaxPayload bounds a payload, after decompression too. A larger one is bad
	// (too_large). Default: 4MiB.
	MaxPayload component.Bytes `yaml:"max_payload"`
	// User to log in with. Default: none.
	User string `yaml:"user"`
	// Password to log in with. Default: none.
	Password component.Secret `yaml:"password"`
	// TLS settings of mqtts and wss.
	TLS component.ClientTLS `yaml:"tls"`
	// Status tells others whether the source is connected.
	Status *StatusConfig `yaml:"status"`
	// Rebirth: with sparkplug payloads, a node whose birth is not known is asked for
	// it (NCMD "Node Control/Rebirth"). Default: true.
	Rebirth bool `yaml:"rebirth"`
	// Metadata adds columns behind the decoded ones. Each entry names the column to
	// make. Default: none.
	Metadata Metadata `yaml:"metadata"`

	ingest.Config `yaml:",inline"`
}

// StatusConfig is a topic that says whether the source is there: the first text
// with each connection, the second at its end; the broker says it as our will if
// we cannot.
type StatusConfig struct {
	// Topic to publish to. Required.
	Topic string `yaml:"topic,required"`
	// Online is published when the source is connected. Default: online.
	Online string `yaml:"online"`
	// Offline is published when it is not. Default: offline.
	Offline string `yaml:"offline"`
	// QoS of both: 0, 1 or 2. Default: 1.
	QoS int `yaml:"qos"`
	// Retain: the broker keeps the last of them. Default: true.
	Retain bool `yaml:"retain"`
}

// SetDefaults implements component.Defaulter.
func (c *StatusConfig) SetDefaults() {
	*c = StatusConfig{Online: "online", Offline: "offline", QoS: 1, Retain: true}
}

// Metadata names the columns that hold what MQTT knows beside the payload.
type Metadata struct {
	// Topic: string.
	Topic string `yaml:"topic"`
	// QoS: int32, that the message came with.
	QoS string `yaml:"qos"`
	// Retained: boolean, the broker kept it from before the subscription.
	Retained string `yaml:"retained"`
	// Redelivered: boolean, the broker has sent it before (DUP).
	Redelivered string `yaml:"redelivered"`
	// MessageID: int32, the packet identifier, null with qos 0. It is used again and
	// again.
	MessageID string `yaml:"message_id"`
	// ReceivedAt: timestamptz, when it came.
	ReceivedAt string `yaml:"received_at"`
	// UserProperties: list<struct{key: string, value: string}>, in the message's
	// order; null with version 3.1.1, as all that follow.
	UserProperties string `yaml:"user_properties"`
	// ContentType: string, null without.
	ContentType string `yaml:"content_type"`
	// Expiry: int64, seconds that were left of its life, null without.
	Expiry string `yaml:"expiry"`
	// ResponseTopic: string, null without.
	ResponseTopic string `yaml:"response_topic"`
	// CorrelationData: binary, null without.
	CorrelationData string `yaml:"correlation_data"`
}

// Values of Config.Retained, Compression and Version.
const (
	retainedSkip  = "skip"
	retainedFirst = "first"
	retainedKeep  = "keep"

	compressionNone = "none"

	version5 = "5"
	version3 = "3.1.1"
)

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		QoS: 1, Version: version5, SessionExpiry: component.Duration(24 * time.Hour), ReceiveMaximum: 1000,
		KeepAlive: component.Duration(30 * time.Second), Retained: retainedSkip, Connections: 1, Compression: compressionNone,
		MaxPayload: 4 << 20, Rebirth: true, Config: ingest.DefaultConfig(),
	}
}

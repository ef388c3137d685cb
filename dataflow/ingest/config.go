package ingest

import (
	"time"

	"frazil/dataflow/component"
)

// Config is the part of a push source's configuration that all of them share.
type Config struct {
	// When a producer is answered: wal (its records are synced to the write-ahead
	// log) or commit (they are in every table). Default: wal.
	Ack string `yaml:"ack" oneof:"wal,commit"`
	// High-water mark of what is accepted and not yet committed: over it, new
	// records are refused until a commit makes room.
	Buffer BufferConfig `yaml:"buffer"`
	// How long the keys of retries are remembered.
	Idempotency IdempotencyConfig `yaml:"idempotency"`
}

// Values of Config.Ack.
const (
	AckWAL    = "wal"
	AckCommit = "commit"
)

// BufferConfig is the high-water mark of a stream.
type BufferConfig struct {
	// Bytes in the write-ahead log. Default: 64MiB.
	Bytes component.Bytes `yaml:"bytes"`
	// Rows; 0: no limit. Default: 0.
	Rows int64 `yaml:"rows"`
	// Age of the oldest record that is not committed; 0: no limit. Default: 5m.
	Age component.Duration `yaml:"age"`
}

// IdempotencyConfig bounds what is remembered of retries.
type IdempotencyConfig struct {
	// A retry that comes within this time after the first answer is recognised
	// and answered alike. Time in which the program does not run is not counted, nor
	// is it when the clock is set. Default: 1h.
	Keep component.Duration `yaml:"keep"`
	// How many requests are remembered at most, some 50 bytes of disk and 2 of memory
	// each; over it the oldest are forgotten before their time, which is counted and
	// logged. Default: 4000000.
	Keys int64 `yaml:"keys"`
}

// DefaultConfig holds the defaults.
func DefaultConfig() Config {
	return Config{
		Ack:         AckWAL,
		Buffer:      BufferConfig{Bytes: 64 << 20, Age: component.Duration(5 * time.Minute)},
		Idempotency: IdempotencyConfig{Keep: component.Duration(time.Hour), Keys: 4_000_000},
	}
}

// Check reports what is wrong with c.
func (c Config) Check() component.Problems {
	var p component.Problems
	if c.Buffer.Bytes < 1<<20 {
		p = append(p, component.Problem{Path: "buffer.bytes", Msg: "expected 1MiB or more: less holds up every producer"})
	}
	if c.Buffer.Rows < 0 {
		p = append(p, component.Problem{Path: "buffer.rows", Msg: "expected 0 (no limit) or more"})
	}
	if c.Idempotency.Keys < 100_000 {
		p = append(p, component.Problem{Path: "idempotency.keys", Msg: "expected 100000 or more"})
	}
	if c.Idempotency.Keep.D() < time.Minute {
		p = append(p, component.Problem{Path: "idempotency.keep", Msg: "expected 1m or more: retries come late"})
	}
	return p
}

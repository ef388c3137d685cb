package generate

import (
	"time"

	"frazil/dataflow/component"
)

// Config of the source. Exactly one of its blocks is given.
type Config struct {
	// A simulated fleet of devices that sends JSON payloads. Needs a decode
	// block.
	Fleet *FleetConfig `yaml:"fleet" choose:"one"`
	// Numbered rows in typed columns. Takes no decode block.
	Counter *CounterConfig `yaml:"counter" choose:"one"`
	// The auctions, people or bids of the Nexmark benchmark in typed columns.
	// Takes no decode block.
	Nexmark *NexmarkConfig `yaml:"nexmark" choose:"one"`
}

// FleetConfig is a simulated fleet of devices.
type FleetConfig struct {
	// Total number of records, over all splits. Default 1000000.
	Events int64 `yaml:"events"`
	// Everything that looks random follows from this number. Default 1.
	Seed int64 `yaml:"seed"`
	// Number of sites. Default 10.
	Sites int `yaml:"sites"`
	// Number of devices per site. Default 100.
	Devices int `yaml:"devices"`
	// Number of splits; a device sends to one of them, but for cross_split.
	// Default 4.
	Splits int `yaml:"splits"`
	// Simulated time between two records of one device. Default 1s.
	Interval component.Duration `yaml:"interval"`
	// Start of the simulated clock, RFC 3339. Default 2026-01-01T00:00:00Z.
	Start string `yaml:"start"`
	// Bound on the disorder: a record arrives less than this after its event
	// time, stragglers excepted. Default 8s.
	Disorder component.Duration `yaml:"disorder"`
	// Share of records, 0 to 1, that are retries: the same bytes once more, some
	// time after the original. Default 0.03.
	Duplicates float64 `yaml:"duplicates"`
	// Share of the retries, 0 to 1, that go to another split than the original.
	// Default 0.25.
	CrossSplit float64 `yaml:"cross_split"`
	// The longest simulated time between an original and its retry. Default 30s.
	RetryWithin component.Duration `yaml:"retry_within"`
	// Share of records, 0 to 1, that arrive far later than the disorder allows.
	// Default 0.002.
	Stragglers float64 `yaml:"stragglers"`
	// The longest delay of a straggler; the shortest is a fifth of it. Default
	// 15m.
	StragglerDelay component.Duration `yaml:"straggler_delay"`
	// Share of records, 0 to 1, from clocks that are a day ahead. Default 0.0005.
	Future float64 `yaml:"future"`
	// Share of records, 0 to 1, whose sensor is broken: they say status "fault"
	// and -273.15 degrees. Default 0.005.
	Faults float64 `yaml:"faults"`
	// Share of records, 0 to 1, that cannot be decoded: truncated, of a wrong
	// type, or not UTF-8. Default 0.001.
	Malformed float64 `yaml:"malformed"`
	// Records per second, over all splits; 0 is as fast as possible. Default 0.
	Rate int64 `yaml:"rate"`
}

// DefaultFleet returns the defaults of the fleet block.
func DefaultFleet() FleetConfig {
	return FleetConfig{
		Events: 1_000_000, Seed: 1, Sites: 10, Devices: 100, Splits: 4,
		Interval: component.Duration(time.Second), Start: defaultStart,
		Disorder:   component.Duration(8 * time.Second),
		Duplicates: 0.03, CrossSplit: 0.25, RetryWithin: component.Duration(30 * time.Second),
		Stragglers: 0.002, StragglerDelay: component.Duration(15 * time.Minute),
		Future: 0.0005, Faults: 0.005, Malformed: 0.001,
	}
}

// UnmarshalNode fills c over its defaults: behind a pointer the decoder knows
// none.
func (c *FleetConfig) UnmarshalNode(n *component.Node) error {
	type plain FleetConfig
	*c = DefaultFleet()
	return orNil(component.Decode(n, (*plain)(c)))
}

// CounterConfig numbers rows.
type CounterConfig struct {
	// Total number of rows, over all splits; 0 never ends. Default 0.
	Count int64 `yaml:"count"`
	// Number of splits; they take turns. Default 1.
	Splits int `yaml:"splits"`
	// Number of different keys. Default 100.
	Keys int `yaml:"keys"`
	// Event time of the first row, RFC 3339. Default 2026-01-01T00:00:00Z.
	Start string `yaml:"start"`
	// Event time between two rows. Default 1ms.
	Step component.Duration `yaml:"step"`
	// Rows per second, over all splits; 0 is as fast as possible. Default 0.
	Rate int64 `yaml:"rate"`
}

// DefaultCounter returns the defaults of the counter block.
func DefaultCounter() CounterConfig {
	return CounterConfig{Splits: 1, Keys: 100, Start: defaultStart, Step: component.Duration(time.Millisecond)}
}

// UnmarshalNode fills c over its defaults.
func (c *CounterConfig) UnmarshalNode(n *component.Node) error {
	type plain CounterConfig
	*c = DefaultCounter()
	return orNil(component.Decode(n, (*plain)(c)))
}

func orNil(p component.Problems) error {
	if len(p) == 0 {
		return nil
	}
	return p
}

const (
	defaultStart = "2026-01-01T00:00:00Z"
	maxSplits    = 1024
	maxDevices   = 1_000_000
	maxKeys      = 1_000_000
)

func (c FleetConfig) check() (p component.Problems) {
	bad := func(path, msg string) { p = append(p, component.Problem{Path: "fleet." + path, Msg: msg}) }
	if c.Events < 1 {
		bad("events", "expected at least 1 record")
	}
	if c.Sites < 1 || c.Devices < 1 || c.Sites > maxDevices || c.Devices > maxDevices || c.Sites*c.Devices > maxDevices {
		bad("devices", "expected 1 to 1000000 devices in all (sites times devices)")
	} else if c.Splits < 1 || c.Splits > maxSplits || c.Splits > c.Sites*c.Devices {
		bad("splits", "expected 1 to 1024 splits, at most one per device")
	}
	if c.Interval.D() < time.Millisecond || c.Interval.D() > 24*time.Hour {
		bad("interval", "expected 1ms to 24h")
	}
	for _, d := range []struct {
		path string
		d    component.Duration
	}{{"disorder", c.Disorder}, {"retry_within", c.RetryWithin}, {"straggler_delay", c.StragglerDelay}} {
		if d.d.D() > 365*24*time.Hour {
			bad(d.path, "expected at most 365d")
		}
	}
	if c.Stragglers > 0 && c.StragglerDelay.D() < time.Millisecond {
		bad("straggler_delay", "expected at least 1ms")
	}
	sum := 0.0
	for _, s := range []struct {
		path  string
		share float64
	}{{"duplicates", c.Duplicates}, {"stragglers", c.Stragglers}, {"future", c.Future}, {"faults", c.Faults}, {"malformed", c.Malformed}} {
		if !(s.share >= 0 && s.share <= 1) {
			bad(s.path, "expected a share from 0 to 1, as 0.02")
		}
		sum += s.share
	}
	if sum > 1 {
		bad("duplicates", "the shares of duplicates, stragglers, future, faults and malformed add up to more than 1")
	}
	if !(c.CrossSplit >= 0 && c.CrossSplit <= 1) {
		bad("cross_split", "expected a share from 0 to 1, as 0.25")
	}
	if _, err := parseStart(c.Start); err != nil {
		bad("start", err.Error())
	}
	if c.Rate < 0 {
		bad("rate", "expected records per second, or 0 for as fast as possible")
	}
	return p
}

func (c CounterConfig) check() (p component.Problems) {
	bad := func(path, msg string) { p = append(p, component.Problem{Path: "counter." + path, Msg: msg}) }
	if c.Count < 0 {
		bad("count", "expected a number of rows, or 0 for no end")
	}
	if c.Splits < 1 || c.Splits > maxSplits {
		bad("splits", "expected 1 to 1024 splits")
	}
	if c.Keys < 1 || c.Keys > maxKeys {
		bad("keys", "expected 1 to 1000000 keys")
	}
	if c.Step.D() > 24*time.Hour {
		bad("step", "expected at most 24h")
	}
	if c.Step.D()%time.Microsecond != 0 {
		bad("step", "expected whole microseconds")
	}
	if _, err := parseStart(c.Start); err != nil {
		bad("start", err.Error())
	}
	if c.Rate < 0 {
		bad("rate", "expected rows per second, or 0 for as fast as possible")
	}
	return p
}

package generate

import (
	"fmt"
	"math"

	"frazil/dataflow/component"
)

// NexmarkConfig is the stream of the Nexmark benchmark: auctions with people who
// bid.
type NexmarkConfig struct {
	// Which records become rows: bid, auction or person. The others take their
	// place in the order and in time, and are not made. Default bid.
	Only string `yaml:"only"`
	// The columns that are made, in this order. Default: all. Of bids auction,
	// bidder, price, channel, url, dateTime, extra; of auctions id, itemName,
	// description, initialBid, reserve, dateTime, expires, seller, category,
	// extra; of persons id, name, emailAddress, creditCard, city, state,
	// dateTime, extra.
	Columns []string `yaml:"columns"`
	// Number of events of all kinds, over all splits: of every 50 events one is
	// a person, three are auctions, 46 are bids. 0 never ends. Default 1000000.
	Events int64 `yaml:"events"`
	// Everything that looks random follows from this number. Default 1.
	Seed int64 `yaml:"seed"`
	// Number of splits; they take turns, 50 events each. Default 1.
	Splits int `yaml:"splits"`
	// Events of all kinds per second of event time. Default 10000.
	PerSecond int64 `yaml:"per_second"`
	// Event time of the first event, RFC 3339. Default 2026-01-01T00:00:00Z.
	Start string `yaml:"start"`
	// One bid in so many goes to any auction in flight, the others to the hot
	// one. Default 2.
	HotAuctions int64 `yaml:"hot_auctions"`
	// One auction in so many is of any active person, the others of the hot
	// seller. Default 4.
	HotSellers int64 `yaml:"hot_sellers"`
	// One bid in so many is of any active person, the others of the hot bidder.
	// Default 4.
	HotBidders int64 `yaml:"hot_bidders"`
	// How many of the newest auctions get bids. Default 100.
	InFlightAuctions int64 `yaml:"in_flight_auctions"`
	// How many of the newest people sell and bid. Default 1000.
	ActivePeople int64 `yaml:"active_people"`
	// Events of all kinds per second, over all splits; 0 is as fast as possible.
	// Default 0.
	Rate int64 `yaml:"rate"`
}

// DefaultNexmark returns the defaults of the nexmark block, those of the
// original generator.
func DefaultNexmark() NexmarkConfig {
	return NexmarkConfig{
		Only: "bid", Events: 1_000_000, Seed: 1, Splits: 1, PerSecond: 10_000, Start: defaultStart,
		HotAuctions: 2, HotSellers: 4, HotBidders: 4, InFlightAuctions: 100, ActivePeople: 1000,
	}
}

// UnmarshalNode fills c over its defaults.
func (c *NexmarkConfig) UnmarshalNode(n *component.Node) error {
	type plain NexmarkConfig
	*c = DefaultNexmark()
	return orNil(component.Decode(n, (*plain)(c)))
}

func (c NexmarkConfig) check() (p component.Problems) {
	bad := func(path, format string, args ...any) {
		p = append(p, component.Problem{Path: "nexmark." + path, Msg: fmt.Sprintf(format, args...)})
	}
	if nexKindOf(c.Only) == nil {
		bad("only", "expected bid, auction or person, got %q", c.Only)
	} else {
		for _, x := range nexSchemaProblems(c) {
			bad(x.Path, "%s", x.Msg)
		}
	}
	if c.Events < 0 {
		bad("events", "expected a number of events, or 0 for no end")
	}
	if c.Splits < 1 || c.Splits > maxSplits {
		bad("splits", "expected 1 to 1024 splits")
	}
	for _, x := range []struct {
		path  string
		value int64
		most  int64
	}{
		{"per_second", c.PerSecond, 1_000_000_000}, {"hot_auctions", c.HotAuctions, 1_000_000}, {"hot_sellers", c.HotSellers, 1_000_000},
		{"hot_bidders", c.HotBidders, 1_000_000}, {"in_flight_auctions", c.InFlightAuctions, 10_000_000}, {"active_people", c.ActivePeople, 10_000_000},
	} {
		if x.value < 1 || x.value > x.most {
			bad(x.path, "expected 1 to %d", x.most)
		}
	}
	if _, err := parseStart(c.Start); err != nil {
		bad("start", "%s", err)
	}
	if c.Rate < 0 || c.Rate > math.MaxInt64/nexBids {
		bad("rate", "expected events per second, or 0 for as fast as possible")
	}
	return p
}

package generate

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// nexRows reads all rows of a source over a nexmark, as JSON by split.
func nexRows(t *testing.T, cfg NexmarkConfig, rows int) map[int][]string {
	t.Helper()
	s := newTestSource(t, testEnv(t), Config{Nexmark: &cfg})
	for n := range cfg.Splits {
		if err := s.Assign(context.Background(), []dataflow.SplitAt{{Split: splitName(n)}}); err != nil {
			t.Fatal(err)
		}
	}
	out := map[int][]string{}
	for {
		p, err := s.Poll(context.Background(), dataflow.PollLimit{Rows: rows, Bytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if p.Split == "" {
			return out
		}
		n, _ := s.number(p.Split)
		if p.Batch != nil {
			for i := range int(p.Batch.NumRows()) {
				out[n] = append(out[n], string(dataflow.RowJSON(p.Batch, i)))
			}
		}
		p.Release()
	}
}

// nexWant makes the same rows from the events one by one.
func nexWant(t *testing.T, cfg NexmarkConfig) map[int][]string {
	t.Helper()
	g, err := NewNexmark(cfg)
	if err != nil {
		t.Fatal(err)
	}
	out := map[int][]string{}
	for n := range cfg.Events {
		line := ""
		at := func(ms int64) string { return dataflow.Time(ms * 1000).String() }
		if b, ok := g.Bid(n); ok && cfg.Only == "bid" {
			line = fmt.Sprintf(`{"auction":%d,"bidder":%d,"price":%d,"channel":%q,"url":%q,"dateTime":%q,"extra":%q}`,
				b.Auction, b.Bidder, b.Price, b.Channel, b.URL, at(b.DateTime), b.Extra)
		}
		if a, ok := g.Auction(n); ok && cfg.Only == "auction" {
			line = fmt.Sprintf(`{"id":%d,"itemName":%q,"description":%q,"initialBid":%d,"reserve":%d,"dateTime":%q,"expires":%q,"seller":%d,"category":%d,"extra":%q}`,
				a.ID, a.ItemName, a.Description, a.InitialBid, a.Reserve, at(a.DateTime), at(a.Expires), a.Seller, a.Category, a.Extra)
		}
		if p, ok := g.Person(n); ok && cfg.Only == "person" {
			line = fmt.Sprintf(`{"id":%d,"name":%q,"emailAddress":%q,"creditCard":%q,"city":%q,"state":%q,"dateTime":%q,"extra":%q}`,
				p.ID, p.Name, p.Email, p.CreditCard, p.City, p.State, at(p.DateTime), p.Extra)
		}
		if line != "" {
			split := int(n / nexEpoch % int64(cfg.Splits))
			out[split] = append(out[split], line)
		}
	}
	return out
}

func TestNexmarkColumnsAreTheEvents(t *testing.T) {
	for _, only := range []string{"bid", "auction", "person"} {
		for _, splits := range []int{1, 3} {
			for _, events := range []int64{1, 3, 4, 5, 50, 149, 7777} {
				cfg := DefaultNexmark()
				cfg.Only, cfg.Splits, cfg.Events, cfg.Seed = only, splits, events, 42
				want := nexWant(t, cfg)
				for _, rows := range []int{7, 1000} {
					got := nexRows(t, cfg, rows)
					for n := range splits {
						if len(got[n]) != len(want[n]) {
							t.Fatalf("%s, %d splits, %d events: split %d has %d rows, want %d", only, splits, events, n, len(got[n]), len(want[n]))
						}
						for i := range want[n] {
							if got[n][i] != want[n][i] {
								t.Fatalf("%s, %d splits, split %d, row %d:\n got %s\nwant %s", only, splits, n, i, got[n][i], want[n][i])
							}
						}
					}
				}
			}
		}
	}
}

func TestNexmarkMakesOnlyTheColumnsAskedFor(t *testing.T) {
	cfg := DefaultNexmark()
	cfg.Events, cfg.Columns = 5, []string{"price", "auction"}
	g, _ := NewNexmark(cfg)
	b, _ := g.Bid(4)
	if got, want := nexRows(t, cfg, 10)[0], fmt.Sprintf(`{"price":%d,"auction":%d}`, b.Price, b.Auction); len(got) != 1 || got[0] != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestNexmarkHasTheShapeOfTheOriginal: proportions, sizes and hot keys.
func TestNexmarkHasTheShapeOfTheOriginal(t *testing.T) {
	cfg := DefaultNexmark()
	g, err := NewNexmark(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var bids, hotAuctions, hotBidders, early, hotChannels, logs float64
	var bidBytes, auctions, auctionBytes, persons, personBytes, hotSellers float64
	channels := map[string]string{}
	const from, to = 100_000, 400_000
	for n := int64(from); n < to; n++ {
		if b, ok := g.Bid(n); ok {
			bids++
			bidBytes += float64(4*8 + len(b.Extra))
			newest := nexFirstID + lastAuction(n)
			if b.Auction > newest+nexAhead || b.Auction < newest-nexHotEvery || b.Price < 100 || b.Price > 100_000_000 {
				t.Fatalf("event %d, newest auction %d: %+v", n, newest, b)
			}
			if b.Auction == nexFirstID+(newest-nexFirstID)/nexHotEvery*nexHotEvery {
				hotAuctions++
			}
			if b.Auction > newest {
				early++
			}
			if (b.Bidder-nexFirstID)%nexHotEvery == 1 && nexFirstID+lastPerson(n)-b.Bidder < nexHotEvery {
				hotBidders++
			}
			if !strings.HasPrefix(b.Channel, "channel-") {
				hotChannels++
			}
			if url, ok := channels[b.Channel]; ok && url != b.URL {
				t.Fatalf("channel %s has two URLs", b.Channel)
			}
			channels[b.Channel] = b.URL
			logs += math.Log10(float64(b.Price))
			if want := cfgStart(t, cfg) + n/10; b.DateTime != want {
				t.Fatalf("event %d is at %d, want %d", n, b.DateTime, want)
			}
		}
		if a, ok := g.Auction(n); ok {
			auctions++
			auctionBytes += float64(6*8 + len(a.ItemName) + len(a.Description) + len(a.Extra))
			if a.Expires <= a.DateTime || a.Reserve <= a.InitialBid || a.Category < 10 || a.Category > 14 {
				t.Fatalf("event %d: %+v", n, a)
			}
			if (a.Seller-nexFirstID)%nexHotEvery == 0 {
				hotSellers++
			}
		}
		if p, ok := g.Person(n); ok {
			persons++
			personBytes += float64(8 + len(p.Name) + len(p.Email) + len(p.CreditCard) + len(p.City) + len(p.State) + len(p.Extra))
		}
	}
	for _, x := range []struct {
		what            string
		got, want, with float64
	}{
		{"bids", bids, (to - from) / 50 * 46, 0.5}, {"auctions", auctions, (to - from) / 50 * 3, 0.5}, {"persons", persons, (to - from) / 50, 0.5},
		{"bytes of a bid", bidBytes / bids, 100, 1}, {"bytes of an auction", auctionBytes / auctions, 500, 5}, {"bytes of a person", personBytes / persons, 200, 2},
		{"bids on the hot auction", hotAuctions / bids, 0.5 + 0.5/111, 0.01}, {"bids of the hot bidder", hotBidders / bids, 0.75, 0.01},
		{"auctions of the hot seller", hotSellers / auctions, 0.75 + 0.25/100, 0.02},
		{"bids before their auction", early / bids, 0.5 * 10 / 111, 0.01}, {"hot channels", hotChannels / bids, 0.5, 0.01},
		{"channels", float64(len(channels)), 10_004, 10}, {"log of the price", logs / bids, 5, 0.02},
	} {
		if math.Abs(x.got-x.want) > x.with {
			t.Errorf("%s: %g, want %g", x.what, x.got, x.want)
		}
	}
}

func cfgStart(t *testing.T, cfg NexmarkConfig) int64 {
	t.Helper()
	start, err := parseStart(cfg.Start)
	if err != nil {
		t.Fatal(err)
	}
	return start / 1000
}

func TestNexmarkChecksItsBlock(t *testing.T) {
	for text, want := range map[string]string{
		"nexmark: {only: bids}":                   "expected bid, auction or person",
		"nexmark: {columns: [auction, prize]}":    `did you mean "price"`,
		"nexmark: {columns: [price, price]}":      "stands twice",
		"nexmark: {only: person, columns: [url]}": "a person has no column",
		"nexmark: {events: -1}":                   "expected a number of events",
		"nexmark: {splits: 0}":                    "expected 1 to 1024",
		"nexmark: {per_second: 0}":                "expected 1 to",
		"nexmark: {start: now}":                   "expected a time",
		"nexmark: {}":                             "",
		"nexmark: {only: auction, events: 0}":     "",
	} {
		cfg, p := decode(t, text)
		if len(p) > 0 {
			t.Fatal(p)
		}
		plan, err := plan(component.SourceIn{}, cfg)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %q", text, err, want)
		case want == "" && plan.Bounded != (cfg.Nexmark.Events > 0):
			t.Errorf("%s: bounded %t", text, plan.Bounded)
		}
	}
}

func BenchmarkNexmark(b *testing.B) {
	for _, columns := range [][]string{nil, {"auction", "price", "dateTime"}, {"auction", "bidder", "price", "dateTime", "extra"}} {
		name := "all"
		if columns != nil {
			name = strings.Join(columns, ",")
		}
		b.Run("columns="+name, func(b *testing.B) {
			c := DefaultNexmark()
			c.Events, c.Columns = 0, columns
			env := testEnv(b)
			env.Alloc = memory.DefaultAllocator
			s := newTestSource(b, env, Config{Nexmark: &c})
			if err := s.Assign(context.Background(), []dataflow.SplitAt{{Split: "0"}}); err != nil {
				b.Fatal(err)
			}
			rows := 0
			for b.Loop() {
				p, err := s.Poll(context.Background(), dataflow.PollLimit{Rows: 8192, Bytes: 4 << 20})
				if err != nil {
					b.Fatal(err)
				}
				rows += int(p.Batch.NumRows())
				p.Release()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rows), "ns/row")
		})
	}
}

func TestNexmarkTimesFollowTheRateOfEvents(t *testing.T) {
	for _, rate := range []int64{1, 3, 500, 999, 1000, 1001, 7777, 10_000, 1_000_000, 1_000_000_000} {
		cfg := DefaultNexmark()
		cfg.PerSecond, cfg.Columns, cfg.Events = rate, []string{"dateTime"}, 3000
		g, err := NewNexmark(cfg)
		if err != nil {
			t.Fatal(err)
		}
		rows := nexRows(t, cfg, 8192)[0]
		i := 0
		for n := range cfg.Events {
			b, ok := g.Bid(n)
			if !ok {
				continue
			}
			want := fmt.Sprintf(`{"dateTime":%q}`, dataflow.Time(b.DateTime*1000).String())
			if exact := cfgStart(t, cfg) + n*1000/rate; b.DateTime != exact || rows[i] != want {
				t.Fatalf("%d events a second: event %d is at %s, want %s, %d", rate, n, rows[i], want, exact)
			}
			i++
		}
	}
}

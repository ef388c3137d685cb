package oracle

import (
	"encoding/json"
	"slices"
	"testing"
)

// nexmarkShapes are the goldens about the shapes of windows that are aligned.
var nexmarkShapes = []nexmarkCase{
	{golden: "s01-tumble", from: "per", operators: tumble},
	{golden: "s02-tumble-offset", from: "all", operators: tumbleOffset},
	{golden: "s03-hop", from: "per", operators: fiveChannels("hopping: {size: 10s, slide: 2s}")},
	{golden: "s04-cumulate", from: "per", operators: fiveChannels("cumulative: {size: 10s, step: 2s}")},
	{golden: "s06-late-tumble", from: "per", operators: tumble},
	{golden: "s07-late-hop", from: "per", operators: fiveChannels("hopping: {size: 10s, slide: 2s}"), lastEnd: func(ms int64) int64 { return ms - ms%2000 + 10_000 }},
	{golden: "s08-late-cumulate", from: "per", operators: fiveChannels("cumulative: {size: 10s, step: 2s}"), lastEnd: func(ms int64) int64 { return ms - ms%10_000 + 10_000 }},
	{golden: "s27-two-level", from: "large", operators: twoLevels},
	{golden: "s28-union-window", from: "per", operators: unionWindow},
}

const tumble = `
operators:
  per:
    from: bid
    window:
      tumbling: 10s
      by: [auction]
      aggregate: {n: count(*), sum_price: sum(price), avg_price: avg(price), min_price: min(price), max_price: max(price), bidders: count(distinct bidder)}
`

const tumbleOffset = `
operators:
  all:
    from: bid
    window:
      tumbling: 10s
      offset: 3s
      aggregate:
        n: count(*)
        sum_price: sum(price)
        avg_price: avg(price)
        min_price: min(price)
        max_price: max(price)
        bidders: count(distinct bidder)
        extras: count(extra)
        min_channel: min(channel)
        max_channel: max(channel)
        dear: count(*) filter (where price >= 1000000)
        sum_euro: sum(price * 0.908)
        avg_double: avg(cast(price as double precision))
`

func fiveChannels(windows string) string {
	return `
operators:
  five: {from: bid, filter: {where: "channel in ('Google', 'Facebook', 'Baidu', 'Apple', 'channel-7')"}}
  per:
    from: five
    window:
      ` + windows + `
      by: [channel]
      aggregate: {n: count(*), sum_price: sum(price), avg_price: avg(price), min_price: min(price), max_price: max(price), bidders: count(distinct bidder)}
`
}

const twoLevels = `
operators:
  small: {from: bid, window: {tumbling: 2s, by: [auction], aggregate: {n: count(*)}}}
  large: {from: small, window: {tumbling: 10s, aggregate: {n: sum(n), max_n: max(n), parts: count(*)}}}
`

const unionWindow = `
operators:
  persons: {from: person, project: {compute: {what: "'person'"}, select: [what, id]}}
  auctions: {from: auction, project: {compute: {what: "'auction'"}, select: [what, id]}}
  both: {from: [persons, auctions], union: {}}
  per: {from: both, window: {tumbling: 10s, by: [what], aggregate: {n: count(*), first_id: min(id), last_id: max(id)}}}
`

// droppedRows are the rows of a list of (row, window) pairs that are dropped from
// all of their windows, each with the last of these, whose end lastEnd knows. The
// others count in some windows and do not leave by "late".
func droppedRows(t *testing.T, pairs []map[string]any, lastEnd func(ms int64) int64) []map[string]any {
	t.Helper()
	number := func(r map[string]any, column string) int64 {
		n, err := r[column].(json.Number).Int64()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	rows := slices.DeleteFunc(slices.Clone(pairs), func(r map[string]any) bool {
		return number(r, "window_end") != lastEnd(number(r, "dateTime"))
	})
	if len(rows) == len(pairs) {
		t.Error("no row is late for a part of its windows: the golden says nothing about them")
	}
	return rows
}

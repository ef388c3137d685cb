package oracle

// nexmarkGroups are the goldens about first and last rows and about aggregates
// without windows.
var nexmarkGroups = []nexmarkCase{
	{golden: "s15-window-topn", from: "top3", as: map[string]string{"bid_time": "dateTime"}, operators: `
operators:
  top3: {from: bid, top: {tumbling: 10s, order_by: ["price desc", dateTime], limit: 3, rank: place}}
`},
	{golden: "s16-window-agg-topn", from: "top3", operators: `
operators:
  per: {from: bid, window: {tumbling: 10s, by: [auction], aggregate: {n: count(*), total: sum(price)}}}
  top3: {from: per, top: {tumbling: 10s, order_by: ["total desc", auction], limit: 3, rank: place}}
`},
	{golden: "s17-window-dedup-first", from: "first", as: map[string]string{"bid_time": "dateTime"}, operators: `
operators:
  first: {from: bid, top: {tumbling: 10s, by: [bidder], order_by: [dateTime], limit: 1}}
`},
	{golden: "s17-window-dedup-last", from: "last", as: map[string]string{"bid_time": "dateTime"}, operators: `
operators:
  last: {from: bid, top: {tumbling: 10s, by: [bidder], order_by: ["dateTime desc"], limit: 1}}
`},
	{golden: "s18-dedup-first", from: "first", operators: `
operators:
  first: {from: bid, top: {by: [bidder], order_by: [dateTime], limit: 1, expire_after: 24h}}
`},
	{golden: "s18-dedup-last", from: "last", operators: `
operators:
  last: {from: bid, dedup: {key: [bidder], within: 24h, keep: last}}
`},
	{golden: "s26-group", from: "often", operators: `
operators:
  per:
    from: bid
    group:
      by: [channel]
      aggregate: {n: count(*), auctions: count(distinct auction), sum_price: sum(price), first_time: "min(\"dateTime\")", last_time: "max(\"dateTime\")"}
      expire_after: 24h
  often: {from: per, filter: {where: n >= 120}}
`},
}

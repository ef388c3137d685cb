package bench

import (
	"fmt"
	"strings"
)

// The measured pipelines: settings are the defaults, but for a checkpoint each
// second.

const checkpoint = "\ncheckpoint: {every: 1s}\n"

func fromFiles(paths []string) string {
	return fmt.Sprintf(`sources:
  bids:
    files: {paths: [%s]}
    decode: {json: {schema: %s}}
    event_time: {column: dateTime, out_of_orderness: %s}
`, strings.Join(paths, ", "), bidSchema, disorder)
}

func fromKafka(broker, topic string) string {
	return fmt.Sprintf(`sources:
  bids:
    kafka: {brokers: [%q], topics: [%s]}
    decode: {json: {schema: %s}}
    event_time: {column: dateTime, out_of_orderness: %s}
`, broker, topic, bidSchema, disorder)
}

// minPrice is passed by half of the bids.
const minPrice = 100_000

const filterAndProject = `operators:
  dear: {from: bids, filter: {where: "price > 100000"}}
  result: {from: dear, project: {compute: {euros: "price * 0.908"}, select: [auction, bidder, euros, dateTime]}}
`

const countPerAuction = `operators:
  result:
    from: bids
    window: {tumbling: 10s, by: [auction], aggregate: {n: count(*)}}
`

const firstOfKey = `operators:
  result:
    from: bids
    dedup: {key: [bidder, dateTime, auction], within: 1m}
`

func into(from, sink string) string {
	return fmt.Sprintf("sinks:\n  out: {from: %s, %s}\n", from, sink) + checkpoint
}

const (
	drop    = "drop: {}"
	files   = "files: {path: out}"
	iceberg = "iceberg: {catalog: local, table: bench.out}"
)

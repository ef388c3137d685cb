package oracle

import (
	"encoding/json"
	"fmt"
	"math/big"
	"testing"

	"frazil/dataflow/flowtest/rig"
)

// bids is the source step over Nexmark's bids.
func bids(path, delay string) string {
	return fmt.Sprintf(`
name: nexmark
http: "off"
sources:
  bid:
    files: {paths: [%q], metadata: {line: line}}
    decode:
      json:
        schema: {auction: int64, bidder: int64, price: int64, channel: string, url: string, dateTime: timestamptz(ms), extra: string}
    event_time: {column: dateTime, out_of_orderness: %s}
`, path, delay)
}

var orders = []string{"ordered", "disordered"}

// each runs f on both orders of the input and with one and three tasks.
func each(t *testing.T, orders []string, f func(t *testing.T, in string, tasks int)) {
	for _, order := range orders {
		for _, tasks := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/tasks=%d", order, tasks), func(t *testing.T) {
				f(t, rig.Shared(t, "data", "nexmark", "in", order, "bid.ndjson.gz"), tasks)
			})
		}
	}
}

func TestNexmarkQ0PassThrough(t *testing.T) {
	each(t, orders, func(t *testing.T, in string, tasks int) {
		out := run(t, tasks, bids(in, "4s")+`
operators:
  q0: {from: bid, project: {select: [auction, bidder, price, dateTime, extra]}}
sinks:
  out: {from: q0, files: {path: "%OUT%/out"}}
`)
		for _, r := range out["out"] {
			r["dateTime"] = millis(t, r["dateTime"])
		}
		same(t, "q0", out["out"], golden(t, rig.Shared(t, "data", "nexmark", "golden", "q00.ndjson.gz")), "auction", "bidder", "price", "dateTime", "extra")
	})
}

func TestNexmarkQ1CurrencyConversion(t *testing.T) {
	each(t, orders, func(t *testing.T, in string, tasks int) {
		out := run(t, tasks, bids(in, "4s")+`
operators:
  q1: {from: bid, project: {compute: {euro: "price * 0.908"}}}
sinks:
  out: {from: q1, files: {path: "%OUT%/out"}}
`)
		for _, r := range out["out"] {
			r["dateTime"], r["price"] = millis(t, r["dateTime"]), r["euro"]
		}
		same(t, "q1", out["out"], golden(t, rig.Shared(t, "data", "nexmark", "golden", "q01.ndjson.gz")), "auction", "bidder", "price", "dateTime", "extra")
	})
}

func TestNexmarkQ2Selection(t *testing.T) {
	each(t, orders, func(t *testing.T, in string, tasks int) {
		out := run(t, tasks, bids(in, "4s")+`
operators:
  some: {from: bid, filter: {where: "auction % 123 = 0"}}
sinks:
  out: {from: some, files: {path: "%OUT%/out"}}
`)
		same(t, "q2", out["out"], golden(t, rig.Shared(t, "data", "nexmark", "golden", "q02.ndjson")), "auction", "price")
	})
}

const tumble = `
operators:
  per:
    from: bid
    window:
      tumbling: 10s
      by: [auction]
      aggregate: {n: count(*), sum_price: sum(price), avg_price: avg(price), min_price: min(price), max_price: max(price)}
sinks:
  out: {from: per, files: {path: "%OUT%/out"}}
  late: {from: per.late, files: {path: "%OUT%/late"}}
`

var tumbleColumns = []string{"auction", "window_start", "window_end", "n", "sum_price", "avg_price", "min_price", "max_price"}

// asFlink brings our window rows into the form of the goldens: milliseconds,
// sums as numbers, averages cut toward zero as Flink's BIGINT average is.
func asFlink(t *testing.T, rows []map[string]any) {
	for _, r := range rows {
		r["window_start"], r["window_end"] = millis(t, r["window_start"]), millis(t, r["window_end"])
		r["sum_price"] = json.Number(r["sum_price"].(string))
		avg, ok := new(big.Rat).SetString(r["avg_price"].(string))
		if !ok {
			t.Fatalf("average %v", r["avg_price"])
		}
		r["avg_price"] = json.Number(new(big.Int).Quo(avg.Num(), avg.Denom()).String())
	}
}

func TestNexmarkS01TumblingWindows(t *testing.T) {
	each(t, orders, func(t *testing.T, in string, tasks int) {
		out := run(t, tasks, bids(in, "4s")+tumble)
		asFlink(t, out["out"])
		same(t, "s01", out["out"], golden(t, rig.Shared(t, "data", "nexmark", "golden", "s01-tumble.ndjson.gz")), tumbleColumns...)
		if n := len(out["late"]); n != 0 {
			t.Fatalf("%d rows are late, want none", n)
		}
	})
}

func TestNexmarkS06LateRowsAreDroppedExactlyAsInFlink(t *testing.T) {
	each(t, []string{"disordered"}, func(t *testing.T, in string, tasks int) {
		out := run(t, tasks, bids(in, "500ms")+tumble)
		asFlink(t, out["out"])
		same(t, "s06", out["out"], golden(t, rig.Shared(t, "data", "nexmark", "golden", "s06-late-tumble.ndjson.gz")), tumbleColumns...)
		for _, r := range out["late"] {
			for _, c := range []string{"dateTime", "watermark", "window_start", "window_end"} {
				r[c] = millis(t, r[c])
			}
		}
		same(t, "s06 dropped", out["late"], golden(t, rig.Shared(t, "data", "nexmark", "golden", "s06-late-tumble.dropped.ndjson.gz")),
			"line", "auction", "bidder", "price", "channel", "dateTime", "watermark", "window_start", "window_end")
	})
}

package oracle

import (
	"encoding/json"
	"testing"

	"frazil/dataflow/flowtest/rig"
)

func TestNexmarkQ11BidsPerSession(t *testing.T) {
	each(t, orders, func(t *testing.T, in string, tasks int) {
		out := run(t, tasks, bids(in, "4s")+`
operators:
  per: {from: bid, window: {session: {gap: 10s}, by: [bidder], aggregate: {bid_count: count(*)}}}
sinks:
  out: {from: per, files: {path: "%OUT%/out"}}
`)
		for _, r := range out["out"] {
			r["starttime"], r["endtime"] = millis(t, r["window_start"]), millis(t, r["window_end"])
		}
		same(t, "q11", out["out"], golden(t, rig.Shared(t, "data", "nexmark", "golden", "q11.ndjson.gz")), "bidder", "bid_count", "starttime", "endtime")
	})
}

// sessionsOf are the bids of an auction without a pause of gap.
func sessionsOf(gap string) string {
	return `
operators:
  per:
    from: bid
    window:
      session: {gap: ` + gap + `}
      by: [auction]
      aggregate: {n: count(*), sum_price: sum(price), avg_price: avg(price), min_price: min(price), max_price: max(price)}
sinks:
  out: {from: per, files: {path: "%OUT%/out"}}
  late: {from: per.late, files: {path: "%OUT%/late"}}
`
}

func TestNexmarkS05Sessions(t *testing.T) {
	each(t, orders, func(t *testing.T, in string, tasks int) {
		out := run(t, tasks, bids(in, "4s")+sessionsOf("2s"))
		asFlink(t, out["out"])
		same(t, "s05", out["out"], golden(t, rig.Shared(t, "data", "nexmark", "golden", "s05-session.ndjson.gz")), tumbleColumns...)
		if n := len(out["late"]); n != 0 {
			t.Fatalf("%d rows are late, want none", n)
		}
	})
}

func TestNexmarkS09LateRowsOfSessions(t *testing.T) {
	each(t, []string{"disordered"}, func(t *testing.T, in string, tasks int) {
		out := run(t, tasks, bids(in, "500ms")+sessionsOf("300ms"))
		asFlink(t, out["out"])
		same(t, "s09", out["out"], golden(t, rig.Shared(t, "data", "nexmark", "golden", "s09-late-session.ndjson.gz")), tumbleColumns...)
		dropped := golden(t, rig.Shared(t, "data", "nexmark", "golden", "s09-late-session.dropped.ndjson.gz"))
		for _, r := range out["late"] {
			for _, c := range []string{"dateTime", "watermark"} {
				r[c] = millis(t, r[c])
			}
		}
		same(t, "s09 dropped", out["late"], dropped, "line", "auction", "bidder", "price", "dateTime", "watermark")
	})
}

func TestArroyoGlobalSessionWindow(t *testing.T) {
	out := run(t, 2, `
name: sessions
http: "off"
sources:
  impulse:
    files: {paths: ["`+rig.Shared(t, "data", "arroyo", "inputs", "impulse.ndjson")+`"]}
    decode: {json: {schema: {timestamp: timestamptz, counter: int64, subtask_index: int64}}}
    event_time: {column: timestamp, out_of_orderness: 0s}
operators:
  one: {from: impulse, window: {session: {gap: 20s}, aggregate: {rows: count(*)}}}
sinks:
  out: {from: one, files: {path: "%OUT%/out"}}
`)
	want := golden(t, rig.Shared(t, "data", "arroyo", "expected", "global_session_window.ndjson"))
	for _, r := range append(out["out"], want...) {
		for to, from := range map[string]string{"start": "window_start", "end": "window_end"} {
			if v, ok := r[from]; ok {
				r[to] = v
			}
			r[to] = millis(t, r[to])
		}
		r["rows"] = json.Number(r["rows"].(json.Number).String())
	}
	same(t, "global session", out["out"], want, "start", "end", "rows")
}

package oracle

import (
	"encoding/json"
	"testing"

	"frazil/dataflow/flowtest/rig"
)

// nexmarkSessions are the goldens about sessions.
var nexmarkSessions = []nexmarkCase{
	{golden: "s05-session", from: "per", operators: sessionsOf("2s")},
	{golden: "s09-late-session", from: "per", operators: sessionsOf("300ms")},
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
      aggregate: {n: count(*), sum_price: sum(price), avg_price: avg(price), min_price: min(price), max_price: max(price), bidders: count(distinct bidder)}
`
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

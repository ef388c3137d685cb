package oracle

import (
	"fmt"
	"testing"

	"frazil/dataflow/flowtest/rig"
)

// arroyoWindows are Arroyo's smoke tests of aligned windows.
var arroyoWindows = []struct {
	id, input, disorder string
	operators           string
	// as names columns of ours by those of the result.
	as map[string]string
}{
	{"hourly_by_event_type", "cars.ndjson.gz", "1s", `
  result: {from: rows, window: {tumbling: 1h, by: [event_type], aggregate: {count: count(*)}}}`,
		map[string]string{"hour": "window_start"}},
	{"month_loose_watermark", "cars.ndjson.gz", "1m", `
  result: {from: rows, window: {tumbling: 30d, aggregate: {count: count(*)}}}`,
		map[string]string{"month": "window_start"}},
	{"tight_watermark", "cars.ndjson.gz", "0s", `
  result: {from: rows, window: {tumbling: 1h, aggregate: {count: count(*)}}}`,
		map[string]string{"timestamp": "window_end"}},
	{"sliding_window_end", "impulse.ndjson", "1s", `
  result: {from: rows, window: {hopping: {size: 10s, slide: 2s}, aggregate: {count: count(*), min: min(counter), max: max(counter)}}}`,
		map[string]string{"start": "window_start", "end": "window_end"}},
	{"most_active_driver_last_hour", "cars.ndjson.gz", "1h", `
  each: {from: rows, window: {hopping: {size: 1h, slide: 1m}, by: [driver_id], aggregate: {count: count(*)}}}
  bare: {from: each, project: {rename: {window_start: start, window_end: end}}}
  result: {from: bare, top: {tumbling: 1m, by: [start, end], order_by: [count desc, driver_id desc], limit: 1, rank: row_number}}`,
		nil},
}

var arroyoSchemas = map[string]string{
	"cars.ndjson.gz": "{timestamp: timestamptz, driver_id: int64, event_type: string, location: string}",
	"impulse.ndjson": "{timestamp: timestamptz, counter: int64, subtask_index: int64}",
}

func TestArroyoWindows(t *testing.T) {
	for _, c := range arroyoWindows {
		for _, tasks := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/tasks=%d", c.id, tasks), func(t *testing.T) {
				out := run(t, tasks, fmt.Sprintf(`
name: arroyo
http: "off"
sources:
  rows:
    files: {paths: [%q]}
    decode: {json: {schema: %s}}
    event_time: {column: timestamp, out_of_orderness: %s}
operators:%s
sinks:
  out: {from: result, files: {path: "%%OUT%%/out"}}
  missed: {from: rows.bad, files: {path: "%%OUT%%/missed"}}
`, rig.Shared(t, "data", "arroyo", "inputs", c.input), arroyoSchemas[c.input], c.disorder, c.operators))
				for _, r := range out["out"] {
					for to, from := range c.as {
						r[to] = r[from]
					}
				}
				sameValues(t, c.id, out["out"], golden(t, rig.Shared(t, "data", "arroyo", "expected", c.id+".ndjson")))
				sameValues(t, c.id+" bad rows", out["missed"], nil)
			})
		}
	}
}

package oracle

import (
	"fmt"
	"strings"
	"testing"

	"frazil/dataflow/flowtest/rig"
)

// arroyoRows are Arroyo's smoke tests that keep no state.
var arroyoRows = []struct{ id, input, expected, steps string }{
	{"select_star", "cars.ndjson.gz", "select_star.ndjson.gz", `
operators:
  result: {from: rows, project: {select: [timestamp, driver_id, event_type, location]}}`},
	{"memory_table", "cars.ndjson.gz", "memory_table.ndjson.gz", `
operators:
  step: {from: rows, project: {select: [event_type, location, driver_id]}}
  result: {from: step, project: {select: [driver_id, event_type]}}`},
	{"cast_to_sink_type", "cars.ndjson.gz", "cast_to_sink_type.ndjson.gz", `
operators:
  text: {from: rows, project: {compute: {driver: "driver_id::text"}, drop: [driver_id]}}
  named: {from: text, project: {rename: {driver: driver_id}}}
  result: {from: named, project: {select: [timestamp, driver_id]}}`},
	{"union", "impulse.ndjson", "union.ndjson", `
  again:
    files: {paths: [%INPUT%]}
    decode: {json: {schema: {timestamp: timestamptz, counter: int64, subtask_index: int64}}}
operators:
  first: {from: rows, project: {select: [counter, source], compute: {source: "'first'"}}}
  second: {from: again, project: {select: [counter, source], compute: {source: "'second'"}}}
  result: {from: [first, second], union: {}}`},
}

func TestArroyoRows(t *testing.T) {
	for _, c := range arroyoRows {
		for _, tasks := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/tasks=%d", c.id, tasks), func(t *testing.T) {
				input := fmt.Sprintf("%q", rig.Shared(t, "data", "arroyo", "inputs", c.input))
				out := run(t, tasks, fmt.Sprintf(`
name: arroyo
http: "off"
sources:
  rows:
    files: {paths: [%s]}
    decode: {json: {schema: %s}}%s
sinks:
  out: {from: result, files: {path: "%%OUT%%/out"}}
  missed: {from: rows.bad, files: {path: "%%OUT%%/missed"}}
`, input, arroyoSchemas[c.input], strings.ReplaceAll(c.steps, "%INPUT%", input)))
				sameValues(t, c.id, out["out"], golden(t, rig.Shared(t, "data", "arroyo", "expected", c.expected)))
				sameValues(t, c.id+" bad rows", out["missed"], nil)
			})
		}
	}
}

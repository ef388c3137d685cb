package oracle

import (
	"fmt"
	"testing"

	"frazil/dataflow/flowtest/rig"
)

// arroyoGroups are Arroyo's smoke tests of aggregates that are kept up to date.
var arroyoGroups = []struct{ id, input, operators string }{
	{"active_drivers", "cars.ndjson.gz", `
  per_driver: {from: rows, group: {by: [driver_id], aggregate: {events: count(*)}, expire_after: 1h}}
  busy: {from: per_driver, filter: {where: events > 85}}
  result: {from: busy, group: {aggregate: {drivers: count(*)}}}`},
	{"aggregates", "impulse.ndjson", `
  result: {from: rows, group: {aggregate: {min: min(counter), max: max(counter), sum: sum(counter), count: count(*), avg: avg(counter)}, expire_after: 1h}}`},
	{"filter_updating_aggregates", "impulse.ndjson", `
  all: {from: rows, group: {aggregate: {subtasks: count(distinct subtask_index)}, expire_after: 1h}}
  result: {from: all, filter: {where: subtasks >= 1}}`},
}

func TestArroyoGroups(t *testing.T) {
	for _, c := range arroyoGroups {
		for _, tasks := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/tasks=%d", c.id, tasks), func(t *testing.T) {
				out := run(t, tasks, fmt.Sprintf(`
name: arroyo
http: "off"
sources:
  rows:
    files: {paths: [%q]}
    decode: {json: {schema: %s}}
    event_time: {column: timestamp, out_of_orderness: 1s}
operators:%s
sinks:
  out: {from: result, files: {path: "%%OUT%%/out"}}
`, rig.Shared(t, "data", "arroyo", "inputs", c.input), arroyoSchemas[c.input], c.operators))
				sameValues(t, c.id, folded(t, out["out"]), golden(t, rig.Shared(t, "data", "arroyo", "expected", c.id+".ndjson")))
			})
		}
	}
}

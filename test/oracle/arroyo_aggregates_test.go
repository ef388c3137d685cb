package oracle

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"frazil/dataflow/flowtest/rig"
)

// TestArroyoEveryAggregate is Arroyo's test of all aggregates, over the whole
// input. Those of two arguments (corr, covar_, regr_) do not exist here; the
// exact count of distinct values stands beside the estimate.
func TestArroyoEveryAggregate(t *testing.T) {
	for _, tasks := range []int{1, 3} {
		t.Run(fmt.Sprintf("tasks=%d", tasks), func(t *testing.T) {
			out := run(t, tasks, fmt.Sprintf(`
name: arroyo
http: "off"
sources:
  rows:
    files: {paths: [%q]}
    decode: {json: {schema: {timestamp: timestamptz, driver_id: int64, event_type: string, location: string}}}
    event_time: {column: timestamp, out_of_orderness: 1h}
operators:
  result:
    from: rows
    window:
      global: {}
      by: [event_type]
      aggregate:
        avg_driver: avg(driver_id)
        bit_and_driver: bit_and(driver_id)
        bit_or_driver: bit_or(driver_id)
        bit_xor_driver: bit_xor(driver_id)
        bool_and_driver: bool_and(driver_id > 0)
        bool_or_driver: bool_or(driver_id > 0)
        cnt: count(*)
        max_driver: max(driver_id)
        median_driver: percentile_cont(0.5) within group (order by driver_id)
        min_driver: min(driver_id)
        sum_driver: sum(driver_id)
        stddev_driver: stddev(driver_id)
        stddev_pop_driver: stddev_pop(driver_id)
        var_driver: variance(driver_id)
        var_pop_driver: var_pop(driver_id)
        approx_distinct_driver: approx_count_distinct(driver_id)
        distinct_driver: count(distinct driver_id)
sinks:
  out: {from: result, files: {path: "%%OUT%%/out"}}
`, rig.Shared(t, "data", "arroyo", "inputs", "cars.ndjson.gz")))
			want := golden(t, rig.Shared(t, "data", "arroyo", "expected", "every_aggregate.ndjson"))
			for _, r := range want {
				r["distinct_driver"] = r["approx_distinct_driver"]
				for name := range r {
					if strings.HasPrefix(name, "corr_") || strings.HasPrefix(name, "covar_") || strings.HasPrefix(name, "regr_") {
						delete(r, name)
					}
				}
			}
			roundNumbers(t, want)
			roundNumbers(t, out["out"])
			sameValues(t, "every_aggregate", out["out"], want)
		})
	}
}

// roundNumbers makes every value but event_type a number of four places.
func roundNumbers(t *testing.T, rows []map[string]any) {
	t.Helper()
	for _, r := range rows {
		for name, v := range r {
			text := strings.Trim(asText(v), `"`)
			if name == "event_type" || text == "true" || text == "false" {
				continue
			}
			x, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			r[name] = strconv.FormatFloat(math.Round(x*1e4)/1e4, 'f', 4, 64)
		}
	}
}

package expr

import "math"

// checkNano fails rows whose interval is too long for Arrow, which counts the
// time of an interval in nanoseconds.
func (ev *Evaluator) checkNano(v *vec, n *node) {
	x, m := of[interval](v), v.mask()
	c := call{n: ev.n, node: n, out: v, ev: ev}
	for i := range ev.n {
		if us := x[i&m].us; (us > math.MaxInt64/1000 || us < math.MinInt64/1000) && !v.isNull(i) {
			c.fail(i, badRange, "an interval of more than 292 years of hours is no result")
		}
	}
}

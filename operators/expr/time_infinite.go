package expr

import "math"

// Infinite dates and times are the greatest and smallest numbers of their
// memory, as in PostgreSQL, so that they compare as they must.
const (
	lastDate, firstDate = math.MaxInt32, math.MinInt32
	lastTS, firstTS     = math.MaxInt64, math.MinInt64
)

func finite(us int64) bool { return us != lastTS && us != firstTS }

func finiteDate(days int32) bool { return days != lastDate && days != firstDate }

// infiniteDay turns an infinite date into the timestamp.
func infiniteDay(days int32) int64 {
	if days == lastDate {
		return lastTS
	}
	return firstTS
}

// infinityNamed reads infinity, +infinity and -infinity.
func infinityNamed(lower string) (sign int, ok bool) {
	switch lower {
	case "infinity", "+infinity":
		return 1, true
	case "-infinity":
		return -1, true
	}
	return 0, false
}

func appendInfinity(dst []byte, positive bool) []byte {
	if positive {
		return append(dst, "infinity"...)
	}
	return append(dst, "-infinity"...)
}

func init() {
	describe("date/time", "isfinite", "Whether a date, a timestamp or an interval is finite; intervals always are.",
		example{"isfinite(date '2024-02-16')", "true"}, example{"isfinite('infinity'::timestamp)", "false"})
	register(
		function{name: "isfinite", args: []kind{kDate}, ret: kBool, kernel: isFiniteKernel(func(v *vec, i int) bool { return finiteDate(of[int32](v)[i]) })},
		function{name: "isfinite", args: []kind{kTimestamp}, ret: kBool, kernel: isFiniteKernel(func(v *vec, i int) bool { return finite(of[int64](v)[i]) })},
		function{name: "isfinite", args: []kind{kTimestampTZ}, ret: kBool, kernel: isFiniteKernel(func(v *vec, i int) bool { return finite(of[int64](v)[i]) })},
		function{name: "isfinite", args: []kind{kInterval}, ret: kBool, kernel: isFiniteKernel(func(*vec, int) bool { return true })},
	)
}

func isFiniteKernel(test func(v *vec, i int) bool) kernel {
	return func(c *call, out *vec, a []*vec) {
		b := growBits(out, c.n)
		b.fill(0)
		m := a[0].mask()
		for i := range c.n {
			if test(a[0], i&m) {
				b.set(i)
			}
		}
	}
}

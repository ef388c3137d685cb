package expr

func init() {
	registerCast(kDate, kTimestamp, implicitCast, true, castDateTimestamp)
	registerCast(kDate, kTimestampTZ, implicitCast, true, castDateTimestamp)
	registerCast(kTimestamp, kTimestampTZ, implicitCast, false, castRound)
	registerCast(kTimestampTZ, kTimestamp, explicitCast, false, castRound)
	registerCast(kTimestamp, kTimestamp, implicitCast, false, castRound)
	registerCast(kTimestampTZ, kTimestampTZ, implicitCast, false, castRound)
	registerCast(kTime, kTime, implicitCast, false, castRound)
	for _, k := range []kind{kTimestamp, kTimestampTZ} {
		registerCast(k, kDate, explicitCast, false, mapKernel(func(us int64) int32 { return int32(floorDiv(us, dayUS)) }))
		registerCast(k, kTime, explicitCast, false, func(c *call, out *vec, a []*vec) {
			t := c.node.typ
			mapRows(c, out, a[0], func(us int64) int64 { return t.roundTime(floorMod(us, dayUS)) })
		})
	}
	registerCast(kTime, kInterval, implicitCast, false, mapKernel(func(us int64) interval { return interval{us: us} }))
	registerCast(kInterval, kTime, explicitCast, false, mapKernel(func(v interval) int64 { return floorMod(v.us, dayUS) }))
}

// roundTime rounds microseconds to the precision of the type, half away from
// zero.
func (t typ) roundTime(us int64) int64 {
	if t.p == 0 || t.p > 6 {
		return us
	}
	unit := int64(1)
	for range 7 - t.p {
		unit *= 10
	}
	half := unit / 2
	if us < 0 {
		half = -half
	}
	return (us + half) / unit * unit
}

func castRound(c *call, out *vec, a []*vec) {
	t := c.node.typ
	mapRows(c, out, a[0], t.roundTime)
}

func castDateTimestamp(c *call, out *vec, a []*vec) {
	x, r := of[int32](a[0]), grow[int64](out, c.n)
	m := a[0].mask()
	for i := range r {
		d := int64(x[i&m])
		r[i] = d * dayUS
		if d >= endTS/dayUS {
			r[i] = 0
			c.fail(i, badRange, "date out of range for timestamp")
		}
	}
}

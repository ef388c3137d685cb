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
		registerCast(k, kDate, explicitCast, false, mapKernel(dayOf))
		registerCast(k, kTime, explicitCast, false, castTimestampTime)
	}
	registerCast(kTime, kInterval, implicitCast, false, func(c *call, out *vec, a []*vec) {
		t := c.node.typ
		mapRows(c, out, a[0], func(us int64) interval { return t.cutInterval(interval{us: us}) })
	})
	registerCast(kInterval, kTime, explicitCast, false, func(c *call, out *vec, a []*vec) {
		t := c.node.typ
		mapRows(c, out, a[0], func(v interval) int64 { return t.roundTime(floorMod(v.us, dayUS)) })
	})
}

// dayOf is the day that a timestamp lies in.
func dayOf(us int64) int32 {
	switch us {
	case lastTS:
		return lastDate
	case firstTS:
		return firstDate
	}
	return int32(floorDiv(us, dayUS))
}

// castTimestampTime takes the time of the day; of an infinite timestamp there is
// none.
func castTimestampTime(c *call, out *vec, a []*vec) {
	t := c.node.typ
	x, r := of[int64](a[0]), grow[int64](out, c.n)
	m := a[0].mask()
	for i := range r {
		us := x[i&m]
		r[i] = t.roundTime(floorMod(us, dayUS))
		if !finite(us) {
			out.needValid(c.n).clear(i)
		}
	}
}

// roundTime rounds microseconds to the precision of the type, half away from
// zero.
func (t typ) roundTime(us int64) int64 {
	if t.p == 0 || t.p > 6 || !finite(us) {
		return us
	}
	unit := int64(1)
	for range 7 - t.p {
		unit *= 10
	}
	zero := int64(0)
	if t.k == kTimestamp || t.k == kTimestampTZ {
		zero = epoch2000 * secUS // where PostgreSQL's timestamps have their zero
	}
	us -= zero
	half := unit / 2
	if us < 0 {
		half = -half
	}
	return (us+half)/unit*unit + zero
}

func castRound(c *call, out *vec, a []*vec) {
	t := c.node.typ
	mapRows(c, out, a[0], t.roundTime)
}

func castDateTimestamp(c *call, out *vec, a []*vec) {
	x, r := of[int32](a[0]), grow[int64](out, c.n)
	m := a[0].mask()
	for i := range r {
		t, ok := dayStart(x[i&m])
		r[i] = t
		if !ok {
			c.fail(i, badRange, "date out of range for timestamp")
		}
	}
}

// dayStart is the timestamp at which a day begins; ok is false if there is none.
func dayStart(d int32) (us int64, ok bool) {
	switch {
	case !finiteDate(d):
		return infiniteDay(d), true
	case int64(d) >= endTS/dayUS:
		return 0, false
	}
	return int64(d) * dayUS, true
}

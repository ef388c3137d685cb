package expr

import (
	"math"
	"time"
)

// zoneCursor remembers, of the zone that rows name, where the offset changes next: rows are near
// one another.
type zoneCursor struct {
	zone
	name     string
	from, to int64 // the offset holds from the one up to the other
	off      int64 // in microseconds
}

// use makes name the zone; ok is false if there is none.
func (z *zoneCursor) use(name string) (ok bool) {
	if name == z.name && name != "" {
		return true
	}
	found, ok := zoneNamed(name)
	*z = zoneCursor{}
	if ok {
		z.fix(found)
		z.name = name
	}
	return ok
}

// fix makes the zone one without a name.
func (z *zoneCursor) fix(of zone) {
	*z = zoneCursor{zone: of}
	if of.loc == nil {
		z.from, z.to, z.off = math.MinInt64, math.MaxInt64, of.offset*secUS
	}
}

// seek finds the offset at a moment.
func (z *zoneCursor) seek(us int64) {
	if us >= z.from && us < z.to || z.loc == nil {
		return
	}
	t := time.UnixMicro(us).In(z.loc)
	_, off := t.Zone()
	start, end := t.ZoneBounds()
	z.from, z.to, z.off = math.MinInt64, math.MaxInt64, int64(off)*secUS
	if !start.IsZero() {
		z.from = start.UnixMicro()
	}
	if !end.IsZero() {
		z.to = end.UnixMicro()
	}
}

// toLocal is what zone.toLocal gives.
func (z *zoneCursor) toLocal(us int64) int64 {
	z.seek(us)
	return us + z.off
}

// toUTC is what zone.toUTC gives: it is plain a day away from a change.
func (z *zoneCursor) toUTC(local int64) int64 {
	z.seek(local)
	if z.loc == nil || (z.from == math.MinInt64 || local-dayUS >= z.from) && (z.to == math.MaxInt64 || local+dayUS < z.to) {
		return local - z.off
	}
	return z.zone.toUTC(local)
}

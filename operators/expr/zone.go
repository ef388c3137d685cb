package expr

import (
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // zones are the same on every machine
)

// zone turns local times into UTC and back.
type zone struct {
	loc    *time.Location
	offset int64 // seconds east of UTC, where loc is nil
}

// abbreviations are the fixed offsets in hours that PostgreSQL knows by their
// common short names.
var abbreviations = map[string]int64{
	"utc": 0, "gmt": 0, "z": 0, "zulu": 0, "ut": 0, "wet": 0,
	"est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7,
	"cet": 1, "cest": 2, "eet": 2, "eest": 3, "bst": 1, "west": 1, "msk": 3, "jst": 9, "kst": 9,
}

// zones are those that were asked for, by their names in lower case.
var zones struct {
	sync.RWMutex
	named map[string]zone
}

// zoneNamed finds a zone by its name in the IANA database, a short name or a
// POSIX offset, whose sign is the other way round.
func zoneNamed(name string) (zone, bool) {
	var buf [48]byte
	key := lowered(name, buf[:])
	if h, ok := abbreviations[key]; ok {
		return zone{offset: h * 3600}, true
	}
	zones.RLock()
	z, ok := zones.named[key]
	zones.RUnlock()
	if ok {
		return z, true
	}
	if name == "" || name == "local" || strings.ContainsAny(name, "\\") || strings.HasPrefix(name, ".") {
		return zone{}, false
	}
	if name[0] == '+' || name[0] == '-' {
		p := &scanner{s: name}
		off, ok := p.offset()
		return zone{offset: -off}, ok && !p.more()
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		loc, err = time.LoadLocation(titleZone(name))
	}
	if err != nil || strings.EqualFold(name, "local") {
		return zone{}, false
	}
	zones.Lock()
	defer zones.Unlock()
	if zones.named == nil {
		zones.named = map[string]zone{}
	}
	z = zone{loc: loc}
	zones.named[strings.Clone(key)] = z
	return z, true
}

// titleZone writes europe/berlin as Europe/Berlin.
func titleZone(name string) string {
	b := []byte(strings.ToLower(name))
	up := true
	for i, c := range b {
		if up && c >= 'a' && c <= 'z' {
			b[i] = c - 32
		}
		up = c == '/' || c == '_' || c == '-'
	}
	return string(b)
}

// at is the offset in seconds east of UTC at a moment.
func (z zone) at(us int64) int64 {
	if z.loc == nil {
		return z.offset
	}
	_, off := time.UnixMicro(us).In(z.loc).Zone()
	return int64(off)
}

// toLocal returns the local time of a moment.
func (z zone) toLocal(us int64) int64 { return us + z.at(us)*secUS }

// toUTC returns the moment of a local time: in a gap with the offset from before
// it, where a time occurs twice the later one.
func (z zone) toUTC(local int64) int64 {
	if z.loc == nil {
		return local - z.offset*secUS
	}
	before, after := z.at(local-dayUS), z.at(local+dayUS)
	t1, t2 := local-before*secUS, local-after*secUS
	if before == after {
		return t1
	}
	ok1, ok2 := z.at(t1) == before, z.at(t2) == after
	switch {
	case ok1 && !ok2, !ok1 && !ok2:
		return t1
	}
	return t2
}

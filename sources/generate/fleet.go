package generate

import (
	"fmt"
	"iter"
	"math"
	"strconv"
	"time"

	"frazil/dataflow"
)

// Kind says what the simulation did to a record.
type Kind uint8

const (
	// Reading: an ordinary record, late by less than the disorder.
	Reading Kind = iota
	// Retry: the bytes of an earlier record of the same split once more.
	Retry
	// CrossRetry: the bytes of an earlier record of another split once more.
	CrossRetry
	// Straggler: sent far later than the disorder allows.
	Straggler
	// Future: the device's clock is a day ahead.
	Future
	// Fault: the sensor is broken.
	Fault
	// Malformed: the payload cannot be decoded.
	Malformed
)

// Record is one record of the fleet.
type Record struct {
	Split dataflow.Split
	// Index counts the records of the split from 0. It is the row's SysPos.
	Index int64
	// Arrived is the simulated arrival time; it never decreases along a split.
	Arrived dataflow.Time
	Kind    Kind
	// The values in the payload, as they were before it was malformed. TS is in
	// milliseconds since 1970; Temp is in hundredths of a degree and Humidity in
	// tenths of a percent.
	Device, Site   string
	Seq, TS        int64
	Temp, Humidity int64
	Status         string
	// Payload is the record's bytes, its own copy.
	Payload []byte
}

// Fleet computes the records of a simulated fleet. It is immutable and safe for
// concurrent use.
//
// Each split has a grid of slots, one per record: its devices take turns, and
// slot i arrives at start + i * interval / devices. A hash of (seed, split, i)
// decides what happens in the slot. Most slots hold a reading of the device
// whose turn it is, with an event time a little before the arrival. A retry
// takes the place of such a reading and repeats another slot's bytes; the
// number that its own device would have sent is then missing, as are numbers
// of malformed records. So every record that decodes is either the only one of
// its (device, seq) or, with the same bytes, a retry of one.
type Fleet struct {
	seed                uint64
	start, interval     int64 // microseconds
	disorder, retry     int64
	stragMin, stragSpan int64
	counts, devices     []int64 // per split
	names               []deviceName
	limits              [Malformed + 1]uint64 // upper ends, in 32 bits, of a hash's share per kind
	splitNames          []dataflow.Split
}

type deviceName struct {
	device, site string
	head         []byte // the payload up to the value of seq
	base         int64  // hundredths of a degree
}

const day = int64(24 * time.Hour / time.Microsecond)

// NewFleet checks c and prepares its records.
func NewFleet(c FleetConfig) (*Fleet, error) {
	if p := c.check(); len(p) > 0 {
		return nil, p
	}
	start, err := parseStart(c.Start)
	if err != nil {
		return nil, err
	}
	f := &Fleet{
		seed: mix(uint64(c.Seed)), start: start, interval: c.Interval.D().Microseconds(),
		disorder: c.Disorder.D().Microseconds(), retry: c.RetryWithin.D().Microseconds(),
	}
	longest := c.StragglerDelay.D().Microseconds()
	f.stragMin = longest / 5
	f.stragSpan = longest - f.stragMin
	f.nameDevices(c)
	f.share(c)
	all, before := int64(c.Sites*c.Devices), int64(0)
	for s := range c.Splits {
		n := (all - int64(s) + int64(c.Splits) - 1) / int64(c.Splits)
		f.devices = append(f.devices, n)
		f.counts = append(f.counts, part(c.Events, before+n, all)-part(c.Events, before, all))
		f.splitNames = append(f.splitNames, splitName(s))
		before += n
	}
	return f, nil
}

// part is events * n / all without overflow, rounded down.
func part(events, n, all int64) int64 { return events/all*n + events%all*n/all }

func (f *Fleet) nameDevices(c FleetConfig) {
	for site := range c.Sites {
		for d := range c.Devices {
			n := deviceName{site: fmt.Sprintf("site-%03d", site), device: fmt.Sprintf("dev-%03d-%04d", site, d)}
			n.head = fmt.Appendf(nil, `{"device":"%s","site":"%s","seq":`, n.device, n.site)
			n.base = 1500 + int64(mix(f.seed^uint64(len(f.names)))%1500)
			f.names = append(f.names, n)
		}
	}
}

func (f *Fleet) share(c FleetConfig) {
	shares := [Malformed + 1]float64{
		Retry: c.Duplicates * (1 - c.CrossSplit), CrossRetry: c.Duplicates * c.CrossSplit,
		Straggler: c.Stragglers, Future: c.Future, Fault: c.Faults, Malformed: c.Malformed,
	}
	sum := 0.0
	for k := Retry; k <= Malformed; k++ {
		sum += shares[k]
		f.limits[k] = uint64(math.Round(min(sum, 1) * (1 << 32)))
	}
}

// Splits is the number of splits.
func (f *Fleet) Splits() int { return len(f.counts) }

// Len is the number of records of a split.
func (f *Fleet) Len(split int) int64 { return f.counts[split] }

// Records gives the records of a split in order, from the index from on. It is
// what the source emits, apart from it.
func (f *Fleet) Records(split int, from int64) iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for i := from; i < f.counts[split]; i++ {
			if !yield(f.Record(split, i)) {
				return
			}
		}
	}
}

// Record computes one record.
func (f *Fleet) Record(split int, i int64) Record {
	r, arrived, kind := f.slot(split, i)
	n := &f.names[r.device]
	return Record{
		Split: f.splitNames[split], Index: i, Arrived: arrived, Kind: kind,
		Device: n.device, Site: n.site, Seq: r.seq, TS: r.ts, Temp: r.temp, Humidity: r.humidity, Status: status(r),
		Payload: f.encode(nil, r, kind),
	}
}

// appendPayload appends the bytes of record i and returns its arrival time.
func (f *Fleet) appendPayload(dst []byte, split int, i int64) ([]byte, dataflow.Time) {
	r, arrived, kind := f.slot(split, i)
	return f.encode(dst, r, kind), arrived
}

// reading is what a device measured.
type reading struct {
	device         int
	seq, ts        int64
	temp, humidity int64
	fault          bool
	noise          uint64
}

// slot decides what record i of a split is.
func (f *Fleet) slot(split int, i int64) (reading, dataflow.Time, Kind) {
	h := f.hash(split, i)
	kind, arrived := f.kind(h), f.arrived(split, i)
	if kind == Retry || kind == CrossRetry {
		if kind == CrossRetry && len(f.counts) == 1 {
			kind = Retry
		}
		if s, j, ok := f.original(split, i, h, kind); ok {
			return f.reading(s, j), dataflow.Time(arrived), kind
		}
		kind = Reading
	}
	return f.reading(split, i), dataflow.Time(arrived), kind
}

// original finds the slot that a retry in slot i repeats: of its own or another
// split, some time ago, and no retry or malformed record itself.
func (f *Fleet) original(split int, i int64, h uint64, kind Kind) (int, int64, bool) {
	sent := f.arrived(split, i) - scale(h, f.retry) - f.start
	if sent < 0 {
		return 0, 0, false
	}
	last := i - 1
	if kind == CrossRetry {
		split = (split + 1 + int(mix(h)%uint64(len(f.counts)-1))) % len(f.counts)
		last = f.counts[split] - 1
	}
	n := f.devices[split]
	j := min(sent/f.interval*n+sent%f.interval*n/f.interval, last)
	for tries := 0; j >= 0 && tries < 64; tries++ {
		switch f.kind(f.hash(split, j)) {
		case Retry, CrossRetry, Malformed:
			j--
		default:
			return split, j, true
		}
	}
	return 0, 0, false
}

// reading is what slot i of a split holds if it is no retry.
func (f *Fleet) reading(split int, i int64) reading {
	h := f.hash(split, i)
	v := mix(h)
	n := f.devices[split]
	r := reading{device: split + int(i%n)*len(f.counts), seq: i/n + 1, noise: v}
	late := scale(v, f.disorder-999)
	kind := f.kind(h)
	switch kind {
	case Straggler:
		late = f.disorder + f.stragMin + scale(v, f.stragSpan)
	case Future:
		late -= day
	}
	r.ts = floorDiv(f.arrived(split, i)-late, 1000)
	// An hourly swing of 4 degrees either way around the device's own mean.
	swing := r.ts % 3_600_000 / 2250
	if swing < 0 {
		swing += 1600
	}
	if swing > 800 {
		swing = 1600 - swing
	}
	r.temp = f.names[r.device].base + swing - 400 + int64(v>>40%101) - 50
	r.humidity = 300 + int64(v>>48%400)
	if kind == Fault {
		r.temp, r.fault = -27315, true
	}
	return r
}

// arrived is the simulated time at which slot i of a split arrives.
func (f *Fleet) arrived(split int, i int64) int64 {
	n := f.devices[split]
	return f.start + i/n*f.interval + i%n*f.interval/n
}

func (f *Fleet) hash(split int, i int64) uint64 {
	return mix(f.seed + uint64(i)*0x9e3779b97f4a7c15 + uint64(split)*0xd1b54a32d192ed03)
}

func (f *Fleet) kind(h uint64) Kind {
	h >>= 32
	if h >= f.limits[Malformed] {
		return Reading
	}
	for k := Retry; k < Malformed; k++ {
		if h < f.limits[k] {
			return k
		}
	}
	return Malformed
}

// encode appends the payload of r, damaged if kind says so.
func (f *Fleet) encode(dst []byte, r reading, kind Kind) []byte {
	from := len(dst)
	dst = append(dst, f.names[r.device].head...)
	dst = strconv.AppendInt(dst, r.seq, 10)
	dst = append(dst, `,"ts":`...)
	dst = strconv.AppendInt(dst, r.ts, 10)
	dst = append(dst, `,"temp":`...)
	if kind == Malformed && r.noise%3 == 1 {
		dst = append(dst, `"warm"`...)
	} else {
		dst = appendFixed(dst, r.temp, 100)
	}
	dst = append(dst, `,"humidity":`...)
	dst = appendFixed(dst, r.humidity, 10)
	dst = append(dst, `,"status":"`...)
	dst = append(dst, status(r)...)
	dst = append(dst, `"}`...)
	if kind != Malformed {
		return dst
	}
	switch n := len(dst) - from; r.noise % 3 {
	case 0:
		dst = dst[:from+1+int(r.noise>>8)%(n-1)]
	case 2:
		dst[from+len(`{"device":"`)] = 0xff
	}
	return dst
}

func status(r reading) string {
	if r.fault {
		return "fault"
	}
	return "ok"
}

// appendFixed writes n/unit as a decimal; unit is 10 or 100.
func appendFixed(dst []byte, n, unit int64) []byte {
	if n < 0 {
		dst = append(dst, '-')
		n = -n
	}
	dst = strconv.AppendInt(dst, n/unit, 10)
	dst = append(dst, '.')
	if unit == 100 {
		dst = append(dst, byte('0'+n/10%10))
	}
	return append(dst, byte('0'+n%10))
}

// scale maps the low 32 bits of h to 0 up to, not including, span.
func scale(h uint64, span int64) int64 {
	if span <= 0 {
		return 0
	}
	f := h & (1<<32 - 1)
	// In two steps: a span in microseconds may have more than 31 bits.
	return int64(uint64(span)>>32*f + (uint64(span)&(1<<32-1)*f)>>32)
}

// mix is the finalizer of splitmix64: every bit of x moves every bit of the
// result.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func parseStart(text string) (int64, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.Year() < 1900 || t.Year() > 2200 {
		return 0, fmt.Errorf("start %q: expected a time of the years 1900 to 2200, as %s", text, defaultStart)
	}
	return t.UnixMicro(), nil
}

func splitName(s int) dataflow.Split { return dataflow.Split(strconv.Itoa(s)) }

package crash_test

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
)

// record is one payload of the input and what it is meant to be.
type record struct {
	split string
	// value is nil for a tombstone (Kafka) and "" for a blank line (files).
	value []byte
	// bad is the reason why the payload is no row, "" if it is one.
	bad string
	// none: no record at all, by rule.
	none bool
	row  event
}

// event is a row of the input. Absent values are nil.
type event struct {
	id, site *string
	et       *int64 // milliseconds since 1970
	v        *int64
	f        *float64
	ok       *bool
}

// shape says what input to make.
type shape struct {
	splits []string
	// weights of the splits, how many records they get.
	weights []int
	records int
	// across: copies of a key may stand in another split.
	across bool
	// tombstones says what a record without a row is: a null (true) or a blank
	// line.
	tombstones bool
}

// What the pipeline says, in milliseconds.
const (
	dataStart = int64(1772359200000) // 2026-03-01T10:00:00Z
	disorder  = 4_000
	bound     = 5_000  // out_of_orderness
	within    = 20_000 // dedup
	window    = 10_000
)

// makeRecords makes input in the order in which it is to be written. Split
// clocks stand apart and run on with random steps; keys are skewed; some rows
// are copies, stragglers, or not to be decoded.
func makeRecords(rng *rand.Rand, s shape) []record {
	clocks := make([]int64, len(s.splits))
	for i := range clocks {
		clocks[i] = dataStart + rng.Int63n(20_000)
	}
	total := 0
	for _, w := range s.weights {
		total += w
	}
	sites := rand.NewZipf(rng, 1.3, 2, 11)
	history := make([][]event, len(s.splits))
	var out []record
	for n := range s.records {
		pick, i := rng.Intn(total), 0
		for pick >= s.weights[i] {
			pick -= s.weights[i]
			i++
		}
		// All splits cover the same time, however many records they have.
		clocks[i] += rng.Int63n(1 + 2*30*int64(total)/int64(s.weights[i]))
		r := record{split: s.splits[i]}
		from := i
		if s.across {
			from = rng.Intn(len(s.splits))
		}
		switch x := rng.Float64(); {
		case x < 0.01:
			r.bad, r.value = malformed(rng, n)
		case x < 0.012:
			r.none = true
			if !s.tombstones {
				r.value = []byte{}
			}
		case x < 0.12 && len(history[from]) > 0:
			r.row = copyOf(rng, history[from], clocks[i])
		}
		if r.bad == "" && !r.none && (r.row.id == nil || r.row.et != nil && *r.row.et > clocks[i]) {
			r.row = fresh(rng, n, clocks[i], sites)
			history[i] = append(history[i], r.row)
		}
		if r.bad == "" && !r.none {
			r.value = r.row.json()
			if r.row.et == nil {
				r.bad = "null_event_time"
			}
		}
		out = append(out, r)
	}
	return out
}

func fresh(rng *rand.Rand, n int, clock int64, sites *rand.Zipf) event {
	id, site := fmt.Sprintf("e%d", n), fmt.Sprintf("site-%d", sites.Uint64())
	et := clock - rng.Int63n(disorder)
	v, f, ok := rng.Int63n(100), float64(rng.Intn(100_000))/100, rng.Intn(10) > 0
	e := event{&id, &site, &et, &v, &f, &ok}
	if rng.Float64() < 0.03 {
		et -= rng.Int63n(60_000)
	}
	switch rng.Intn(200) {
	case 0:
		e.et = nil
	case 1:
		e.site = nil
	case 2:
		e.v = nil
	case 3:
		e.f = nil
	case 4:
		e.ok = nil
	}
	return e
}

// copyOf repeats an earlier row, mostly a recent one, sometimes with another
// event time, but never one ahead of the clock. Its values differ, so that it
// shows which of the copies stayed.
func copyOf(rng *rand.Rand, history []event, clock int64) event {
	e := history[len(history)-1-rng.Intn(min(len(history), 20<<rng.Intn(8)))]
	v := rng.Int63n(100)
	e.v = &v
	if e.et != nil {
		apart := []int64{0, 0, 0, within, -within, within + 1, -within - 1, rng.Int63n(2*within) - within}
		if et := *e.et + apart[rng.Intn(len(apart))]; et < clock {
			e.et = &et
		}
	}
	return e
}

func malformed(rng *rand.Rand, n int) (reason string, value []byte) {
	whole := fmt.Sprintf(`{"id":"b%d","et":%d,"v":1}`, n, dataStart)
	switch rng.Intn(5) {
	case 0:
		return "invalid_json", []byte(whole[:len(whole)-1-rng.Intn(10)])
	case 1:
		return "mistyped", []byte(strings.Replace(whole, `"v":1`, `"v":"1"`, 1))
	case 2:
		return "invalid_utf8", []byte(strings.Replace(whole, `"b`, "\"\xc3(", 1))
	case 3:
		return "not_an_object", []byte("[" + whole + "]")
	}
	return "out_of_range", []byte(strings.Replace(whole, `"v":1`, `"v":9223372036854775808`, 1))
}

func (e event) json() []byte {
	var parts []string
	add := func(name string, there bool, value func() string) {
		if there {
			parts = append(parts, fmt.Sprintf("%q:%s", name, value()))
		}
	}
	add("id", e.id != nil, func() string { return fmt.Sprintf("%q", *e.id) })
	add("site", e.site != nil, func() string { return fmt.Sprintf("%q", *e.site) })
	add("et", e.et != nil, func() string { return fmt.Sprint(*e.et) })
	add("v", e.v != nil, func() string { return fmt.Sprint(*e.v) })
	add("f", e.f != nil, func() string { return fmt.Sprintf("%.2f", *e.f) })
	add("ok", e.ok != nil, func() string { return fmt.Sprint(*e.ok) })
	return []byte("{" + strings.Join(slices.Clip(parts), ",") + "}")
}

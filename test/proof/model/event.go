// Package model makes numbered, checksummed events, says by rules of its own what
// each table of one pipeline must hold when all of them have been read, and compares
// tables with that. It shares no code with the engine: it imports the standard
// library and nothing else.
package model

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand"
	"strings"
)

// Split is where an event comes from: one partition, lane or stream of a source.
type Split struct {
	Source string
	Number int
}

// Event is one row of the input.
type Event struct {
	Src   string `json:"src"`
	Split int    `json:"split"`
	// Pos is its place among the records of its split, from 0.
	Pos  int64  `json:"pos"`
	ID   string `json:"id"`
	Site string `json:"site"`
	// ET is the event time in milliseconds since 1970.
	ET int64 `json:"et"`
	V  int64 `json:"v"`
	// Sum is the checksum of all the others.
	Sum string `json:"sum"`
}

// Checksum is what Sum must be.
func (e Event) Checksum() string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s|%d|%d|%s|%s|%d|%d", e.Src, e.Split, e.Pos, e.ID, e.Site, e.ET, e.V)
	return fmt.Sprintf("%016x", h.Sum64())
}

// Record is one payload of the input.
type Record struct {
	Event
	// Bad is the reason why it is no row, "" if it is one.
	Bad     string
	Payload []byte
	// Where is its position as its source names it. Who writes the payload sets it.
	Where string
}

// What the pipeline says, in milliseconds.
const (
	begin    = int64(1772359200000) // 2026-03-01T10:00:00Z
	span     = 300_000              // of event time, whatever the number of records
	disorder = 4_000
	bound    = 5_000  // out_of_orderness
	within   = 20_000 // dedup
	width    = 10_000 // windows
	lateness = 3_000  // allowed_lateness
	best     = 3      // limit of top
)

// Generate makes n records of a split, the same ones for the same seed: event times
// out of order, some far behind, some records delivered again under a new position,
// some that are no rows.
func Generate(seed int64, s Split, n int) []Record {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d|%s|%d", seed, s.Source, s.Number)
	rng := rand.New(rand.NewSource(int64(h.Sum64())))
	sites := rand.NewZipf(rng, 1.3, 2, 11)
	clock := begin + rng.Int63n(10_000)
	var out []Record
	for i := range n {
		clock += rng.Int63n(1 + 2*span/int64(n))
		e := Event{ID: fmt.Sprintf("%s-%d-%06d", s.Source, s.Number, i), Site: fmt.Sprintf("site-%d", sites.Uint64()),
			ET: clock - rng.Int63n(disorder), V: rng.Int63n(1000)}
		bad := ""
		switch x := rng.Intn(100); {
		case x < 8 && i > 0: // Delivered again.
			if old := out[i-1-rng.Intn(min(i, 300))]; old.Bad == "" {
				e = old.Event
			}
		case x < 12:
			e.ET -= rng.Int63n(60_000)
		case x < 14:
			bad = []string{"invalid_json", "mistyped", "missing_required", "null_event_time"}[rng.Intn(4)]
		}
		e.Src, e.Split, e.Pos = s.Source, s.Number, int64(i)
		e.Sum = e.Checksum()
		out = append(out, Record{Event: e, Bad: bad, Payload: payload(e, bad)})
	}
	return out
}

func payload(e Event, bad string) []byte {
	raw, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	text := string(raw)
	switch bad {
	case "invalid_json":
		text = text[:len(text)-5]
	case "mistyped":
		text = strings.Replace(text, fmt.Sprintf(`"v":%d`, e.V), `"v":"much"`, 1)
	case "missing_required":
		text = strings.Replace(text, fmt.Sprintf(`"id":%q,`, e.ID), "", 1)
	case "null_event_time":
		text = strings.Replace(text, fmt.Sprintf(`"et":%d`, e.ET), `"et":null`, 1)
	}
	return []byte(text)
}

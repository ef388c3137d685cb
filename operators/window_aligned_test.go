package operators

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
)

// parseWindow decodes a window as the loader does, and plans it.
func parseWindow(t *testing.T, text string) (WindowConfig, error) {
	t.Helper()
	node, problems := component.Parse("w.yaml", []byte(text), os.LookupEnv)
	var cfg WindowConfig
	if problems = append(problems, component.Decode(node, &cfg)...); len(problems) > 0 {
		return cfg, problems
	}
	schema := arrow.NewSchema(append([]arrow.Field{{Name: "k", Type: dataflow.TypeString}, {Name: "v", Type: dataflow.TypeInt64}}, dataflow.SystemFields(true)...), nil)
	_, err := planWindow(component.OperatorIn{Inputs: []dataflow.Stream{{Schema: schema}}, Names: []string{"rows"}}, cfg)
	return cfg, err
}

func TestWindowConfigMistakes(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"tumbling: 1m", ""},
		{"tumbling: 60", `duration "60" has no unit`},
		{"tumbling: 1500ns", "whole microseconds, as 1m, not 1500ns"},
		{"tumbling: 0mo", "1 to 100000"},
		{"tumbling: 1 month", "or a calendar unit, as 1d, 1w, 1mo, 1y"},
		{"by: [k]", "say what the windows are"},
		{"tumbling: 1m\nhopping: {size: 1m, slide: 1s}", "hopping: hopping stands beside tumbling: windows have one kind, so keep one"},
		{"hopping: {size: 1m}", `required key "slide" is missing`},
		{"hopping: {size: 1m, slide: 2m}", "hopping.slide: a slide of 2m leaves times between windows of 1m in no window"},
		{"hopping: {size: 1mo, slide: 1d}", "hopping.slide: size 1mo and slide 1d are numbers of different calendar units"},
		{"hopping: {size: 1y, slide: 1mo}", ""},
		{"hopping: {size: 1w, slide: 1d}\nzone: Asia/Tokyo", ""},
		{"cumulative: {size: 1h, step: 7m}", "cumulative.step: the step 7m does not divide the size 1h"},
		{"cumulative: {size: 1d, step: 1h}\nzone: Europe/Berlin", ""},
		{"cumulative: {size: 1mo, step: 1w}", ""},
		{"cumulative: {size: 1d, step: 1w}\nzone: Europe/Berlin", "cumulative.step: a step of 1w is longer than the size 1d"},
		{"tumbling: 1h\nzone: Europe/Berlin", "tumbling: 1h is no calendar unit, so the zone Europe/Berlin has no effect"},
		{"tumbling: 1d\nzone: Europe/Berlinn", `zone: unknown time zone "Europe/Berlinn"`},
		{"tumbling: 1d\nzone: Local", `zone: unknown time zone "Local"`},
		{"tumbling: 1d\noffset: -8h", ""},
		{"tumbling: 1d\noffset: 8", `duration "8" has no unit`},
		{"session: {gap: 10s}\nzone: Europe/Berlin", "zone: windows of the kind session know no time zone"},
		{"global: {}\noffset: 1s", "offset: windows of the kind global have no offset"},
		{"global: {}\nallowed_lateness: 1s", "allowed_lateness: no row is late for a global window"},
		{"tumbling: 1m\nby: [k, {kind: v % 3}]", ""},
		{"tumbling: 1m\nby: [{a: v, b: v}]", "by[0]: expected one name with its expression, got 2"},
		{"tumbling: 1m\nby: [{a: v +}]", "by[0].a: "},
		{"tumbling: 1m\nby: [v, {v: v % 3}]", `by[1]: column "v" stands twice`},
		{"tumbling: 1m\nemit: sometimes", "expected one of final, updates"},
	} {
		_, err := parseWindow(t, c.text+"\naggregate: {n: count(*)}\n")
		if c.want == "" && err != nil {
			t.Errorf("%q: %v", c.text, err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: got %v, want %q", c.text, err, c.want)
		}
	}
}

// TestAlignedWindowsHoldTogether checks the laws that the operator builds on, for
// random windows in zones with all kinds of changes of the clock: by an hour, by
// half an hour, at midnight, over a whole day.
func TestAlignedWindowsHoldTogether(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	calendar := []string{
		"tumbling: 1d", "tumbling: 2d", "tumbling: 1w", "tumbling: 1mo", "tumbling: 3mo", "tumbling: 1y", "hopping: {size: 3d, slide: 1d}",
		"hopping: {size: 7d, slide: 2d}", "hopping: {size: 3mo, slide: 1mo}", "hopping: {size: 2w, slide: 1w}",
		"cumulative: {size: 1d, step: 1h}", "cumulative: {size: 1mo, step: 1d}", "cumulative: {size: 1w, step: 1d}", "cumulative: {size: 1y, step: 1mo}",
	}
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "America/Sao_Paulo", "Asia/Kathmandu"}
	for range 1500 {
		text := calendar[rng.IntN(len(calendar))] + "\nzone: " + zones[rng.IntN(len(zones))]
		if rng.IntN(2) == 0 {
			n := 1 + rng.IntN(50)
			text = []string{
				fmt.Sprintf("tumbling: %ds", n), fmt.Sprintf("hopping: {size: %ds, slide: %ds}", n+rng.IntN(300), n),
				fmt.Sprintf("cumulative: {size: %ds, step: %ds}", n*(1+rng.IntN(40)), n),
			}[rng.IntN(3)]
		}
		if rng.IntN(2) == 0 {
			text += fmt.Sprintf("\noffset: %dm", rng.IntN(2000)-1000)
		}
		cfg, err := parseWindow(t, text+"\naggregate: {n: count(*)}\n")
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		w, _, _, problems := newAlignedWindows(cfg)
		if problems != nil {
			t.Fatal(problems)
		}
		span := int64(75 * 365 * dayMicros)
		at := rng.Int64N(2*span) - span/2
		if rng.IntN(4) == 0 { // around the day that Samoa left out
			at = time.Date(2011, 12, 28, 0, 0, 0, 0, time.UTC).UnixMicro() + rng.Int64N(5*dayMicros)
		}
		checkAligned(t, text, w, at)
		if t.Failed() {
			return
		}
	}
}

func checkAligned(t *testing.T, text string, w alignedWindows, at int64) {
	t.Helper()
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s, at %s (%d): "+format, append([]any{text, dataflow.Time(at), at}, args...)...)
	}
	lo, hi := w.pane(at)
	if at < lo || at >= hi {
		fail("pane [%d, %d)", lo, hi)
	}
	for _, x := range []int64{lo, hi - 1} {
		if l, h := w.pane(x); l != lo || h != hi {
			fail("pane of %d is [%d, %d), not [%d, %d)", x, l, h, lo, hi)
		}
	}
	last := int64(0)
	visitWindows(w, at, func(start, end int64) {
		if start > lo || end < hi {
			fail("window [%d, %d) does not hold the pane [%d, %d)", start, end, lo, hi)
		}
		if last != 0 && end <= last {
			fail("window to %d after the one to %d", end, last)
		}
		last = end
	})
	if next := w.next(last); w.start(next) <= at && next > at {
		fail("window [%d, %d) after the last one", w.start(next), next)
	}
	// Going on from the window before the first one misses none.
	first := w.first(lo)
	if l, _ := w.pane(w.start(first) - 1); w.next(w.first(l)) < w.first(l) {
		fail("windows go backwards from %d", w.first(l))
	}
	for end, n := w.first(w.start(first)), 0; end < first; end = w.next(end) {
		if n++; n > 100_000 {
			fail("the window to %d is not met", first)
			return
		}
		if w.next(end) > first {
			fail("the window to %d is left out after %d", first, end)
		}
	}
}

// TestCalendarBoundsAreThoseOfTheWall holds bounds of days against the clock.
func TestCalendarBoundsAreThoseOfTheWall(t *testing.T) {
	for _, c := range []struct{ zone, day, from, to string }{
		{"Europe/Berlin", "2026-03-29", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"},
		{"Europe/Berlin", "2026-10-25", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"},
		{"America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"},
		{"America/Sao_Paulo", "2018-02-17", "2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z"},
		{"Australia/Lord_Howe", "2026-04-05", "2026-04-04T13:00:00Z", "2026-04-05T13:30:00Z"},
		{"Pacific/Apia", "2011-12-29", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"},
		{"Pacific/Apia", "2011-12-31", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"},
	} {
		loc, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		noon, err := time.ParseInLocation("2006-01-02 15", c.day+" 12", loc)
		if err != nil {
			t.Fatal(err)
		}
		cells := calendarCells{loc: loc, unit: unitDays, n: 1}
		i := cells.index(noon.UnixMicro())
		from, to := time.UnixMicro(cells.at(i)).UTC().Format(time.RFC3339), time.UnixMicro(cells.at(i+1)).UTC().Format(time.RFC3339)
		if from != c.from || to != c.to {
			t.Errorf("%s in %s is %s to %s, want %s to %s", c.day, c.zone, from, to, c.from, c.to)
		}
	}
}

package bench

import (
	"fmt"
	"sort"
	"strings"
	"testing"
	"time"
)

// The models work out from the numbers of the bids what each pipeline must give,
// as the lines that "frazil table rows" prints, sorted.

func timeText(micros int64) string {
	return time.UnixMicro(micros).UTC().Format("2006-01-02T15:04:05.000000Z")
}

func wantFiltered(n int64) []string {
	var out []string
	for i := range n {
		if b := bidAt(i); b.price > minPrice {
			out = append(out, fmt.Sprintf(`{"auction":%d,"bidder":%d,"euros":"%d.%03d","dateTime":"%s"}`,
				b.auction, b.bidder, b.price*908/1000, b.price*908%1000, timeText(b.dateTime*1000)))
		}
	}
	sort.Strings(out)
	return out
}

func wantCounts(n int64) []string {
	const size = 10_000
	type window struct{ auction, start int64 }
	counts := map[window]int64{}
	for i := range n {
		b := bidAt(i)
		counts[window{b.auction, b.dateTime / size * size}]++
	}
	var out []string
	for w, n := range counts {
		out = append(out, fmt.Sprintf(`{"auction":%d,"window_start":"%s","window_end":"%s","n":%d}`,
			w.auction, timeText(w.start*1000), timeText((w.start+size)*1000), n))
	}
	sort.Strings(out)
	return out
}

// bidLine is a bid as a row of a table that has all its columns.
func bidLine(b bid) string {
	json := string(b.appendJSON(nil))
	was := fmt.Sprintf(`"dateTime":%d`, b.dateTime)
	return strings.Replace(json, was, `"dateTime":"`+timeText(b.dateTime*1000)+`"`, 1)
}

func wantFirsts(n int64) []string {
	type key struct{ bidder, dateTime, auction int64 }
	seen := map[key]bool{}
	var out []string
	for i := range n {
		b := bidAt(i)
		k := key{b.bidder, b.dateTime, b.auction}
		if !seen[k] {
			seen[k] = true
			out = append(out, bidLine(b))
		}
	}
	sort.Strings(out)
	return out
}

func wantAll(n int64) []string {
	out := make([]string, n)
	for i := range n {
		out[i] = bidLine(bidAt(i))
	}
	sort.Strings(out)
	return out
}

func compareRows(tb testing.TB, got, want []string) {
	tb.Helper()
	sort.Strings(got)
	if len(got) != len(want) {
		tb.Errorf("%d rows, want %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			tb.Fatalf("row %d by order of text:\n got %s\nwant %s", i, got[i], want[i])
		}
	}
}

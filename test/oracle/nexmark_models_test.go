package oracle

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"frazil/sources/generate"
)

// nexmarkModels say, from the bids alone, what the queries of examples/nexmark
// give, in the columns of Flink's goldens.
var nexmarkModels = []struct {
	file, golden string
	as           map[string]string
	model        func([]generate.NexmarkBid) []map[string]any
}{
	{"q0", "q00", nil, modelQ0},
	{"q1", "q01", map[string]string{"price": "euro"}, modelQ1},
	{"q2", "q02", nil, modelQ2},
	{"q5", "q05", nil, modelQ5},
	{"q11", "q11", map[string]string{"starttime": "window_start", "endtime": "window_end"}, modelQ11},
	{"q14", "q14", nil, modelQ14},
	{"q15", "q15", nil, modelQ15},
	{"q16", "q16", nil, modelQ16},
	{"q17", "q17", nil, modelQ17},
	{"q18", "q18", nil, modelQ18},
	{"q19", "q19", nil, modelQ19},
	{"q21", "q21", nil, modelQ21},
	{"q22", "q22", nil, modelQ22},
}

// The models are compared on 40 s of event time: fewer events than the default,
// and fewer per second.
const nexmarkEvents, nexmarkPerSecond = 20_000, 500

func nexmarkBids(t *testing.T) (bids []generate.NexmarkBid) {
	t.Helper()
	cfg := generate.DefaultNexmark()
	cfg.Events, cfg.PerSecond = nexmarkEvents, nexmarkPerSecond
	g, err := generate.NewNexmark(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for n := range int64(nexmarkEvents) {
		if b, ok := g.Bid(n); ok {
			bids = append(bids, b)
		}
	}
	return bids
}

// runNexmark runs an example as it is, but with fewer events and a sink that
// keeps the rows.
func runNexmark(t *testing.T, file string, tasks int) []map[string]any {
	t.Helper()
	sources, operators, sinks := nexmarkFile(t, file)
	sources = strings.Replace(sources, `"${EVENTS:-10_000_000}"`, fmt.Sprintf("%d, per_second: %d", nexmarkEvents, nexmarkPerSecond), 1)
	sources = strings.Replace(sources, "\nsources:", "\nhttp: \"off\"\nsources:", 1)
	out := run(t, tasks, sources+operators+nexmarkSinks(nexmarkResult(t, sinks), ""))
	return folded(t, out["out"])
}

// TestNexmarkExamplesOnTheGenerator compares every row with a model.
func TestNexmarkExamplesOnTheGenerator(t *testing.T) {
	bids := nexmarkBids(t)
	for _, m := range nexmarkModels {
		t.Run(m.file, func(t *testing.T) {
			t.Parallel()
			types := nexmarkIndex(t, m.golden).types
			want := m.model(bids)
			for _, tasks := range []int{1, 3} {
				sameRows(t, m.file, types, m.as, runNexmark(t, m.file, tasks), want)
			}
		})
	}
}

// TestNexmarkQ12CountsEachBidOnce: windows of processing time differ from run to
// run, but each bid is in one of them.
func TestNexmarkQ12CountsEachBidOnce(t *testing.T) {
	want := map[string]int64{}
	for _, b := range nexmarkBids(t) {
		want[fmt.Sprint(b.Bidder)]++
	}
	got := map[string]int64{}
	for _, r := range runNexmark(t, "q12", 3) {
		n, err := r["bid_count"].(json.Number).Int64()
		if err != nil {
			t.Fatal(err)
		}
		got[fmt.Sprint(r["bidder"])] += n
	}
	if !maps.Equal(got, want) {
		t.Fatalf("%d bidders with counts %v, want %d with %v", len(got), got, len(want), want)
	}
}

func number(n int64) json.Number { return json.Number(fmt.Sprint(n)) }

func modelQ0(bids []generate.NexmarkBid) (out []map[string]any) {
	for _, b := range bids {
		out = append(out, map[string]any{"auction": number(b.Auction), "bidder": number(b.Bidder), "price": number(b.Price), "dateTime": number(b.DateTime), "extra": b.Extra})
	}
	return out
}

func modelQ1(bids []generate.NexmarkBid) []map[string]any {
	out := modelQ0(bids)
	for i, b := range bids {
		out[i]["price"] = fmt.Sprintf("%d.%03d", b.Price*908/1000, b.Price*908%1000)
	}
	return out
}

func modelQ2(bids []generate.NexmarkBid) (out []map[string]any) {
	for _, b := range bids {
		if b.Auction%123 == 0 {
			out = append(out, map[string]any{"auction": number(b.Auction), "price": number(b.Price)})
		}
	}
	return out
}

func modelQ5(bids []generate.NexmarkBid) (out []map[string]any) {
	const size, slide = 10_000, 2_000
	windows := map[int64]map[int64]int64{}
	for _, b := range bids {
		last := b.DateTime / slide * slide
		for start := last; start > last-size; start -= slide {
			if windows[start] == nil {
				windows[start] = map[int64]int64{}
			}
			windows[start][b.Auction]++
		}
	}
	for start, counts := range windows {
		most := int64(0)
		for _, n := range counts {
			most = max(most, n)
		}
		for auction, n := range counts {
			if n == most {
				out = append(out, map[string]any{"auction": number(auction), "num": number(n), "window_start": number(start), "window_end": number(start + size)})
			}
		}
	}
	return out
}

func modelQ11(bids []generate.NexmarkBid) (out []map[string]any) {
	const gap = 10_000
	type session struct{ first, last, n int64 }
	open := map[int64]*session{}
	emit := func(bidder int64, s *session) {
		out = append(out, map[string]any{"bidder": number(bidder), "bid_count": number(s.n), "starttime": number(s.first), "endtime": number(s.last + gap)})
	}
	for _, b := range bids {
		s := open[b.Bidder]
		if s != nil && b.DateTime > s.last+gap {
			emit(b.Bidder, s)
			s = nil
		}
		if s == nil {
			s = &session{first: b.DateTime}
			open[b.Bidder] = s
		}
		s.last, s.n = b.DateTime, s.n+1
	}
	for bidder, s := range open {
		emit(bidder, s)
	}
	return out
}

func modelQ14(bids []generate.NexmarkBid) []map[string]any {
	out := modelQ1(bids)
	for i, b := range bids {
		r := out[i]
		switch h := time.UnixMilli(b.DateTime).UTC().Hour(); {
		case h >= 8 && h <= 18:
			r["bidTimeType"] = "dayTime"
		case h <= 6 || h >= 20:
			r["bidTimeType"] = "nightTime"
		default:
			r["bidTimeType"] = "otherTime"
		}
		r["c_counts"] = number(int64(strings.Count(b.Extra, "c")))
		if milli := b.Price * 908; milli <= 1_000_000_000 || milli >= 50_000_000_000 {
			out[i] = nil
		}
	}
	return slices.DeleteFunc(out, func(r map[string]any) bool { return r == nil })
}

func modelQ21(bids []generate.NexmarkBid) (out []map[string]any) {
	known := map[string]string{"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
	for _, b := range bids {
		id, ok := known[strings.ToLower(b.Channel)]
		if !ok {
			_, id, ok = strings.Cut(b.URL, "&channel_id=")
			id, _, _ = strings.Cut(id, "&")
		}
		if ok {
			out = append(out, map[string]any{"auction": number(b.Auction), "bidder": number(b.Bidder), "price": number(b.Price), "channel": b.Channel, "channel_id": id})
		}
	}
	return out
}

func modelQ22(bids []generate.NexmarkBid) (out []map[string]any) {
	for _, b := range bids {
		dirs := strings.Split(b.URL, "/")
		out = append(out, map[string]any{"auction": number(b.Auction), "bidder": number(b.Bidder), "price": number(b.Price), "channel": b.Channel,
			"dir1": dirs[3], "dir2": dirs[4], "dir3": dirs[5]})
	}
	return out
}

// bidStatistics are the columns that q15, q16 and q17 share.
type bidStatistics struct {
	bids               [4]int64
	bidders, auctions  [4]map[int64]bool
	least, most, total int64
	minute             string
}

func rankOf(price int64) int {
	switch {
	case price < 10_000:
		return 1
	case price < 1_000_000:
		return 2
	}
	return 3
}

func (s *bidStatistics) add(b generate.NexmarkBid) {
	if s.bids[0] == 0 {
		s.least = b.Price
	}
	s.least, s.most, s.total = min(s.least, b.Price), max(s.most, b.Price), s.total+b.Price
	s.minute = max(s.minute, time.UnixMilli(b.DateTime).UTC().Format("15:04"))
	for _, i := range []int{0, rankOf(b.Price)} {
		if s.bids[i]++; s.bids[i] == 1 {
			s.bidders[i], s.auctions[i] = map[int64]bool{}, map[int64]bool{}
		}
		s.bidders[i][b.Bidder], s.auctions[i][b.Auction] = true, true
	}
}

func (s *bidStatistics) row() map[string]any {
	out := map[string]any{
		"minute": s.minute, "min_price": number(s.least), "max_price": number(s.most),
		"sum_price": number(s.total), "avg_price": number(s.total / s.bids[0]),
	}
	for i, rank := range []string{"total", "rank1", "rank2", "rank3"} {
		out[rank+"_bids"] = number(s.bids[i])
		out[rank+"_bidders"], out[rank+"_auctions"] = number(int64(len(s.bidders[i]))), number(int64(len(s.auctions[i])))
	}
	return out
}

// statistics are those of the bids per key and day.
func statistics(bids []generate.NexmarkBid, column string, key func(generate.NexmarkBid) any) (out []map[string]any) {
	type group struct {
		key any
		day string
	}
	all := map[group]*bidStatistics{}
	for _, b := range bids {
		k := group{key(b), time.UnixMilli(b.DateTime).UTC().Format("2006-01-02")}
		if all[k] == nil {
			all[k] = &bidStatistics{}
		}
		all[k].add(b)
	}
	for k, s := range all {
		r := s.row()
		r["day"], r[column] = k.day, k.key
		out = append(out, r)
	}
	return out
}

func modelQ15(bids []generate.NexmarkBid) []map[string]any {
	return statistics(bids, "", func(generate.NexmarkBid) any { return nil })
}

func modelQ16(bids []generate.NexmarkBid) []map[string]any {
	return statistics(bids, "channel", func(b generate.NexmarkBid) any { return b.Channel })
}

func modelQ17(bids []generate.NexmarkBid) []map[string]any {
	return statistics(bids, "auction", func(b generate.NexmarkBid) any { return number(b.Auction) })
}

func wholeBid(b generate.NexmarkBid) map[string]any {
	r := modelQ0([]generate.NexmarkBid{b})[0]
	r["channel"], r["url"] = b.Channel, b.URL
	return r
}

// modelQ18 takes the later one of two bids of one time: ties go by position.
func modelQ18(bids []generate.NexmarkBid) (out []map[string]any) {
	type key struct{ bidder, auction int64 }
	last := map[key]generate.NexmarkBid{}
	for _, b := range bids {
		last[key{b.Bidder, b.Auction}] = b
	}
	for _, b := range last {
		out = append(out, wholeBid(b))
	}
	return out
}

// modelQ19 ranks the earlier one of two bids of one price first.
func modelQ19(bids []generate.NexmarkBid) (out []map[string]any) {
	auctions := map[int64][]generate.NexmarkBid{}
	for _, b := range bids {
		auctions[b.Auction] = append(auctions[b.Auction], b)
	}
	for _, of := range auctions {
		slices.SortStableFunc(of, func(a, b generate.NexmarkBid) int { return int(b.Price - a.Price) })
		for i, b := range of[:min(10, len(of))] {
			r := wholeBid(b)
			r["rank_number"] = number(int64(i + 1))
			out = append(out, r)
		}
	}
	return out
}

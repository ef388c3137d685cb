package fleet

import (
	"math"
	"sort"
	"strconv"
	"time"

	"frazil/dataflow"
	"frazil/sources/generate"
)

// What pipeline.yaml says, written down a second time: the model knows nothing
// of the engine and nothing of the file.
const (
	outOfOrderness = 10 * time.Second
	maxAhead       = 5 * time.Minute
	within         = 10 * time.Minute
	window         = time.Minute
	minTemp        = -40
	maxTemp        = 125
)

// row is one row of a table: column names and values as encoding/json reads
// them, with integers as int64.
type row map[string]any

// tables are the rows of the example by sink, each under what identifies it.
type tables map[string]map[string]row

// event is a record that became a row.
type event struct {
	generate.Record
	stamp dataflow.Time
}

func (e event) ts() dataflow.Time { return dataflow.Time(e.TS * 1000) }

// expect works out the tables from the records alone.
func expect(f *generate.Fleet) tables {
	out := tables{"raw": {}, "minutes": {}, "late": {}, "stale": {}, "bad": {}}
	events := arrivals(f, out)
	type windowKey struct {
		site, device string
		start        dataflow.Time
	}
	passed := map[string]bool{}
	minutes := map[windowKey]*minute{}
	for _, e := range events {
		id := e.Device + "/" + strconv.FormatInt(e.Seq, 10)
		if e.ts() < e.stamp.Sub(within) {
			r := columns(e)
			r["watermark"], r["lateness"] = e.stamp.String(), int64(e.stamp.Sub(within)-e.ts())
			out["stale"][origin(e)] = r
			continue
		}
		if passed[id] {
			continue
		}
		passed[id] = true
		if temp := float64(e.Temp) / 100; e.Status != "ok" || temp < minTemp || temp > maxTemp {
			continue
		}
		r := columns(e)
		r["temp_f"] = float64(e.Temp)/100*1.8 + 32
		out["raw"][id] = r
		length := dataflow.Time(window.Microseconds())
		start := e.ts() - (e.ts()%length+length)%length
		if end := start + length; end <= e.stamp {
			late := row{"window_start": start.String(), "window_end": end.String(), "watermark": e.stamp.String(), "lateness": int64(e.stamp - end)}
			for k, v := range r {
				late[k] = v
			}
			out["late"][id] = late
			continue
		}
		k := windowKey{e.Site, e.Device, start}
		if minutes[k] == nil {
			minutes[k] = &minute{min: math.MaxInt64, max: math.MinInt64}
		}
		minutes[k].add(e.Temp)
	}
	for k, m := range minutes {
		out["minutes"][k.device+"@"+k.start.String()] = row{
			"site": k.site, "device": k.device,
			"window_start": k.start.String(), "window_end": k.start.Add(window).String(), "n": m.n,
			"avg_temp": float64(m.sum) / 100 / float64(m.n), "min_temp": float64(m.min) / 100, "max_temp": float64(m.max) / 100,
		}
	}
	return out
}

// minute sums hundredths of a degree, exactly.
type minute struct{ n, sum, min, max int64 }

func (m *minute) add(temp int64) {
	m.n++
	m.sum += temp
	m.min, m.max = min(m.min, temp), max(m.max, temp)
}

// arrivals stamps the records of every split with the watermark just before
// them, puts bad ones into out, and returns the others in the order of stamp,
// split and position.
func arrivals(f *generate.Fleet, out tables) []event {
	var events []event
	for s := range f.Splits() {
		wm := dataflow.MinTime
		for r := range f.Records(s, 0) {
			e := event{r, wm}
			reason := ""
			switch {
			case r.Kind == generate.Malformed:
				reason = "malformed"
			case e.ts() > r.Arrived.Add(maxAhead):
				reason = "future_timestamp"
			}
			if reason != "" {
				out["bad"][origin(e)] = row{"reason": reason, "source": "readings", "split": string(r.Split), "position": strconv.FormatInt(r.Index, 10)}
				continue
			}
			wm = max(wm, e.ts().Sub(outOfOrderness))
			e.Payload = nil
			events = append(events, e)
		}
	}
	sort.SliceStable(events, func(i, j int) bool {
		a, b := events[i], events[j]
		if a.stamp != b.stamp {
			return a.stamp < b.stamp
		}
		if a.Split != b.Split {
			return a.Split < b.Split
		}
		return a.Index < b.Index
	})
	return events
}

func origin(e event) string { return string(e.Split) + "@" + strconv.FormatInt(e.Index, 10) }

func columns(e event) row {
	return row{
		"device": e.Device, "site": e.Site, "seq": e.Seq, "ts": e.ts().String(),
		"temp": float64(e.Temp) / 100, "humidity": float64(e.Humidity) / 10, "status": e.Status,
	}
}

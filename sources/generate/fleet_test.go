package generate

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
	"unicode/utf8"

	"frazil/dataflow"
	"frazil/dataflow/component"
)

func smallFleet(seed int64) FleetConfig {
	c := DefaultFleet()
	c.Events, c.Seed, c.Sites, c.Devices = 40_000, seed, 3, 7
	c.Duplicates, c.Stragglers, c.Future, c.Malformed = 0.1, 0.02, 0.01, 0.02
	return c
}

func mustFleet(t testing.TB, c FleetConfig) *Fleet {
	t.Helper()
	f, err := NewFleet(c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

type key struct {
	device string
	seq    int64
}

// payload is what a device sends.
type payload struct {
	Device, Site, Status string
	Seq, TS              int64
	Temp, Humidity       float64
}

func TestEveryRecordKeepsWhatItsKindPromises(t *testing.T) {
	cfg := smallFleet(7)
	f := mustFleet(t, cfg)
	disorder := cfg.Disorder.D().Microseconds()
	originals := map[key]Record{}
	var retries []Record
	kinds := map[Kind]int{}
	var total int64
	for s := range f.Splits() {
		before := dataflow.MinTime
		for r := range f.Records(s, 0) {
			total++
			kinds[r.Kind]++
			if r.Arrived < before {
				t.Fatalf("split %d record %d: arrives before the record before it", s, r.Index)
			}
			before = r.Arrived
			var p payload
			err := json.Unmarshal(r.Payload, &p)
			valid := err == nil && utf8.Valid(r.Payload)
			if valid == (r.Kind == Malformed) {
				t.Fatalf("split %d record %d kind %d: valid %v: %s", s, r.Index, r.Kind, valid, r.Payload)
			}
			if r.Kind == Malformed {
				continue
			}
			want := payload{r.Device, r.Site, r.Status, r.Seq, r.TS, float64(r.Temp) / 100, float64(r.Humidity) / 10}
			if p != want {
				t.Fatalf("payload %s gives %+v, want %+v", r.Payload, p, want)
			}
			late := int64(r.Arrived) - r.TS*1000
			switch r.Kind {
			case Reading, Fault:
				if late < 0 || disorder > 0 && late >= disorder {
					t.Fatalf("record %+v is %d us late", r, late)
				}
			case Straggler:
				if late <= disorder+cfg.StragglerDelay.D().Microseconds()/5-1000 {
					t.Fatalf("straggler %+v is only %d us late", r, late)
				}
			case Future:
				if late > -day+disorder || late < -day {
					t.Fatalf("future record %+v is %d us late", r, late)
				}
			}
			k := key{p.Device, p.Seq}
			if r.Kind == Retry || r.Kind == CrossRetry {
				retries = append(retries, r)
				continue
			}
			if o, ok := originals[k]; ok {
				t.Fatalf("%v is sent twice without being a retry: %+v and %+v", k, o, r)
			}
			originals[k] = r
		}
	}
	for _, r := range retries {
		o, ok := originals[key{r.Device, r.Seq}]
		if !ok || string(o.Payload) != string(r.Payload) || (o.Split != r.Split) != (r.Kind == CrossRetry) ||
			o.Arrived > r.Arrived || r.Arrived.Sub(cfg.RetryWithin.D()+64*time.Second) > o.Arrived {
			t.Fatalf("retry %+v of %+v", r, o)
		}
	}
	if total != cfg.Events {
		t.Fatalf("%d records, want %d", total, cfg.Events)
	}
	for k, share := range map[Kind]float64{
		Retry: cfg.Duplicates * 0.75, CrossRetry: cfg.Duplicates * 0.25, Straggler: cfg.Stragglers, Future: cfg.Future,
		Fault: cfg.Faults, Malformed: cfg.Malformed,
	} {
		if got := float64(kinds[k]) / float64(total); got < share*0.7 || got > share*1.3 {
			t.Errorf("kind %d: a share of %.4f, want about %.4f", k, got, share)
		}
	}
}

func TestARecordDependsOnSeedSplitAndIndexAlone(t *testing.T) {
	a, b, other := mustFleet(t, smallFleet(1)), mustFleet(t, smallFleet(1)), mustFleet(t, smallFleet(2))
	same := 0
	for s := range a.Splits() {
		for _, i := range []int64{0, 1, 17, 4096, a.Len(s) - 1} {
			x, y := a.Record(s, i), b.Record(s, i)
			if fmt.Sprintf("%+v", x) != fmt.Sprintf("%+v", y) {
				t.Fatalf("split %d record %d differs: %+v and %+v", s, i, x, y)
			}
			for r := range b.Records(s, i) {
				if string(r.Payload) != string(x.Payload) {
					t.Fatalf("split %d from %d starts with %s", s, i, r.Payload)
				}
				break
			}
			if string(other.Record(s, i).Payload) == string(x.Payload) {
				same++
			}
		}
	}
	if same > 2 {
		t.Errorf("another seed gives the same payload in %d of 20 places", same)
	}
}

func TestAFleetHoldsAtItsEdges(t *testing.T) {
	for name, change := range map[string]func(*FleetConfig){
		"one device":      func(c *FleetConfig) { c.Sites, c.Devices, c.Splits, c.Events = 1, 1, 1, 500 },
		"uneven splits":   func(c *FleetConfig) { c.Sites, c.Devices, c.Splits, c.Events = 1, 5, 3, 1001 },
		"fewer records":   func(c *FleetConfig) { c.Events, c.Splits = 2, 4 },
		"only retries":    func(c *FleetConfig) { c.Duplicates, c.Stragglers, c.Future, c.Faults, c.Malformed = 1, 0, 0, 0, 0 },
		"only malformed":  func(c *FleetConfig) { c.Duplicates, c.Stragglers, c.Future, c.Faults, c.Malformed = 0, 0, 0, 0, 1 },
		"no disorder":     func(c *FleetConfig) { c.Disorder = 0 },
		"before 1970":     func(c *FleetConfig) { c.Start = "1969-12-31T23:59:00Z" },
		"long stragglers": func(c *FleetConfig) { c.Stragglers, c.StragglerDelay = 0.5, component.Duration(200*24*time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			c := smallFleet(3)
			c.Events = 3000
			change(&c)
			f := mustFleet(t, c)
			var n int64
			for s := range f.Splits() {
				for r := range f.Records(s, 0) {
					n++
					if len(r.Payload) == 0 {
						t.Fatalf("record %+v is empty", r)
					}
				}
			}
			if n != c.Events {
				t.Fatalf("%d records, want %d", n, c.Events)
			}
		})
	}
}

func TestWrongConfigurationsAreRefusedByField(t *testing.T) {
	for want, change := range map[string]func(*FleetConfig){
		"fleet.events":          func(c *FleetConfig) { c.Events = 0 },
		"fleet.devices":         func(c *FleetConfig) { c.Devices = 400_000 },
		"fleet.splits":          func(c *FleetConfig) { c.Splits = 22 },
		"fleet.interval":        func(c *FleetConfig) { c.Interval = 0 },
		"fleet.start":           func(c *FleetConfig) { c.Start = "yesterday" },
		"fleet.malformed":       func(c *FleetConfig) { c.Malformed = -0.1 },
		"fleet.duplicates":      func(c *FleetConfig) { c.Duplicates, c.Malformed = 0.6, 0.6 },
		"fleet.cross_split":     func(c *FleetConfig) { c.CrossSplit = 2 },
		"fleet.straggler_delay": func(c *FleetConfig) { c.StragglerDelay = 0 },
		"fleet.rate":            func(c *FleetConfig) { c.Rate = -1 },
	} {
		c := smallFleet(1)
		change(&c)
		p := c.check()
		if len(p) != 1 || p[0].Path != want {
			t.Errorf("%s: got %v", want, p)
		}
	}
	for want, change := range map[string]func(*CounterConfig){
		"counter.count":  func(c *CounterConfig) { c.Count = -1 },
		"counter.splits": func(c *CounterConfig) { c.Splits = 0 },
		"counter.keys":   func(c *CounterConfig) { c.Keys = 0 },
		"counter.step":   func(c *CounterConfig) { c.Step = 7 },
		"counter.start":  func(c *CounterConfig) { c.Start = "" },
		"counter.rate":   func(c *CounterConfig) { c.Rate = -1 },
	} {
		c := DefaultCounter()
		change(&c)
		p := c.check()
		if len(p) != 1 || p[0].Path != want {
			t.Errorf("%s: got %v", want, p)
		}
	}
}

func BenchmarkFleetPayloads(b *testing.B) {
	c := DefaultFleet()
	c.Events = 1 << 40
	f := mustFleet(b, c)
	buf := make([]byte, 0, 256)
	var bytes int64
	for i := range int64(b.N) {
		buf, _ = f.appendPayload(buf[:0], int(i&3), i>>2)
		bytes += int64(len(buf))
	}
	b.SetBytes(bytes / int64(b.N))
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrecords/s")
}

package generate

import (
	"context"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/codec"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

var fleetDecode = codec.JSONConfig{
	Schema: component.NamedTypes{
		{Name: "device", Type: "string"}, {Name: "site", Type: "string"}, {Name: "seq", Type: "int64"},
		{Name: "ts", Type: "timestamptz(ms)"}, {Name: "temp", Type: "float64"}, {Name: "humidity", Type: "float64"},
		{Name: "status", Type: "string"},
	},
	Depth: 64, MaxRecord: 1 << 20,
}

func codecEnv(t testing.TB) *dataflow.Env {
	env := testEnv(t)
	env.NewDecoder = func() (dataflow.Decoder, error) { return codec.NewJSON(fleetDecode, env.Alloc) }
	return env
}

// TestTheFleetDecodesIntoItsValues runs the real decoder: every record is a row
// with the values that the fleet says it has, or bad if it is malformed.
func TestTheFleetDecodesIntoItsValues(t *testing.T) {
	cfg := smallFleet(5)
	cfg.Events = 8000
	f := mustFleet(t, cfg)
	s := newTestSource(t, codecEnv(t), Config{Fleet: &cfg})
	rows, bad := 0, map[string]int{}
	for n := range f.Splits() {
		if err := s.Assign(context.Background(), []dataflow.SplitAt{{Split: splitName(n)}}); err != nil {
			t.Fatal(err)
		}
		for ended := false; !ended; {
			p, err := s.Poll(context.Background(), dataflow.PollLimit{Rows: 777, Bytes: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			ended = p.Ended
			if b := p.Batch; b != nil {
				rows += int(b.NumRows())
				for i := range int(b.NumRows()) {
					r := f.Record(n, b.Column(7).(*array.Int64).Value(i))
					got := Record{
						Split: p.Split, Index: r.Index, Kind: r.Kind, Payload: r.Payload,
						Arrived: dataflow.Time(b.Column(8).(*array.Int64).Value(i)),
						Device:  b.Column(0).(*array.String).Value(i), Site: b.Column(1).(*array.String).Value(i),
						Seq: b.Column(2).(*array.Int64).Value(i), TS: int64(b.Column(3).(*array.Timestamp).Value(i)) / 1000,
						Temp: r.Temp, Humidity: r.Humidity, Status: b.Column(6).(*array.String).Value(i),
					}
					temp, humidity := b.Column(4).(*array.Float64).Value(i), b.Column(5).(*array.Float64).Value(i)
					if string(got.Payload) != string(r.Payload) || got.Device != r.Device || got.Site != r.Site || got.Seq != r.Seq ||
						got.TS != r.TS || got.Status != r.Status || got.Arrived != r.Arrived || r.Kind == Malformed ||
						temp != float64(r.Temp)/100 || humidity != float64(r.Humidity)/10 {
						t.Fatalf("got %+v %v %v, want %+v", got, temp, humidity, r)
					}
				}
			}
			if b := p.Bad; b != nil {
				for i := range int(b.NumRows()) {
					bad[b.Column(0).ValueStr(i)]++
				}
			}
			p.Release()
		}
	}
	malformed, reasons := 0, 0
	for n := range f.Splits() {
		for r := range f.Records(n, 0) {
			if r.Kind == Malformed {
				malformed++
			}
		}
	}
	for _, n := range bad {
		reasons += n
	}
	if reasons != malformed || rows+malformed != int(cfg.Events) || len(bad) != 3 {
		t.Errorf("%d rows and bad %v of %d records, %d malformed", rows, bad, cfg.Events, malformed)
	}
}

func BenchmarkFleetDecoded(b *testing.B) {
	c := DefaultFleet()
	c.Events = 1 << 40
	env := codecEnv(b)
	env.Alloc = memory.DefaultAllocator
	s := newTestSource(b, env, Config{Fleet: &c})
	if err := s.Assign(context.Background(), []dataflow.SplitAt{{Split: "0"}}); err != nil {
		b.Fatal(err)
	}
	rows := 0
	for b.Loop() {
		p, err := s.Poll(context.Background(), dataflow.PollLimit{Rows: 8192, Bytes: 1 << 21})
		if err != nil {
			b.Fatal(err)
		}
		rows += int(p.Batch.NumRows())
		p.Release()
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}

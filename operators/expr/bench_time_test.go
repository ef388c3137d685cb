package expr

import (
	"fmt"
	"testing"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// timeTexts are expressions that compute with dates and times.
var timeTexts = []string{
	"date_trunc('hour', ts)", "date_trunc('month', ts)", "date_trunc('day', ts, 'Europe/Berlin')",
	"extract(hour from ts)", "extract(dow from ts)", "date_part('epoch', ts)",
	"extract(hour from ts at time zone 'America/New_York')",
	"date_bin('15 minutes', ts, timestamptz '2001-01-01')",
	"ts + interval '1 month 2 days'", "ts - at < interval '2 hours'", "age(ts, at)",
	"ts::date", "ts::string", "day::timestamptz", "at::timestamptz::date",
	"to_char(ts, 'YYYY-MM-DD HH24:MI')", "to_char(ts, 'FMDay DDth Month')",
	"text::timestamptz", "to_timestamp(text, 'YYYY-MM-DD HH24:MI:SS')",
	"make_interval(days => 1, secs => 2.5)", "isfinite(day)", "justify_interval(ts - at)", "(ts, interval '1 hour') overlaps (at, ts)",
}

// timeBatch holds n moments of a day in March 2024, within which Berlin changes its clocks, and
// others within the hour before.
func timeBatch(n int) arrow.RecordBatch {
	s := arrow.NewSchema([]arrow.Field{
		{Name: "ts", Type: dataflow.TypeTimestampTZ, Nullable: true}, {Name: "at", Type: dataflow.TypeTimestampTZ},
		{Name: "day", Type: dataflow.TypeDate}, {Name: "text", Type: dataflow.TypeString},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, s)
	defer b.Release()
	x := uint64(1)
	for range n {
		x = x*6364136223846793005 + 1442695040888963407
		us := int64(1711756800)*secUS + int64(x>>20)%(2*dayUS)
		b.Field(0).(*array.TimestampBuilder).Append(arrow.Timestamp(us))
		b.Field(1).(*array.TimestampBuilder).Append(arrow.Timestamp(us - int64(x>>40)%hourUS))
		b.Field(2).(*array.Date32Builder).Append(arrow.Date32(us / dayUS))
		b.Field(3).(*array.StringBuilder).Append(string(appendTimestamp(nil, us, "")))
	}
	return b.NewRecordBatch()
}

func BenchmarkTime(b *testing.B) {
	for _, text := range timeTexts {
		for _, n := range []int{1024, 8192, 65536} {
			b.Run(fmt.Sprintf("%s/rows=%d", text, n), func(b *testing.B) {
				benchRows(b, text, timeBatch(n))
			})
		}
	}
}

// Whatever a batch costs once, its rows cost no memory.
func TestTimesAllocateNothingPerRow(t *testing.T) {
	batch := timeBatch(4096)
	defer batch.Release()
	for _, text := range timeTexts {
		e, err := Compile(text, batch.Schema())
		if err != nil {
			t.Fatal(err)
		}
		ev := e.NewEvaluator(memory.DefaultAllocator)
		run := func() {
			a, bad, err := ev.Eval(batch)
			if err != nil || len(bad) > 0 {
				t.Fatalf("%s: %v %v", text, bad, err)
			}
			a.Release()
		}
		run()
		if n := testing.AllocsPerRun(3, run); n > 40 {
			t.Errorf("%s: %.0f allocations for %d rows", text, n, batch.NumRows())
		}
	}
}

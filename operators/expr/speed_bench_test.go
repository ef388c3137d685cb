package expr

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// workloads are what the benchmarks compute: a filter, and expressions over the rows of
// the batch. docs/benchmarks.md has the figures.
var workloads = []struct {
	name, where string
	compute     []string
}{
	{"filter", "price > 1000 and temp < 80", []string{"price * 2 + auction", "upper(channel)", "channel || '-' || url"}},
	{"string", "url like '%query=7%'", []string{"lower(channel)", "substring(url, 13, 7)", "split_part(url, '=', 2)", "length(url)", "replace(channel, 'e', 'E')"}},
	{"time", "extract(hour from ts) between 8 and 18", []string{"date_trunc('hour', ts)", "date_trunc('day', ts, 'Europe/Berlin')", "ts + interval '1 month'", "date_bin('15 minutes', ts, timestamptz '2000-01-01')"}},
	{"decimal", "amount * 0.19 > 100", []string{"amount * 1.19", "round(amount / 3, 2)", "(amount + 1)::bigint"}},
	{"json", "doc ->> 'kind' = 'bid'", []string{"(doc ->> 'price')::bigint", "doc #>> '{a,b}'", "doc ? 'extra'"}},
}

// speedBatch holds n rows for workloads; half the prices are above 1000.
func speedBatch(n int) arrow.RecordBatch {
	s := arrow.NewSchema([]arrow.Field{
		{Name: "auction", Type: dataflow.TypeInt64}, {Name: "price", Type: dataflow.TypeInt64, Nullable: true},
		{Name: "channel", Type: dataflow.TypeString, Nullable: true}, {Name: "url", Type: dataflow.TypeString},
		{Name: "temp", Type: dataflow.TypeFloat64}, {Name: "ts", Type: dataflow.TypeTimestampTZ},
		{Name: "amount", Type: &arrow.Decimal128Type{Precision: 12, Scale: 2}}, {Name: "doc", Type: dataflow.TypeString},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, s)
	defer b.Release()
	x := uint64(1)
	for i := range n {
		x = x*6364136223846793005 + 1442695040888963407
		b.Field(0).(*array.Int64Builder).Append(int64(x >> 50))
		price := int64(x>>33) % 2000
		b.Field(1).(*array.Int64Builder).Append(price)
		b.Field(2).(*array.StringBuilder).Append([]string{"apple", "google", "baidu", "facebook"}[x>>40%4])
		b.Field(3).(*array.StringBuilder).Append(fmt.Sprintf("https://www.nexmark.com/item.htm?query=%d", i%100))
		b.Field(4).(*array.Float64Builder).Append(float64(x>>40%1000) / 10)
		b.Field(5).(*array.TimestampBuilder).Append(arrow.Timestamp(1700000000000000 + int64(i)*7919000 + int64(x>>60)))
		b.Field(6).AppendValueFromString(fmt.Sprintf("%d.%02d", price, x>>50%100))
		b.Field(7).(*array.StringBuilder).Append(fmt.Sprintf(`{"id": %d, "kind": "%s", "price": %d, "a": {"b": "deep"}}`, i, []string{"bid", "ask"}[x>>45%2], price))
	}
	texts := b.NewRecordBatch()
	defer texts.Release()
	e, err := Compile("doc::jsonb", s)
	if err != nil {
		panic(err)
	}
	doc, _, err := e.NewEvaluator(memory.DefaultAllocator).Eval(texts)
	if err != nil {
		panic(err)
	}
	defer doc.Release()
	fields, cols := s.Fields(), append([]arrow.Array(nil), texts.Columns()...)
	fields[7].Type, cols[7] = e.Type(), doc
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, int64(n))
}

// BenchmarkWorkloads computes the filter and the expressions of each workload for all
// rows.
func BenchmarkWorkloads(b *testing.B) {
	defer runtime.KeepAlive(make([]byte, 64<<20)) // a program has a heap: less garbage collection than with an empty one
	for _, w := range workloads {
		for _, n := range []int{1024, 8192, 65536} {
			b.Run(fmt.Sprintf("%s/rows=%d", w.name, n), func(b *testing.B) {
				batch := speedBatch(n)
				defer batch.Release()
				var evs []*Evaluator
				for _, text := range append([]string{w.where}, w.compute...) {
					e, err := Compile(text, batch.Schema())
					if err != nil {
						b.Fatal(err)
					}
					evs = append(evs, e.NewEvaluator(memory.DefaultAllocator))
				}
				var rows []int32
				b.ReportAllocs()
				before := processorTime()
				for b.Loop() {
					var err error
					if rows, _, err = evs[0].Select(batch, rows[:0]); err != nil {
						b.Fatal(err)
					}
					for _, ev := range evs[1:] {
						a, _, err := ev.Eval(batch)
						if err != nil {
							b.Fatal(err)
						}
						a.Release()
					}
				}
				b.ReportMetric(float64(processorTime()-before)/float64(b.N)/float64(n), "cpu-ns/row")
			})
		}
	}
}

// processorTime is what the process has used, so that what else runs does not count.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

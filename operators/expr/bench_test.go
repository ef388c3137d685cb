package expr

import (
	"fmt"
	"testing"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// benchBatch holds n bids; a tenth of the channels is 'x', half the prices are
// above 1000.
func benchBatch(n int) arrow.RecordBatch {
	s := arrow.NewSchema([]arrow.Field{
		{Name: "auction", Type: dataflow.TypeInt64}, {Name: "price", Type: dataflow.TypeInt64, Nullable: true},
		{Name: "channel", Type: dataflow.TypeString, Nullable: true}, {Name: "url", Type: dataflow.TypeString},
		{Name: "temp", Type: dataflow.TypeFloat64},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, s)
	defer b.Release()
	x := uint64(1)
	for i := range n {
		x = x*6364136223846793005 + 1442695040888963407
		b.Field(0).(*array.Int64Builder).Append(int64(x >> 50))
		b.Field(1).(*array.Int64Builder).Append(int64(x>>33) % 2000)
		channel := []string{"x", "apple", "Google", "baidu", "Facebook"}[x>>40%10%5]
		b.Field(2).(*array.StringBuilder).Append(channel)
		b.Field(3).(*array.StringBuilder).Append(fmt.Sprintf("https://www.nexmark.com/item.htm?query=%d", i%100))
		b.Field(4).(*array.Float64Builder).Append(float64(x>>40) / 7)
	}
	return b.NewRecordBatch()
}

// benchRows runs one expression over a batch, which it releases, and reports what a row
// takes.
func benchRows(b *testing.B, text string, batch arrow.RecordBatch) {
	defer batch.Release()
	e, err := Compile(text, batch.Schema())
	if err != nil {
		b.Fatal(err)
	}
	ev := e.NewEvaluator(memory.DefaultAllocator)
	b.ReportAllocs()
	for b.Loop() {
		a, _, err := ev.Eval(batch)
		if err != nil {
			b.Fatal(err)
		}
		a.Release()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(batch.NumRows()), "ns/row")
}

func BenchmarkEval(b *testing.B) {
	for _, text := range []string{
		"price > 1000 and channel = 'x'", "price + auction", "price * 0.908", "temp * 1.8 + 32",
		"upper(channel)", "channel || '/' || url", "case when price > 1000 then 'high' else 'low' end",
		"coalesce(price, 0)", "price::string", "url like '%query=7%'", "price / 3", "price::decimal(20,2) / 3",
		"date_trunc('hour', to_timestamp(price))",
	} {
		for _, n := range []int{1024, 8192, 65536} {
			if n != 8192 && text != "price > 1000 and channel = 'x'" {
				continue
			}
			b.Run(fmt.Sprintf("%s/rows=%d", text, n), func(b *testing.B) {
				benchRows(b, text, benchBatch(n))
			})
		}
	}
}

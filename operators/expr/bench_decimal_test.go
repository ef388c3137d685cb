package expr

import (
	"math/rand/v2"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

var decimalTexts = []string{
	"sqrt(a)", "exp(a / 1000)", "ln(a)", "log(a)", "log(a, b)", "power(a, 0.5)", "power(b, 7)", "power(b, -150)", "power(b, c)",
	"div(a, b)", "c / d", "d % b", "width_bucket(a, 0::decimal(5,2), b, 10)",
}

// decimalBatch holds n rows: a of some digits, b near 1, c and d of many digits.
func decimalBatch(n int) arrow.RecordBatch {
	field := func(name string, p, s int32) arrow.Field {
		return arrow.Field{Name: name, Type: &arrow.Decimal128Type{Precision: p, Scale: s}}
	}
	s := arrow.NewSchema([]arrow.Field{field("a", 20, 6), field("b", 10, 8), field("c", 38, 30), field("d", 38, 10)}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, s)
	defer b.Release()
	rnd := rand.New(rand.NewPCG(1, 2))
	add := func(i int, d dec) { b.Field(i).(*array.Decimal128Builder).Append(decimal128.New(d.hi, d.lo)) }
	for range n {
		add(0, decOf(1+rnd.Int64N(1e10)))
		add(1, decOf(1e8+rnd.Int64N(1e7)+1))
		add(2, dec{rnd.Uint64(), rnd.Int64N(1 << 40)})
		add(3, dec{rnd.Uint64(), 1 + rnd.Int64N(1<<60)})
	}
	return b.NewRecordBatch()
}

// BenchmarkDecimals are functions whose values have more digits on the way than decimals have.
func BenchmarkDecimals(b *testing.B) {
	for _, text := range decimalTexts {
		b.Run(text, func(b *testing.B) { benchRows(b, text, decimalBatch(1024)) })
	}
}

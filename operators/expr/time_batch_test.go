package expr

import (
	"math/rand/v2"
	"testing"
	"time"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// mixedTimes holds rows of good and bad operands, nulls and infinite times among them.
func mixedTimes(alloc memory.Allocator, rnd *rand.Rand, n int) arrow.RecordBatch {
	field := func(name string, t arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: t, Nullable: true}
	}
	s := arrow.NewSchema([]arrow.Field{
		field("ts", dataflow.TypeTimestampTZ), field("at", dataflow.TypeTimestamp), field("day", dataflow.TypeDate),
		field("unit", dataflow.TypeString), field("zone", dataflow.TypeString), field("form", dataflow.TypeString), field("text", dataflow.TypeString),
		field("y", dataflow.TypeInt32), field("m", dataflow.TypeInt32), field("sec", dataflow.TypeFloat64),
	}, nil)
	b := array.NewRecordBuilder(alloc, s)
	defer b.Release()
	pick := func(col int, words ...string) {
		b.Field(col).(*array.StringBuilder).Append(words[rnd.IntN(len(words))])
	}
	moment := func() arrow.Timestamp {
		switch rnd.IntN(12) {
		case 0:
			return lastTS
		case 1:
			return firstTS
		}
		return arrow.Timestamp(rnd.Int64N(100*366*dayUS) - 30*366*dayUS)
	}
	for i := range n {
		if i%7 == 3 {
			for _, f := range b.Fields() {
				if rnd.IntN(3) > 0 {
					f.AppendNull()
				} else {
					f.AppendEmptyValue()
				}
			}
			continue
		}
		b.Field(0).(*array.TimestampBuilder).Append(moment())
		b.Field(1).(*array.TimestampBuilder).Append(moment())
		b.Field(2).(*array.Date32Builder).Append(arrow.Date32(rnd.IntN(40000)))
		pick(3, "hour", "day", "month", "century", "second", "fortnight", "epoch", "julian")
		pick(4, "UTC", "Europe/Berlin", "America/New_York", "Nowhere/X", "+02")
		pick(5, "YYYY-MM-DD", "FMDay DDth Month", "HH12:MI AM", "", "DD.MM.YYYY")
		pick(6, "2024-02-29", "31.12.2024", "2024-02-30", "12:30 pm", "x", "Jan 5 2024", "infinity")
		b.Field(7).(*array.Int32Builder).Append(int32(rnd.IntN(4000) - 500))
		b.Field(8).(*array.Int32Builder).Append(int32(rnd.IntN(15)))
		b.Field(9).(*array.Float64Builder).Append(rnd.Float64() * 65)
	}
	return b.NewRecordBatch()
}

// What is computed of a batch is what is computed of its rows alone, values and errors.
func TestTimesOfABatchAreThoseOfItsRows(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	alloc := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer alloc.AssertSize(t, 0)
	whole := mixedTimes(alloc, rand.New(rand.NewPCG(seed, 1)), 300)
	defer whole.Release()
	b := whole.NewSlice(7, 290)
	defer b.Release()
	for _, text := range []string{
		"date_trunc(unit, ts)", "date_trunc(unit, ts, zone)", "date_trunc(unit, at - '2024-01-01')", "date_part(unit, ts)", "date_part(unit, day)",
		"extract(epoch from at)", "extract(hour from at)", "ts at time zone zone", "at at time zone zone", "at at time zone (sec * interval '1 hour')",
		"to_char(ts, form)", "to_char(at, 'YYYY-MM-DD')", "to_char(at - '2024-01-01', form)", "to_date(text, form)", "to_timestamp(text, form)", "to_timestamp(text, 'YYYY-MM-DD')",
		"make_date(y, m, m)", "make_time(m, y, sec)", "make_timestamp(y, m, m, m, m, sec)", "make_timestamptz(y, m, m, m, m, sec, zone)",
		"make_interval(y, m, secs => sec)", "age(ts, at)", "age(day, at)", "isfinite(ts)", "isfinite(day)", "justify_interval(at - '2024-01-01')",
		"(ts, ts) overlaps (at::timestamptz, interval '1 day')", "(at, make_interval(m)) overlaps (at, null::interval)",
		"date_bin(make_interval(hours => m), ts, '2024-01-01')", "ts::date + m", "day + at::time", "at::time", "ts::timestamptz(2)::text",
		"text::date", "text::timestamptz", "text::time", "(text || zone)::timestamptz", "(m || ' days ' || m || ':30')::interval day to hour", "day - '2024-01-01'",
	} {
		e, err := Compile(text, b.Schema())
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if err := sameAsRows(e, e.NewEvaluator(alloc), e.NewEvaluator(alloc), b); err != nil {
			t.Errorf("seed %d: %s: %v", seed, text, err)
		}
	}
}

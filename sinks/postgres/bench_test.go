package postgres

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/flowtest"
	"frazil/dataflow/flowtest/rig"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// BenchmarkCommit: rows of seven columns, 100,000 a commit, from the batch to the end of
// the transaction. cpu-s/M is the processor time of this process for a million rows; the
// server's is not in it.
func BenchmarkCommit(b *testing.B) {
	in := stream(col("id", dataflow.TypeInt64), col("shop", dataflow.TypeString), col("at", dataflow.TypeTimestampTZ), col("amount", decimal),
		col("ok", dataflow.TypeBool), col("temp", dataflow.TypeFloat64), col("note", dataflow.TypeString))
	for _, mode := range []string{modeAppend, modeUpsert} {
		b.Run(mode, func(b *testing.B) {
			p := schemaOf(b, rig.Postgres(b))
			if p.cfg.Mode = mode; mode == modeUpsert {
				p.cfg.Key = []string{"id"}
			}
			const rows, each = 100_000, 10_000
			w, err := newWriter(b.Context(), p.env, component.SinkIn{Input: in}, p.cfg)
			must(b, err)
			defer w.Close()
			k := p.committer(in)
			batches := make([]arrow.RecordBatch, 300_000/each)
			for i := range batches {
				batches[i] = made(b, in, i*each, each)
				defer batches[i].Release()
			}
			n, before := 0, used(b)
			for b.Loop() {
				n++
				for i := range rows / each {
					_, err := w.Write(b.Context(), batches[(n*rows/each+i)%len(batches)])
					must(b, err)
				}
				must(b, k.Commit(b.Context(), flowtest.Stage(b, w, dataflow.Epoch(n), n-1, n)))
			}
			b.ReportMetric((used(b)-before).Seconds()/float64(n*rows)*1e6, "cpu-s/M")
		})
	}
}

// made is a batch of rows from a number on.
func made(b *testing.B, in dataflow.Stream, from, n int) arrow.RecordBatch {
	r := array.NewRecordBuilder(memory.DefaultAllocator, in.Schema)
	defer r.Release()
	for i := from; i < from+n; i++ {
		r.Field(0).(*array.Int64Builder).Append(int64(i))
		r.Field(1).(*array.StringBuilder).Append(fmt.Sprint("shop-", i%100))
		must(b, r.Field(2).AppendValueFromString("2026-03-01T10:00:00.123456Z"))
		must(b, r.Field(3).AppendValueFromString("12345.678"))
		r.Field(4).(*array.BooleanBuilder).Append(i%2 == 0)
		r.Field(5).(*array.Float64Builder).Append(float64(i) / 7)
		r.Field(6).(*array.StringBuilder).Append("a note of some length that a human could have written")
	}
	return r.NewRecordBatch()
}

// used is the processor time of this process.
func used(b *testing.B) time.Duration {
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

package ingest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/codec"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

var benchTypes = component.NamedTypes{
	{Name: "id", Type: "string"}, {Name: "device", Type: "string"}, {Name: "ts", Type: "timestamptz"}, {Name: "temperature", Type: "float64"},
	{Name: "humidity", Type: "float64"}, {Name: "status", Type: "string"}, {Name: "seq", Type: "int64"}, {Name: "ok", Type: "bool"},
}

func event(i int) []byte {
	return fmt.Appendf(nil, `{"id": "evt-%08x", "device": "device-%05d", "ts": "2026-01-02T03:%02d:%02d.%06dZ", "temperature": %d.%02d, "humidity": %d.5, "status": "%s", "seq": %d, "ok": true}`,
		i*2654435761, i%1000, i/60%60, i%60, i%1_000_000, i%40, i%100, i%90, []string{"running", "idle", "stopped"}[i%3], i)
}

// drain is a pipeline that commits at once.
func drain(b *testing.B, s *Stream, env *dataflow.Env) (stop func()) {
	src := s.Source(env)
	must(b, src.Assign(b.Context(), []dataflow.SplitAt{{Split: Split, From: position(s.log.First())}}))
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			p, err := src.Poll(b.Context(), dataflow.PollLimit{Rows: 8192, Bytes: 4 << 20, WaitMicros: 50_000})
			if err != nil {
				return
			}
			if p.Split != "" {
				_ = src.(dataflow.Acker).Ack(b.Context(), 1, map[dataflow.Split]dataflow.Position{Split: p.Next})
				p.Release()
			}
			select {
			case <-done:
				return
			default:
			}
		}
	}()
	return func() {
		close(done)
		<-ended
		src.Close()
	}
}

// BenchmarkSubmit reports durable answers a second and how long they take, with a
// reader that commits everything at once. Its directory is on a disk only where
// TMPDIR is.
func BenchmarkSubmit(b *testing.B) {
	for _, c := range []struct {
		producers, rows int
		keys            bool
	}{{1, 1, false}, {16, 1, false}, {128, 1, false}, {128, 1, true}, {4, 1000, false}} {
		b.Run(fmt.Sprintf("producers=%d/rows=%d/keys=%v", c.producers, c.rows, c.keys), func(b *testing.B) {
			env := &dataflow.Env{Step: "in", WALDir: b.TempDir(), Memory: 64 << 20, NewDecoder: func() (dataflow.Decoder, error) {
				return codec.NewJSON(codec.JSONConfig{Schema: benchTypes}, memory.DefaultAllocator)
			}}
			dec, err := env.NewDecoder()
			must(b, err)
			s, err := Open(env, DefaultConfig(), Spec{Decoded: dec.Schema()})
			must(b, err)
			stop := drain(b, s, env)
			events := make([][]byte, 4096)
			for i := range events {
				events[i] = event(i)
			}
			took := make([][]time.Duration, c.producers)
			var next atomic.Int64
			var wg sync.WaitGroup
			b.ReportAllocs()
			b.ResetTimer()
			for p := range c.producers {
				wg.Go(func() {
					done := make(chan error, 1)
					answer := func(_ Result, err error) { done <- err }
					for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
						r := &Request{Done: answer}
						for n := range c.rows {
							r.Records = append(r.Records, events[(int(i)*c.rows+n)%len(events)])
						}
						if c.keys {
							r.Key = fmt.Sprint("key-", i)
						}
						at := time.Now()
						for err := s.Submit(r); err != nil; err = s.Submit(r) {
							time.Sleep(time.Millisecond)
						}
						if err := <-done; err != nil {
							b.Error(err)
							return
						}
						took[p] = append(took[p], time.Since(at))
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			stats := s.StreamStats()
			stop()
			must(b, s.Close())
			all := slices.Concat(took...)
			slices.Sort(all)
			b.ReportMetric(float64(b.N*c.rows)/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50_us")
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99_us")
			b.ReportMetric(float64(stats.BytesWritten)/float64(b.N*c.rows), "log_B/row")
			b.ReportMetric(float64(b.N)/float64(max(stats.Syncs, 1)), "requests/sync")
		})
	}
}

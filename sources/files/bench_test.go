package files

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/codec"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// bids writes n lines of about 250 bytes.
func bids(n int) string {
	rnd := rand.New(rand.NewSource(1))
	var s strings.Builder
	for i := range n {
		fmt.Fprintf(&s, `{"auction":%d,"bidder":%d,"price":%d,"channel":"channel-%d","url":"https://www.nexmark.com/%x/item.htm?query=1&channel_id=%d","dateTime":%d,"extra":"%055x"}`+"\n",
			1000+rnd.Intn(100000), 1000+rnd.Intn(10000), 100+rnd.Intn(99999900), rnd.Intn(10000), rnd.Intn(1<<20), rnd.Intn(1<<30), 1772359200000+i, rnd.Int63())
	}
	return s.String()
}

// BenchmarkFileToBatches reports the CPU seconds of the process per million
// lines. One iteration reads the whole file.
func BenchmarkFileToBatches(b *testing.B) {
	const n = 200_000
	content := bids(n)
	for _, name := range []string{"bids.ndjson", "bids.gz", "bids.zst"} {
		b.Run("file="+name, func(b *testing.B) {
			defer debug.SetGCPercent(debug.SetGCPercent(400))
			dir := b.TempDir()
			if err := os.WriteFile(filepath.Join(dir, name), pack(b, name, content), 0o644); err != nil {
				b.Fatal(err)
			}
			cfg := DefaultConfig()
			cfg.Paths = []string{name}
			schema := component.NamedTypes{{Name: "auction", Type: "int64"}, {Name: "bidder", Type: "int64"}, {Name: "price", Type: "int64"},
				{Name: "channel", Type: "string"}, {Name: "url", Type: "string"}, {Name: "dateTime", Type: "timestamptz(ms)"}, {Name: "extra", Type: "string"}}
			env := &dataflow.Env{Step: "in", Dir: dir, NewDecoder: func() (dataflow.Decoder, error) {
				return codec.NewJSON(codec.JSONConfig{Schema: schema}, memory.NewGoAllocator())
			}}
			b.SetBytes(int64(len(content)))
			b.ResetTimer()
			start := cpuTime()
			for range b.N {
				readAll(b, env, cfg, n)
			}
			b.ReportMetric(float64(cpuTime()-start)/1e9/float64(b.N)*1e6/n, "cpu-s/million")
		})
	}
}

func readAll(b *testing.B, env *dataflow.Env, cfg Config, want int64) {
	s, err := New(env, cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	if err := s.Assign(context.Background(), []dataflow.SplitAt{{Split: "0"}}); err != nil {
		b.Fatal(err)
	}
	var rows int64
	for {
		p, err := s.Poll(context.Background(), dataflow.PollLimit{Rows: 8192, Bytes: 4 << 20})
		if err != nil {
			b.Fatal(err)
		}
		if p.Batch != nil {
			rows += p.Batch.NumRows()
		}
		p.Release()
		if p.Ended {
			break
		}
	}
	if rows != want {
		b.Fatalf("%d rows", rows)
	}
}

func cpuTime() int64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return r.Utime.Nano() + r.Stime.Nano()
}

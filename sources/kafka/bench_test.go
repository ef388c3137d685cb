package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/codec"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const benchRecords = 2_000_000

// BenchmarkBrokerBids reads 2M bids of 250 bytes from the broker of
// FRAZIL_TEST_KAFKA (the first run fills the topics) and reports the CPU time of
// this process, which is all that counts here: the broker has its own. Run with
// -benchtime 1x.
func BenchmarkBrokerBids(b *testing.B) {
	addr := os.Getenv("FRAZIL_TEST_KAFKA")
	if addr == "" {
		b.Skip("left out: FRAZIL_TEST_KAFKA=host:port names no Kafka broker")
	}
	for _, c := range []struct {
		name  string
		codec kgo.CompressionCodec
	}{{"none", kgo.NoCompression()}, {"snappy", kgo.SnappyCompression()}, {"lz4", kgo.Lz4Compression()}, {"zstd", kgo.ZstdCompression()}} {
		topic := "frazil-bench-bids-" + c.name
		for _, decode := range []string{"json", "nothing"} {
			b.Run("codec="+c.name+"/partitions=4/decode="+decode, func(b *testing.B) {
				fillBids(b, addr, topic, c.codec)
				b.ResetTimer()
				for range b.N {
					benchRead(b, addr, topic, decode)
				}
			})
		}
	}
}

// fillBids writes the topic, if it does not exist.
func fillBids(b *testing.B, addr, topic string, codec kgo.CompressionCodec) {
	b.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(20*time.Millisecond))
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	keep := "-1"
	resp, err := kadm.NewClient(client).CreateTopic(b.Context(), 4, 1, map[string]*string{"retention.ms": &keep}, topic)
	if resp.Err == kerr.TopicAlreadyExists {
		return
	}
	if err != nil {
		b.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	letters := func(n int) []byte {
		l := make([]byte, n)
		for i := range l {
			l[i] = 'a' + byte(rnd.IntN(26))
		}
		return l
	}
	for i := range benchRecords {
		v := fmt.Appendf(nil, `{"auction":%d,"bidder":%d,"price":%d,"channel":"channel-%d","url":"https://www.nexmark.com/%s/item.htm?query=1&channel_id=%d","dateTime":%d,"extra":"%s"}`,
			1000+rnd.IntN(100000), 1000+rnd.IntN(10000), 100+rnd.IntN(99999900), rnd.IntN(10000), letters(5), rnd.IntN(1<<30), 1772359200000+i, letters(50+rnd.IntN(20)))
		client.Produce(b.Context(), &kgo.Record{Topic: topic, Partition: int32(i % 4), Value: v}, func(_ *kgo.Record, err error) {
			if err != nil {
				b.Error(err)
			}
		})
	}
	if err := client.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
}

func benchDecoder(decode string, alloc memory.Allocator) (dataflow.Decoder, error) {
	if decode == "nothing" {
		return newTextDecoder(alloc), nil
	}
	schema := component.NamedTypes{}
	for _, c := range [][2]string{{"auction", "int64"}, {"bidder", "int64"}, {"price", "int64"}, {"channel", "string"}, {"url", "string"}, {"dateTime", "timestamptz(ms)"}, {"extra", "string"}} {
		schema = append(schema, component.NamedType{Name: c[0], Type: c[1]})
	}
	return codec.NewJSON(codec.JSONConfig{Schema: schema}, alloc)
}

func benchRead(b *testing.B, addr, topic, decode string) {
	b.Helper()
	cfg := DefaultConfig()
	cfg.Brokers, cfg.Topics = []string{addr}, []string{topic}
	env := &dataflow.Env{
		Pipeline: "bench", Step: "in", Now: time.Now, Alloc: memory.NewGoAllocator(), Log: slog.New(slog.DiscardHandler),
		NewDecoder: func() (dataflow.Decoder, error) { return benchDecoder(decode, memory.NewGoAllocator()) },
		Memory:     64 << 20,
	}
	src, err := newSource(b.Context(), env, cfg)
	if err != nil {
		b.Fatal(err)
	}
	s := src.(*source)
	defer s.Close()
	before := cpuTime()
	splits, err := s.Discover(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	ends, err := s.Ends(b.Context(), splits)
	if err != nil {
		b.Fatal(err)
	}
	var at []dataflow.SplitAt
	for _, sp := range splits {
		at = append(at, dataflow.SplitAt{Split: sp, Until: ends[sp]})
	}
	if err := s.Assign(b.Context(), at); err != nil {
		b.Fatal(err)
	}
	rows, batches := int64(0), 0
	for ended := 0; ended < len(splits); {
		p, err := s.Poll(context.Background(), dataflow.PollLimit{Rows: 65536, Bytes: 8 << 20, WaitMicros: 100_000})
		if err != nil {
			b.Fatal(err)
		}
		if p.Batch != nil {
			rows += p.Batch.NumRows()
			batches++
		}
		if p.AtUntil {
			ended++
		}
		p.Release()
	}
	if rows != benchRecords {
		b.Fatalf("%d rows, want %d", rows, benchRecords)
	}
	b.ReportMetric(float64(cpuTime()-before)/1e3/float64(rows), "cpu-s/Mrec")
	b.ReportMetric(float64(rows)/float64(batches), "rows/batch")
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) == nil {
		b.ReportMetric(float64(u.Maxrss)/1024, "MB-rss")
	}
}

// cpuTime is this process's, in nanoseconds.
func cpuTime() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

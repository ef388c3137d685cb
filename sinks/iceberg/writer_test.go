package iceberg

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	icebergio "github.com/apache/iceberg-go/io"
)

func TestFilesRollBySize(t *testing.T) {
	h := newHarness(t, idSchema())
	h.cfg.FileSize = 64 << 10
	h.cfg.Compression = "none"
	h.env.Memory = 64 << 10
	c := h.committer()
	w := h.writer()
	for lo := 0; lo < 12000; lo += 500 {
		h.write(w, idRows(lo, lo+500)...)
	}
	h.must(c.Commit(h.ctx, h.next(1, 1, h.prepare(w, 1))))
	h.must(w.Close())
	info := h.info()
	if len(info.Files) < 2 || info.Rows != 12000 {
		t.Fatalf("%d files, %d rows", len(info.Files), info.Rows)
	}
	for _, f := range info.Files {
		if f.Bytes > 3*64<<10 {
			t.Errorf("file of %d bytes, limit 64KiB and one row group", f.Bytes)
		}
	}
	h.expect(idWant(0, 12000)...)
}

// Epochs follow each other without waiting; each part holds exactly its rows.
func TestPrepareCutsExactly(t *testing.T) {
	h := newHarness(t, idSchema())
	c := h.committer()
	w := h.writer()
	if p, err := w.Prepare(h.ctx, 1); err != nil || p != nil {
		t.Fatalf("an epoch without rows: %v, %v", p, err)
	}
	var pending []dataflow.Pending
	for e := range 5 {
		h.write(w, idRows(e*10, e*10+e+1)...)
		p, err := w.Prepare(h.ctx, dataflow.Epoch(e+1))
		h.must(err)
		pending = append(pending, p)
	}
	h.must(w.Close()) // what was cut is finished
	var want []string
	for e, p := range pending {
		part, err := p.Part(h.ctx)
		h.must(err)
		if part.Rows != int64(e+1) {
			t.Fatalf("epoch %d: %d rows", e+1, part.Rows)
		}
		h.must(c.Commit(h.ctx, h.next(dataflow.Epoch(e+1), e+1, part)))
		want = append(want, idWant(e*10, e*10+e+1)...)
	}
	h.expect(want...)
}

// Rows that were never cut leave no file; cut ones stay.
func TestCloseRemovesOnlyWhatNobodyNames(t *testing.T) {
	h := newHarness(t, idSchema())
	h.env.Memory = 32 << 10
	w := h.writer()
	h.write(w, idRows(0, 10)...)
	h.prepare(w, 1)
	for lo := 0; lo < 5000; lo += 500 {
		h.write(w, idRows(lo, lo+500)...)
	}
	h.must(w.Close())
	h.must(w.Close())
	if n := h.dataFiles(); n != 1 {
		t.Fatalf("%d data files are left, want the one that was cut", n)
	}
}

// G07: many partitions of one row each stay within the budget.
func TestManyPartitionsStayWithinMemory(t *testing.T) {
	const n = 10000
	h := newHarness(t, idSchema())
	peak := &peakAllocator{Allocator: h.mem}
	h.env.Alloc = peak
	h.env.Memory = 1 << 20
	h.cfg.PartitionBy = []string{"id"}
	c := h.committer()
	ffs := &noSync{}
	w := h.writer()
	w.enc.fs = ffs
	for lo := 0; lo < n; lo += 1000 {
		h.write(w, idRows(lo, lo+1000)...)
	}
	part := h.prepare(w, 1)
	h.must(w.Close())
	if part.Rows != n {
		t.Fatalf("%d rows staged", part.Rows)
	}
	if limit := int64(8 << 20); peak.peak.Load() > limit {
		t.Errorf("peak of %d bytes of Arrow memory, limit %d", peak.peak.Load(), limit)
	}
	if open := ffs.peak.Load(); open > maxOpenFiles+finishers {
		t.Errorf("%d files open at once", open)
	}
	h.must(c.Commit(h.ctx, h.next(1, 1, part)))
	if info := h.info(); info.Rows != n || len(info.Files) != n {
		t.Fatalf("%d rows in %d files", info.Rows, len(info.Files))
	}
}

// A store that fails: the writer says so, the part is refused, memory is given
// back.
func TestStoreFailure(t *testing.T) {
	h := newHarness(t, idSchema())
	w := h.writer()
	w.enc.fs = brokenFS{syncedFS{}}
	h.write(w, idRows(0, 10)...)
	p, err := w.Prepare(h.ctx, 1)
	h.must(err)
	if _, err = p.Part(h.ctx); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Fatalf("part: %v", err)
	}
	b := h.batch(idRow(1))
	if _, err = w.Write(h.ctx, b); err == nil {
		t.Fatal("the writer goes on after a failure")
	}
	b.Release()
	h.must(w.Close())
}

// Write waits for memory and ends with its context.
func TestWriteBlocksAtTheBudget(t *testing.T) {
	h := newHarness(t, idSchema())
	h.env.Memory = 16 << 10
	w := h.writer()
	gate := make(chan struct{})
	w.enc.fs = gatedFS{syncedFS{}, gate}
	ctx, cancel := context.WithCancel(h.ctx)
	blocked := make(chan error)
	go func() {
		for {
			b := h.batch(idRows(0, 100)...)
			_, err := w.Write(ctx, b)
			b.Release()
			if err != nil {
				blocked <- err
				return
			}
		}
	}()
	gate <- struct{}{} // a file is begun: rows wait for it
	cancel()
	if err := <-blocked; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	close(gate)
	h.must(w.Close())
}

type brokenFS struct{ syncedFS }

func (brokenFS) Create(string) (icebergio.FileWriter, error) { return nil, errors.New("disk full") }

type gatedFS struct {
	syncedFS
	gate chan struct{}
}

func (g gatedFS) Create(name string) (icebergio.FileWriter, error) {
	<-g.gate
	return g.syncedFS.Create(name)
}

func BenchmarkWriter(b *testing.B) {
	for _, partitioned := range []bool{false, true} {
		b.Run(fmt.Sprintf("partitioned=%v", partitioned), func(b *testing.B) { benchmarkWriter(b, partitioned) })
	}
}

// benchmarkWriter writes Nexmark bids: 1M rows an operation, 20 epochs.
func benchmarkWriter(b *testing.B, partitioned bool) {
	schema := arrow.NewSchema([]arrow.Field{
		field("auction", dataflow.TypeInt64), field("bidder", dataflow.TypeInt64), field("price", dataflow.TypeInt64),
		field("channel", dataflow.TypeString), field("url", dataflow.TypeString), field("date_time", dataflow.TypeTimestampTZ),
		field("extra", dataflow.TypeString),
		{Name: dataflow.SysTime, Type: dataflow.TypeInt64}, {Name: dataflow.SysStamp, Type: dataflow.TypeInt64},
	}, nil)
	h := newHarness(b, schema)
	if partitioned {
		h.cfg.PartitionBy = []string{"bucket(16, auction)"}
	}
	rec := bids(schema, 8192)
	defer rec.Release()
	w := h.writer()
	defer w.Close()
	b.ResetTimer()
	var size int64
	for range b.N {
		start := cpuTime()
		for e := range 20 {
			for range 6 {
				if _, err := w.Write(h.ctx, rec); err != nil {
					b.Fatal(err)
				}
			}
			part := h.prepare(w, dataflow.Epoch(e+1))
			docs, err := decodeParts([]dataflow.Part{part})
			h.must(err)
			for _, f := range docs[0].Files {
				size += f.Bytes
			}
		}
		b.ReportMetric((cpuTime()-start).Seconds()/(20*6*8192)*1e6, "cpu-s/Mrow")
	}
	b.ReportMetric(float64(size)/float64(b.N)/(20*6*8192), "bytes/row")
}

func bids(schema *arrow.Schema, n int) arrow.RecordBatch {
	rnd := rand.New(rand.NewPCG(1, 1))
	rows := make([]string, n)
	channels := []string{"Google", "Facebook", "Baidu", "Apple"}
	for i := range rows {
		extra := make([]byte, 40+rnd.IntN(60))
		for j := range extra {
			extra[j] = byte('a' + rnd.IntN(26))
		}
		rows[i] = fmt.Sprintf(`{"auction":%d,"bidder":%d,"price":%d,"channel":%q,"url":"https://www.nexmark.com/%d/item.htm?query=1","date_time":"2026-03-01T10:%02d:%02d.%03dZ","extra":%q,"_time":1,"_watermark":1}`,
			1000+rnd.IntN(2000), 1000+rnd.IntN(5000), rnd.IntN(1e7), channels[rnd.IntN(4)], rnd.IntN(1e6), i/60%60, i%60, rnd.IntN(1000), extra)
	}
	b := &testing.B{}
	return jsonBatch(b, memory.DefaultAllocator, schema, rows...)
}

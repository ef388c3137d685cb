package codec

import (
	"fmt"
	"math/rand"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// bidSchema is that of a Nexmark bid.
var bidSchema = types("auction", "int64", "bidder", "int64", "price", "int64", "channel", "string",
	"url", "string", "dateTime", "timestamptz(ms)", "extra", "string")

// bids makes n bids of about 250 bytes; shuffle says how to order the fields of
// each.
func bids(n int, shuffle func(rnd *rand.Rand, fields []string)) [][]byte {
	rnd := rand.New(rand.NewSource(1))
	letters := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = 'a' + byte(rnd.Intn(26))
		}
		return string(b)
	}
	out := make([][]byte, n)
	for i := range out {
		fields := []string{
			fmt.Sprintf(`"auction":%d`, 1000+rnd.Intn(100000)),
			fmt.Sprintf(`"bidder":%d`, 1000+rnd.Intn(10000)),
			fmt.Sprintf(`"price":%d`, 100+rnd.Intn(99999900)),
			fmt.Sprintf(`"channel":"channel-%d"`, rnd.Intn(10000)),
			fmt.Sprintf(`"url":"https://www.nexmark.com/%s/item.htm?query=1&channel_id=%d"`, letters(5), rnd.Intn(1<<30)),
			fmt.Sprintf(`"dateTime":%d`, 1772359200000+i),
			fmt.Sprintf(`"extra":"%s"`, letters(50+rnd.Intn(20))),
		}
		shuffle(rnd, fields)
		out[i] = []byte("{" + strings.Join(fields, ",") + "}")
	}
	return out
}

// cpuTime is the time the process has had of the processors, in nanoseconds:
// on a machine that does other work it says more than the clock.
func cpuTime() int64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return r.Utime.Nano() + r.Stime.Nano()
}

func inOrder(*rand.Rand, []string) {}

func anyOrder(rnd *rand.Rand, f []string) {
	rnd.Shuffle(len(f), func(i, j int) { f[i], f[j] = f[j], f[i] })
}

func spaced(rnd *rand.Rand, f []string) {
	for i := range f {
		f[i] = " " + strings.Replace(f[i], `":`, `": `, 1)
	}
}

func benchDecode(b *testing.B, cfg JSONConfig, docs [][]byte, prepare func(*JSON)) {
	dec, err := NewJSON(cfg, memory.NewGoAllocator())
	if err != nil {
		b.Fatal(err)
	}
	d := dec.(*JSON)
	prepare(d)
	// The heap of a benchmark is tiny and would be collected every few batches.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	size := 0
	for _, doc := range docs {
		size += len(doc)
	}
	b.SetBytes(int64(size / len(docs)))
	b.ReportAllocs()
	b.ResetTimer()
	start := cpuTime()
	for i := range b.N {
		if bad := d.Append(docs[i%len(docs)]); bad != nil {
			b.Fatal(bad)
		}
		if d.Rows() == 8192 {
			for _, c := range d.Flush() {
				c.Release()
			}
		}
	}
	b.ReportMetric(float64(cpuTime()-start)/float64(b.N), "cpu-ns/row")
}

func BenchmarkDecodeBids(b *testing.B) {
	cfg := JSONConfig{Schema: bidSchema}
	none := func(*JSON) {}
	b.Run("order=stable", func(b *testing.B) { benchDecode(b, cfg, bids(2000, inOrder), none) })
	b.Run("order=stable/spaces", func(b *testing.B) { benchDecode(b, cfg, bids(2000, spaced), none) })
	b.Run("order=random", func(b *testing.B) { benchDecode(b, cfg, bids(2000, anyOrder), none) })
	few := JSONConfig{Schema: types("auction", "int64", "price", "int64", "dateTime", "timestamptz(ms)")}
	b.Run("order=stable/columns=3", func(b *testing.B) { benchDecode(b, few, bids(2000, inOrder), none) })
	b.Run("reference", func(b *testing.B) {
		benchDecode(b, cfg, bids(2000, inOrder), func(d *JSON) { d.viaReference = true })
	})
}

func BenchmarkRefuse(b *testing.B) {
	dec, err := NewJSON(JSONConfig{Schema: bidSchema}, memory.NewGoAllocator())
	if err != nil {
		b.Fatal(err)
	}
	doc := []byte(strings.Replace(string(bids(1, inOrder)[0]), `"price":`, `"price":"x`+`","x":`, 1))
	b.ReportAllocs()
	for range b.N {
		if dec.Append(doc) == nil {
			b.Fatal("taken")
		}
	}
}

package bench

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// The stream of bids is that of Nexmark: 10,000 a second of event time, half of
// them on one hot auction per hundred, prices that are log-uniform. It is a pure
// function of the number of the bid, so that the models need no file. One bid in
// ten is a retry of one of the thousand before it, with its time; times are up
// to 200 ms in disorder.
const (
	seed      = 20260501
	firstTime = 1772359200000 // milliseconds
	perMilli  = 10
	bidBytes  = 250 // with the newline
	// disorder is what no bid exceeds: 200 ms and a thousand bids.
	disorder = "1s"
)

type bid struct {
	id, auction, bidder, price, dateTime int64
	channel, item, channelID             int64
}

// hash is splitmix64 of the bid's number and a use.
func hash(i int64, use uint64) uint64 {
	z := uint64(i)*0x9e3779b97f4a7c15 + seed + use*0xd1342543de82ef95
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// bidAt makes bid i.
func bidAt(i int64) bid {
	for i >= 1000 && hash(i, 0)%10 == 0 {
		i -= 1 + int64(hash(i, 1)%1000)
	}
	last := 1000 + i*3/46
	auction := last - int64(hash(i, 2)%100)
	if hash(i, 3)%2 == 0 {
		auction = last / 100 * 100
	}
	return bid{
		id: i, auction: max(auction, 1000), bidder: 1000 + int64(hash(i, 4)%10000),
		price:    100 + int64(math.Pow(10, float64(hash(i, 5)>>11)/(1<<53)*6)*100),
		dateTime: firstTime + i/perMilli - int64(hash(i, 6)%200),
		channel:  int64(hash(i, 7) % 10000), item: int64(hash(i, 8) % (1 << 20)), channelID: int64(hash(i, 9) % (1 << 30)),
	}
}

const letters = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"

func (b bid) url(dst []byte) []byte {
	dst = append(dst, "https://www.nexmark.com/"...)
	dst = strconv.AppendInt(dst, b.item, 16)
	dst = append(dst, "/item.htm?query=1&channel_id="...)
	return strconv.AppendInt(dst, b.channelID, 10)
}

// appendJSON appends the bid in bidBytes less one bytes.
func (b bid) appendJSON(dst []byte) []byte {
	from := len(dst)
	dst = strconv.AppendInt(append(dst, `{"auction":`...), b.auction, 10)
	dst = strconv.AppendInt(append(dst, `,"bidder":`...), b.bidder, 10)
	dst = strconv.AppendInt(append(dst, `,"price":`...), b.price, 10)
	dst = strconv.AppendInt(append(dst, `,"channel":"channel-`...), b.channel, 10)
	dst = b.url(append(dst, `","url":"`...))
	dst = strconv.AppendInt(append(dst, `","dateTime":`...), b.dateTime, 10)
	dst = append(dst, `,"extra":"`...)
	pad := max(bidBytes-3-(len(dst)-from), 0)
	at := int(b.item % 26)
	return append(append(dst, letters[at:at+min(pad, len(letters)-at)]...), `"}`...)
}

const bidSchema = `{auction: int64, bidder: int64, price: int64, channel: string, url: string, dateTime: timestamptz(ms), extra: string}`

// cacheDir keeps the input of benchmarks between runs.
func cacheDir(tb testing.TB) string {
	tb.Helper()
	if _, bench := tb.(*testing.B); !bench {
		return tb.TempDir()
	}
	dir := os.Getenv("FRAZIL_BENCH_DIR")
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "frazil-bench")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	return dir
}

// fileRows is the size of one file.
const fileRows = 1_000_000

// bidFiles writes n bids into files of the cache, as far as they are not there,
// and returns their paths.
func bidFiles(tb testing.TB, n int64) []string {
	tb.Helper()
	dir := cacheDir(tb)
	var out []string
	for from := int64(0); from < n; from += fileRows {
		to := min(from+fileRows, n)
		path := filepath.Join(dir, fmt.Sprintf("bids-%d-%09d-%d.ndjson", seed, from, to-from))
		out = append(out, path)
		if _, err := os.Stat(path); err == nil {
			continue
		}
		if err := writeBids(path, from, to); err != nil {
			tb.Fatal(err)
		}
	}
	return out
}

func writeBids(path string, from, to int64) error {
	f, err := os.Create(path + ".part")
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	var line []byte
	for i := from; i < to; i++ {
		line = append(bidAt(i).appendJSON(line[:0]), '\n')
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return os.Rename(path+".part", path)
}

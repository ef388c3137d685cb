package kafka

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
	"unsafe"

	"frazil/dataflow"
	"frazil/dataflow/brokers"

	"github.com/klauspost/compress/s2"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// fetchWait is how long a broker holds a fetch that has nothing to answer. A
	// record that comes ends the wait.
	fetchWait = 500 * time.Millisecond
	// askTimeout bounds one question to the brokers, retries included.
	askTimeout = 10 * time.Second
	dialLimit  = 5 * time.Second
	// maxBatch bounds what one compressed batch may become.
	maxBatch = 256 << 20
)

const recordSize = int(unsafe.Sizeof(kgo.Record{}))

// clientOptions are the client's settings; files are relative to dir.
func clientOptions(cfg Config, dir string, dials *dialErrors, pool *slabs) ([]kgo.Opt, error) {
	opts, err := cfg.Options(dir)
	if err != nil {
		return nil, err
	}
	level := kgo.ReadCommitted()
	if cfg.Isolation == readUncommitted {
		level = kgo.ReadUncommitted()
	}
	// Half of an answer may be one partition's: batches are large, and none
	// starves the others.
	perPartition := max(int32(cfg.FetchMax)/2, minFetch)
	return append(opts,
		kgo.FetchIsolationLevel(level),
		// Markers are how the position gets past the end of a transaction.
		kgo.KeepControlRecords(),
		// Where reading goes on is decided in watch.go and nowhere else.
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxBytes(int32(cfg.FetchMax)),
		kgo.FetchMaxPartitionBytes(perPartition),
		kgo.FetchMaxWait(fetchWait),
		kgo.MaxDecompressBatchBytes(maxBatch),
		kgo.RetryTimeout(askTimeout),
		kgo.DialTimeout(dialLimit),
		kgo.MetadataMinAge(250*time.Millisecond),
		kgo.RetryBackoffFn(func(tries int) time.Duration {
			return min(100*time.Millisecond<<min(tries-1, 10), 2*time.Second)
		}),
		kgo.WithPools(pool),
		kgo.WithHooks(dials),
	), nil
}

// dialErrors remembers why brokers could not be reached: what the client
// returns in the end is often only that time is up.
type dialErrors struct {
	mu struct {
		sync.Mutex
		last map[string]error
	}
}

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (d *dialErrors) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.last == nil {
		d.mu.last = map[string]error{}
	}
	addr := net.JoinHostPort(meta.Host, fmt.Sprint(meta.Port))
	if err == nil {
		delete(d.mu.last, addr)
		return
	}
	d.mu.last[addr] = err
}

// explain adds to err why brokers could not be reached.
func (d *dialErrors) explain(err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, dial := range d.mu.last {
		if !errors.Is(err, dial) {
			return fmt.Errorf("%w (%w)", err, dial)
		}
	}
	return err
}

// classify marks refusals permanent.
func classify(err error) error {
	if brokers.IsRefusal(err) {
		return dataflow.Permanent(err)
	}
	return err
}

// slabs keeps the memory of decoded record batches for the next ones: without
// it every record costs about 200 bytes of garbage, and every compressed batch
// its size. A sync.Pool would lose half of it to the collector. It implements
// kgo.PoolRecords and kgo.PoolDecompressBytes.
type slabs struct {
	limit int // bytes that may be kept
	mu    struct {
		sync.Mutex
		records [][]kgo.Record
		bytes   [][]byte
		kept    int
	}
}

// GetRecords implements kgo.PoolRecords.
func (s *slabs) GetRecords(n int) []kgo.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := pick(&s.mu.records, n); ok {
		s.mu.kept -= cap(r) * recordSize
		return r
	}
	return make([]kgo.Record, 0, n)
}

// PutRecords implements kgo.PoolRecords.
func (s *slabs) PutRecords(r []kgo.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if size := cap(r) * recordSize; s.mu.kept+size <= s.limit {
		s.mu.records = append(s.mu.records, r[:0])
		s.mu.kept += size
	}
}

// GetDecompressBytes implements kgo.PoolDecompressBytes.
func (s *slabs) GetDecompressBytes(compressed []byte, codec kgo.CompressionCodecType) []byte {
	need := 4 * len(compressed)
	if codec == kgo.CodecSnappy {
		// The size stands in front (but for the framing of old Java clients). A
		// buffer that is too small is of no use to this codec.
		if n, err := s2.DecodedLen(compressed); err == nil && n <= maxBatch {
			need = n
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := pick(&s.mu.bytes, need); ok {
		s.mu.kept -= cap(b)
		return b
	}
	return make([]byte, 0, need)
}

// PutDecompressBytes implements kgo.PoolDecompressBytes.
func (s *slabs) PutDecompressBytes(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.kept+cap(b) <= s.limit {
		s.mu.bytes = append(s.mu.bytes, b[:0])
		s.mu.kept += cap(b)
	}
}

// drop gives all memory back: an idle source holds none.
func (s *slabs) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.records, s.mu.bytes, s.mu.kept = nil, nil, 0
}

// pick takes the last slice that holds n.
func pick[T any](free *[][]T, n int) ([]T, bool) {
	for i := len(*free) - 1; i >= 0; i-- {
		if v := (*free)[i]; cap(v) >= n {
			*free = slices.Delete(*free, i, i+1)
			return v, true
		}
	}
	return nil, false
}

var (
	_ kgo.PoolRecords         = (*slabs)(nil)
	_ kgo.PoolDecompressBytes = (*slabs)(nil)
	_ kgo.HookBrokerConnect   = (*dialErrors)(nil)
)

package kafka

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"frazil/dataflow"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// fetchWait is how long a broker holds a fetch that has nothing to answer. A
	// record that comes ends the wait.
	fetchWait = 500 * time.Millisecond
	// askTimeout bounds one question to the brokers, retries included.
	askTimeout = 10 * time.Second
	dialLimit  = 5 * time.Second
)

// clientOptions are the client's settings. TLS and SASL will be added here.
func clientOptions(cfg Config, dials *dialErrors) []kgo.Opt {
	level := kgo.ReadCommitted()
	if cfg.Isolation == readUncommitted {
		level = kgo.ReadUncommitted()
	}
	// A quarter of an answer for one partition: with few partitions batches are
	// large, with many none starves the others.
	perPartition := max(int32(cfg.FetchMax)/4, minFetch)
	return []kgo.Opt{
		kgo.SeedBrokers(cfg.Brokers...),
		kgo.ClientID(cfg.ClientID),
		kgo.FetchIsolationLevel(level),
		// Markers are how the position gets past the end of a transaction.
		kgo.KeepControlRecords(),
		// Where reading goes on is decided in watch.go and nowhere else.
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxBytes(int32(cfg.FetchMax)),
		kgo.FetchMaxPartitionBytes(perPartition),
		kgo.FetchMaxWait(fetchWait),
		kgo.RetryTimeout(askTimeout),
		kgo.DialTimeout(dialLimit),
		kgo.MetadataMinAge(250 * time.Millisecond),
		kgo.RetryBackoffFn(func(tries int) time.Duration {
			return min(100*time.Millisecond<<min(tries-1, 10), 2*time.Second)
		}),
		kgo.WithPools(&slabs{}),
		kgo.WithHooks(dials),
		kgo.DisableClientMetrics(),
	}
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

// isDenied says whether err is a refusal that no retry changes.
func isDenied(err error) bool {
	for _, e := range []*kerr.Error{
		kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.SaslAuthenticationFailed,
		kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState, kerr.InvalidTopicException,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// classify marks refusals permanent.
func classify(err error) error {
	if isDenied(err) {
		return dataflow.Permanent(err)
	}
	return err
}

// slabs keeps the memory of decoded record batches for the next ones: without
// it every record costs about 200 bytes of garbage, and every compressed batch
// its size. It implements kgo.PoolRecords and kgo.PoolDecompressBytes.
type slabs struct{ records, bytes sync.Pool }

// GetRecords implements kgo.PoolRecords.
func (s *slabs) GetRecords(n int) []kgo.Record {
	if v, ok := s.records.Get().(*[]kgo.Record); ok && cap(*v) >= n {
		return (*v)[:0]
	}
	return make([]kgo.Record, 0, n)
}

// PutRecords implements kgo.PoolRecords.
func (s *slabs) PutRecords(r []kgo.Record) { s.records.Put(&r) }

// GetDecompressBytes implements kgo.PoolDecompressBytes.
func (s *slabs) GetDecompressBytes(compressed []byte, _ kgo.CompressionCodecType) []byte {
	if v, ok := s.bytes.Get().(*[]byte); ok && cap(*v) >= len(compressed) {
		return (*v)[:0]
	}
	return make([]byte, 0, 4*len(compressed))
}

// PutDecompressBytes implements kgo.PoolDecompressBytes.
func (s *slabs) PutDecompressBytes(b []byte) { s.bytes.Put(&b) }

var (
	_ kgo.PoolRecords         = (*slabs)(nil)
	_ kgo.PoolDecompressBytes = (*slabs)(nil)
	_ kgo.HookBrokerConnect   = (*dialErrors)(nil)
)

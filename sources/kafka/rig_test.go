package kafka

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/flowtest/leak"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// textDecoder makes one column "v" of the payload; a payload with ! in front is
// bad.
type textDecoder struct {
	b     *array.StringBuilder
	bytes int
}

func newTextDecoder(alloc memory.Allocator) *textDecoder {
	return &textDecoder{b: array.NewStringBuilder(alloc)}
}

var textSchema = arrow.NewSchema([]arrow.Field{{Name: "v", Type: dataflow.TypeString}}, nil)

func (d *textDecoder) Schema() *arrow.Schema { return textSchema }
func (d *textDecoder) Append(payload []byte) *dataflow.Bad {
	if bytes.HasPrefix(payload, []byte("!")) {
		return &dataflow.Bad{Reason: "text", Detail: "begins with !"}
	}
	d.b.BinaryBuilder.Append(payload)
	d.bytes += len(payload)
	return nil
}
func (d *textDecoder) Rows() int  { return d.b.Len() }
func (d *textDecoder) Bytes() int { return d.bytes }
func (d *textDecoder) Flush() []arrow.Array {
	d.bytes = 0
	return []arrow.Array{d.b.NewArray()}
}

// logLines keeps what was logged.
type logLines struct {
	mu struct {
		sync.Mutex
		text strings.Builder
	}
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.text.Write(p)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.text.String()
}

// rig is a broker, a client to fill it, and what the test reads with.
type rig struct {
	t       *testing.T
	cluster *kfake.Cluster // nil with a real broker
	brokers []string
	client  *kgo.Client
	admin   *kadm.Client
	log     logLines
}

func fakeRig(t *testing.T, opts ...kfake.Opt) *rig {
	t.Helper()
	cluster, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SleepOutOfOrder()}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	r := brokerRig(t, cluster.ListenAddrs())
	r.cluster = cluster
	return r
}

func brokerRig(t *testing.T, brokers []string) *rig {
	t.Helper()
	r := &rig{t: t, brokers: brokers}
	r.client = r.newClient()
	r.admin = kadm.NewClient(r.client)
	return r
}

func (r *rig) newClient(opts ...kgo.Opt) *kgo.Client {
	r.t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(r.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(50 * time.Millisecond), kgo.ProducerLinger(0),
	}, opts...)...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(c.Close)
	return c
}

func (r *rig) create(topic string, partitions int32, configs map[string]*string) {
	r.t.Helper()
	resp, err := r.admin.CreateTopic(r.t.Context(), partitions, 1, configs, topic)
	if err != nil || resp.Err != nil {
		r.t.Fatal(err, resp.Err)
	}
	// A broker answers before it knows the topic itself.
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	for {
		ends, err := r.admin.ListEndOffsets(ctx, topic)
		if ctx.Err() != nil {
			r.t.Fatalf("topic %s does not appear: %v, %v", topic, err, ends.Error())
		}
		if err == nil && ends.Error() == nil && len(ends[topic]) == int(partitions) {
			return
		}
	}
}

// put writes values to one partition, a batch each; "" is a null value.
func (r *rig) put(c *kgo.Client, topic string, partition int32, values ...string) {
	r.t.Helper()
	for _, v := range values {
		rec := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(v)}
		if v == "" {
			rec.Value = nil
		}
		r.putRecord(c, rec)
	}
}

func (r *rig) putRecord(c *kgo.Client, rec *kgo.Record) {
	r.t.Helper()
	if err := c.ProduceSync(r.t.Context(), rec).FirstErr(); err != nil {
		r.t.Fatal(err)
	}
}

// tx writes values in one transaction and ends it.
func (r *rig) tx(id, topic string, partition int32, end kgo.TransactionEndTry, values ...string) {
	r.t.Helper()
	c := r.openTx(id, topic, partition, values...)
	before := r.end(topic, partition)
	if err := c.EndTransaction(r.t.Context(), end); err != nil {
		r.t.Fatal(err)
	}
	// The coordinator answers before it has written the marker.
	for r.end(topic, partition) == before {
		if err := r.t.Context().Err(); err != nil {
			r.t.Fatal(err)
		}
	}
}

// end is the offset that the partition's next record will have.
func (r *rig) end(topic string, partition int32) int64 {
	r.t.Helper()
	ends, err := r.admin.ListEndOffsets(r.t.Context(), topic)
	if err != nil {
		r.t.Fatal(err)
	}
	o, _ := ends.Lookup(topic, partition)
	if o.Err != nil {
		r.t.Fatal(o.Err)
	}
	return o.Offset
}

func (r *rig) openTx(id, topic string, partition int32, values ...string) *kgo.Client {
	r.t.Helper()
	c := r.newClient(kgo.TransactionalID(id))
	if err := c.BeginTransaction(); err != nil {
		r.t.Fatal(err)
	}
	r.put(c, topic, partition, values...)
	return c
}

func (r *rig) config(topics ...string) Config {
	cfg := DefaultConfig()
	cfg.Brokers, cfg.Topics = r.brokers, topics
	return cfg
}

// source opens a source that looks at quiet splits often, and checks on its
// memory.
func (r *rig) source(cfg Config) *source {
	r.t.Helper()
	alloc := memory.NewCheckedAllocator(memory.NewGoAllocator())
	env := &dataflow.Env{
		Pipeline: "test", Step: "in", Tasks: 1, Now: time.Now, Alloc: alloc,
		Log: slog.New(slog.NewTextHandler(&r.log, nil)), Fates: &dataflow.Fates{}, Splits: &dataflow.SplitTable{},
		NewDecoder: func() (dataflow.Decoder, error) { return newTextDecoder(alloc), nil },
		Memory:     32 << 20,
	}
	s, err := open(env, cfg, 20*time.Millisecond)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			r.t.Error(err)
		}
		alloc.AssertSize(r.t, 0)
	})
	return s
}

// got is what came of one split.
type got struct {
	rows    []string // offset=value
	bad     []string // place: reason
	skipped map[string]int64
	next    position
	caught  bool
	at      bool
	polls   int
}

type harvest map[dataflow.Split]*got

var testLimit = dataflow.PollLimit{Rows: 1000, Bytes: 1 << 20, WaitMicros: 10_000}

// poll takes one Polled into h.
func (h harvest) poll(t *testing.T, s *source, limit dataflow.PollLimit) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	p, err := s.Poll(ctx, limit)
	if err != nil {
		return err
	}
	defer p.Release()
	if p.Split == "" {
		if p.Batch != nil || p.Bad != nil || p.Next != nil {
			t.Fatalf("a Polled without a split has %+v", p)
		}
		return nil
	}
	g := h[p.Split]
	if g == nil {
		g = &got{skipped: map[string]int64{}}
		h[p.Split] = g
	}
	next, err := parsePosition(p.Next)
	if err != nil {
		t.Fatal(err)
	}
	if next.before(g.next) {
		t.Fatalf("%s goes back from %v to %v", p.Split, g.next, next)
	}
	g.next, g.caught, g.at = next, p.CaughtUp, p.AtUntil
	g.polls++
	for k, v := range p.Skipped {
		g.skipped[k] += v
	}
	if b := p.Batch; b != nil {
		v, pos := b.Column(0).(*array.String), b.Column(dataflow.Column(b.Schema(), dataflow.SysPos)).(*array.Int64)
		for i := range int(b.NumRows()) {
			g.rows = append(g.rows, fmt.Sprintf("%d=%s", pos.Value(i), v.Value(i)))
		}
		if limit.Rows > 0 && b.NumRows() > int64(limit.Rows) {
			t.Fatalf("%d rows, at most %d were asked for", b.NumRows(), limit.Rows)
		}
	}
	if b := p.Bad; b != nil {
		for i := range int(b.NumRows()) {
			g.bad = append(g.bad, fmt.Sprintf("%s: %s %s", b.Column(5).(*array.String).Value(i), b.Column(0).(*array.String).Value(i), b.Column(6).(*array.Binary).Value(i)))
		}
	}
	return nil
}

// until polls until done says so.
func (h harvest) until(t *testing.T, s *source, done func() bool) {
	t.Helper()
	stop := time.Now().Add(20 * time.Second)
	for !done() {
		if time.Now().After(stop) {
			for k, g := range h {
				t.Logf("%s: %+v", k, *g)
			}
			t.Fatal("what should come does not")
		}
		if err := h.poll(t, s, testLimit); err != nil {
			t.Fatal(err)
		}
	}
}

func (h harvest) allAtUntil(n int) func() bool {
	return func() bool {
		k := 0
		for _, g := range h {
			if g.at {
				k++
			}
		}
		return k == n
	}
}

// pollError polls until an error comes.
func pollError(t *testing.T, s *source) error {
	t.Helper()
	stop := time.Now().Add(20 * time.Second)
	h := harvest{}
	for time.Now().Before(stop) {
		if err := h.poll(t, s, testLimit); err != nil {
			return err
		}
	}
	t.Fatal("no error came")
	return nil
}

// bounded reads all splits from their beginning to their end.
func (r *rig) bounded(s *source) harvest {
	r.t.Helper()
	splits, err := s.Discover(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	ends, err := s.Ends(r.t.Context(), splits)
	if err != nil {
		r.t.Fatal(err)
	}
	begins, err := s.Begin(r.t.Context(), splits)
	if err != nil {
		r.t.Fatal(err)
	}
	var at []dataflow.SplitAt
	for _, sp := range splits {
		at = append(at, dataflow.SplitAt{Split: sp, From: begins[sp], Until: ends[sp]})
	}
	r.assign(s, at...)
	h := harvest{}
	h.until(r.t, s, h.allAtUntil(len(splits)))
	for _, sp := range splits {
		if string(h[sp].next.encode()) != string(ends[sp]) {
			r.t.Errorf("%s stands at %s, its end is %s", sp, h[sp].next.encode(), ends[sp])
		}
	}
	return h
}

func (r *rig) assign(s *source, at ...dataflow.SplitAt) {
	r.t.Helper()
	if err := s.Assign(r.t.Context(), at); err != nil {
		r.t.Fatal(err)
	}
}

func want(t *testing.T, what string, got, want []string) {
	t.Helper()
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

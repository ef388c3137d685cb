package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"frazil/dataflow/flowtest/rig"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// outbox is a table of events in a database of its own, in the conventional layout.
type outbox struct {
	tb   testing.TB
	url  string
	conn *pgx.Conn
	next int64
}

func newOutbox(tb testing.TB) *outbox {
	tb.Helper()
	o := &outbox{tb: tb, url: rig.Postgres(tb)}
	conn, err := pgx.Connect(tb.Context(), o.url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close(context.Background()) })
	o.conn = conn
	o.do(`CREATE TABLE outbox (id bigint PRIMARY KEY, aggregatetype text NOT NULL, aggregateid text NOT NULL, type text NOT NULL, payload text NOT NULL)`)
	return o
}

func (o *outbox) do(statement string) {
	o.tb.Helper()
	if _, err := o.conn.Exec(o.tb.Context(), statement); err != nil {
		o.tb.Fatalf("%s: %v", statement, err)
	}
}

// insert commits n events, ten in a transaction.
func (o *outbox) insert(n int64) {
	o.tb.Helper()
	o.do(fmt.Sprintf(`DO $$ BEGIN FOR t IN 0..%d LOOP
		INSERT INTO outbox SELECT i, 'order', 'order-' || i %% 1000, 'OrderPlaced',
			'{"order":"order-' || i %% 1000 || '","sequence":' || i || ',"customer":"customer-' || i %% 777 || '","total":' || i %% 10000 || '.50,"note":"as it was agreed by telephone"}'
			FROM generate_series(%d + t * 10, %d + t * 10 + 9) i;
		COMMIT; END LOOP; END $$`, n/10-1, o.next, o.next))
	o.next += n
}

// reader counts what readers of committed records see of a topic.
type reader struct {
	tb testing.TB
	cl *kgo.Client
	n  int64
}

func newReader(tb testing.TB, broker, topic string) *reader {
	tb.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(20*time.Millisecond))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(cl.Close)
	return &reader{tb: tb, cl: cl}
}

// until reads until n records were seen, each is told.
func (r *reader) until(n int64, each func(*kgo.Record)) {
	r.tb.Helper()
	ctx, cancel := context.WithTimeout(r.tb.Context(), 10*time.Minute)
	defer cancel()
	for r.n < n {
		f := r.cl.PollFetches(ctx)
		if err := f.Err0(); err != nil {
			r.tb.Fatalf("%d of %d records: %v", r.n, n, err)
		}
		f.EachRecord(func(k *kgo.Record) {
			r.n++
			each(k)
		})
	}
	if r.n > n {
		r.tb.Fatalf("%d records, want %d", r.n, n)
	}
}

func nothing(*kgo.Record) {}

// topicOf makes a topic that is empty.
func topicOf(tb testing.TB, broker, topic string) {
	tb.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker))
	if err != nil {
		tb.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(tb.Context(), 3, 1, nil, topic); err != nil {
		tb.Fatal(err)
	}
}

// relayOf starts the pipeline that relays o to topic.
func relayOf(tb testing.TB, o *outbox, broker, topic, delivery, every string) int {
	j := newJob(tb, fmt.Sprintf(`sources:
  events: {outbox: {postgres: {url: %q, table: public.outbox}, payload: text}}
sinks:
  relay:
    from: events
    kafka: {brokers: [%q], topic: %s, key: aggregate_id, value: payload, headers: {id: id, type: type}, delivery: %s}
checkpoint: {every: %s}
`, o.url, broker, topic, delivery, every))
	_, pid := j.start()
	return pid
}

const (
	warm  = 200_000
	timed = 1_000_000
)

// measureOutbox tells what a relay that is running costs, once it is warm: the processor
// time of its process for a million events that are committed meanwhile.
func measureOutbox(b *testing.B, start func(o *outbox, broker, topic string) (pid int)) {
	broker := brokerOf(b)
	o := newOutbox(b)
	topic := fmt.Sprintf("frazil-outbox-%d", time.Now().UnixNano())
	topicOf(b, broker, topic)
	pid := start(o, broker, topic)
	r := newReader(b, broker, topic)
	o.insert(10)
	r.until(10, nothing) // it is up
	o.insert(warm)
	r.until(10+warm, nothing)
	for b.Loop() {
		before, began, have := cpuOf(b, pid), time.Now(), r.n
		o.insert(timed)
		r.until(have+timed, nothing)
		b.ReportMetric((cpuOf(b, pid)-before).Seconds()/(timed/1e6), "cpu-s/M")
		b.ReportMetric(time.Since(began).Seconds(), "wall-s")
	}
	_, most := memoryOf(b, pid)
	b.ReportMetric(most, "max-rss-MB")
	b.ReportMetric(0, "ns/op")
}

func BenchmarkOutbox(b *testing.B) {
	for _, delivery := range []string{"exactly_once", "at_least_once"} {
		b.Run(delivery, func(b *testing.B) {
			measureOutbox(b, func(o *outbox, broker, topic string) int {
				return relayOf(b, o, broker, topic, delivery, "1s")
			})
		})
	}
}

// BenchmarkDebezium is the same work by Debezium's outbox router on Kafka Connect:
// FRAZIL_DEBEZIUM is a folder that debezium/install has filled.
func BenchmarkDebezium(b *testing.B) {
	dir := os.Getenv("FRAZIL_DEBEZIUM")
	if dir == "" {
		b.Skip("set FRAZIL_DEBEZIUM to a folder that test/bench/debezium/install has filled")
	}
	measureOutbox(b, func(o *outbox, broker, topic string) int { return debezium(b, dir, o, broker, topic) })
}

func debezium(b *testing.B, dir string, o *outbox, broker, topic string) (pid int) {
	b.Helper()
	db, err := pgx.ParseConfig(o.url)
	if err != nil {
		b.Fatal(err)
	}
	work := b.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(work, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
		return path
	}
	worker := write("worker.properties", fmt.Sprintf(`bootstrap.servers=%s
listeners=http://127.0.0.1:0
plugin.path=%s
plugin.discovery=service_load
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.storage.file.filename=%s
offset.flush.interval.ms=1000
`, broker, filepath.Join(dir, "plugins"), filepath.Join(work, "offsets")))
	connector := write("outbox.properties", fmt.Sprintf(`name=outbox
connector.class=io.debezium.connector.postgresql.PostgresConnector
tasks.max=1
database.hostname=%s
database.port=%d
database.user=%s
database.password=%s
database.dbname=%s
plugin.name=pgoutput
slot.name=debezium
publication.autocreate.mode=filtered
table.include.list=public.outbox
topic.prefix=dbz
snapshot.mode=no_data
tombstones.on.delete=false
transforms=outbox
transforms.outbox.type=io.debezium.transforms.outbox.EventRouter
transforms.outbox.table.fields.additional.placement=type:header:type
transforms.outbox.route.topic.replacement=%s
`, db.Host, db.Port, db.User, "unused", db.Database, topic))
	cmd := exec.Command("java", "-Xms256m", "-Xmx1g", "-cp", filepath.Join(dir, "lib", "*"), "org.apache.kafka.connect.cli.ConnectStandalone", worker, connector)
	log, err := os.Create(filepath.Join(work, "log"))
	if err != nil {
		b.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	ended := sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
	})
	b.Cleanup(ended)
	// What is committed before its slot is there it does not see.
	end := time.Now().Add(3 * time.Minute)
	for {
		var active bool
		err := o.conn.QueryRow(b.Context(), "SELECT count(*) > 0 FROM pg_replication_slots WHERE slot_name = 'debezium' AND active").Scan(&active)
		if err != nil {
			b.Fatal(err)
		}
		if active {
			return cmd.Process.Pid
		}
		if time.Now().After(end) {
			ended()
			text, _ := os.ReadFile(log.Name())
			b.Fatalf("no slot:\n%s", strings.TrimSpace(string(text[max(0, len(text)-8000):])))
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// BenchmarkOutboxLatency commits a thousand events a second, one in a transaction, for
// half a minute, and tells how long after its commit a reader of committed records has
// each.
func BenchmarkOutboxLatency(b *testing.B) {
	for _, mode := range []struct{ delivery, every string }{{"at_least_once", "5s"}, {"exactly_once", "100ms"}} {
		b.Run(mode.delivery, func(b *testing.B) {
			broker := brokerOf(b)
			o := newOutbox(b)
			topic := fmt.Sprintf("frazil-outbox-%d", time.Now().UnixNano())
			topicOf(b, broker, topic)
			relayOf(b, o, broker, topic, mode.delivery, mode.every)
			r := newReader(b, broker, topic)
			o.insert(10)
			r.until(10, nothing)
			const count = 30_000
			for b.Loop() {
				from := o.next
				sent := make([]time.Time, count)
				var mu sync.Mutex
				var writers sync.WaitGroup
				tick := time.NewTicker(time.Millisecond)
				work := make(chan int64, count)
				for range 4 {
					conn, err := pgx.Connect(b.Context(), o.url)
					if err != nil {
						b.Fatal(err)
					}
					writers.Go(func() {
						defer conn.Close(context.Background())
						for i := range work {
							_, err := conn.Exec(context.Background(), "INSERT INTO outbox VALUES ($1, 'order', $2, 'OrderPlaced', $3)", from+i, fmt.Sprint("order-", i%1000), fmt.Sprintf(`{"sequence":%d}`, i))
							now := time.Now()
							if err != nil {
								b.Error(err)
							}
							mu.Lock()
							sent[i] = now
							mu.Unlock()
						}
					})
				}
				go func() {
					defer close(work)
					for i := range int64(count) {
						<-tick.C
						work <- i
					}
				}()
				var all []time.Duration
				r.until(r.n+count, func(k *kgo.Record) {
					var i int64
					if _, err := fmt.Sscanf(string(k.Value), `{"sequence":%d}`, &i); err != nil {
						b.Fatal(err)
					}
					mu.Lock()
					at := sent[i]
					mu.Unlock()
					if at.IsZero() {
						at = time.Now() // It was here before its writer was told of the commit.
					}
					all = append(all, time.Since(at))
				})
				writers.Wait()
				tick.Stop()
				o.next += count
				b.ReportMetric(percentile(all, 0.5), "p50-ms")
				b.ReportMetric(percentile(all, 0.99), "p99-ms")
				b.ReportMetric(percentile(all, 1), "max-ms")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

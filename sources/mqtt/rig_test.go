package mqtt

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/codec"
	"frazil/dataflow/flowtest/leak"
	"frazil/dataflow/flowtest/rig"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// logLines keeps what was logged.
type logLines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// bench is a source under test with a broker.
type bench struct {
	t      *testing.T
	broker *rig.Mosquitto
	cfg    Config
	decode codec.Config
	dir    string
	log    logLines
	srv    *server
	src    dataflow.Source
	rows   []string
	bad    []string
}

// newBench has a broker and a config that reads texts from "t/#" with qos 1.
func newBench(t *testing.T, extra ...string) *bench {
	t.Helper()
	b := &bench{t: t, broker: rig.NewMosquitto(t, extra...), cfg: DefaultConfig(), dir: t.TempDir()}
	b.cfg.Broker, b.cfg.Topics, b.cfg.ClientID = "mqtt://"+b.broker.Addr, []string{"t/#"}, "bench"
	b.decode.Text = &codec.TextConfig{}
	b.decode.Text.SetDefaults()
	return b
}

func (b *bench) env() *dataflow.Env {
	return &dataflow.Env{
		Pipeline: "p", Step: "in", Tasks: 1, Now: time.Now, WALDir: b.dir, Memory: 64 << 20, Log: slog.New(slog.NewTextHandler(&b.log, nil)),
		NewDecoder: func() (dataflow.Decoder, error) { return b.decode.New(nil) },
	}
}

// open starts the source and waits until it has subscribed.
func (b *bench) open() {
	b.t.Helper()
	env := b.env()
	var err error
	if b.srv, err = serve(env, b.cfg); err != nil {
		b.t.Fatal(err)
	}
	b.src = b.srv.stream.Source(env)
	if err := b.src.Assign(b.t.Context(), []dataflow.SplitAt{{Split: "0"}}); err != nil {
		b.t.Fatal(err)
	}
	b.rows, b.bad = nil, nil
	b.t.Cleanup(b.close)
	b.await("the subscription", func() bool { return b.count("subscribed") >= int64(b.cfg.Connections) })
}

func (b *bench) close() {
	if b.srv == nil {
		return
	}
	if err := b.src.Close(); err != nil {
		b.t.Error(err)
	}
	if err := b.srv.Close(); err != nil {
		b.t.Error(err)
	}
	b.srv = nil
}

func (b *bench) count(name string) int64 { return b.srv.StreamStats().Counts[name] }

// await polls until ok holds; what comes is in rows and bad.
func (b *bench) await(what string, ok func() bool) {
	b.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(end) {
			b.t.Fatalf("waited in vain for %s; rows %q, bad %q, counts %v\n%s", what, b.rows, b.bad, b.srv.counts.all(), b.log.String())
		}
		p, err := b.src.Poll(b.t.Context(), dataflow.PollLimit{Rows: 1000, Bytes: 1 << 20, WaitMicros: 10_000})
		if err != nil {
			b.t.Fatal(err)
		}
		if p.Batch != nil {
			for i := range int(p.Batch.NumRows()) {
				b.rows = append(b.rows, string(dataflow.RowJSON(p.Batch, i)))
			}
		}
		if p.Bad != nil {
			for i := range int(p.Bad.NumRows()) {
				b.bad = append(b.bad, string(dataflow.RowJSON(p.Bad, i)))
			}
		}
		p.Release()
	}
}

// awaitRows waits for rows and compares them.
func (b *bench) awaitRows(want ...string) {
	b.t.Helper()
	b.await(fmt.Sprint(len(want), " rows"), func() bool { return len(b.rows)+len(b.bad) >= len(want) })
	if !slices.Equal(b.rows, want) {
		b.t.Errorf("rows\n%s\nwant\n%s\nbad %q", strings.Join(b.rows, "\n"), strings.Join(want, "\n"), b.bad)
	}
}

func (b *bench) pub(topic, payload string, args ...string) {
	b.t.Helper()
	b.broker.Pub(b.t, []byte(payload), append([]string{"-t", topic}, args...)...)
}

// versions runs a test for both.
func versions(t *testing.T, f func(t *testing.T, version string)) {
	for _, v := range []string{version5, version3} {
		t.Run(v, func(t *testing.T) { f(t, v) })
	}
}

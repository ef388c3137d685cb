package kafka

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/flowtest/leak"
	"frazil/dataflow/flowtest/rig"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

var names atomic.Int64

// place is a topic of its own with the settings of a sink that writes there.
type place struct {
	t     *testing.T
	cfg   Config
	env   *dataflow.Env
	admin *kadm.Client
}

func newPlace(t *testing.T) *place {
	t.Helper()
	name := fmt.Sprintf("sink-%d-%d-%d", os.Getpid(), time.Now().UnixNano()%1e9, names.Add(1))
	cfg := DefaultConfig()
	cfg.Brokers, cfg.Topic = []string{rig.Kafka(t)}, name
	p := &place{t: t, cfg: cfg, env: &dataflow.Env{
		Pipeline: name, Step: "out", Tasks: 1, Log: slog.New(slog.DiscardHandler), Alloc: memory.DefaultAllocator,
		SpoolDir: t.TempDir(), Splits: &dataflow.SplitTable{}, Now: time.Now,
	}}
	cl, err := newClient(p.env, cfg)
	must(t, err)
	t.Cleanup(cl.Close)
	p.admin = kadm.NewClient(cl)
	p.create(name, 3)
	return p
}

func (p *place) create(name string, partitions int32) {
	p.t.Helper()
	must(p.t, create(p.t.Context(), p.admin, name, TopicConfig{Partitions: partitions, ReplicationFactor: 1, Config: map[string]string{"retention.ms": "-1"}}))
	p.awaitTopic(name)
}

// awaitTopic waits until the broker that is asked knows a topic that was made.
func (p *place) awaitTopic(name string) {
	p.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		all, err := p.admin.ListTopics(p.t.Context(), name)
		must(p.t, err)
		if all.Has(name) {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("topic %q is not known in a minute", name)
		}
	}
}

// records are those that a reader with isolation read_committed sees.
func (p *place) records(topic string) []*kgo.Record {
	p.t.Helper()
	return rig.Committed(p.t, p.cfg.Brokers[0], topic)
}

// texts are records as "key=value", null as "null".
func texts(records []*kgo.Record) (out []string) {
	for _, r := range records {
		out = append(out, text(r.Key)+"="+text(r.Value))
	}
	return out
}

func text(b []byte) string {
	if b == nil {
		return "null"
	}
	return strings.TrimSpace(string(b))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

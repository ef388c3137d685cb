package mqtt

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/flowtest"
	"frazil/dataflow/flowtest/leak"
	"frazil/dataflow/flowtest/rig"
	"frazil/dataflow/spool"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/eclipse/paho.golang/paho"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// place is a broker with a subscriber to all topics, and the settings of a sink.
type place struct {
	t      testing.TB
	broker *rig.Mosquitto
	cfg    Config
	env    *dataflow.Env

	// arrived has an element after a message has come.
	arrived chan struct{}
	mu      sync.Mutex
	all     []*paho.Publish
}

var names atomic.Int64

func newPlace(t testing.TB, conf ...string) *place {
	t.Helper()
	p := &place{t: t, broker: rig.NewMosquitto(t, conf...), cfg: DefaultConfig()}
	p.cfg.Broker, p.cfg.Topic = "mqtt://"+p.broker.Addr, "t"
	p.env = &dataflow.Env{
		Pipeline: fmt.Sprint("test", names.Add(1)), Step: "out", Tasks: 1, Log: slog.New(slog.DiscardHandler), Alloc: memory.DefaultAllocator,
		SpoolDir: t.TempDir(), Splits: &dataflow.SplitTable{}, Now: time.Now,
	}
	return p
}

// login lets the sink connect with TLS, a certificate and a password.
func (p *place) login() {
	p.cfg.Broker, p.cfg.User, p.cfg.Password = "mqtts://"+p.broker.TLSAddr, p.broker.User, component.Secret(p.broker.Password)
	p.cfg.TLS = component.ClientTLS{CA: p.broker.CA, Cert: p.broker.Cert, Key: p.broker.Key}
}

// subscribe collects all messages from now on.
func (p *place) subscribe() {
	p.t.Helper()
	p.arrived = make(chan struct{}, 1)
	conn, err := net.Dial("tcp", p.broker.Addr)
	must(p.t, err)
	c := paho.NewClient(paho.ClientConfig{Conn: conn, OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(r paho.PublishReceived) (bool, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all = append(p.all, r.Packet)
		select {
		case p.arrived <- struct{}{}:
		default:
		}
		return true, nil
	}}})
	_, err = c.Connect(p.t.Context(), &paho.Connect{ClientID: fmt.Sprint("reader", names.Add(1)), CleanStart: true, KeepAlive: 30})
	must(p.t, err)
	p.t.Cleanup(func() { _ = c.Disconnect(&paho.Disconnect{}) })
	_, err = c.Subscribe(p.t.Context(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: "#", QoS: 2}}})
	must(p.t, err)
}

// take returns all that came and forgets it.
func (p *place) take() []*paho.Publish {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.all
	p.all = nil
	return out
}

// messages waits for a message to the topic "end", which is sent now, and returns all
// that came before: topic and payload.
func (p *place) messages() (out []string) {
	p.t.Helper()
	end := fmt.Sprint("end", names.Add(1))
	p.broker.Pub(p.t, []byte("x"), "-t", end, "-q", "1")
	for limit := time.After(time.Minute); ; {
		p.mu.Lock()
		i := slices.IndexFunc(p.all, func(m *paho.Publish) bool { return m.Topic == end })
		if i >= 0 {
			for _, m := range p.all[:i] {
				if !strings.HasPrefix(m.Topic, "end") {
					out = append(out, m.Topic+" "+string(m.Payload))
				}
			}
		}
		p.mu.Unlock()
		if i >= 0 {
			return out
		}
		select {
		case <-p.arrived:
		case <-limit:
			p.t.Fatal("the last message did not come")
		}
	}
}

func (p *place) writer(in dataflow.Stream) dataflow.Writer {
	p.t.Helper()
	w, err := newWriter(p.t.Context(), p.env, component.SinkIn{Input: in}, p.cfg)
	must(p.t, err)
	p.t.Cleanup(func() { w.Close() })
	return w
}

func (p *place) committer() dataflow.Committer {
	p.t.Helper()
	k, err := component.SinkNamed("mqtt").NewCommitter(p.t.Context(), p.env, component.SinkIn{}, &p.cfg)
	must(p.t, err)
	p.t.Cleanup(func() { k.Close() })
	return k
}

// stage writes rows and ends their epoch.
func (p *place) stage(in dataflow.Stream, e int, rows string) (dataflow.Commit, []string) {
	p.t.Helper()
	w := p.writer(in)
	b, _, err := array.RecordFromJSON(memory.DefaultAllocator, in.Schema, strings.NewReader(rows))
	must(p.t, err)
	defer b.Release()
	bad, err := w.Write(p.t.Context(), b)
	must(p.t, err)
	return flowtest.Stage(p.t, w, dataflow.Epoch(e), e-1, e), flowtest.Refused(bad)
}

// refused are the lines of the files of refused rows.
func (p *place) refused() (out []string) {
	p.t.Helper()
	files, err := filepath.Glob(filepath.Join(spool.RefusedDir(p.env), "*.ndjson"))
	must(p.t, err)
	for _, f := range files {
		b, err := os.ReadFile(f)
		must(p.t, err)
		for line := range strings.Lines(string(b)) {
			var x spool.Refusal
			must(p.t, json.Unmarshal([]byte(line), &x))
			out = append(out, fmt.Sprintf("%d %s %s %s", x.Row, x.Reason, x.Detail, x.To))
		}
	}
	return out
}

func same(t testing.TB, what string, got, want []string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func stream(fields ...arrow.Field) dataflow.Stream {
	return dataflow.Stream{Schema: arrow.NewSchema(fields, nil)}
}

func col(name string, t arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: true}
}

// alarms is the input of most tests.
var alarms = stream(col("id", dataflow.TypeInt64), col("plant", dataflow.TypeString), col("hot", dataflow.TypeBool), col("raw", dataflow.TypeBinary))

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

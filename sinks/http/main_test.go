package http

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/flowtest"
	"frazil/dataflow/flowtest/leak"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// receiver is a real server, and what it has got.
type receiver struct {
	t      testing.TB
	server *httptest.Server
	cfg    Config
	env    *dataflow.Env

	mu sync.Mutex
	// answer decides about a request; nil: 200.
	answer func(g got, n int) (status int, header http.Header, body string)
	all    []got
}

// got is a request that came.
type got struct {
	method, path, key, body string
	header                  http.Header
	status                  int
}

func (g got) String() string { return fmt.Sprintf("%s %s %s %d", g.method, g.path, g.body, g.status) }

var pipelines atomic.Int64

func newReceiver(t testing.TB) *receiver {
	t.Helper()
	r := &receiver{t: t}
	r.server = httptest.NewServer(r)
	t.Cleanup(r.server.Close)
	r.cfg = DefaultConfig()
	r.cfg.URL = r.server.URL + "/in"
	r.env = &dataflow.Env{
		Pipeline: fmt.Sprint("test", pipelines.Add(1)), Step: "out", Tasks: 1, Log: slog.New(slog.DiscardHandler), Alloc: memory.DefaultAllocator,
		SpoolDir: t.TempDir(), Splits: &dataflow.SplitTable{}, Now: time.Now,
	}
	return r
}

// ServeHTTP implements http.Handler.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // The sender is gone.
	}
	g := got{method: req.Method, path: req.URL.RequestURI(), key: req.Header.Get("Idempotency-Key"), body: string(body), header: req.Header.Clone(), status: 200}
	text := ""
	r.mu.Lock()
	if r.answer != nil {
		var h http.Header
		g.status, h, text = r.answer(g, len(r.all))
		for k, v := range h {
			w.Header()[k] = v
		}
	}
	r.all = append(r.all, g)
	r.mu.Unlock()
	w.WriteHeader(g.status)
	_, _ = io.WriteString(w, text)
}

// requests are those that came so far.
func (r *receiver) requests() (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range r.all {
		out = append(out, g.String())
	}
	return out
}

// taken are the bodies that were answered with 200, each key's once.
func (r *receiver) taken() (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[string]string{}
	for _, g := range r.all {
		if g.status != 200 {
			continue
		}
		if before, ok := seen[g.key]; ok {
			if before != g.body {
				r.t.Errorf("the key %s came with %q and with %q", g.key, before, g.body)
			}
			continue
		}
		seen[g.key] = g.body
		out = append(out, g.body)
	}
	return out
}

func (r *receiver) writer(in dataflow.Stream) dataflow.Writer {
	r.t.Helper()
	w, err := newWriter(r.t.Context(), r.env, component.SinkIn{Input: in}, r.cfg)
	must(r.t, err)
	r.t.Cleanup(func() { w.Close() })
	return w
}

func (r *receiver) committer() dataflow.Committer {
	r.t.Helper()
	k, err := component.SinkNamed("http").NewCommitter(r.t.Context(), r.env, component.SinkIn{}, &r.cfg)
	must(r.t, err)
	r.t.Cleanup(func() { k.Close() })
	return k
}

// stage writes rows and ends their epoch.
func (r *receiver) stage(in dataflow.Stream, e int, rows string) (dataflow.Commit, []string) {
	r.t.Helper()
	w := r.writer(in)
	bad, err := w.Write(r.t.Context(), rowsOf(r.t, in.Schema, rows))
	must(r.t, err)
	return flowtest.Stage(r.t, w, dataflow.Epoch(e), e-1, e), flowtest.Refused(bad)
}

func rowsOf(t testing.TB, schema *arrow.Schema, rows string) arrow.RecordBatch {
	t.Helper()
	b, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(rows))
	must(t, err)
	t.Cleanup(b.Release)
	return b
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

// orders is the input of most tests.
var orders = stream(col("id", dataflow.TypeInt64), col("shop", dataflow.TypeString))

// ids are rows of orders with these numbers, of shops by the last digit.
func ids(from, to int) string {
	var rows []string
	for i := from; i < to; i++ {
		rows = append(rows, fmt.Sprintf(`{"id": %d, "shop": "s%d"}`, i, i%10))
	}
	return "[" + strings.Join(rows, ",") + "]"
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

package postgres

import (
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/flowtest"
	"frazil/dataflow/flowtest/leak"
	"frazil/dataflow/flowtest/rig"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// place is a database of its own with the settings of a sink that writes there.
type place struct {
	t    testing.TB
	cfg  Config
	env  *dataflow.Env
	conn *pgx.Conn
}

func newPlace(t testing.TB) *place {
	t.Helper()
	return placeAt(t, rig.Postgres(t))
}

// schemaOf is a new schema of a database, which is as good as one of its own.
func schemaOf(t testing.TB, database string) *place {
	t.Helper()
	name := fmt.Sprint("schema", servers.Add(1))
	u, err := url.Parse(database)
	must(t, err)
	query := u.Query()
	query.Set("search_path", name)
	u.RawQuery = query.Encode()
	p := placeAt(t, u.String())
	p.do("CREATE SCHEMA " + name)
	return p
}

var servers atomic.Int64

func placeAt(t testing.TB, url string) *place {
	t.Helper()
	cfg := DefaultConfig()
	cfg.URL, cfg.Table, cfg.CreateTable = component.Secret(url), "rows", true
	p := &place{t: t, cfg: cfg, env: &dataflow.Env{
		Pipeline: fmt.Sprint("test", servers.Add(1)), Step: "out", Tasks: 1, Log: slog.New(slog.DiscardHandler), Alloc: memory.DefaultAllocator,
		SpoolDir: t.TempDir(), Splits: &dataflow.SplitTable{}, Now: time.Now,
	}}
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { _ = closeConn(conn) })
	p.conn = conn
	return p
}

func (p *place) do(text string, args ...any) {
	p.t.Helper()
	if _, err := p.conn.Exec(p.t.Context(), text, args...); err != nil {
		p.t.Fatalf("%s: %v", text, err)
	}
}

// ask returns each row of a query as the server writes it: values with |, null as null.
func (p *place) ask(query string) (out []string) {
	p.t.Helper()
	results, err := p.conn.PgConn().Exec(p.t.Context(), query).ReadAll()
	must(p.t, err)
	for _, row := range results[0].Rows {
		var values []string
		for _, v := range row {
			if v == nil {
				v = []byte("null")
			}
			values = append(values, string(v))
		}
		out = append(out, strings.Join(values, "|"))
	}
	return out
}

func (p *place) writer(in dataflow.Stream) dataflow.Writer {
	p.t.Helper()
	w, err := newWriter(p.t.Context(), p.env, component.SinkIn{Input: in}, p.cfg)
	must(p.t, err)
	p.t.Cleanup(func() { w.Close() })
	return w
}

func (p *place) committer(in dataflow.Stream) *committer {
	p.t.Helper()
	k, err := newCommitter(p.t.Context(), p.env, component.SinkIn{Input: in}, p.cfg)
	must(p.t, err)
	p.t.Cleanup(func() { k.Close() })
	return k.(*committer)
}

// round writes and commits rows as epoch e, and returns the bad ones.
func (p *place) round(in dataflow.Stream, e int, rows string) []string {
	p.t.Helper()
	w := p.writer(in)
	bad, err := w.Write(p.t.Context(), batch(p.t, in.Schema, rows))
	must(p.t, err)
	must(p.t, p.committer(in).Commit(p.t.Context(), flowtest.Stage(p.t, w, dataflow.Epoch(e), e-1, e)))
	return flowtest.Refused(bad)
}

func batch(t testing.TB, schema *arrow.Schema, rows string) arrow.RecordBatch {
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

// changes is a changelog with the key id.
func changes(fields ...arrow.Field) dataflow.Stream {
	s := stream(append(fields, dataflow.OpField())...)
	s.Changelog, s.Key = true, []string{"id"}
	return s
}

func col(name string, t arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: true}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

package integration

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"frazil/dataflow/flowtest/rig"
)

// counterTo is a pipeline that commits count numbered rows, some at each of many
// checkpoints.
func counterTo(name, connection, table string, count, rate int) string {
	return fmt.Sprintf(`name: %s
connections:
  lake:
    iceberg_catalog: %s
sources:
  in:
    generate: {counter: {count: %d, rate: %d, keys: 7}}
operators:
  more:
    from: in
    project: {select: [n, who], compute: {who: "'%[1]s'"}}
sinks:
  out:
    from: more
    iceberg: {catalog: lake, table: %[5]s}
checkpoint: {every: 100ms}
`, name, connection, count, rate, table)
}

func counted(name string, count int) []string {
	var out []string
	for n := range count {
		out = append(out, fmt.Sprintf(`{"n":%d,"who":%q}`, n, name))
	}
	return out
}

// proxy stands before a REST catalog and spoils answers.
type proxy struct {
	*httptest.Server

	mu      sync.Mutex
	commits int // to tables, that came
	spoilt  int
}

// verdict is what happens to a request.
type verdict int

const (
	pass  verdict = iota
	block         // answered by status, not forwarded
	lose          // forwarded, then answered by status
	cut           // forwarded, then the connection is closed without an answer
)

// newProxy asks judge about each request; commit is its number among the
// commits from 1, or 0.
func newProxy(t *testing.T, uri string, judge func(r *http.Request, commit int) (v verdict, status int)) *proxy {
	t.Helper()
	to, err := url.Parse(uri)
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(to)
	p := &proxy{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		commit := p.arrived(r)
		v, status := judge(r, commit)
		switch v {
		case pass:
			forward.ServeHTTP(w, r)
			return
		case lose, cut:
			forward.ServeHTTP(httptest.NewRecorder(), r)
		case block:
			_, _ = io.Copy(io.Discard, r.Body)
		}
		p.mu.Lock()
		p.spoilt++
		p.mu.Unlock()
		if v == cut {
			panic(http.ErrAbortHandler)
		}
		http.Error(w, "spoilt by the test", status)
	}))
	t.Cleanup(p.Close)
	return p
}

// arrived counts commits to tables: a POST to .../tables/NAME.
func (p *proxy) arrived(r *http.Request) int {
	if r.Method != http.MethodPost || !strings.Contains(r.URL.Path, "/tables/") {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commits++
	return p.commits
}

// F01: the catalog accepted, the answer is lost. X05: the catalog fails for a
// while. Each row is in the table once, and other programs can read it.
func TestSpoiltAnswersOfTheCatalog(t *testing.T) {
	c := rig.REST(t)
	const count = 2000
	cases := []struct {
		name  string
		least int // spoilt answers
		judge func(r *http.Request, commit int) (verdict, int)
	}{
		{"accepted, then 504", 2, func(_ *http.Request, commit int) (verdict, int) {
			if commit%3 == 1 {
				return lose, http.StatusGatewayTimeout
			}
			return pass, 0
		}},
		{"accepted, then 500, twice in a row", 2, func(_ *http.Request, commit int) (verdict, int) {
			if commit == 1 || commit == 2 {
				return lose, http.StatusInternalServerError
			}
			return pass, 0
		}},
		{"accepted, then the connection is cut", 2, func(_ *http.Request, commit int) (verdict, int) {
			if commit%3 == 1 {
				return cut, 0
			}
			return pass, 0
		}},
		{"500 instead of commits for a while", 6, func(_ *http.Request, commit int) (verdict, int) {
			if commit >= 2 && commit < 8 {
				return block, http.StatusInternalServerError
			}
			return pass, 0
		}},
		{"503 to everything for a while", 10, outage(3, 10)},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			spoiler := newProxy(t, c.URI, tc.judge)
			table := unique("counted")
			p := newPipeline(t, counterTo("spoilt", restLake(c, spoiler.URL), table, count, 1000), nil)
			log := p.run()
			spoiler.mu.Lock()
			commits, spoilt := spoiler.commits, spoiler.spoilt
			spoiler.mu.Unlock()
			t.Logf("%d commits came, %d answers were spoilt", commits, spoilt)
			if spoilt < tc.least {
				t.Errorf("%d answers were spoilt, want at least %d", spoilt, tc.least)
			}
			if strings.Contains(log, "panic") || strings.Contains(log, "goroutine ") {
				t.Errorf("a stack trace in the log:\n%s", log)
			}
			direct := newPipeline(t, counterTo("spoilt", restLake(c, c.URI), table, count, 1000), nil)
			direct.expect(table, counted("spoilt", count))
			if !t.Failed() {
				rig.SameRows(t, rig.Table{Catalog: c.URI, Name: table, Store: c.Store}, counted("spoilt", count))
			}
		})
	}
}

// outage answers n requests of any kind with 503, from the first one after the
// given commit.
func outage(after, n int) func(*http.Request, int) (verdict, int) {
	var mu sync.Mutex
	begun := false
	return func(_ *http.Request, commit int) (verdict, int) {
		mu.Lock()
		defer mu.Unlock()
		begun = begun || commit == after
		if begun && n > 0 {
			n--
			return block, http.StatusServiceUnavailable
		}
		return pass, 0
	}
}

// Two processes append to one table of a SQLite catalog at the same time.
func TestTwoPipelinesWriteOneTable(t *testing.T) {
	rig.Readers(t)
	connection, catalog := sqlLake(t.TempDir())
	const count = 3000
	names := []string{"left", "right"}
	var last *pipeline
	var wg sync.WaitGroup
	for _, name := range names {
		p := newPipeline(t, counterTo(name, connection, "db.both", count, 1000), nil)
		last = p
		cmd, log := p.command("run", p.file)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			if err := cmd.Wait(); err != nil {
				t.Errorf("%s: %v\n%s", name, err, log)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	want := append(counted("left", count), counted("right", count)...)
	last.expect("db.both", want)
	rig.SameRows(t, rig.Table{Catalog: catalog, Name: "db.both"}, want)
}

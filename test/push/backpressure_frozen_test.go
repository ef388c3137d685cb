package push_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"frazil/dataflow/flowtest/program"
	"frazil/dataflow/flowtest/rig"

	_ "modernc.org/sqlite"
)

// freePort is a port nobody listens on now.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// listening says whether somebody accepts connections at an address.
func listening(address string) func() bool {
	return func() bool {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		return c.Close() == nil
	}
}

// poster posts batches of numbered rows, one after the other, as fast as they are
// answered. A refused batch is posted again until it is taken.
type poster struct {
	url               string
	client            http.Client
	rest              time.Duration // between two posts
	accepted, refused atomic.Int64  // rows, requests
	stop              chan struct{}
	done              chan error
}

const batchRows = 1000

func newPoster(t *testing.T, url string, rest time.Duration) *poster {
	p := &poster{url: url, rest: rest, stop: make(chan struct{}), done: make(chan error, 1)}
	go func() {
		err := p.run()
		if err != nil {
			t.Error(err) // Who waits for more of it waits in vain.
		}
		p.done <- err
	}()
	return p
}

func (p *poster) run() error {
	for n := int64(0); ; {
		select {
		case <-p.stop:
			return nil
		default:
		}
		code, err := p.post(n)
		if err != nil {
			return err
		}
		switch code {
		case http.StatusOK:
			n += batchRows
			p.accepted.Add(batchRows)
			if p.rest > 0 {
				<-time.After(p.rest)
			}
		case http.StatusTooManyRequests:
			p.refused.Add(1)
			select {
			case <-p.stop:
			case <-time.After(20 * time.Millisecond): // sooner than asked: as the rude do
			}
		default:
			return fmt.Errorf("%s answered %d", p.url, code)
		}
	}
}

func (p *poster) post(first int64) (int, error) {
	var body bytes.Buffer
	for i := first; i < first+batchRows; i++ {
		fmt.Fprintf(&body, `{"n":%d,"text":"row number %d of a producer that does not stop to ask"}`+"\n", i, i)
	}
	req, err := http.NewRequest("POST", p.url, &body)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := p.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// end stops the poster and returns how many rows were accepted.
func (p *poster) end(t *testing.T) int64 {
	t.Helper()
	close(p.stop)
	if err := <-p.done; err != nil {
		t.Fatal(err)
	}
	return p.accepted.Load()
}

// B4: a table that takes no commits: its stream fills up to the high-water mark and
// refuses producers, the memory stays under its ceiling, the other stream goes on,
// and when the table is there again everything accepted is in it, once.
//
// The catalog of the frozen table is a SQLite file that the test holds locked: in CI
// until 200 requests were refused and 300,000 rows of the other stream came, with
// FRAZIL_LONG 3,000 and 4 million: some minutes, in place of ten.
func TestAFrozenTableHoldsUpItsStreamOnly(t *testing.T) {
	program.Long(t)
	address := freePort(t)
	p := newPlace(t, "frozen", fmt.Sprintf(`memory: 256MiB
checkpoint: {every: 300ms}
sources:
  stuck:
    http: {listen: %[1]s, buffer: {bytes: 32MiB}}
    decode: {json: {schema: {n: int64, text: string}}}
  free:
    http: {listen: %[1]s, buffer: {bytes: 32MiB}}
    decode: {json: {schema: {n: int64, text: string}}}
sinks:
  frozen: {from: stuck, iceberg: {table: t.rows}}
  other: {from: free, files: {path: out}}
`, address))
	r := p.Start(nil, "run", p.File)
	r.Until("it listens", listening(address))
	stuck, free := newPoster(t, "http://"+address+"/stuck", 0), newPoster(t, "http://"+address+"/free", 0)
	r.Until("the table exists", func() bool {
		return p.Metric(`frazil_sink_committed_rows_total{pipeline="frozen",step="frozen"}`) > "0"
	})

	refusals, more := int64(200), int64(300_000)
	if full() {
		refusals, more = 3_000, 4_000_000
	}
	// pace is how fast the other stream goes on, in rows a second: a figure, nothing
	// depends on it.
	pace := func(rows int64, ok func() bool) float64 {
		from, began := free.accepted.Load(), time.Now()
		r.Until("the other stream has gone on", func() bool { return free.accepted.Load() >= from+rows && ok() })
		return float64(free.accepted.Load()-from) / time.Since(began).Seconds()
	}
	before := pace(more, func() bool { return true })

	db, err := sql.Open("sqlite", "file:"+p.Path("frazil-data", "catalog.db")+"?_pragma=busy_timeout(60000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	r.Until("the stream refuses", func() bool { return stuck.refused.Load() > 0 })
	during := pace(more, func() bool { return stuck.refused.Load() >= refusals })
	if n := free.refused.Load(); n > 0 {
		t.Errorf("the other stream refused %d requests", n)
	}
	if got := p.Metric(`frazil_stream_refused_requests_total{pipeline="frozen",reason="bytes",step="stuck"}`); got == "" || got == "0" {
		t.Errorf("the refusals are not counted: %q", got)
	}
	health := p.health()
	if !slices.Contains(health, "stuck refusing") {
		t.Errorf("the health does not say that stuck is refusing: %v", health)
	}
	for _, h := range health {
		if strings.HasPrefix(h, "free ") || strings.HasPrefix(h, "other ") {
			t.Errorf("the other stream is red: %v", health)
		}
	}
	if _, err := db.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	r.Until("the stream is taken again", func() bool { return stuck.accepted.Load() > 0 && p.Metric("frazil_healthy") != "" })
	wantStuck, wantFree := stuck.end(t), free.end(t)
	r.Until("everything accepted is committed", func() bool {
		return p.Metric(`frazil_stream_backlog_rows{pipeline="frozen",step="stuck"}`) == "0" && p.Metric(`frazil_stream_backlog_rows{pipeline="frozen",step="free"}`) == "0"
	})
	peak := r.PeakRSS()
	t.Logf("%d and %d rows accepted, %d requests refused, peak memory %d MiB; the other stream took %.0f rows a second before and %.0f while the table was frozen", wantStuck, wantFree, stuck.refused.Load(), peak>>20, before, during)
	if limit := int64(256<<20) * 11 / 10; peak > limit && !rig.Raced {
		t.Errorf("the program had %d MiB resident, its ceiling is 256 MiB and a tenth", peak>>20)
	}
	r.Signal(syscall.SIGINT)
	if code := r.Wait(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, program.Tail(r.Stderr.String(), 3000))
	}
	everyNumberOnce(t, "the frozen table", p.Run("table", "rows", "t.rows", "--file", p.File, "--format", "ndjson"), wantStuck)
	everyNumberOnce(t, "the other sink", p.files("out"), wantFree)
}

// everyNumberOnce checks that rows hold n = 0 to want-1, each once.
func everyNumberOnce(t *testing.T, what, rows string, want int64) {
	t.Helper()
	seen := make([]byte, want)
	total := int64(0)
	for line := range strings.Lines(rows) {
		var row struct{ N int64 }
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatalf("%s: %v: %s", what, err, line)
		}
		if row.N < 0 || row.N >= want {
			t.Fatalf("%s: row %d was never acknowledged", what, row.N)
		}
		if seen[row.N]++; seen[row.N] > 1 {
			t.Fatalf("%s: row %d is there twice", what, row.N)
		}
		total++
	}
	if total != want {
		t.Fatalf("%s: %d rows, want %d", what, total, want)
	}
}

// api is the base of the addresses at which the running program is asked.
func (p *place) api() string {
	p.t.Helper()
	raw, err := os.ReadFile(p.Path("state", "run.json"))
	if err != nil {
		p.t.Fatal(err)
	}
	var run struct{ HTTP string }
	if err := json.Unmarshal(raw, &run); err != nil {
		p.t.Fatal(err)
	}
	return "http://" + run.HTTP
}

// files returns what the files sink has shown in a folder.
func (p *place) files(dir string) string {
	p.t.Helper()
	names, err := filepath.Glob(p.Path(dir, "*.ndjson"))
	if err != nil {
		p.t.Fatal(err)
	}
	var out strings.Builder
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			p.t.Fatal(err)
		}
		out.Write(raw)
	}
	return out.String()
}

// health returns what the program says is wrong, as "STEP CODE".
func (p *place) health() []string {
	p.t.Helper()
	resp, err := http.Get(p.api() + "/health")
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	var h struct {
		Problems []struct{ Step, Code string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&h); err != nil {
		p.t.Fatal(err)
	}
	var out []string
	for _, x := range h.Problems {
		out = append(out, x.Step+" "+x.Code)
	}
	return out
}

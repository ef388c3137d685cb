package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"frazil/dataflow/flowtest/program"
	"frazil/dataflow/flowtest/rig"
)

// An object store that takes uploads of one table and never answers holds up the
// stream of that table only: its producers are refused when its buffer is full, and
// the memory stays under its ceiling, while the other stream of the same pipeline goes
// on and is committed. When the store answers again, all that was accepted is in both
// tables, once.
func TestAHangingUploadHoldsUpItsStreamOnly(t *testing.T) {
	program.Long(t)
	w := newWorld(t)
	off := newPlan(0, 0)
	catalog, store := newProxy(t, "catalog", w.catalog.URI, off), newProxy(t, "store", w.catalog.Store.Endpoint, off)
	space := fmt.Sprintf("hang%d", time.Now().UnixNano())
	listen := freeAddress(t)
	p := program.New(t, "hang", fmt.Sprintf(`memory: 256MiB
connections:
  lake: {iceberg_catalog: %[1]s}
sources:
  stuck:
    http: {listen: %[2]s, buffer: {bytes: 16MiB}}
    decode: {json: {schema: {n: int64, text: string}}}
  free:
    http: {listen: %[2]s, buffer: {bytes: 64MiB}}
    decode: {json: {schema: {n: int64, text: string}}}
sinks:
  a: {from: stuck, iceberg: {catalog: lake, table: %[3]s.a}}
  b: {from: free, iceberg: {catalog: lake, table: %[3]s.b}}
checkpoint: {every: 300ms}
`, lake(w.catalog, catalog, store, false), listen, space))
	r := p.Start(nil, "run", p.File)
	r.Until("it listens", func() bool {
		c, err := net.Dial("tcp", listen)
		return err == nil && c.Close() == nil
	})
	committed := func(sink string) int64 {
		n, _ := strconv.ParseFloat(p.Metric(`frazil_sink_committed_rows_total{pipeline="hang",step="`+sink+`"`), 64)
		return int64(n)
	}
	free := newPusher(t, "http://"+listen+"/free")
	// pace is how many rows a second are committed: a figure, nothing depends on it.
	pace := func(rows int64) float64 {
		from, began := committed("b"), time.Now()
		r.Until("the other stream is committed on", func() bool { return committed("b") >= from+rows })
		return float64(committed("b")-from) / time.Since(began).Seconds()
	}
	more := int64(200_000)
	if os.Getenv("FRAZIL_LONG") != "" {
		more = 3_000_000
	}
	pace(more / 2)
	alone := pace(more)

	stuck := newPusher(t, "http://"+listen+"/stuck")
	r.Until("both tables have rows", func() bool { return committed("a") > 0 })
	var held atomic.Int64
	lifted := make(chan struct{})
	hold := holder(func(ctx context.Context, r *http.Request, _ []byte) func(int) {
		if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/"+space+"/a/data/") {
			return nil
		}
		held.Add(1)
		select {
		case <-lifted:
		case <-ctx.Done():
		}
		return nil
	})
	store.hold.Store(&hold)
	r.Until("an upload hangs and the stream refuses", func() bool { return held.Load() > 0 && stuck.refused.Load() > 0 })
	before := committed("a")
	pace(more / 10) // The first epoch has waited for a second.
	during := pace(more)
	if got := committed("a"); got != before {
		t.Errorf("%d rows of the table whose uploads hang were committed", got-before)
	}
	if n := free.refused.Load(); n > 0 {
		t.Errorf("the other stream refused %d requests", n)
	}
	wantB := free.end(t)
	r.Until("everything the other stream accepted is committed", func() bool { return committed("b") == wantB })
	var named bool
	for _, h := range health(p) {
		named = named || strings.HasPrefix(h, "a ") || strings.HasPrefix(h, "stuck ")
		if strings.HasPrefix(h, "b ") || strings.HasPrefix(h, "free ") {
			t.Errorf("the health names the other stream: %s", h)
		}
	}
	if !named {
		t.Errorf("the health does not name the stream that is held up: %v", health(p))
	}
	close(lifted)
	r.Until("the stream is committed on", func() bool { return committed("a") > before })
	wantA := stuck.end(t)
	r.Until("everything accepted is committed", func() bool { return committed("a") == wantA })
	peak := r.PeakRSS()
	t.Logf("%d and %d rows; %d uploads hung, %d requests were refused; the other stream: %.0f rows a second alone, %.0f beside the hang, ratio %.2f; peak memory %d MiB",
		wantA, wantB, held.Load(), stuck.refused.Load(), alone, during, during/alone, peak>>20)
	if limit := int64(256<<20) * 11 / 10; peak > limit && !rig.Raced {
		t.Errorf("the program had %d MiB resident, its ceiling is 256 MiB and a tenth", peak>>20)
	}
	r.Terminate()
	everyNumberOnce(t, w, space+".a", wantA)
	everyNumberOnce(t, w, space+".b", wantB)
}

// everyNumberOnce checks that a table holds n = 0 to want-1, each once.
func everyNumberOnce(t *testing.T, w *world, table string, want int64) {
	t.Helper()
	var got map[string][4]int64
	if err := w.judge.ask(&got, "numbers", table, nil); err != nil {
		t.Fatal(err)
	}
	for _, reader := range []string{"pyiceberg", "duckdb"} {
		if got[reader] != [4]int64{want, want, 0, want - 1} {
			t.Errorf("%s: %s sees %d rows, %d different numbers from %d to %d; want %d from 0", table, reader, got[reader][0], got[reader][1], got[reader][2], got[reader][3], want)
		}
	}
}

// pusher posts batches of numbered rows, one after the other. A refused batch is
// posted again until it is taken.
type pusher struct {
	url               string
	accepted, refused atomic.Int64 // rows, requests
	stop              chan struct{}
	done              chan error
}

const batchRows = 500

func newPusher(t *testing.T, url string) *pusher {
	p := &pusher{url: url, stop: make(chan struct{}), done: make(chan error, 1)}
	go func() {
		err := p.run()
		if err != nil {
			t.Error(err)
		}
		p.done <- err
	}()
	return p
}

func (p *pusher) run() error {
	for n := int64(0); ; {
		select {
		case <-p.stop:
			return nil
		default:
		}
		code, err := p.post(n)
		switch {
		case err != nil:
			return err
		case code == http.StatusOK:
			n += batchRows
			p.accepted.Add(batchRows)
		case code == http.StatusTooManyRequests:
			p.refused.Add(1)
			select {
			case <-p.stop:
			case <-time.After(100 * time.Millisecond): // sooner than it was asked to
			}
		default:
			return fmt.Errorf("%s answered %d", p.url, code)
		}
	}
}

func (p *pusher) post(first int64) (int, error) {
	var body bytes.Buffer
	for i := first; i < first+batchRows; i++ {
		fmt.Fprintf(&body, `{"n":%d,"text":"row number %d of a producer that does not stop to ask"}`+"\n", i, i)
	}
	resp, err := http.Post(p.url, "application/x-ndjson", &body)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// end stops the pusher and returns how many rows were accepted.
func (p *pusher) end(t *testing.T) int64 {
	t.Helper()
	close(p.stop)
	if err := <-p.done; err != nil {
		t.Fatal(err)
	}
	return p.accepted.Load()
}

// health returns what the program says is wrong, as "STEP CODE".
func health(p *program.Place) []string {
	p.T.Helper()
	resp, err := http.Get("http://" + p.Address() + "/health")
	if err != nil {
		p.T.Fatal(err)
	}
	defer resp.Body.Close()
	var h struct {
		Problems []struct{ Step, Code string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&h); err != nil {
		p.T.Fatal(err)
	}
	var out []string
	for _, x := range h.Problems {
		out = append(out, x.Step+" "+x.Code)
	}
	return out
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

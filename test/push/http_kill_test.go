package push_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"frazil/dataflow/flowtest/program"
)

// TestHTTPRetriesAcrossKills: clients post batches through a proxy that loses
// answers, and post again what was not answered, under the same key; the engine is
// killed again and again. Every row is in the table exactly once, without dedup.
func TestHTTPRetriesAcrossKills(t *testing.T) {
	program.Long(t)
	const kills = 30
	rnd := program.Random(t)
	addr := freePort(t)
	p := newPlace(t, "posted", fmt.Sprintf(`
sources:
  posted:
    http: {listen: "%s", path: /rows, idempotency: {keep: 1h}, metadata: {index: at}}
    decode: {json: {schema: {client: int64, batch: int64, n: int64, text: string}, required: [client, batch, n]}}
sinks:
  rows: {from: posted, iceberg: {catalog: local, table: t.posted}}
checkpoint: {every: 500ms}
`, addr))
	proxy := newLossy(t, addr, rnd.Int63())
	defer proxy.Close()

	const clients = 6
	var sent, answered atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	last := make([]int, clients) // batches that each client has had answered
	for c := range clients {
		r := rand.New(rand.NewSource(rnd.Int63()))
		wg.Add(1)
		go func() {
			defer wg.Done()
			client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for b := 1; ; b++ {
				select {
				case <-stop:
					return
				default:
				}
				req := kindOf(c, b, r)
				for !tryPost(t, client, proxy.URL+"/rows", req) {
					sent.Add(1)
					<-time.After(10 * time.Millisecond) // as a client does
				}
				last[c] = b
				answered.Add(1)
			}
		}()
	}
	run := p.Start(nil, "run", p.File)
	for k := range kills {
		want := answered.Load() + int64(10+rnd.Intn(60))
		run.Until(fmt.Sprintf("%d batches answered, before kill %d", want, k+1), func() bool { return answered.Load() >= want })
		run.Kill()
		run = p.Start(nil, "run", p.File)
	}
	want := answered.Load() + 50
	run.Until("more batches", func() bool { return answered.Load() >= want })
	close(stop)
	wg.Wait()
	t.Logf("%d batches, %d tries that were not answered, %d answers lost on purpose", answered.Load(), sent.Load(), proxy.lost.Load())
	if proxy.lost.Load() == 0 {
		t.Error("no answer was lost")
	}
	total := 0
	var model []string
	for c, n := range last {
		for b := 1; b <= n; b++ {
			for i := range size(c, b) {
				model = append(model, fmt.Sprintf("%d/%d/%d %s %d", c, b, i, text(c, b, i), i))
				total++
			}
		}
	}
	run.Signal(syscall.SIGTERM)
	if code := run.Wait(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, program.Tail(run.Stderr.String(), 3000))
	}
	// What was answered after the last barrier comes with the next run.
	run = p.Start(nil, "run", p.File)
	var got []string
	run.Until(fmt.Sprintf("%d rows in the table", total), func() bool {
		got = p.postedRows()
		return len(got) >= total
	})
	run.Signal(syscall.SIGTERM)
	run.Wait()
	got = p.postedRows()
	slices.Sort(got)
	slices.Sort(model)
	if !slices.Equal(got, model) {
		t.Errorf("the table has %d rows, want %d; %s", len(got), len(model), differ(got, model))
	}
}

func size(client, batch int) int { return 1 + (client*7+batch*3)%40 }

func text(client, batch, i int) string {
	return fmt.Sprintf("text of %d, \"%d\" and %d", client, batch, i)
}

// posted is a request with its key.
type posted struct {
	body    []byte
	headers map[string]string
}

// kindOf makes batch b of client c, the same whenever it is asked, in a format that
// depends on it. Clients with an even number name themselves as producers.
func kindOf(c, b int, _ *rand.Rand) posted {
	out := posted{headers: map[string]string{}}
	if c%2 == 0 {
		out.headers["Frazil-Producer"], out.headers["Frazil-Sequence"] = fmt.Sprint("client-", c), fmt.Sprint(b)
	} else {
		out.headers["Idempotency-Key"] = fmt.Sprintf("client-%d-%d", c, b)
	}
	var rows []string
	for i := range size(c, b) {
		raw, _ := json.Marshal(map[string]any{"client": c, "batch": b, "n": i, "text": text(c, b, i)})
		rows = append(rows, string(raw))
	}
	switch (c + b) % 3 {
	case 0:
		out.headers["Content-Type"] = "application/x-ndjson"
		out.body = []byte(strings.Join(rows, "\n"))
	case 1:
		out.headers["Content-Type"] = "application/json"
		out.body = []byte("[" + strings.Join(rows, ",") + "]")
	default:
		out.headers["Content-Type"] = "text/csv"
		text1 := "client,batch,n,text\r\n"
		for i := range size(c, b) {
			text1 += fmt.Sprintf("%d,%d,%d,\"%s\"\r\n", c, b, i, strings.ReplaceAll(text(c, b, i), `"`, `""`))
		}
		out.body = []byte(text1)
	}
	if b%4 == 0 {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		_, _ = w.Write(out.body)
		_ = w.Close()
		out.body, out.headers["Content-Encoding"] = z.Bytes(), "gzip"
	}
	return out
}

// tryPost posts once and says whether the request was accepted. What is neither
// that nor worth another try fails the test.
func tryPost(t *testing.T, client *http.Client, to string, p posted) bool {
	req, err := http.NewRequest("POST", to, bytes.NewReader(p.body))
	if err != nil {
		t.Error(err)
		return true
	}
	for k, v := range p.headers {
		req.Header.Set(k, v)
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return false
	case resp.StatusCode == 200:
		return true
	case resp.StatusCode == 429 || resp.StatusCode >= 500:
		return false
	}
	t.Errorf("%s: %s", resp.Status, body)
	return true
}

// lossy is a proxy that loses answers: the request gets through, and the client
// hears nothing of it.
type lossy struct {
	*http.Server
	URL  string
	lost atomic.Int64
}

func newLossy(t *testing.T, to string, seed int64) *lossy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &lossy{URL: "http://" + ln.Addr().String()}
	var mu sync.Mutex
	r := rand.New(rand.NewSource(seed))
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: to})
	forward.ErrorLog = nil
	forward.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(502) }
	forward.ModifyResponse = func(*http.Response) error {
		mu.Lock()
		defer mu.Unlock()
		if r.Intn(10) == 0 {
			l.lost.Add(1)
			panic(http.ErrAbortHandler)
		}
		return nil
	}
	l.Server = &http.Server{Handler: forward}
	go l.Serve(ln)
	return l
}

func (p *place) postedRows() []string {
	p.t.Helper()
	var out []string
	for line := range strings.Lines(p.Run("table", "rows", "t.posted", "--file", p.File, "--format", "ndjson")) {
		var x struct {
			Client, Batch, N, At int
			Text                 string
		}
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			p.t.Fatalf("%s: %v", line, err)
		}
		out = append(out, fmt.Sprintf("%d/%d/%d %s %d", x.Client, x.Batch, x.N, x.Text, x.At))
	}
	return out
}

// differ shows the first rows of two sorted lists that are not in the other.
func differ(got, want []string) string {
	var out []string
	for i, j := 0, 0; (i < len(got) || j < len(want)) && len(out) < 10; {
		switch {
		case j == len(want) || i < len(got) && got[i] < want[j]:
			out = append(out, "too many: "+got[i])
			i++
		case i == len(got) || want[j] < got[i]:
			out = append(out, "missing: "+want[j])
			j++
		default:
			i, j = i+1, j+1
		}
	}
	return strings.Join(out, "\n")
}

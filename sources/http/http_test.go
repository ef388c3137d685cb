package http

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	nethttp "net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/codec"
	"frazil/dataflow/component"
	"frazil/dataflow/flowtest/leak"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/klauspost/compress/zstd"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// rig is an endpoint with a source that reads it.
type rig struct {
	t   *testing.T
	ep  *endpoint
	src dataflow.Source
	url string

	mu  sync.Mutex
	now time.Time
}

// clock is what requests see.
func (r *rig) clock() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

var decode = codec.JSONConfig{
	Schema: component.NamedTypes{{Name: "id", Type: "int64"}, {Name: "text", Type: "string"}, {Name: "ts", Type: "timestamptz(ms)"},
		{Name: "ok", Type: "bool"}, {Name: "price", Type: "decimal(10,2)"}, {Name: "tags", Type: "list<string>"}, {Name: "more", Type: "json"}},
	Required: []string{"id"},
}

// newRig opens an endpoint at a free port; change may alter its config.
func newRig(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Listen, cfg.Path = "127.0.0.1:0", "/events"
	if change != nil {
		change(&cfg)
	}
	if ps := check(cfg); len(ps) > 0 {
		t.Fatal(ps)
	}
	r := &rig{t: t, now: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)}
	env := &dataflow.Env{
		Pipeline: "p", Step: "events", Dir: t.TempDir(), WALDir: t.TempDir(), Now: r.clock, Alloc: memory.DefaultAllocator, Memory: 64 << 20,
		NewDecoder: func() (dataflow.Decoder, error) { return codec.NewJSON(decode, memory.DefaultAllocator) },
	}
	var err error
	if r.ep, err = open(env, cfg); err != nil {
		t.Fatal(err)
	}
	r.ep.Ready()
	r.url = "http://" + r.ep.listener.ln.Addr().String()
	env.Served = r.ep
	r.src = r.ep.stream.Source(env)
	t.Cleanup(func() {
		if err := errors.Join(r.src.Close(), r.ep.Close()); err != nil {
			t.Error(err)
		}
		nethttp.DefaultClient.CloseIdleConnections()
	})
	begin, err := r.src.(dataflow.Starter).Begin(context.Background(), []dataflow.Split{"0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.src.Assign(context.Background(), []dataflow.SplitAt{{Split: "0", From: begin["0"]}}); err != nil {
		t.Fatal(err)
	}
	return r
}

// answer is what the endpoint says.
type answer struct {
	Status   int `json:"-"`
	Header   nethttp.Header
	Accepted int
	Rejected []struct {
		Index          int
		Reason, Detail string
	}
	First  uint64 `json:"first_sequence"`
	Last   uint64 `json:"last_sequence"`
	Reason string
	Detail string
	Body   string
}

// post sends a body; headers are name, value, ...
func (r *rig) post(contentType, body string, headers ...string) answer {
	r.t.Helper()
	req, err := nethttp.NewRequest("POST", r.url+"/events", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return r.do(req)
}

func (r *rig) do(req *nethttp.Request) answer {
	r.t.Helper()
	resp, err := nethttp.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	a := answer{Status: resp.StatusCode, Header: resp.Header, Body: string(raw)}
	if strings.Contains(resp.Header.Get("Content-Type"), "json") {
		if err := json.Unmarshal(raw, &a); err != nil {
			r.t.Fatalf("%s: %v", raw, err)
		}
	}
	return a
}

// rows reads n rows and writes each as JSON, bad ones as "bad: REASON: RAW".
func (r *rig) rows(n int) []string {
	r.t.Helper()
	var out []string
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for len(out) < n {
		p, err := r.src.Poll(ctx, dataflow.PollLimit{Rows: 1000, Bytes: 1 << 20, WaitMicros: 1e6})
		if err != nil {
			r.t.Fatal(err)
		}
		if p.Batch != nil {
			fields := dataflow.UserFields(p.Batch.Schema())
			for i := range int(p.Batch.NumRows()) {
				line := "{"
				for c, f := range fields {
					if p.Batch.Column(c).IsNull(i) {
						continue
					}
					if line != "{" {
						line += ","
					}
					line += fmt.Sprintf("%q:%s", f.Name, dataflow.AppendJSON(nil, p.Batch.Column(c), i))
				}
				out = append(out, line+"}")
			}
		}
		if p.Bad != nil {
			for i := range int(p.Bad.NumRows()) {
				out = append(out, fmt.Sprintf("bad: %s: %s", p.Bad.Column(0).ValueStr(i), p.Bad.Column(6).ValueStr(i)))
			}
		}
		p.Release()
	}
	return out
}

// expect compares rows.
func (r *rig) expect(want ...string) {
	r.t.Helper()
	if got := r.rows(len(want)); strings.Join(got, "\n") != strings.Join(want, "\n") {
		r.t.Errorf("rows:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func (a answer) expect(t *testing.T, status int, reason string) {
	t.Helper()
	if a.Status != status || a.Reason != reason {
		t.Errorf("%d %q, want %d %q: %s", a.Status, a.Reason, status, reason, a.Body)
	}
}

func TestFormats(t *testing.T) {
	r := newRig(t, nil)
	r.post("application/json", ` {"id": 1, "text": "a"} `).expect(t, 200, "")
	r.post("application/json; charset=utf-8", `[{"id":2},{"id":3,"tags":["x"]}]`).expect(t, 200, "")
	if a := r.post("application/json", `[ ]`); a.Status != 200 || a.Accepted != 0 || a.First != 0 {
		t.Errorf("%+v", a)
	}
	a := r.post("application/x-ndjson", "{\"id\":4}\r\n\n  {\"id\":5}\n{\"text\":\"no id\"}\nnot JSON\n{\"id\":6}")
	a.expect(t, 207, "")
	if a.Accepted != 3 || a.First != 4 || a.Last != 6 || len(a.Rejected) != 2 || a.Rejected[0].Index != 2 || a.Rejected[1].Index != 3 || a.Rejected[0].Reason != "missing_required" || a.Rejected[1].Reason != "invalid_json" {
		t.Errorf("%s", a.Body)
	}
	a = r.post("text/csv", "id,text,ts,ok,price,tags,more,other\r\n7,\"a \"\"b\"\", c\",1772359200000,true,1.5,\"[\"\"x\"\",\"\"y\"\"]\",\"{\"\"a\"\": 1}\",z\r\n8,,,,,,,\n9,\"\",,,,,,\n10,x\n11,x,oops,,,,,\n12,x,,,,,\"1,\"\"id\"\":99\",\n")
	a.expect(t, 207, "")
	if a.Accepted != 3 || len(a.Rejected) != 3 || a.Rejected[0].Reason != "invalid_csv" || a.Rejected[1].Reason != "mistyped" || a.Rejected[2].Reason != "invalid_json" {
		t.Errorf("%s", a.Body)
	}
	r.expect(`{"id":1,"text":"a"}`, `{"id":2}`, `{"id":3,"tags":["x"]}`, `{"id":4}`, `{"id":5}`, `{"id":6}`,
		`{"id":7,"text":"a \"b\", c","ts":"2026-03-01T10:00:00.000000Z","ok":true,"price":"1.50","tags":["x","y"],"more":{"a":1}}`,
		`{"id":8}`, `{"id":9,"text":""}`)
}

func TestCompressedBodies(t *testing.T) {
	r := newRig(t, nil)
	var gz, zs bytes.Buffer
	g := gzip.NewWriter(&gz)
	g.Write([]byte(`{"id":1}`))
	g.Close()
	z, _ := zstd.NewWriter(&zs)
	z.Write([]byte(`{"id":2}`))
	z.Close()
	r.post(typeNDJSON, gz.String(), "Content-Encoding", "gzip").expect(t, 200, "")
	r.post(typeNDJSON, zs.String(), "Content-Encoding", "zstd").expect(t, 200, "")
	r.post(typeNDJSON, gz.String()[:20], "Content-Encoding", "gzip").expect(t, 400, "body_damaged")
	r.post(typeNDJSON, zs.String(), "Content-Encoding", "gzip").expect(t, 400, "body_damaged")
	r.post(typeNDJSON, `{"id":3}`, "Content-Encoding", "zstd").expect(t, 400, "body_damaged")
	a := r.post(typeNDJSON, `{"id":3}`, "Content-Encoding", "br")
	a.expect(t, 415, "unsupported_encoding")
	if a.Header.Get("Accept-Encoding") != "gzip, zstd" {
		t.Error(a.Header)
	}
	r.expect(`{"id":1}`, `{"id":2}`)
}

func TestOnBad(t *testing.T) {
	body := `{"id":1}` + "\n" + `{"id":"x"}` + "\n" + `{"id":3}`
	all := newRig(t, func(c *Config) { c.OnBad = onBadAll })
	a := all.post(typeNDJSON, body)
	a.expect(t, 422, "rejected")
	if len(a.Rejected) != 1 || a.Rejected[0].Index != 1 {
		t.Error(a.Body)
	}
	all.post(typeCSV, "id\n1\nx\n").expect(t, 422, "rejected")
	all.post(typeCSV, "id,text\n1,a\n2\n").expect(t, 422, "rejected")
	all.post(typeNDJSON, `{"id":4}`).expect(t, 200, "")
	all.expect(`{"id":4}`)

	keep := newRig(t, func(c *Config) { c.OnBad = onBadKeep })
	a = keep.post(typeNDJSON, body)
	a.expect(t, 200, "")
	if a.Accepted != 3 || a.First != 1 || a.Last != 3 {
		t.Error(a.Body)
	}
	keep.post(typeCSV, "id,text\n1\n").expect(t, 200, "")
	keep.expect(`{"id":1}`, `{"id":3}`, `bad: mistyped: `+base64of(`{"id":"x"}`), `bad: invalid_csv: `+base64of("1"))

	reject := newRig(t, nil)
	reject.post(typeNDJSON, "x").expect(t, 422, "rejected")
}

func TestTypesAndMethods(t *testing.T) {
	r := newRig(t, nil)
	for _, typ := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json; charset=latin1", "text/csv; header=absent", "nonsense;;;"} {
		a := r.post(typ, `{"id":1}`)
		a.expect(t, 415, "unsupported_type")
	}
	if a := r.post("application/x-www-form-urlencoded", "x"); !strings.Contains(a.Detail, "-H 'Content-Type: application/x-ndjson'") {
		t.Error(a.Detail)
	}
	for _, method := range []string{"GET", "PUT", "DELETE", "OPTIONS", "PATCH", "HEAD"} {
		req, _ := nethttp.NewRequest(method, r.url+"/events", nil)
		if resp, err := nethttp.DefaultClient.Do(req); err != nil {
			t.Error(err)
		} else {
			resp.Body.Close()
			if resp.StatusCode != 405 || resp.Header.Get("Allow") != "POST" {
				t.Errorf("%s: %d %v", method, resp.StatusCode, resp.Header)
			}
		}
	}
	r.post(typeJSON, "").expect(t, 400, "empty")
	r.post(typeNDJSON, " \n\n").expect(t, 400, "empty")
	r.post(typeJSON, `[{"id":1},`).expect(t, 400, "invalid_json")
	r.post(typeJSON, `[{"id":1}] x`).expect(t, 400, "invalid_json")
	r.post(typeCSV, "id\n\"1").expect(t, 400, "invalid_csv")
	r.post(typeCSV, "nothing,known\n1,2").expect(t, 400, "invalid_csv")
	r.post(typeArrow, "ARROW1").expect(t, 400, "invalid_arrow")
	r.post(typeJSON, `{"id":1}`, "Sec-Fetch-Site", "cross-site").expect(t, 403, "cross_origin")
	r.post(typeJSON, `{"id":1}`, "Origin", "http://evil.example").expect(t, 403, "cross_origin")
	req, _ := nethttp.NewRequest("POST", r.url+"/other", strings.NewReader("x"))
	r.do(req).expect(t, 404, "not_found")
	req, _ = nethttp.NewRequest("GET", r.url+"/healthz", nil)
	r.do(req).expect(t, 200, "")
}

func TestKeysOfRetries(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.Auth = &Auth{Tokens: []Token{{Name: "a", Token: "aaaaaaaaaaaaaaaa"}, {Name: "b", Token: "bbbbbbbbbbbbbbbb"}}}
	})
	a, b := "Bearer aaaaaaaaaaaaaaaa", "Bearer bbbbbbbbbbbbbbbb"
	first := r.post(typeNDJSON, "{\"id\":1}\n{}", "Authorization", a, "Idempotency-Key", "k")
	first.expect(t, 207, "")
	again := r.post(typeNDJSON, "{\"id\":1}\n{}", "Authorization", a, "Idempotency-Key", `"k"`)
	if again.Body != first.Body || again.Status != 207 || again.Header.Get("Idempotent-Replayed") != "true" || first.Header.Get("Idempotent-Replayed") != "" {
		t.Errorf("%s, want %s", again.Body, first.Body)
	}
	r.post(typeNDJSON, `{"id":2}`, "Authorization", a, "Idempotency-Key", "k").expect(t, 422, "key_reused")
	r.post(typeNDJSON, "{\"id\":3}", "Authorization", b, "Idempotency-Key", "k").expect(t, 200, "")
	r.post(typeNDJSON, "{\"id\":4}", "Authorization", b, "Frazil-Producer", "p", "Frazil-Sequence", "1").expect(t, 200, "")
	if x := r.post(typeNDJSON, "{\"id\":4}", "Authorization", b, "Frazil-Producer", "p", "Frazil-Sequence", "1"); x.Status != 200 || x.Header.Get("Idempotent-Replayed") != "true" || x.First != 3 {
		t.Error(x.Body)
	}
	for _, h := range [][]string{{"Frazil-Producer", "p"}, {"Frazil-Sequence", "1"}, {"Frazil-Producer", "p", "Frazil-Sequence", "0"}, {"Frazil-Producer", "p", "Frazil-Sequence", "x"},
		{"Idempotency-Key", "k", "Frazil-Producer", "p", "Frazil-Sequence", "1"}, {"Idempotency-Key", ""}, {"Idempotency-Key", `""`}, {"Idempotency-Key", strings.Repeat("k", 256)}} {
		r.post(typeNDJSON, "{\"id\":5}", append(h, "Authorization", a)...).expect(t, 400, "bad_header")
	}
	r.expect(`{"id":1}`, `{"id":3}`, `{"id":4}`)
}

func TestPreviewKeepsNothing(t *testing.T) {
	r := newRig(t, nil)
	r.ep.preview = true
	a := r.post(typeNDJSON, `{"id":1}`)
	a.expect(t, 503, "preview")
	if a.Header.Get("Retry-After") == "" {
		t.Error(a.Header)
	}
	r.post(typeNDJSON, `x`).expect(t, 422, "rejected")
}

func TestMetadata(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.Auth = &Auth{Tokens: []Token{{Name: "fleet", Token: "aaaaaaaaaaaaaaaa"}}}
		c.Metadata = Metadata{Principal: "who", Path: "path", Query: "query", ContentType: "type", ReceivedAt: "at", Index: "i", Headers: "headers", Header: map[string]string{"x-device": "device"}}
	})
	req, _ := nethttp.NewRequest("POST", r.url+"/events?a=b", strings.NewReader("{\"id\":1}\n{}\n{\"id\":2}"))
	req.Header.Set("Content-Type", typeNDJSON)
	req.Header.Set("Authorization", "bearer aaaaaaaaaaaaaaaa")
	req.Header.Set("X-Device", "d1")
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("User-Agent", "me")
	r.do(req).expect(t, 207, "")
	rest := `"who":"fleet","path":"/events","query":"a=b","type":"application/x-ndjson","at":"2026-03-01T10:00:00.000000Z",`
	h := `"headers":[{"key":"accept-encoding","value":"6964656e74697479"},{"key":"content-length","value":"3230"},{"key":"content-type","value":"6170706c69636174696f6e2f782d6e646a736f6e"},{"key":"user-agent","value":"6d65"},{"key":"x-device","value":"6431"}],"device":"d1"}`
	r.expect(`{"id":1,`+rest+`"i":0,`+h, `{"id":2,`+rest+`"i":2,`+h)
}

func base64of(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

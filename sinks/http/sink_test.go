package http

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/spool"
	"frazil/dataflow/webhooks"
)

func TestEachPartOfARequestComesFromItsExpression(t *testing.T) {
	r := newReceiver(t)
	r.cfg.URL = r.server.URL + "/shops/{shop}/orders?id={id}&q={shop}"
	r.cfg.Method = "{case when id > 3 then 'DELETE' when id = 3 then 'get' else 'PUT' end}"
	r.cfg.Headers = component.NamedExprs{{Name: "X-Shop", Expr: "shop"}, {Name: "x-none", Expr: "nullif(id, 1)"}}
	r.cfg.Body, r.cfg.ContentType = "'order ' || id", "text/plain"
	r.cfg.Basic = &Basic{User: "u", Password: "p"}
	c, bad := r.stage(orders, 1, `[
		{"id": 1, "shop": "a/b c"}, {"id": 2, "shop": null}, {"id": 3, "shop": "x"}, {"id": 4, "shop": "ü?&"}, {"id": 5, "shop": "a\r\nb"}, {"id": null, "shop": "y"}]`)
	same(t, "bad rows", bad, []string{
		"invalid_url: shop is null, and the url is made of it", `invalid_method: method "get": expected POST, PUT, PATCH or DELETE`,
		"invalid_header: header X-Shop: it has a control character, which no header can have", "invalid_url: id is null, and the url is made of it",
	})
	must(t, r.committer().Commit(t.Context(), c))
	same(t, "requests", r.requests(), []string{
		"PUT /shops/a%2Fb%20c/orders?id=1&q=a%2Fb+c order 1 200", "DELETE /shops/%C3%BC%3F&/orders?id=4&q=%C3%BC%3F%26 order 4 200",
	})
	h := r.all[0].header
	if h.Get("X-Shop") != "a/b c" || h["X-None"] != nil || h.Get("Content-Type") != "text/plain" || h.Get("Authorization") != "Basic dTpw" {
		t.Errorf("headers %v", h)
	}
	if got := r.all[1].header.Get("X-None"); got != "4" {
		t.Errorf("X-None %q", got)
	}
}

func TestRowsMayChooseTheServer(t *testing.T) {
	r := newReceiver(t)
	r.cfg.URL = "{shop}/x/{id}"
	c, bad := r.stage(orders, 1, fmt.Sprintf(`[{"id": 1, "shop": %q}, {"id": 2, "shop": "ftp://h"}, {"id": 3, "shop": "http://u:p@h"}, {"id": 4, "shop": "nonsense"}]`, r.server.URL))
	same(t, "bad rows", bad, []string{
		`invalid_url: URL "ftp://h/x/2": expected http:// or https://`, "invalid_url: a URL must not hold a password: use basic", `invalid_url: URL "nonsense/x/4": expected http:// or https://`,
	})
	must(t, r.committer().Commit(t.Context(), c))
	same(t, "requests", r.requests(), []string{`POST /x/1 {"id":1,"shop":"` + r.server.URL + `"} 200`})
}

func TestBatches(t *testing.T) {
	for format, want := range map[string][]string{
		formatJSON:   {`POST /in/a [{"id":0},{"id":2}] 200`, `POST /in/a [{"id":4}] 200`, `POST /in/b [{"id":5},{"id":6}] 200`, `POST /in/a [{"id":7}] 200`},
		formatNDJSON: {"POST /in/a {\"id\":0}\n{\"id\":2} 200", `POST /in/a {"id":4} 200`, "POST /in/b {\"id\":5}\n{\"id\":6} 200", `POST /in/a {"id":7} 200`},
	} {
		r := newReceiver(t)
		r.cfg.URL += "/{shop}"
		r.cfg.Body = `'{"id":' || id || '}'`
		r.cfg.Batch = &Batch{Rows: 2, Bytes: 1 << 20, Format: format}
		c, bad := r.stage(orders, 1, `[{"id": 0, "shop": "a"}, {"id": 2, "shop": "a"}, {"id": 4, "shop": "a"}, {"id": 5, "shop": "b"}, {"id": 6, "shop": "b"}, {"id": 7, "shop": "a"}]`)
		same(t, "bad rows", bad, nil)
		must(t, r.committer().Commit(t.Context(), c))
		same(t, format, r.requests(), want)
		if got := r.all[0].header.Get("Content-Type"); got != map[string]string{formatJSON: "application/json", formatNDJSON: "application/x-ndjson"}[format] {
			t.Errorf("%s: Content-Type %s", format, got)
		}
	}
	r := newReceiver(t)
	r.cfg.Body = "shop"
	r.cfg.Batch = &Batch{Rows: 100, Bytes: 4, Format: formatNDJSON}
	c, _ := r.stage(orders, 1, `[{"id": 0, "shop": "ab"}, {"id": 1, "shop": "c"}, {"id": 2, "shop": "larger"}, {"id": 3, "shop": "d"}]`)
	must(t, r.committer().Commit(t.Context(), c))
	same(t, "by bytes", r.requests(), []string{"POST /in ab\nc 200", "POST /in larger 200", "POST /in d 200"})
}

// Errors of the server and the network are tried again with the same key and body;
// what is final goes to the file of refused rows; all others come, in the order of
// their keys.
func TestRetriesAndRefusals(t *testing.T) {
	r := newReceiver(t)
	r.cfg.Key = "shop"
	tries := map[string]int{}
	r.answer = func(g got, _ int) (int, http.Header, string) {
		var row struct{ ID int }
		must(t, json.Unmarshal([]byte(g.body), &row))
		tries[g.key]++
		switch {
		case row.ID == 13:
			return 422, nil, "no order 13"
		case row.ID == 27 && tries[g.key] <= 3:
			return []int{500, 429, 425}[tries[g.key]-1], http.Header{"Retry-After": {"0"}}, "later"
		case row.ID == 31:
			return 302, http.Header{"Location": {"/elsewhere"}}, ""
		}
		return 200, nil, ""
	}
	c, bad := r.stage(orders, 1, ids(0, 100))
	same(t, "bad rows", bad, nil)
	must(t, r.committer().Commit(t.Context(), c))
	last := map[string]int{}
	var all []int
	for _, body := range r.taken() {
		var row struct {
			ID   int
			Shop string
		}
		must(t, json.Unmarshal([]byte(body), &row))
		if before, ok := last[row.Shop]; ok && before > row.ID {
			t.Errorf("shop %s: %d came behind %d", row.Shop, row.ID, before)
		}
		last[row.Shop] = row.ID
		all = append(all, row.ID)
	}
	slices.Sort(all)
	var want []int
	for i := range 100 {
		if i != 13 && i != 31 {
			want = append(want, i)
		}
	}
	if !slices.Equal(all, want) {
		t.Errorf("taken: %v", all)
	}
	same(t, "refused", r.refused(), []string{
		`13 status_422 422 Unprocessable Entity no order 13 POST ` + r.cfg.URL + ` {"id":13,"shop":"s3"}`,
		`31 status_302 302 Found POST ` + r.cfg.URL + ` {"id":31,"shop":"s1"}`,
	})
}

// refused are the lines of the files of refused rows, sorted.
func (r *receiver) refused() (out []string) {
	r.t.Helper()
	files, err := filepath.Glob(filepath.Join(spool.RefusedDir(r.env), "*.ndjson"))
	must(r.t, err)
	for _, f := range files {
		b, err := os.ReadFile(f)
		must(r.t, err)
		for line := range strings.Lines(string(b)) {
			var x spool.Refusal
			must(r.t, json.Unmarshal([]byte(line), &x))
			out = append(out, fmt.Sprintf("%d %s %s %s %s", x.Row, x.Reason, x.Detail, x.To, x.Payload))
			if x.Pipeline != r.env.Pipeline || x.Sink != "out" || x.Epoch != 1 || x.Rows != 1 {
				r.t.Errorf("%+v", x)
			}
		}
	}
	slices.Sort(out)
	return out
}

// A receiver that is down keeps its key's rows waiting and no others; the commit says
// so, and its next try sends what is left.
func TestAReceiverThatIsDownIsTriedAgain(t *testing.T) {
	r := newReceiver(t)
	r.cfg.Key, r.cfg.URL, r.cfg.Parallel = "shop", r.server.URL+"/{shop}", 64
	down := true
	r.answer = func(g got, _ int) (int, http.Header, string) {
		if down && g.path == "/s3" {
			return 503, nil, "closed for now"
		}
		return 200, nil, ""
	}
	c, _ := r.stage(orders, 1, ids(0, 40))
	k := r.committer()
	err := k.Commit(t.Context(), c)
	if !errors.Is(err, dataflow.ErrUnavailable) || !strings.Contains(err.Error(), "/s3: 503 Service Unavailable closed for now") {
		t.Fatalf("%v", err)
	}
	if got := len(r.taken()); got != 36 {
		t.Fatalf("%d rows of others came, want 36", got)
	}
	before := len(r.requests())
	down = false
	must(t, k.Commit(t.Context(), c))
	if got := len(r.requests()) - before; got != 4 {
		t.Errorf("the second try has sent %d requests, want 4", got)
	}
	if got := len(r.taken()); got != 40 {
		t.Errorf("%d rows came, want 40", got)
	}
}

func TestAReceiverThatIsDownTooLongIsGivenUp(t *testing.T) {
	r := newReceiver(t)
	r.cfg.GiveUpAfter = component.Duration(time.Minute)
	now := time.Now()
	r.env.Now = func() time.Time { return now }
	r.answer = func(g got, n int) (int, http.Header, string) {
		if now = now.Add(25 * time.Second); n < 4 {
			return 500, nil, "broken"
		}
		return 200, nil, ""
	}
	c, _ := r.stage(orders, 1, ids(0, 2))
	must(t, r.committer().Commit(t.Context(), c))
	same(t, "refused", r.refused(), []string{`0 given_up 500 Internal Server Error broken POST ` + r.cfg.URL + ` {"id":0,"shop":"s0"}`})
	same(t, "taken", r.taken(), []string{`{"id":1,"shop":"s1"}`})
}

// A process that ends in the middle of a commit is followed by one that sends what may
// not be delivered, under the same keys.
func TestARestartDoesNotRepeatAll(t *testing.T) {
	r := newReceiver(t)
	r.cfg.Batch = &Batch{Rows: 3, Bytes: 1 << 20, Format: formatJSON}
	c, _ := r.stage(orders, 1, ids(0, 100))
	ctx, cancel := context.WithCancel(t.Context())
	now := time.Now()
	r.env.Now = func() time.Time { now = now.Add(time.Second); return now } // So that each step is noted.
	r.answer = func(_ got, n int) (int, http.Header, string) {
		if n == 20 {
			cancel() // Its answer is lost, or just not.
		}
		return 200, nil, ""
	}
	if err := r.committer().Commit(ctx, c); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	must(t, r.committer().Commit(t.Context(), c))
	var rows []int
	for _, body := range r.taken() {
		var batch []struct{ ID int }
		must(t, json.Unmarshal([]byte(body), &batch))
		for _, row := range batch {
			rows = append(rows, row.ID)
		}
	}
	if len(rows) != 100 || !slices.IsSorted(rows) {
		t.Errorf("rows %v", rows)
	}
	if n := len(r.requests()); n < 34 || n > 35 {
		t.Errorf("%d requests, want 34 and at most one again", n)
	}
}

func TestRequestsAreSigned(t *testing.T) {
	r := newReceiver(t)
	r.cfg.Sign = &Sign{Secrets: []component.Secret{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_c2Vjb25k"}}
	r.cfg.Body = `'{"test": 2432232314}'`
	c, _ := r.stage(orders, 1, ids(0, 1))
	must(t, r.committer().Commit(t.Context(), c))
	g := r.all[0]
	signatures := strings.Fields(g.header.Get("webhook-signature"))
	if g.header.Get("webhook-id") != g.key || len(signatures) != 2 || !strings.HasPrefix(signatures[0], "v1,") {
		t.Errorf("headers %v", g.header)
	}
	// The example of the specification.
	h := http.Header{}
	key, err := webhooks.Key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	must(t, err)
	webhooks.Sign(h, [][]byte{key}, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if got := h.Get("webhook-signature"); got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Errorf("signature %s", got)
	}
}

func TestWhatIsWrongWithAConfigIsSaid(t *testing.T) {
	for want, change := range map[string]func(*Config){
		`url: URL "example.com/x": expected http:// or https://`:                                                                         func(c *Config) { c.URL = "example.com/x" },
		`url: a value may stand in the path and the query, or be the whole beginning: a row must not change a part of the server's name`: func(c *Config) { c.URL = "https://{shop}.example.com/" },
		`url: a URL must not hold a password: use basic`:                                                                                 func(c *Config) { c.URL = "https://u:p@h/" },
		`url: unknown column "nix"`:                                                                  func(c *Config) { c.URL = "https://h/{nix}" },
		`method: "GET": expected POST, PUT, PATCH or DELETE`:                                         func(c *Config) { c.Method = "GET" },
		`headers.content-type: the sink sets this header itself: write content_type`:                 func(c *Config) { c.Headers = component.NamedExprs{{Name: "content-type", Expr: "shop"}} },
		`headers.a b: "a b" is no name of a header`:                                                  func(c *Config) { c.Headers = component.NamedExprs{{Name: "a b", Expr: "shop"}} },
		`headers.idempotency-key: this is the header of the idempotency key: see idempotency_header`: func(c *Config) { c.Headers = component.NamedExprs{{Name: "idempotency-key", Expr: "shop"}} },
		`sign.secrets[0]: expected a secret as standardwebhooks.com writes it: whsec_ and base64`:    func(c *Config) { c.Sign = &Sign{Secrets: []component.Secret{"plain text"}} },
		`basic: not together with bearer`:                                                            func(c *Config) { c.Bearer, c.Basic = "t", &Basic{User: "u"} },
		`retry_status[0]: 500: expected 300 to 499; those from 500 on are always tried again`:        func(c *Config) { c.RetryStatus = []int{500} },
		`parallel: 0: expected 1 to 1000`:                                                            func(c *Config) { c.Parallel = 0 },
		`batch: rows and bytes: expected 1 or more`:                                                  func(c *Config) { c.Batch = &Batch{Rows: 0, Bytes: 1} },
	} {
		cfg := DefaultConfig()
		cfg.URL = "http://localhost/x"
		change(&cfg)
		_, err := plan(component.SinkIn{Input: orders}, cfg)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy stands before the catalog or the store. Requests are read whole, sent on
// with the Host that the client signed, and answers are read whole before they are
// handed back, so that each can be spoilt at any place.
type proxy struct {
	*httptest.Server
	side string // "catalog" or "store"
	to   *url.URL
	plan *plan

	// hold, if set, is asked about every request before it is sent on, and told the
	// status of the answer where it returns a function.
	hold atomic.Pointer[holder]

	mu     sync.Mutex
	old    map[string][]answer // what was answered to GET of a table, by path
	token  string              // the one that is good; "" for none
	tokens int
}

type holder func(ctx context.Context, r *http.Request, body []byte) (answered func(status int))

type answer struct {
	status int
	header http.Header
	body   []byte
}

func newProxy(t testing.TB, side, to string, p *plan) *proxy {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	x := &proxy{side: side, to: u, plan: p, old: map[string][]answer{}}
	x.Server = httptest.NewServer(x)
	t.Cleanup(func() {
		x.CloseClientConnections()
		x.Close()
		outward.CloseIdleConnections()
	})
	return x
}

var outward = &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}

// ServeHTTP carries a request out, or does what the plan says.
func (x *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // The client has gone.
	}
	var answered func(status int)
	if hold := x.hold.Load(); hold != nil {
		answered = (*hold)(r.Context(), r, body)
	}
	op := operation(x.side, r)
	f := x.plan.next(x, op, r)
	x.plan.trace(op, f, r)
	if f.before(w, r) {
		return
	}
	if f == expired401 || f == expired419 {
		x.mu.Lock()
		x.token = ""
		x.mu.Unlock()
	}
	if status := x.refuses(op, r, f); status != 0 {
		reject(w, status, "NotAuthorizedException", "the token has expired")
		return
	}
	a, err := x.ask(op, r, body)
	if err != nil {
		// The server itself has failed, or the client has gone.
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	if answered != nil {
		answered(a.status)
	}
	if f == stale {
		a = x.former(r.URL.Path, a)
	} else if op == opLoad && a.status == http.StatusOK {
		x.remember(r.URL.Path, a)
	}
	f.after(w, r, a)
}

// ask sends a request on, except one for a token, which is answered here.
func (x *proxy) ask(op string, r *http.Request, body []byte) (answer, error) {
	if op == opToken {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.tokens++
		x.token = fmt.Sprintf("token-%d", x.tokens)
		text := fmt.Sprintf(`{"access_token":%q,"token_type":"bearer","expires_in":3600,"issued_token_type":"urn:ietf:params:oauth:token-type:access_token"}`, x.token)
		return answer{http.StatusOK, http.Header{"Content-Type": {"application/json"}}, []byte(text)}, nil
	}
	// What has begun is carried out, whether or not the client waits for it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), time.Minute)
	defer cancel()
	u := *r.URL
	u.Scheme, u.Host = x.to.Scheme, x.to.Host
	req, err := http.NewRequestWithContext(ctx, r.Method, u.String(), bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header, req.Host, req.ContentLength = r.Header.Clone(), r.Host, int64(len(body))
	if len(body) == 0 {
		req.Body = http.NoBody
	}
	req.Header.Del("Expect")
	resp, err := outward.RoundTrip(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	return answer{resp.StatusCode, resp.Header, got}, nil
}

// refuses says with what status a request with an old token is refused; 0: it is
// not.
func (x *proxy) refuses(op string, r *http.Request, f fault) int {
	if x.side != "catalog" || op == opToken || !x.plan.login {
		return 0
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.token != "" && r.Header.Get("Authorization") == "Bearer "+x.token {
		return 0
	}
	if f == expired419 {
		return 419
	}
	return http.StatusUnauthorized
}

func (x *proxy) remember(path string, a answer) {
	x.mu.Lock()
	defer x.mu.Unlock()
	old := append(x.old[path], a)
	x.old[path] = old[max(0, len(old)-6):]
}

// former is an older answer; a itself if there is none.
func (x *proxy) former(path string, a answer) answer {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old := x.old[path]; len(old) > 0 {
		return old[0]
	}
	return a
}

func (x *proxy) hasFormer(path string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.old[path]) > 1
}

// Operations, by what they are to a commit.
const (
	opToken  = "token"
	opConfig = "config"
	opLoad   = "load"   // GET of a table
	opCommit = "commit" // POST to a table
	opCreate = "create" // of a namespace or table
	opLook   = "look"   // HEAD
	opData   = "put data"
	opMeta   = "put metadata"
	opGet    = "get"
	opHead   = "head"
	opDelete = "delete"
	opOther  = "other"
)

func operation(side string, r *http.Request) string {
	path := r.URL.Path
	if side == "catalog" {
		switch {
		case strings.HasSuffix(path, "/oauth/tokens"):
			return opToken
		case strings.HasSuffix(path, "/config"):
			return opConfig
		case r.Method == http.MethodHead:
			return opLook
		case r.Method == http.MethodGet && strings.Contains(path, "/tables/"):
			return opLoad
		case r.Method == http.MethodPost && strings.Contains(path, "/tables/"):
			return opCommit
		case r.Method == http.MethodPost:
			return opCreate
		}
		return opOther
	}
	switch {
	case r.Method == http.MethodPut && strings.HasSuffix(path, ".parquet"):
		return opData
	case r.Method == http.MethodPut:
		return opMeta
	case r.Method == http.MethodGet && r.URL.Query().Get("list-type") == "":
		return opGet
	case r.Method == http.MethodHead:
		return opHead
	case r.Method == http.MethodDelete:
		return opDelete
	}
	return opOther
}

// reject answers as a REST catalog does.
func reject(w http.ResponseWriter, status int, kind, message string) {
	text, err := json.Marshal(map[string]any{"error": map[string]any{"message": message, "type": kind, "code": status}})
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// cut ends the connection: with a reset, where the system gives one.
func cut(w http.ResponseWriter) {
	h, ok := w.(http.Hijacker)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	c, _, err := h.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// give hands an answer on: of the body as many bytes as n, in so many pieces.
func (a answer) give(w http.ResponseWriter, n int, honest bool, pieces int) {
	for k, v := range a.header {
		if k != "Content-Length" && k != "Connection" && k != "Transfer-Encoding" {
			w.Header()[k] = v
		}
	}
	if length := a.header.Get("Content-Length"); honest {
		w.Header().Set("Content-Length", fmt.Sprint(n))
		if length != "" && len(a.body) == 0 {
			w.Header().Set("Content-Length", length) // of HEAD
		}
	} else {
		w.Header().Set("Content-Length", fmt.Sprint(len(a.body)))
	}
	if a.status == http.StatusNoContent {
		w.Header().Del("Content-Length")
	}
	w.WriteHeader(a.status)
	rc := http.NewResponseController(w)
	for i := range pieces {
		from, to := n*i/pieces, n*(i+1)/pieces
		if _, err := w.Write(a.body[from:to]); err != nil && !errors.Is(err, http.ErrBodyNotAllowed) {
			return
		}
		if pieces > 1 {
			_ = rc.Flush()
			time.Sleep(50 * time.Millisecond) // what is slow about it
		}
	}
	if !honest {
		_ = rc.Flush()
		panic(http.ErrAbortHandler)
	}
}

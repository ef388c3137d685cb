package iceberg

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/apache/iceberg-go/catalog/rest"
)

const (
	// answerWithin is how long a REST catalog may take to begin an answer. Then the
	// outcome is not known, and the table is looked at.
	answerWithin = 2 * time.Minute
	// logins is how often one request is sent again after a new login.
	logins = 3
	// maxTokenAnswer bounds what is read of an answer to a login.
	maxTokenAnswer = 1 << 20
)

// loginTransport is the way to a REST catalog. The library asks for a new token when
// the old one has lived as long as it was said to; a catalog may end it sooner, as
// when it has restarted. So a request that is refused because of its token (401 or
// 419: it was not carried out) is sent again with a new one. A refusal that a new
// login does not heal is handed back.
//
// It repeats the login that the library has made; where there was none, as with a
// token from the file, it does nothing. Goroutines may share it.
type loginTransport struct {
	base http.RoundTripper

	mu    sync.Mutex
	login *http.Request // the newest one, and its body
	form  []byte
	old   map[string]bool // tokens that were refused, as header
	fresh string          // the header that takes their place
}

// newLoginTransport is a rest.TransportFactory.
func newLoginTransport(cfg *tls.Config) (http.RoundTripper, func()) {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.TLSClientConfig, base.ResponseHeaderTimeout = cfg, answerWithin
	return &loginTransport{base: base, old: map[string]bool{}}, base.CloseIdleConnections
}

// RoundTrip implements http.RoundTripper.
func (t *loginTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); r.Method == http.MethodPost && kind == "application/x-www-form-urlencoded" {
		return t.logIn(r)
	}
	sent := t.current(r.Header.Get("Authorization"))
	for attempt := 0; ; attempt++ {
		out, err := copyOf(r, sent, attempt)
		if err != nil {
			return nil, err
		}
		resp, err := t.base.RoundTrip(out)
		if err != nil || sent == "" || attempt == logins || resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != statusExpired {
			return resp, err
		}
		if attempt == 0 && r.Body != nil && r.Body != http.NoBody && r.GetBody == nil {
			return resp, nil // It cannot be sent again.
		}
		next, err := t.renew(r, sent)
		if next == "" && err == nil {
			return resp, nil
		}
		drain(resp)
		if err != nil {
			return nil, fmt.Errorf("the catalog refuses the login of before (status %d): log in anew: %w", resp.StatusCode, err)
		}
		sent = next
	}
}

// statusExpired is what some catalogs answer to an old token.
const statusExpired = 419

// copyOf is r with another Authorization, to be sent for the attempt+1st time.
func copyOf(r *http.Request, authorization string, attempt int) (*http.Request, error) {
	if attempt == 0 && authorization == r.Header.Get("Authorization") {
		return r, nil
	}
	out := r.Clone(r.Context())
	out.Header.Set("Authorization", authorization)
	if attempt > 0 && r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		out.Body = body
	}
	return out, nil
}

// current is the header to send in place of one.
func (t *loginTransport) current(header string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.old[header] {
		return t.fresh
	}
	return header
}

// logIn passes on a request for a token and remembers it. An answer that is no
// answer to the question, as of a gateway, becomes an error, so that it is not taken
// for a refusal.
func (t *loginTransport) logIn(r *http.Request) (*http.Response, error) {
	var form []byte
	if r.Body != nil {
		var err error
		form, err = io.ReadAll(r.Body)
		if err = errors.Join(err, r.Body.Close()); err != nil {
			return nil, err
		}
	}
	t.mu.Lock()
	t.login, t.form = r.Clone(r.Context()), form
	t.mu.Unlock()
	out := r.Clone(r.Context())
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(form)), int64(len(form))
	resp, err := t.base.RoundTrip(out)
	if err == nil && transient(resp.StatusCode) {
		drain(resp)
		return nil, fmt.Errorf("no answer to the login: status %d", resp.StatusCode)
	}
	return resp, err
}

// transient says whether a status is no decision about the request.
func transient(status int) bool {
	return status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}

// renew logs in anew, unless another request has done it meanwhile, and returns the
// header to send. It is empty if nothing can be done about the refusal.
func (t *loginTransport) renew(r *http.Request, refused string) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.old[refused] {
		return t.fresh, nil
	}
	if t.login == nil {
		return "", nil
	}
	out := t.login.Clone(r.Context())
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(t.form)), int64(len(t.form))
	resp, err := t.base.RoundTrip(out)
	if err != nil {
		return "", err
	}
	defer drain(resp)
	switch {
	case transient(resp.StatusCode):
		return "", fmt.Errorf("status %d", resp.StatusCode)
	case resp.StatusCode != http.StatusOK:
		return "", nil
	}
	var token struct {
		Access string `json:"access_token"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxTokenAnswer)).Decode(&token); err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	if token.Access == "" {
		return "", nil
	}
	t.old[refused] = true
	t.fresh = "Bearer " + token.Access
	delete(t.old, t.fresh)
	return t.fresh, nil
}

func drain(resp *http.Response) {
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxTokenAnswer))
	_ = resp.Body.Close()
}

// loginRefused says whether err is the answer no to a login. The library names its
// error where the question was not answered, and the reason where it was.
func loginRefused(err error) bool {
	return errors.Is(err, rest.ErrOAuthError) && !strings.Contains(err.Error(), rest.ErrOAuthError.Error())
}

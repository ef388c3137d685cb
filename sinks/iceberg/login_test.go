package iceberg

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/component"

	icebergo "github.com/apache/iceberg-go"
)

// gate is a REST catalog that knows one namespace, asks for a token, and can end
// tokens before their time.
type gate struct {
	*httptest.Server
	tokens  int    // given so far
	good    string // the one that is
	spoilt  []func(http.ResponseWriter)
	created []string // bodies of requests that were let in
	asked   int
}

func newGate(t *testing.T) *gate {
	g := &gate{}
	g.Server = httptest.NewServer(g)
	t.Cleanup(g.Close)
	return g
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := func(status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		if err := json.NewEncoder(w).Encode(v); err != nil {
			panic(err)
		}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	if strings.HasSuffix(r.URL.Path, "/oauth/tokens") {
		if len(g.spoilt) > 0 {
			f := g.spoilt[0]
			g.spoilt = g.spoilt[1:]
			f(w)
			return
		}
		if !strings.Contains(string(body), "client_secret=right") {
			answer(http.StatusUnauthorized, map[string]any{"error": "invalid_client", "error_description": "no such client"})
			return
		}
		g.tokens++
		g.good = fmt.Sprintf("token-%d", g.tokens)
		answer(http.StatusOK, map[string]any{"access_token": g.good, "token_type": "bearer", "expires_in": 3600})
		return
	}
	g.asked++
	if r.Header.Get("Authorization") != "Bearer "+g.good || g.good == "" {
		status := http.StatusUnauthorized
		if g.asked%2 == 0 {
			status = statusExpired
		}
		answer(status, map[string]any{"error": map[string]any{"message": "the token has expired", "type": "NotAuthorizedException", "code": status}})
		return
	}
	switch {
	case r.Method == http.MethodPost:
		g.created = append(g.created, string(body))
		answer(http.StatusOK, map[string]any{"namespace": []string{"db"}, "properties": map[string]string{}})
	case r.Method == http.MethodHead:
		w.WriteHeader(http.StatusNoContent)
	default:
		answer(http.StatusOK, map[string]any{"defaults": map[string]string{}, "overrides": map[string]string{}})
	}
}

func (g *gate) open(t *testing.T, secret string) (*lake, error) {
	t.Helper()
	l, err := openLake(t.Context(), CatalogConfig{Type: "rest", URI: g.URL, Name: "g", Credential: component.Secret("me:" + secret)})
	if err == nil {
		t.Cleanup(func() {
			if err := l.release(); err != nil {
				t.Error(err)
			}
		})
	}
	return l, err
}

// A catalog that ends a token before its time, as one that has restarted, is logged
// in to anew; what was refused is sent again, whole.
func TestATokenThatEndsEarlyIsRenewed(t *testing.T) {
	g := newGate(t)
	l, err := g.open(t, "right")
	if err != nil {
		t.Fatal(err)
	}
	for round := range 4 {
		had := g.tokens
		g.good = "another"
		if ok, err := l.CheckNamespaceExists(t.Context(), []string{"db"}); err != nil || !ok {
			t.Fatalf("round %d: %v, %v", round, ok, err)
		}
		if g.tokens != had+1 {
			t.Fatalf("round %d: %d logins, want one", round, g.tokens-had)
		}
		if err := l.CreateNamespace(t.Context(), []string{"db"}, icebergo.Properties{"round": fmt.Sprint(round)}); err != nil {
			t.Fatal(err)
		}
		g.good = ""
		if err := l.CreateNamespace(t.Context(), []string{"db"}, icebergo.Properties{"round": fmt.Sprint(round)}); err != nil {
			t.Fatal(err)
		}
		if n := len(g.created); n != 2*round+2 || g.created[n-1] != g.created[n-2] || !strings.Contains(g.created[n-1], fmt.Sprint(round)) {
			t.Fatalf("round %d: the catalog got %q", round, g.created)
		}
	}
}

// A login without an answer is tried again, one that is refused ends the run.
func TestALoginWithoutAnAnswerIsNoRefusal(t *testing.T) {
	reset := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	status := func(n int) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { http.Error(w, "no", n) }
	}
	half := func(w http.ResponseWriter) { fmt.Fprint(w, `{"access_tok`) }
	for name, f := range map[string]func(http.ResponseWriter){"reset": reset, "500": status(500), "503": status(503), "429": status(429), "half": half} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t)
			g.spoilt = []func(http.ResponseWriter){f}
			if _, err := g.open(t, "right"); err == nil || errors.Is(err, dataflow.ErrPermanent) {
				t.Fatalf("%v, want an error that is not permanent", err)
			}
			l, err := g.open(t, "right")
			if err != nil {
				t.Fatal(err)
			}
			g.good, g.spoilt = "", []func(http.ResponseWriter){f}
			if _, err := l.CheckNamespaceExists(t.Context(), []string{"db"}); err == nil || errors.Is(classifyAccess(err), dataflow.ErrPermanent) {
				t.Fatalf("renewal: %v, want an error that is not permanent", err)
			}
			if ok, err := l.CheckNamespaceExists(t.Context(), []string{"db"}); err != nil || !ok {
				t.Fatalf("afterwards: %v, %v", ok, err)
			}
		})
	}
	t.Run("refused", func(t *testing.T) {
		if _, err := newGate(t).open(t, "wrong"); !errors.Is(err, dataflow.ErrPermanent) || !strings.Contains(err.Error(), "invalid_client") {
			t.Fatalf("%v, want a permanent error that says invalid_client", err)
		}
	})
	t.Run("token of the file", func(t *testing.T) {
		g := newGate(t)
		_, err := openLake(t.Context(), CatalogConfig{Type: "rest", URI: g.URL, Name: "g", Token: "old"})
		if !errors.Is(err, dataflow.ErrPermanent) || g.asked != 1 || g.tokens != 0 {
			t.Fatalf("%v after %d requests and %d logins, want a permanent error after one", err, g.asked, g.tokens)
		}
	})
}

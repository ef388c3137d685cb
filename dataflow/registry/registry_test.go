package registry

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/flowtest/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// server answers each path with what answers has for "METHOD PATH", else with 404 in the
// form of the API.
func server(t *testing.T, answers map[string]string) (*Registry, *atomic.Int64) {
	t.Helper()
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		text, ok := answers[r.Method+" "+r.URL.Path]
		status := 200
		if !ok {
			text, status = `{"error_code":40403,"message":"not found"}`, 404
		}
		if n, rest, cut := strings.Cut(text, "|"); cut {
			fmt.Sscan(n, &status)
			text = rest
		}
		w.WriteHeader(status)
		fmt.Fprint(w, text)
	}))
	t.Cleanup(s.Close)
	r, err := New(Config{URL: s.URL + "/"}, "")
	must(t, err)
	return r, &asked
}

func TestSchemasAreFetchedOnceWithWhatTheyReferTo(t *testing.T) {
	r, asked := server(t, map[string]string{
		"GET /schemas/ids/7":               `{"schema":"A","references":[{"name":"b","subject":"sb","version":1},{"name":"c","subject":"sc","version":2}]}`,
		"GET /subjects/sb/versions/1":      `{"subject":"sb","version":1,"id":3,"schema":"B","references":[{"name":"c","subject":"sc","version":2}]}`,
		"GET /subjects/sc/versions/2":      `{"subject":"sc","version":2,"id":4,"schema":"C","references":[{"name":"b","subject":"sb","version":1}]}`,
		"GET /subjects/sp/versions/latest": `{"subject":"sp","version":5,"id":9,"schemaType":"PROTOBUF","schema":"P"}`,
	})
	if _, known := r.Known(7); known {
		t.Error("known before it is fetched")
	}
	for range 3 {
		must(t, r.Fetch(t.Context(), 7))
	}
	s, known := r.Known(7)
	got, err := json.Marshal(s)
	must(t, err)
	// References stand behind those that they refer to, also where they go round.
	want := `{"ID":7,"Version":0,"Kind":"AVRO","Text":"A","References":[{"Name":"c","Subject":"sc","Version":2,"Text":"C"},{"Name":"b","Subject":"sb","Version":1,"Text":"B"}]}`
	if string(got) != want || !known || asked.Load() != 3 {
		t.Errorf("%s, %d questions, want\n%s", got, asked.Load(), want)
	}
	p, err := r.Subject(t.Context(), "sp", 0)
	must(t, err)
	if p.Kind != dataflow.SchemaProtobuf || p.ID != 9 || p.Version != 5 {
		t.Errorf("%+v", p)
	}
	if s, known := r.Known(9); s != p || !known {
		t.Error("a schema of a subject is not known by its id")
	}
}

func TestAnIDThatIsNotThereIsAskedForAgainLater(t *testing.T) {
	r, asked := server(t, nil)
	now := time.Unix(1000, 0)
	r.now = func() time.Time { return now }
	for range 3 {
		must(t, r.Fetch(t.Context(), 5))
		if s, known := r.Known(5); s != nil || !known {
			t.Fatalf("%v %v", s, known)
		}
	}
	if asked.Load() != 1 {
		t.Errorf("asked %d times", asked.Load())
	}
	now = now.Add(believed)
	if _, known := r.Known(5); known {
		t.Error("believed for ever")
	}
	must(t, r.Fetch(t.Context(), 5))
	if asked.Load() != 2 {
		t.Errorf("asked %d times", asked.Load())
	}
}

func TestAnswersAreTold(t *testing.T) {
	r, _ := server(t, map[string]string{
		"GET /schemas/ids/1": `503|busy`, "GET /schemas/ids/2": `401|{"error_code":401,"message":"who are you"}`, "GET /schemas/ids/3": `404|<html>nothing</html>`,
		"GET /schemas/ids/4": `{"schema":"A","references":[{"name":"b","subject":"gone","version":1}]}`, "GET /schemas/ids/6": `429|{}`, "GET /schemas/ids/8": `no JSON`,
	})
	for id, want := range map[int]error{1: dataflow.ErrUnavailable, 2: dataflow.ErrPermanent, 3: dataflow.ErrPermanent, 4: nil, 5: nil, 6: dataflow.ErrUnavailable, 8: dataflow.ErrUnavailable} {
		err := r.Fetch(t.Context(), id)
		if want == nil && err != nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%d: %v, want %v", id, err, want)
		}
		if _, known := r.Known(id); known != (want == nil) {
			t.Errorf("%d: known %v", id, known)
		}
	}
	for _, call := range []func() error{
		func() error { _, err := r.Subject(t.Context(), "s", 3); return err },
		func() error {
			_, err := r.Find(t.Context(), "s", dataflow.RegisteredSchema{Kind: dataflow.SchemaAvro})
			return err
		},
	} {
		if err := call(); !errors.Is(err, dataflow.ErrNoSchema) || errors.Is(err, dataflow.ErrUnavailable) {
			t.Error(err)
		}
	}
	if _, err := r.Register(t.Context(), "s", dataflow.RegisteredSchema{Kind: "XML"}); !errors.Is(err, dataflow.ErrPermanent) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Fetch(ctx, 1); err == nil {
		t.Error("an ended question is answered")
	}
	gone, err := New(Config{URL: "http://127.0.0.1:1"}, "")
	must(t, err)
	if err := gone.Fetch(t.Context(), 1); !errors.Is(err, dataflow.ErrUnavailable) {
		t.Error(err)
	}
}

func TestARefusalSaysWhatIsIncompatible(t *testing.T) {
	r, _ := server(t, map[string]string{
		"POST /subjects/s/versions":                      `409|{"error_code":409,"message":"incompatible"}`,
		"POST /compatibility/subjects/s/versions/latest": `{"is_compatible":false,"messages":["reader field b has no default"]}`,
		"POST /subjects/t/versions":                      `409|{"error_code":409,"message":"why not"}`,
		"POST /subjects/ok/versions":                     `{"id":12}`,
	})
	for subject, want := range map[string]string{"s": "reader field b has no default", "t": "why not"} {
		_, err := r.Register(t.Context(), subject, dataflow.RegisteredSchema{Kind: dataflow.SchemaAvro, Text: "A"})
		if !errors.Is(err, dataflow.ErrIncompatibleSchema) || !errors.Is(err, dataflow.ErrPermanent) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), fmt.Sprintf("%q", subject)) {
			t.Errorf("%s: %v", subject, err)
		}
	}
	if id, err := r.Register(t.Context(), "ok", dataflow.RegisteredSchema{Kind: dataflow.SchemaAvro, Text: "A"}); err != nil || id != 12 {
		t.Errorf("%d, %v", id, err)
	}
}

func TestLoginsAreShown(t *testing.T) {
	var got []string
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
		fmt.Fprint(w, `{"schema":"A"}`)
	}))
	defer s.Close()
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "ca.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	for _, cfg := range []Config{{User: "u", Password: "p"}, {Token: "t"}, {}} {
		cfg.URL = s.URL
		r, err := New(cfg, "")
		must(t, err)
		if err := r.Fetch(t.Context(), 1); !errors.Is(err, dataflow.ErrUnavailable) {
			t.Errorf("a certificate of nobody: %v", err)
		}
		cfg.TLS = &component.ClientTLS{CA: "ca.pem"}
		r, err = New(cfg, dir)
		must(t, err)
		must(t, r.Fetch(t.Context(), 1))
	}
	if strings.Join(got, ",") != "Basic dTpw,Bearer t," {
		t.Error(got)
	}
}

func TestWrongConnectionsAreExplained(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{URL: "localhost:8081"}, "url: \"localhost:8081\": expected a URL"}, {Config{URL: "http://u:p@h"}, "write user and password"},
		{Config{URL: "http://h", TLS: &component.ClientTLS{}}, "tls: the URL is not of https"}, {Config{URL: "http://h", User: "u"}, "user: user and password belong together"},
		{Config{URL: "http://h", User: "u", Password: "p", Token: "t"}, "token: expected a token or user and password"}, {Config{URL: "https://h", TLS: &component.ClientTLS{Cert: "c"}}, "tls: cert and key"},
	} {
		if _, err := New(c.cfg, ""); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.cfg, err, c.want)
		}
	}
}

package rig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// ask gives the status of an answer and what field of it holds.
func ask(t *testing.T, method, url, body, field string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/vnd.schemaregistry.v1+json")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, fmt.Sprint(answer[field])
}

func avroSchema(fields string) string {
	schema := `{"type":"record","name":"r","fields":[` + fields + `]}`
	body, _ := json.Marshal(map[string]string{"schema": schema})
	return string(body)
}

func TestARegistryRefusesWhatIsIncompatibleAndKeepsItsSchemas(t *testing.T) {
	r := NewRegistry(t)
	if status, level := ask(t, "PUT", r.URL+"/config", `{"compatibility":"BACKWARD"}`, "compatibility"); status != 200 || level != "BACKWARD" {
		t.Fatalf("%d %s", status, level)
	}
	first := avroSchema(`{"name":"a","type":"long"}`)
	status, id := ask(t, "POST", r.URL+"/subjects/s/versions", first, "id")
	if status != 200 {
		t.Fatalf("a schema is answered by %d", status)
	}
	other := avroSchema(`{"name":"a","type":"long"},{"name":"b","type":"long"}`)
	if status, code := ask(t, "POST", r.URL+"/subjects/s/versions", other, "error_code"); status != 409 {
		t.Errorf("an incompatible schema is answered by %d, error_code %s", status, code)
	}
	r.Stop()
	if _, err := http.Get(r.URL + "/subjects"); err == nil {
		t.Fatal("an ended registry answers")
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	if status, again := ask(t, "POST", r.URL+"/subjects/s/versions", first, "id"); status != 200 || again != id {
		t.Errorf("the schema %s is answered by %d and the id %s", id, status, again)
	}
	if status, _ := ask(t, "POST", r.URL+"/subjects/s/versions", other, "error_code"); status != 409 {
		t.Errorf("an incompatible schema is answered by %d after a restart", status)
	}
	r.Kill()
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	if status, again := ask(t, "POST", r.URL+"/subjects/s/versions", first, "id"); status != 200 || again != id {
		t.Errorf("after a kill, the schema %s is answered by %d and the id %s", id, status, again)
	}
}

// ./test/all names a registry that is starting yet.
func TestARegistryThatIsStartingIsWaitedFor(t *testing.T) {
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) < 3 || r.URL.Path != "/subjects" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer s.Close()
	t.Setenv("FRAZIL_TEST_REGISTRY", s.URL)
	if url := Registry(t); url != s.URL || asked.Load() != 3 {
		t.Errorf("%s after %d questions, want %s after 3", url, asked.Load(), s.URL)
	}
}

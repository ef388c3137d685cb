package push_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"

	"frazil/dataflow/flowtest/program"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// I1: a producer's trace goes on through the pipeline until its records are in the
// table, over OTLP as a collector gets it.
func TestATraceGoesOnUntilTheTable(t *testing.T) {
	program.Long(t)
	var mu sync.Mutex
	spans := map[string]int{}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var req collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(raw, &req); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, rs := range req.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					key := s.Name
					if fmt.Sprintf("%x", s.TraceId) == "4bf92f3577b34da6a3ce929d0e0e4736" {
						key += " of the producer"
					}
					spans[key]++
				}
			}
		}
	}))
	defer receiver.Close()
	address := freePort(t)
	p := newPlace(t, "traced", fmt.Sprintf(`checkpoint: {every: 200ms}
sources:
  in:
    http: {listen: %s}
    decode: {json: {schema: {n: int64}}}
sinks:
  out: {from: in, files: {path: out}}
`, address))
	r := p.Start([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + receiver.URL, "OTEL_BSP_SCHEDULE_DELAY=100"}, "run", p.File)
	r.Until("it listens", listening(address))
	for _, parent := range []string{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4737-00f067aa0ba902b7-00", ""} {
		req, err := http.NewRequest("POST", "http://"+address+"/in", strings.NewReader(`{"n":1}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if parent != "" {
			req.Header.Set("Traceparent", parent)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("answered %d", resp.StatusCode)
		}
	}
	count := func(name string) int {
		mu.Lock()
		defer mu.Unlock()
		return spans[name]
	}
	r.Until("the delivery is traced", func() bool { return count("deliver of the producer") == 1 && count("commit") > 0 })
	r.Signal(syscall.SIGTERM)
	if code := r.Wait(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, program.Tail(r.Stderr.String(), 3000))
	}
	for name, want := range map[string]int{"accept of the producer": 1, "deliver of the producer": 1, "accept": 0, "deliver": 0} {
		if got := count(name); got != want {
			t.Errorf("%d spans %q, want %d", got, name, want)
		}
	}
	if count("epoch") == 0 || count("stage") == 0 {
		t.Errorf("epochs are not traced: %v", spans)
	}
}

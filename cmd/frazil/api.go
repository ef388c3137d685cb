package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"frazil/dataflow/engine"
	"frazil/pipelines"
	"frazil/state"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// api serves metrics, health and the questions of other commands while a
// pipeline runs. Its address and pid stand in run.json beside the state.
type api struct {
	p      *pipelines.Pipeline
	job    *engine.Job
	store  *state.Store
	ln     net.Listener
	server *http.Server
	done   chan struct{}
	file   string
	// token is what a request that changes something must know.
	token string
}

// runInfo is run.json.
type runInfo struct {
	Pipeline string `json:"pipeline"`
	PID      int    `json:"pid"`
	HTTP     string `json:"http,omitempty"`
	Token    string `json:"token,omitempty"`
}

const runFile = "run.json"

func serveAPI(p *pipelines.Pipeline, job *engine.Job, store *state.Store, log *slog.Logger) (*api, error) {
	a := &api{p: p, job: job, store: store, file: filepath.Join(p.StateDir, runFile)}
	var err error
	if a.token, err = newToken(); err != nil {
		return nil, err
	}
	if p.HTTP != "" {
		ln, err := listen(p.HTTP)
		if err != nil {
			return nil, err
		}
		a.ln, a.done = ln, make(chan struct{})
		a.server = &http.Server{Handler: a.routes(), ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
		go func() {
			defer close(a.done)
			if err := a.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
				log.Error("serve http", "error", err)
			}
		}()
	}
	raw, err := json.Marshal(runInfo{p.Name, os.Getpid(), a.addr(), a.token})
	if err == nil {
		err = writePrivate(a.file, append(raw, '\n'))
	}
	if err != nil {
		a.close()
		return nil, fmt.Errorf("write %s: %w", a.file, err)
	}
	return a, nil
}

// writePrivate writes a file that only its owner can read.
func writePrivate(path string, text []byte) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// listen takes the address, or the next free port after it.
func listen(addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("http address %q: %w", addr, err)
	}
	first, err := strconv.Atoi(port)
	if err != nil {
		return nil, fmt.Errorf("http address %q: %w", addr, err)
	}
	for i := range 100 {
		var ln net.Listener
		if ln, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(first+i))); err == nil {
			return ln, nil
		}
	}
	return nil, fmt.Errorf("listen on %s and the 99 ports after it: %w", addr, err)
}

func (a *api) addr() string {
	if a.ln == nil {
		return ""
	}
	return a.ln.Addr().String()
}

func (a *api) close() {
	if a.server != nil {
		a.server.Close()
		<-a.done
	}
	os.Remove(a.file)
}

func (a *api) routes() http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(newCollector(a.job, a.store), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /health", a.health)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /api/status", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, a.job.Status()) })
	mux.HandleFunc("GET /api/manifest", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, a.job.Manifest()) })
	mux.HandleFunc("GET /api/streams", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, a.job.Streams()) })
	mux.HandleFunc("GET /api/splits", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, a.job.Splits()) })
	mux.HandleFunc("GET /api/explain/window", a.explainWindow)
	mux.HandleFunc("GET /api/quarantine", a.quarantine)
	mux.HandleFunc("POST /api/quarantine", a.guarded(a.changeQuarantine))
	return mux
}

// problem is the answer to a question that cannot be answered.
type problem struct {
	Error string `json:"error"`
}

func reply(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // The client is gone.
}

func (a *api) health(w http.ResponseWriter, _ *http.Request) {
	code := http.StatusOK
	red := a.job.Health()
	if len(red) > 0 {
		code = http.StatusServiceUnavailable
	} else {
		red = []engine.Problem{}
	}
	reply(w, code, map[string]any{"healthy": len(red) == 0, "problems": red})
}

// askRunning returns the answer of the process that runs p, or ok false when
// none does.
func askRunning(p *pipelines.Pipeline, path string) (resp *http.Response, ok bool, err error) {
	raw, err := os.ReadFile(filepath.Join(p.StateDir, runFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	var info runInfo
	if err := json.Unmarshal(raw, &info); err != nil || info.HTTP == "" {
		return nil, false, err
	}
	resp, err = (&http.Client{Timeout: 30 * time.Second}).Get("http://" + info.HTTP + path)
	if err != nil {
		return nil, false, nil // A process that was killed leaves its file.
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		var why problem
		if err := json.NewDecoder(resp.Body).Decode(&why); err == nil && why.Error != "" {
			return nil, false, errors.New(why.Error)
		}
		return nil, false, fmt.Errorf("process %d answered %s to %s", info.PID, resp.Status, path)
	}
	return resp, true, nil
}

package http

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"strconv"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/ingest"
)

func init() {
	component.RegisterSource(component.Source[Config]{
		Name:    "http",
		Summary: "Takes records that others post.",
		Doc:     `Delivery: a record is answered when it is synced to the write-ahead log.`,
		Default: func() Config { return Config{Config: ingest.DefaultConfig(), Listen: "127.0.0.1:4190"} },
		Plan:    plan,
		Serve:   func(ctx context.Context, env *dataflow.Env, cfg Config) (io.Closer, error) { return serve(env, cfg) },
		New: func(_ context.Context, env *dataflow.Env, _ Config) (dataflow.Source, error) {
			return env.Served.(*server).stream.Source(env), nil
		},
	})
}

func plan(in component.SourceIn, cfg Config) (component.SourcePlan, error) {
	p := cfg.Check()
	if in.Decoded == nil {
		p = append(p, component.Problem{Path: "decode", Msg: "an http source needs decode: {json: {schema: {...}}}"})
	}
	if len(p) > 0 {
		return component.SourcePlan{}, p
	}
	return component.SourcePlan{Schema: ingest.Spec{Decoded: in.Decoded}.Schema(), Tasks: 1, Arrived: true, Pauses: true}, nil
}

// server is the endpoint of one source step.
type server struct {
	stream *ingest.Stream
	http   *nethttp.Server
	ln     net.Listener
}

func serve(env *dataflow.Env, cfg Config) (*server, error) {
	dec, err := env.NewDecoder()
	if err != nil {
		return nil, err
	}
	s := &server{}
	if s.stream, err = ingest.Open(env, cfg.Config, ingest.Spec{Decoded: dec.Schema()}); err != nil {
		return nil, err
	}
	if s.ln, err = net.Listen("tcp", cfg.Listen); err != nil {
		return nil, errors.Join(dataflow.Permanent(fmt.Errorf("listen on %s: %w", cfg.Listen, err)), s.stream.Close())
	}
	path := cfg.Path
	if path == "" {
		path = "/" + env.Step
	}
	mux := nethttp.NewServeMux()
	mux.HandleFunc("POST "+path, s.post)
	s.http = &nethttp.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go s.http.Serve(s.ln)
	return s, nil
}

// Close stops listening and closes the stream.
func (s *server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(s.http.Shutdown(ctx), s.stream.Close())
}

func (s *server) post(w nethttp.ResponseWriter, r *nethttp.Request) {
	body, err := io.ReadAll(nethttp.MaxBytesReader(w, r.Body, 16<<20))
	if err != nil {
		nethttp.Error(w, err.Error(), nethttp.StatusBadRequest)
		return
	}
	var records [][]byte
	for line := range bytes.SplitSeq(body, []byte("\n")) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			records = append(records, line)
		}
	}
	type answer struct {
		res ingest.Result
		err error
	}
	done := make(chan answer, 1)
	err = s.stream.Submit(&ingest.Request{Records: records, Key: r.Header.Get("Idempotency-Key"), Done: func(res ingest.Result, err error) { done <- answer{res, err} }})
	var a answer
	if err == nil {
		a = <-done
		err = a.err
	}
	var busy *ingest.BusyError
	switch {
	case errors.As(err, &busy):
		w.Header().Set("Retry-After", strconv.Itoa(int(busy.RetryAfter/time.Second)))
		nethttp.Error(w, err.Error(), nethttp.StatusTooManyRequests)
	case err != nil:
		nethttp.Error(w, err.Error(), nethttp.StatusServiceUnavailable)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(a.res) // The client is gone.
	}
}

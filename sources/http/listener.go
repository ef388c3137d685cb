package http

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	nethttp "net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"frazil/dataflow"
)

// listener is an address that streams share, one path each.
type listener struct {
	addr string
	key  string // pipeline and address
	says map[string]string
	log  *slog.Logger
	ln   *limited
	tls  *certificates // nil: no TLS
	srv  *nethttp.Server
	done chan struct{}

	mu     sync.Mutex
	routes map[string]*endpoint
	refs   int
	ready  bool
}

// listeners are those of this process.
var listeners = struct {
	sync.Mutex
	byKey map[string]*listener
}{byKey: map[string]*listener{}}

// attach puts ep under its path of its address, which is opened if it is the first.
// Nothing is accepted before ready.
func attach(env *dataflow.Env, cfg Config, ep *endpoint) error {
	listeners.Lock()
	defer listeners.Unlock()
	key := cfg.Listen
	if _, port, _ := net.SplitHostPort(key); port == "0" {
		key = env.Pipeline + " " + env.WALDir + " " + key // each pipeline gets a port of its own
	}
	l := listeners.byKey[key]
	if l == nil {
		var err error
		if l, err = listen(env, cfg); err != nil {
			return err
		}
		l.key = key
		listeners.byKey[key] = l
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !maps.Equal(l.says, cfg.shared()) {
		return dataflow.Permanent(fmt.Errorf("%s is open already with other limits or another certificate", cfg.Listen))
	}
	if old := l.routes[ep.path]; old != nil && !old.closed() {
		return dataflow.Permanent(fmt.Errorf("%s%s is taken by stream %s of pipeline %s", cfg.Listen, ep.path, old.step, old.pipeline))
	}
	l.routes[ep.path] = ep
	l.refs++
	ep.listener = l
	return nil
}

func listen(env *dataflow.Env, cfg Config) (*listener, error) {
	l := &listener{addr: cfg.Listen, says: cfg.shared(), log: cmp.Or(env.Log, slog.New(slog.DiscardHandler)), routes: map[string]*endpoint{}, done: make(chan struct{})}
	if cfg.TLS != nil {
		var err error
		if l.tls, err = loadCertificates(*cfg.TLS, env.Dir, l.log); err != nil {
			return nil, dataflow.Permanent(err)
		}
	}
	ln, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, dataflow.Permanent(fmt.Errorf("listen on %s: %w: does another program use the address? write another one (listen)", cfg.Listen, err))
	}
	l.ln = newLimited(ln, cfg.Limits.Connections)
	l.srv = &nethttp.Server{
		Handler: l, ReadHeaderTimeout: cfg.Limits.HeaderTimeout.D(), IdleTimeout: cfg.Limits.IdleTimeout.D(),
		MaxHeaderBytes: int(cfg.Limits.Headers), ConnState: l.ln.state,
		HTTP2:    &nethttp.HTTP2Config{MaxConcurrentStreams: 100},
		ErrorLog: slog.NewLogLogger(l.log.Handler(), slog.LevelDebug),
	}
	return l, nil
}

// serve begins to accept.
func (l *listener) serve() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ready {
		return
	}
	l.ready = true
	var ln net.Listener = l.ln
	if l.tls != nil {
		ln = tls.NewListener(ln, l.tls.config())
	}
	go func() {
		defer close(l.done)
		if err := l.srv.Serve(ln); err != nil && !errors.Is(err, nethttp.ErrServerClosed) {
			l.log.Error("no more requests are accepted", "address", l.addr, "error", err)
			for _, ep := range l.endpoints() {
				ep.trouble("nobody listens on " + l.addr + " any more: " + err.Error())
			}
		}
	}()
}

// detach takes ep away. The last one closes the address.
func (l *listener) detach(ep *endpoint) error {
	listeners.Lock()
	l.mu.Lock()
	l.refs--
	last := l.refs == 0
	ready := l.ready
	if last {
		delete(listeners.byKey, l.key)
	}
	l.mu.Unlock()
	listeners.Unlock()
	if !last {
		return nil
	}
	if !ready {
		return l.ln.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	if err := l.srv.Shutdown(ctx); err != nil {
		// A client that does not read its answer.
		_ = l.srv.Close()
	}
	<-l.done
	return nil
}

// closeWithin is how long the end waits for clients to read their answers.
const closeWithin = 5 * time.Second

// endpoints lists the streams by path.
func (l *listener) endpoints() []*endpoint {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*endpoint
	for _, p := range slices.Sorted(maps.Keys(l.routes)) {
		out = append(out, l.routes[p])
	}
	return out
}

// Paths of the address itself.
const (
	pathHealth  = "/healthz"
	pathOpenAPI = "/openapi.json"
)

// crossOrigin refuses what a browser sends on behalf of another site: a page must
// not be able to post to an address that only this machine reaches.
var crossOrigin = nethttp.NewCrossOriginProtection()

// ServeHTTP answers one request.
func (l *listener) ServeHTTP(w nethttp.ResponseWriter, r *nethttp.Request) {
	defer func() {
		if p := recover(); p != nil {
			if p == nethttp.ErrAbortHandler {
				panic(p)
			}
			l.log.Error("a request could not be answered: a bug", "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
			(&problem{Status: 500, Reason: "internal", Detail: "the request could not be answered, and it is not known whether it was kept: send it again with the same Idempotency-Key"}).write(w)
		}
	}()
	l.mu.Lock()
	ep := l.routes[r.URL.Path]
	l.mu.Unlock()
	within := l.srv.ReadHeaderTimeout
	if ep != nil {
		within = ep.cfg.Limits.BodyTimeout.D()
	}
	_ = nethttp.NewResponseController(w).SetReadDeadline(time.Now().Add(within)) // Not all connections have one.
	switch {
	case ep != nil:
		if r.Method != nethttp.MethodPost {
			(&problem{Status: 405, Reason: "method_not_allowed", allow: "POST", Detail: "records are sent with POST, got " + r.Method + "; GET " + pathOpenAPI + " describes how"}).write(w)
			return
		}
		if err := crossOrigin.Check(r); err != nil {
			(&problem{Status: 403, Reason: "cross_origin", Detail: "the request comes from a page of another site, which a browser must not send here"}).write(w)
			return
		}
		ep.post(w, r)
	case r.URL.Path == pathHealth || r.URL.Path == pathOpenAPI:
		if r.Method != nethttp.MethodGet && r.Method != nethttp.MethodHead {
			(&problem{Status: 405, Reason: "method_not_allowed", allow: "GET, HEAD", Detail: "expected GET, got " + r.Method}).write(w)
			return
		}
		if r.URL.Path == pathHealth {
			l.health(w)
		} else {
			l.openAPI(w)
		}
	default:
		(&problem{Status: 404, Reason: "not_found", Detail: "no stream has this path; GET " + pathOpenAPI + " lists those that there are"}).write(w)
	}
}

// health says whether the address takes records, for load balancers.
func (l *listener) health(w nethttp.ResponseWriter) {
	for _, ep := range l.endpoints() {
		if ep.closed() || ep.stream.StreamStats().Broken != "" {
			(&problem{Status: 503, Reason: "unavailable", retryAfter: time.Second, Detail: "a stream of this address takes nothing now"}).write(w)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte("{\"status\":\"ok\"}\n")) // The client is gone.
}

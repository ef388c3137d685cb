package http

import (
	"context"
	"errors"
	"fmt"
	nethttp "net/http"
	"sync"
	"sync/atomic"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/codec"
	"frazil/dataflow/ingest"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// endpoint is one stream at its path.
type endpoint struct {
	cfg            Config
	pipeline, step string
	path           string
	preview        bool
	now            func() time.Time
	stream         *ingest.Stream
	listener       *listener
	auth           *auth
	columns        []column
	schema         *arrow.Schema // decoded
	// json is the decode block where it is one of JSON; csv and arrow are nil
	// without it.
	json  *codec.JSONConfig
	csv   *codec.CSV
	arrow *codec.Arrow
	// memory bounds the bodies of requests, used is what they take.
	memory int64
	used   atomic.Int64

	mu     sync.Mutex
	ended  bool
	broken string
}

// open opens the stream of a step and its address.
func open(env *dataflow.Env, cfg Config) (*endpoint, error) {
	dec, err := env.NewDecoder()
	if err != nil {
		return nil, err
	}
	ep := &endpoint{
		cfg: cfg, pipeline: env.Pipeline, step: env.Step, path: pathOf(cfg, env.Step), preview: env.Preview, now: env.Now,
		columns: cfg.Metadata.columns(), schema: dec.Schema(), memory: int64(cfg.Limits.Memory),
	}
	if ep.memory == 0 {
		ep.memory = max(env.Memory, 4<<20)
	}
	if ep.now == nil {
		ep.now = time.Now
	}
	if ep.auth, err = newAuth(cfg.Auth); err != nil {
		return nil, dataflow.Permanent(err)
	}
	if j, ok := dec.(*codec.JSON); ok {
		c := j.Config()
		ep.json = &c
		if ep.csv, err = codec.NewCSV(c); err != nil {
			return nil, err
		}
		if c.Whole == "" {
			if ep.arrow, err = codec.NewArrow(c); err != nil {
				return nil, err
			}
		}
	}
	for _, a := range dec.Flush() {
		a.Release()
	}
	if d, ok := dec.(interface{ Release() }); ok {
		d.Release()
	}
	if ep.stream, err = ingest.Open(env, cfg.Config, ingest.Spec{Decoded: dec.Schema(), Meta: cfg.Metadata.fields()}); err != nil {
		return nil, err
	}
	if err := attach(env, cfg, ep); err != nil {
		return nil, errors.Join(err, ep.stream.Close())
	}
	return ep, nil
}

// Ready begins to accept requests: all streams of the address are there.
func (ep *endpoint) Ready() { ep.listener.serve() }

// Close ends what is under way and closes the stream; the last one of an address
// closes that.
func (ep *endpoint) Close() error {
	ep.mu.Lock()
	again := ep.ended
	ep.ended = true
	ep.mu.Unlock()
	if again {
		return nil
	}
	err := ep.stream.Close() // answers those that wait
	if e := ep.listener.detach(ep); err == nil {
		err = e
	}
	return err
}

func (ep *endpoint) closed() bool {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	return ep.ended
}

// trouble notes what is wrong with the address.
func (ep *endpoint) trouble(text string) {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	ep.broken = text
}

// StreamStats implements dataflow.Streamer.
func (ep *endpoint) StreamStats() dataflow.StreamStats {
	s := ep.stream.StreamStats()
	ep.mu.Lock()
	defer ep.mu.Unlock()
	if ep.broken != "" {
		s.Trouble = append(s.Trouble, ep.broken)
	}
	return s
}

// request is one under way.
type request struct {
	ep        *endpoint
	http      *nethttp.Request
	principal string
	received  time.Time
	// events are those of the records, for CloudEvents.
	events []codec.CloudEvent
	// held is what is reserved of the memory for bodies.
	held int64
	out  ingest.Request
	done chan answered
	bufs *buffers
}

// answered is what the stream says of a request.
type answered struct {
	res ingest.Result
	err error
}

// event returns the event of record i, nil if it is none.
func (r *request) event(i int) *codec.CloudEvent {
	if i >= len(r.events) {
		return nil
	}
	return &r.events[i]
}

// post takes one request.
func (ep *endpoint) post(w nethttp.ResponseWriter, r *nethttp.Request) {
	if ep.closed() {
		closing().write(w)
		return
	}
	req := &request{ep: ep, http: r, bufs: pool.Get().(*buffers)}
	p := ep.take(w, req)
	var a answered
	waited := false
	if p == nil {
		a, waited = ep.submit(req)
	}
	rc := nethttp.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Now().Add(ep.cfg.Limits.AnswerTimeout.D())) // Not all connections have one.
	switch {
	case p != nil:
		p.write(w)
	case !waited:
		// The client is gone: what it sent may be kept, and the buffers are the
		// stream's still.
		req.bufs = nil
	default:
		ep.answer(w, req, a)
	}
	ep.used.Add(-req.held)
	if req.bufs != nil {
		req.bufs.giveBack()
	}
}

func closing() *problem {
	return &problem{Status: 503, Reason: "closing", retryAfter: time.Second, Detail: "the pipeline is stopping: send the request again"}
}

// traceOf is the span that a client says its request belongs to (W3C Trace
// Context).
func traceOf(r *nethttp.Request) trace.SpanContext {
	if r.Header.Get("Traceparent") == "" {
		return trace.SpanContext{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.HeaderCarrier(r.Header))
	return trace.SpanContextFromContext(ctx)
}

// take reads and checks a request, up to what is given to the stream.
func (ep *endpoint) take(w nethttp.ResponseWriter, req *request) *problem {
	r := req.http
	name, wait, p := ep.auth.identify(r)
	if p != nil {
		if p.Status == 401 && ep.knownElsewhere(r) {
			p = &problem{Status: 403, Reason: "forbidden", Detail: "the token is valid for another stream and not for this one"}
		}
		return p
	}
	req.principal = name
	f, p := ep.format(r.Header)
	if p != nil {
		return p
	}
	enc, p := encodingOf(r.Header)
	if p != nil {
		return p
	}
	if p := req.identity(); p != nil {
		return p
	}
	req.out.Trace = traceOf(r)
	body, p := req.read(w)
	if p != nil {
		return p
	}
	req.received = ep.now()
	if wait {
		var key string
		if req.principal, key, p = ep.auth.verify(r, body, req.received); p != nil {
			return p
		}
		if req.out.Key == "" && req.out.Producer == "" {
			req.out.Key = key
		}
	}
	if body, p = req.decompress(enc, body); p != nil {
		return p
	}
	req.own()
	return req.fill(f, body)
}

// knownElsewhere says whether another stream of the address knows the token.
func (ep *endpoint) knownElsewhere(r *nethttp.Request) bool {
	token := bearer(r)
	if token == "" {
		return false
	}
	known := false
	for _, other := range ep.listener.endpoints() {
		if other.auth != nil {
			_, ok := other.auth.token(token)
			known = known || ok
		}
	}
	return known
}

// submit gives a request to the stream and waits for its answer. ok is false if
// the client went away first.
func (ep *endpoint) submit(req *request) (a answered, ok bool) {
	if len(req.out.Records) == 0 && req.out.Batch == nil && len(req.out.Bad) == 0 {
		return answered{}, true
	}
	req.done = make(chan answered, 1)
	req.out.Done = func(res ingest.Result, err error) { req.done <- answered{res, err} }
	req.out.Atomic, req.out.KeepBad = ep.cfg.OnBad == onBadAll, ep.cfg.OnBad == onBadKeep
	if len(ep.columns) > 0 {
		req.out.Meta = req.meta
	}
	if err := ep.stream.Submit(&req.out); err != nil {
		return answered{err: err}, true
	}
	select {
	case a = <-req.done:
		return a, true
	case <-req.http.Context().Done():
		return a, false
	}
}

// meta appends the metadata columns of record i.
func (r *request) meta(b []array.Builder, i int) {
	for k := range r.ep.columns {
		r.ep.columns[k].add(b[k], r, i)
	}
}

// answer tells the client what became of its request.
func (ep *endpoint) answer(w nethttp.ResponseWriter, req *request, a answered) {
	if a.res.Replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	if p := ep.refusal(a); p != nil {
		p.write(w)
		return
	}
	status := nethttp.StatusOK
	if len(a.res.Rejected) > 0 {
		status = nethttp.StatusMultiStatus
	}
	req.bufs.out = appendResult(req.bufs.out[:0], a.res)
	h := w.Header()
	h["Content-Type"] = jsonType
	w.WriteHeader(status)
	_, _ = w.Write(req.bufs.out) // The client is gone.
}

var jsonType = []string{"application/json"}

// refusal is the problem that an answer is, nil if it accepts.
func (ep *endpoint) refusal(a answered) *problem {
	var busy *ingest.BusyError
	switch {
	case errors.As(a.err, &busy):
		return &problem{Status: 429, Reason: "busy_" + busy.Reason, retryAfter: busy.RetryAfter, Detail: busy.Detail + "; nothing was kept: send it again after the time in Retry-After"}
	case errors.Is(a.err, ingest.ErrOtherRequest):
		return &problem{Status: 422, Reason: "key_reused", Detail: "the idempotency key, or the producer's sequence number, was used with another body: a retry must be the same request, and another request needs a key of its own"}
	case errors.Is(a.err, ingest.ErrRejected):
		return &problem{Status: 422, Reason: "rejected", Rejected: a.res.Rejected, Detail: "nothing was kept, because of the records in rejected (on_bad: all)"}
	case errors.Is(a.err, ingest.ErrClosed):
		return closing()
	case errors.Is(a.err, ingest.ErrNotCommitted):
		return &problem{Status: 503, Reason: "not_committed", retryAfter: time.Second, Detail: "the pipeline stopped before the records were in every table; they are kept and will be: send the request again with the same Idempotency-Key to hear of it, without one it would be added again"}
	case a.err != nil:
		return &problem{Status: 503, Reason: "unavailable", retryAfter: 2 * time.Second, Detail: fmt.Sprintf("it is not known whether the request is safe: send it again, with the same Idempotency-Key if it has one (%v)", a.err)}
	case a.res.Accepted == 0 && len(a.res.Rejected) > 0:
		return &problem{Status: 422, Reason: "rejected", Rejected: a.res.Rejected, Detail: "no record was accepted: rejected lists why"}
	case ep.preview:
		return &problem{Status: 503, Reason: "preview", retryAfter: 10 * time.Second, Detail: fmt.Sprintf("this is a preview, which keeps nothing; the %d records that it read are fine", a.res.Accepted)}
	}
	return nil
}

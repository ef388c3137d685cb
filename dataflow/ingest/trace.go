package ingest

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// traces are the sampled requests that are durable and not committed. Safe for
// concurrent use.
type traces struct {
	mu   sync.Mutex
	list []traced
}

type traced struct {
	parent trace.SpanContext
	last   uint64
	since  time.Time
}

// maxTraced bounds them; of more the oldest get no span for their delivery.
const maxTraced = 4096

func tracer() trace.Tracer { return otel.Tracer("frazil/dataflow/ingest") }

// accepted makes the span of a request from Submit until it is answered for.
func (t *traces) accepted(o *outcome, now func() time.Time) {
	if !o.r.Trace.IsSampled() {
		return
	}
	at := now()
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), o.r.Trace)
	_, span := tracer().Start(ctx, "accept", trace.WithTimestamp(o.r.submitted), trace.WithAttributes(
		attribute.Int("frazil.accepted", o.res.Accepted), attribute.Int("frazil.rejected", len(o.res.Rejected)), attribute.Bool("frazil.replayed", o.res.Replayed)))
	if o.err != nil {
		span.SetStatus(codes.Error, o.err.Error())
	}
	span.End(trace.WithTimestamp(at))
	if o.err != nil || o.res.Accepted == 0 || o.res.Replayed {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.list = append(t.list, traced{o.r.Trace, o.res.Last, at}); len(t.list) > maxTraced {
		t.list = t.list[1:]
	}
}

// delivered makes the spans of requests that are committed: all below upTo.
func (t *traces) delivered(upTo uint64, now func() time.Time) {
	t.mu.Lock()
	n := 0
	for n < len(t.list) && t.list[n].last < upTo {
		n++
	}
	ready := t.list[:n:n]
	if t.list = t.list[n:]; len(t.list) == 0 {
		t.list = nil
	}
	t.mu.Unlock()
	for _, x := range ready {
		ctx := trace.ContextWithRemoteSpanContext(context.Background(), x.parent)
		_, span := tracer().Start(ctx, "deliver", trace.WithTimestamp(x.since), trace.WithAttributes(attribute.Int64("frazil.sequence", int64(x.last))))
		span.End(trace.WithTimestamp(now()))
	}
}

package engine

import (
	"context"
	"time"

	"frazil/dataflow"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// tracer makes the spans of epochs and commits. Without a provider, which the
// program sets, it costs next to nothing.
func tracer() trace.Tracer { return otel.Tracer("frazil/dataflow/engine") }

// traceEpoch makes the span of an epoch that is durable now, with its parts: the
// barrier on its way (align), the sinks' files (stage), state and manifest (write).
func (c *coordinator) traceEpoch(e dataflow.Epoch, now time.Time) {
	ctx, span := tracer().Start(context.Background(), "epoch", trace.WithTimestamp(c.started), trace.WithAttributes(
		attribute.String("frazil.pipeline", c.j.g.Name), attribute.Int64("frazil.epoch", int64(e))))
	part := func(name string, from, to time.Time) {
		_, s := tracer().Start(ctx, name, trace.WithTimestamp(from))
		s.End(trace.WithTimestamp(to))
	}
	part("align", c.started, c.aligned)
	part("stage", c.aligned, c.staged)
	part("write", c.staged, now)
	span.End(trace.WithTimestamp(now))
	if span.SpanContext().IsSampled() {
		c.spans.put(e, span.SpanContext())
	}
}

// traceCommit begins the span of a commit, below its epoch's where that was made by
// this process. The end of it takes the commit's error.
func (c *coordinator) traceCommit(sink string, commit dataflow.Commit) (context.Context, func(error)) {
	ctx := trace.ContextWithSpanContext(c.ctx, c.spans.get(commit.Epoch))
	ctx, span := tracer().Start(ctx, "commit", trace.WithAttributes(
		attribute.String("frazil.pipeline", c.j.g.Name), attribute.String("frazil.sink", sink), attribute.String("frazil.target", string(commit.Target)),
		attribute.Int64("frazil.epoch", int64(commit.Epoch)), attribute.Int64("frazil.rows", commit.Rows())))
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

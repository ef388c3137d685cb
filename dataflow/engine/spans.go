package engine

import (
	"sync"

	"frazil/dataflow"

	"go.opentelemetry.io/otel/trace"
)

// epochSpans remembers the spans of epochs whose commits may still come.
type epochSpans struct {
	mu sync.Mutex
	m  map[dataflow.Epoch]trace.SpanContext
}

// keptSpans bounds them: no more epochs wait for a target.
const keptSpans = 64

func (s *epochSpans) put(e dataflow.Epoch, c trace.SpanContext) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m == nil {
		s.m = map[dataflow.Epoch]trace.SpanContext{}
	}
	s.m[e] = c
	for old := range s.m {
		if old+keptSpans < e {
			delete(s.m, old)
		}
	}
}

func (s *epochSpans) get(e dataflow.Epoch) trace.SpanContext {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m[e]
}

package world

import (
	"context"
	"fmt"
	"io"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/ingest"
	"frazil/test/simulation/model"
)

// push is one stream that producers post to.
type push struct {
	name      string
	producers []*producer
	// stream of the process that runs now; nil: nothing listens.
	stream *ingest.Stream
	p      *process
	// acked are the ids that a producer was told to be safe.
	acked map[int64]bool
	// posted are the events of all requests that were sent at least once.
	posted []model.Event
}

// producer posts its requests one after the other, each until it is answered.
type producer struct {
	name     string
	requests []request
	keyed    bool // by a key; else by its name and the number
	done     chan struct{}
}

type request struct {
	at     time.Duration
	events []model.Event
}

// PushConfig is the config of the source simpush.
type PushConfig struct {
	ingest.Config `yaml:",inline"`
}

func init() {
	component.RegisterSource(component.Source[PushConfig]{
		Name: "simpush", Summary: "Takes what simulated producers post.",
		Default: func() PushConfig { return PushConfig{ingest.DefaultConfig()} },
		Plan: func(in component.SourceIn, _ PushConfig) (component.SourcePlan, error) {
			return component.SourcePlan{Schema: in.Decoded, Tasks: 1, Arrived: true, Pauses: true, Target: in.Step}, nil
		},
		Serve: func(context.Context, *dataflow.Env, PushConfig) (io.Closer, error) { return nil, errUnbound },
		New:   func(context.Context, *dataflow.Env, PushConfig) (dataflow.Source, error) { return nil, errUnbound },
	})
}

// served is a stream that a process has opened.
type served struct {
	*ingest.Stream
	p  *process
	to *push
}

// serve opens the stream of the process.
func (p *process) serve(to *push, env *dataflow.Env) (io.Closer, error) {
	cfg := ingest.DefaultConfig()
	cfg.Ack = p.w.plan.ack
	dec, err := env.NewDecoder()
	if err != nil {
		return nil, err
	}
	s, err := ingest.Open(env, cfg, ingest.Spec{Decoded: dec.Schema()})
	if err != nil {
		return nil, err
	}
	return &served{s, p, to}, nil
}

// Ready lets producers in.
func (s *served) Ready() {
	if s.p.alive() {
		s.p.w.mu.Lock()
		s.to.stream, s.to.p = s.Stream, s.p
		s.p.w.mu.Unlock()
		s.p.w.trace("serving", "%d %s", s.p.n, s.to.name)
	}
}

// Close implements io.Closer.
func (s *served) Close() error {
	s.p.w.mu.Lock()
	if s.to.p == s.p {
		s.to.stream, s.to.p = nil, nil
	}
	s.p.w.mu.Unlock()
	return s.Stream.Close()
}

// produce posts all requests of a producer.
func (w *World) produce(to *push, p *producer) {
	defer close(p.done)
	for i, r := range p.requests {
		time.Sleep(max(r.at-w.now(), 0))
		if w.isCalm() {
			return // slow answers have made it late
		}
		w.mu.Lock()
		to.posted = append(to.posted, r.events...)
		w.mu.Unlock()
		if w.o.Bug == "forget_acked" && i%9 == 4 {
			w.noteAcked(to, r)
			continue
		}
		for !w.post(to, p, i, r) {
			time.Sleep(w.between(50*time.Millisecond, 2*time.Second))
		}
		w.noteAcked(to, r)
	}
}

func (w *World) noteAcked(to *push, r request) {
	w.trace("posts_acked", "%s %d", to.name, r.events[0].ID)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range r.events {
		to.acked[e.ID] = true
	}
}

type answer struct {
	res ingest.Result
	err error
}

// post sends a request once and says whether it was accepted.
func (w *World) post(to *push, p *producer, i int, r request) bool {
	time.Sleep(w.lag(2 * time.Millisecond))
	w.mu.Lock()
	stream, at := to.stream, to.p
	w.mu.Unlock()
	if stream == nil || !at.alive() {
		return false
	}
	done := make(chan answer, 1)
	req := &ingest.Request{Done: func(res ingest.Result, err error) {
		if at.alive() {
			done <- answer{res, err}
		}
	}}
	for _, e := range r.events {
		req.Records = append(req.Records, []byte(fmt.Sprintf(`{"id":%d,"k":%q,"ts":%d,"v":%d}`, e.ID, e.Key, e.TS, e.V)))
	}
	if p.keyed {
		req.Key = fmt.Sprintf("%s-%d", p.name, i)
	} else {
		req.Producer, req.Sequence = p.name, uint64(i+1)
	}
	if err := stream.Submit(req); err != nil {
		w.trace("posts_refused", "%s %d: %v", p.name, i, err)
		return false
	}
	w.trace("posts", "%s %d", p.name, i)
	patience := time.NewTimer(w.between(time.Second, 20*time.Second))
	defer patience.Stop()
	var a answer
	select {
	case a = <-done:
	case <-patience.C:
		w.trace("posts_unanswered", "%s %d", p.name, i)
		return false
	case <-at.dead:
		w.trace("posts_unanswered", "%s %d", p.name, i)
		return false
	}
	switch {
	case a.err != nil:
		w.trace("posts_failed", "%s %d: %v", p.name, i, a.err)
		return false
	case w.chance(8):
		w.trace("posts_answers_lost", "%s %d", p.name, i)
		return false
	case !a.res.Forgotten && a.res.Accepted != len(r.events):
		w.fail("request %d of %s: %d of %d records accepted: %+v", i, p.name, a.res.Accepted, len(r.events), a.res)
	}
	if a.res.Replayed {
		w.trace("posts_recognised", "%s %d", p.name, i)
	}
	return true
}

package storage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/codec"
	"frazil/dataflow/ingest"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

type ctxless = context.Context

// pull gives the records of its splits, in batches and an order that its numbers
// decide. It is durable: what it gave it gives again.
type pull struct {
	p    *process
	env  *dataflow.Env
	dec  dataflow.Decoder
	bad  *dataflow.BadRows
	rng  *rand.Rand
	next map[dataflow.Split]int
	told map[dataflow.Split]bool
	list []dataflow.Split
}

func newPull(p *process, env *dataflow.Env) (dataflow.Source, error) {
	dec, err := env.NewDecoder()
	return &pull{
		p: p, env: env, dec: dec, bad: dataflow.NewBadRows(env), rng: rand.New(rand.NewPCG(p.seed, uint64(env.Task))),
		next: map[dataflow.Split]int{}, told: map[dataflow.Split]bool{},
	}, err
}

func place(i int) dataflow.Position { return dataflow.Position(fmt.Sprintf("%08d", i)) }

func (s *pull) Discover(context.Context) (out []dataflow.Split, err error) {
	for i := range pullSplits {
		out = append(out, dataflow.Split(fmt.Sprintf("p%d", i)))
	}
	return out, nil
}

func (s *pull) Start(_ context.Context, splits []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	out := map[dataflow.Split]dataflow.Position{}
	for _, sp := range splits {
		out[sp] = place(0)
	}
	return out, nil
}

func (s *pull) Begin(ctx context.Context, splits []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	return s.Start(ctx, splits)
}

func (s *pull) Assign(_ context.Context, splits []dataflow.SplitAt) error {
	for _, a := range splits {
		if a.Until != nil {
			return dataflow.Permanentf("split %s is to be replayed up to %s: no target can be ahead of a state that is durable", a.Split, a.Until)
		}
		i, err := strconv.Atoi(string(a.From))
		if err != nil {
			return err
		}
		s.next[a.Split] = i
		s.list = append(s.list, a.Split)
	}
	return nil
}

func (s *pull) Unassign(context.Context, []dataflow.Split) error { return nil }

func (s *pull) Poll(ctx context.Context, limit dataflow.PollLimit) (dataflow.Polled, error) {
	s.rng.Shuffle(len(s.list), func(i, j int) { s.list[i], s.list[j] = s.list[j], s.list[i] })
	for _, sp := range s.list {
		at := s.next[sp]
		if at == s.p.rows() {
			if s.told[sp] {
				continue
			}
			s.told[sp] = true
			s.p.pulled.Add(1)
			return dataflow.Polled{Split: sp, Next: place(at), CaughtUp: true, Ended: !s.p.w.half}, nil
		}
		if s.rng.IntN(6) == 0 && !s.p.w.half {
			s.p.job.Checkpoint()
		}
		if s.rng.IntN(4) == 0 { // Let others come in between.
			time.Sleep(time.Duration(s.rng.IntN(500)) * time.Microsecond)
		}
		return s.read(sp, min(1+s.rng.IntN(12), s.p.rows()-at)), nil
	}
	return dataflow.Polled{}, pause(ctx, limit)
}

func pause(ctx context.Context, limit dataflow.PollLimit) error {
	t := time.NewTimer(min(time.Duration(limit.WaitMicros)*time.Microsecond, 2*time.Millisecond))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func (s *pull) read(sp dataflow.Split, n int) dataflow.Polled {
	split := int(sp[1] - '0')
	pos := array.NewInt64Builder(s.env.Alloc)
	defer pos.Release()
	for i := s.next[sp]; i < s.next[sp]+n; i++ {
		payload := pulled(split, i)
		if bad := s.dec.Append(payload); bad != nil {
			s.bad.AddRaw(bad, sp, strconv.Itoa(i), payload)
			continue
		}
		pos.Append(int64(i))
	}
	s.next[sp] += n
	p := dataflow.Polled{Split: sp, Next: place(s.next[sp]), Bad: s.bad.Flush()}
	if rows := int64(s.dec.Rows()); rows > 0 {
		fields := append(append([]arrow.Field{}, s.dec.Schema().Fields()...), arrow.Field{Name: dataflow.SysPos, Type: dataflow.TypeInt64})
		cols := append(s.dec.Flush(), pos.NewArray())
		p.Batch = array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, rows)
		for _, c := range cols {
			c.Release()
		}
	}
	return p
}

func (s *pull) Close() error {
	s.bad.Release()
	s.dec.(*codec.JSON).Release()
	return nil
}

// streamSource is what a push stream's source offers.
type streamSource interface {
	dataflow.Source
	dataflow.Discoverer
	dataflow.Starter
	dataflow.Acker
	dataflow.Locator
	dataflow.Pauser
}

// push reads the stream, which ends when its producer has nothing more to send.
type push struct {
	streamSource
	p *process
	// until is where a replay ends, nil behind it.
	next, until dataflow.Position
	ended       bool
}

func (s *push) Assign(ctx context.Context, splits []dataflow.SplitAt) error {
	s.next, s.ended = splits[0].From, false
	s.until = splits[0].Until
	return s.streamSource.Assign(ctx, splits)
}

func (s *push) Poll(ctx context.Context, limit dataflow.PollLimit) (dataflow.Polled, error) {
	done := s.p.produced.Load()
	limit.WaitMicros = min(limit.WaitMicros, 2000)
	out, err := s.streamSource.Poll(ctx, limit)
	if err != nil {
		return out, err
	}
	if out.Split != "" {
		s.next = out.Next
		return out, nil
	}
	if done && !s.ended && s.next != nil && s.until == nil && !s.p.w.half {
		s.ended = true
		return dataflow.Polled{Split: ingest.Split, Next: s.next, CaughtUp: true, Ended: true}, nil
	}
	return out, nil
}

// produce sends what is not acknowledged yet, some requests at a time, and the
// same request again until it is.
func (p *process) produce(ctx context.Context, s *ingest.Stream) {
	defer p.produced.Store(true)
	w := p.w
	if w.silent {
		return
	}
	var missing []int
	w.mu.Lock()
	for r := range w.work.requests {
		if !w.acked[r] && !(w.half && r >= w.work.requests/2) {
			missing = append(missing, r)
		}
	}
	w.mu.Unlock()
	rng := rand.New(rand.NewPCG(p.seed, 77))
	slots := make(chan bool, 1+rng.IntN(4))
	var all sync.WaitGroup
	for _, r := range missing {
		if ctx.Err() != nil {
			break
		}
		slots <- true
		all.Go(func() {
			defer func() { <-slots }()
			for !p.post(ctx, s, r) && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
		})
	}
	all.Wait()
}

// post sends a request once and waits for the answer.
func (p *process) post(ctx context.Context, s *ingest.Stream, r int) bool {
	key := fmt.Sprintf("request %d", r)
	if p.w.plant == forgetKeys {
		key = fmt.Sprintf("request %d of process %d", r, p.seed)
	}
	answer := make(chan error, 1)
	err := s.Submit(&ingest.Request{Records: pushed(r), Key: key, KeepBad: true, Done: func(_ ingest.Result, err error) {
		if err == nil {
			p.w.mu.Lock()
			if !p.dead {
				p.w.acked[r] = true
			}
			p.w.mu.Unlock()
		}
		answer <- err
	}})
	if err != nil {
		p.refused.Add(1)
		return false
	}
	select {
	case err := <-answer:
		return err == nil
	case <-ctx.Done():
		return false
	}
}

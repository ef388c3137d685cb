package rehearsal

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/codec"
	"frazil/dataflow/component"
	"frazil/dataflow/engine"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// source gives its records when the world says so.
type source struct {
	env    *dataflow.Env
	plan   *engine.Source
	w      *world
	dec    dataflow.Decoder
	meta   dataflow.Decoder // nil: the payload has all columns
	bad    *dataflow.BadRows
	splits []dataflow.Split
	at     map[dataflow.Split]*reading
}

type reading struct {
	next, until int // until -1: none
	told        bool
}

func position(i int) dataflow.Position { return dataflow.Position(fmt.Sprintf("%06d", i)) }

func newSource(env *dataflow.Env, w *world, plan *engine.Source) (*source, error) {
	s := &source{env: env, plan: plan, w: w, bad: dataflow.NewBadRows(env), at: map[dataflow.Split]*reading{}, splits: w.piece.splits(plan.Name)}
	var err error
	if s.dec, s.meta, err = decoders(env, plan); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.run.tasks = append(w.run.tasks, s)
	return s, nil
}

// decoders make the columns of a source: those of its decode block, and one of
// JSON for what the source adds to them.
func decoders(env *dataflow.Env, plan *engine.Source) (payload, meta dataflow.Decoder, err error) {
	var known []arrow.Field
	schema, newDecoder := plan.Schema, env.NewDecoder
	if plan.NewTestDecoder != nil {
		newDecoder = plan.NewTestDecoder
	}
	if newDecoder != nil {
		if payload, err = newDecoder(); err != nil {
			return nil, nil, err
		}
		known = payload.Schema().Fields()
	}
	rest := schema.Fields()[len(known):]
	if len(rest) == 0 {
		return payload, nil, nil
	}
	cfg := codec.DefaultJSONConfig()
	cfg.Extra = codec.ExtraBad
	for _, f := range rest {
		cfg.Schema = append(cfg.Schema, component.NamedType{Name: f.Name, Type: dataflow.TypeName(f.Type)})
		if !f.Nullable {
			cfg.Required = append(cfg.Required, f.Name)
		}
	}
	if meta, err = codec.NewJSON(cfg, env.Alloc); err != nil {
		return nil, nil, err
	}
	if payload == nil {
		return meta, nil, nil
	}
	return payload, meta, nil
}

// Discover implements dataflow.Discoverer.
func (s *source) Discover(context.Context) ([]dataflow.Split, error) { return s.splits, nil }

// Start implements dataflow.Starter.
func (s *source) Start(_ context.Context, splits []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	out := map[dataflow.Split]dataflow.Position{}
	for _, sp := range splits {
		out[sp] = position(0)
	}
	return out, nil
}

// Begin implements dataflow.Starter.
func (s *source) Begin(ctx context.Context, splits []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	return s.Start(ctx, splits)
}

// Assign implements dataflow.Source. It checks that a run goes on exactly where
// the epoch before it ended.
func (s *source) Assign(_ context.Context, splits []dataflow.SplitAt) error {
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range splits {
		at := &reading{until: -1}
		var err error
		if at.next, err = strconv.Atoi(string(a.From)); err != nil {
			return err
		}
		if a.Until != nil {
			if at.until, err = strconv.Atoi(string(a.Until)); err != nil {
				return err
			}
		} else if want := w.read(Lane{s.env.Step, a.Split}, w.resume.next); at.next != want {
			w.fail("split %s is read from %d on, want %d (I1)", a.Split, at.next, want)
		}
		s.at[a.Split] = at
	}
	w.wake()
	return nil
}

// Unassign implements dataflow.Source.
func (s *source) Unassign(context.Context, []dataflow.Split) error { return nil }

// Poll implements dataflow.Source.
func (s *source) Poll(ctx context.Context, limit dataflow.PollLimit) (dataflow.Polled, error) {
	timer := time.NewTimer(time.Duration(limit.WaitMicros) * time.Microsecond)
	defer timer.Stop()
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asksAgain(s)
	for {
		if p, ok, err := w.turn(s); ok || err != nil {
			return p, err
		}
		ch := w.changed
		w.mu.Unlock()
		var err error
		timedOut := false
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-timer.C:
			timedOut = true
		case <-ch:
		}
		w.mu.Lock()
		if err != nil || timedOut {
			return dataflow.Polled{}, err
		}
	}
}

// move carries a move out that is this task's.
func (s *source) move(m move) (dataflow.Polled, error) {
	at := s.at[m.lane.Split]
	p := dataflow.Polled{Split: m.lane.Split}
	var err error
	switch m.kind {
	case moveRead:
		err = s.records(&p, at, m.n)
	case moveCaught:
		p.CaughtUp = true
	case moveEnd:
		p.Ended, p.CaughtUp = true, true
	}
	p.Next = position(at.next)
	return p, err
}

// replay reads on in any lane that has not reached its Until.
func (s *source) replay() (dataflow.Polled, bool, error) {
	for _, split := range s.splits {
		at := s.at[split]
		if at == nil || at.until < 0 || at.told {
			continue
		}
		p := dataflow.Polled{Split: split}
		err := s.records(&p, at, s.stretch(split, at))
		p.Next, p.AtUntil = position(at.next), at.next == at.until
		at.told = p.AtUntil
		return p, true, err
	}
	return dataflow.Polled{}, false, nil
}

// stretch is how many records a replay reads next: some, none behind one that
// moves the clock.
func (s *source) stretch(split dataflow.Split, at *reading) int {
	all := s.w.piece.Records[Lane{s.env.Step, split}]
	most := min(3, at.until-at.next)
	for i := range most {
		if all[at.next+i].Reached != nil {
			return i + 1
		}
	}
	return most
}

// records decodes the next n records of a lane.
func (s *source) records(p *dataflow.Polled, at *reading, n int) error {
	all := s.w.piece.Records[Lane{s.env.Step, p.Split}]
	if at.next+n > len(all) {
		return fmt.Errorf("split %s has %d records, not %d", p.Split, len(all), at.next+n)
	}
	pos, arrived := array.NewInt64Builder(s.env.Alloc), array.NewInt64Builder(s.env.Alloc)
	defer pos.Release()
	defer arrived.Release()
	for _, r := range all[at.next : at.next+n] {
		if r.Reached != nil {
			p.Reached = r.Reached
			at.next++
			continue
		}
		bad, err := s.decode(r)
		if err != nil {
			return err
		}
		if bad != nil {
			s.bad.AddRaw(bad, p.Split, strconv.Itoa(at.next), r.Payload)
		} else {
			pos.Append(int64(at.next))
			if r.Arrived == dataflow.MinTime {
				arrived.AppendNull()
			} else {
				arrived.Append(int64(r.Arrived))
			}
		}
		at.next++
	}
	p.Bad = s.bad.Flush()
	if s.dec.Rows() == 0 {
		return nil
	}
	rows := int64(s.dec.Rows())
	cols := s.dec.Flush()
	if s.meta != nil {
		cols = append(cols, s.meta.Flush()...)
	}
	cols = append(cols, pos.NewArray())
	fields := append(slices.Clone(s.plan.Schema.Fields()), arrow.Field{Name: dataflow.SysPos, Type: dataflow.TypeInt64})
	if s.plan.Arrived {
		cols = append(cols, arrived.NewArray())
		fields = append(fields, arrow.Field{Name: dataflow.SysArrived, Type: dataflow.TypeInt64, Nullable: true})
	}
	p.Batch = array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, rows)
	for _, c := range cols {
		c.Release()
	}
	return nil
}

// decode appends one record, or says why it is none.
func (s *source) decode(r Record) (*dataflow.Bad, error) {
	if bad := s.dec.Append(r.Payload); bad != nil || s.meta == nil {
		return bad, nil
	}
	doc := r.Meta
	if doc == nil {
		doc = []byte("{}")
	}
	if bad := s.meta.Append(doc); bad != nil {
		return nil, dataflow.Permanentf("the columns beside the payload: %s", bad.Detail)
	}
	return nil, nil
}

// Close implements dataflow.Source.
func (s *source) Close() error {
	s.bad.Release()
	for _, d := range []dataflow.Decoder{s.dec, s.meta} {
		if d, ok := d.(interface{ Release() }); ok {
			d.Release()
		}
	}
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.run.tasks = slices.DeleteFunc(w.run.tasks, func(t *source) bool { return t == s })
	if w.run.busy == s {
		w.run.busy = nil
	}
	return nil
}

package flowtest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// SourceConfig is the block of the source "script".
type SourceConfig struct {
	// splits of the source. Those that no record names are empty.
	splits []dataflow.Split
	// tasks bounds the tasks; with 1 the records of all splits have one order,
	// which every run repeats. 0: any number.
	tasks int
	// arrived: records carry the time of their arrival where the script has one.
	arrived bool
}

// UnmarshalNode reads {splits: [...], tasks: N, arrived: true}.
func (c *SourceConfig) UnmarshalNode(n *component.Node) error {
	for _, e := range n.Entries {
		switch e.Key {
		case "splits":
			for _, sp := range e.Value.Items {
				c.splits = append(c.splits, dataflow.Split(sp.Text))
			}
		case "tasks":
			c.tasks, _ = strconv.Atoi(e.Value.Text)
		case "arrived":
			c.arrived = e.Value.Text == "true"
		default:
			return component.Badf(e.Key, "unknown key; known: splits, tasks, arrived")
		}
	}
	return nil
}

func init() {
	component.RegisterSource(component.Source[SourceConfig]{
		Name: "script", Summary: "The records of a test script.", Default: func() SourceConfig { return SourceConfig{} },
		Plan: func(in component.SourceIn, cfg SourceConfig) (component.SourcePlan, error) {
			if in.Decoded == nil || len(cfg.splits) == 0 {
				return component.SourcePlan{}, component.Badf("", "a script needs splits and a decode block")
			}
			return component.SourcePlan{Schema: in.Decoded, Tasks: cfg.tasks, Bounded: true, Arrived: cfg.arrived}, nil
		},
		New: func(_ context.Context, env *dataflow.Env, cfg SourceConfig) (dataflow.Source, error) {
			return newSource(env, cfg)
		},
	})
}

// source gives its records when the world says so.
type source struct {
	env *dataflow.Env
	cfg SourceConfig
	w   *world
	dec dataflow.Decoder
	bad *dataflow.BadRows
	at  map[dataflow.Split]*reading
}

type reading struct {
	next, until int // until -1: none
	told        bool
}

func position(i int) dataflow.Position { return dataflow.Position(fmt.Sprintf("%06d", i)) }

func newSource(env *dataflow.Env, cfg SourceConfig) (*source, error) {
	w, err := worldOf(env)
	if err != nil {
		return nil, err
	}
	dec, err := env.NewDecoder()
	if err != nil {
		return nil, err
	}
	s := &source{env: env, cfg: cfg, w: w, dec: dec, bad: dataflow.NewBadRows(env), at: map[dataflow.Split]*reading{}}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.run.tasks = append(w.run.tasks, s)
	return s, nil
}

// Discover implements dataflow.Discoverer.
func (s *source) Discover(context.Context) ([]dataflow.Split, error) { return s.cfg.splits, nil }

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
		} else if want := w.read(lane{s.env.Step, a.Split}, w.resume.next); at.next != want {
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
	at := s.at[m.lane.split]
	p := dataflow.Polled{Split: m.lane.split}
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
	for _, split := range s.cfg.splits {
		at := s.at[split]
		if at == nil || at.until < 0 || at.told {
			continue
		}
		p := dataflow.Polled{Split: split}
		err := s.records(&p, at, min(3, at.until-at.next))
		p.Next, p.AtUntil = position(at.next), at.next == at.until
		at.told = p.AtUntil
		return p, true, err
	}
	return dataflow.Polled{}, false, nil
}

// records decodes the next n records of a lane.
func (s *source) records(p *dataflow.Polled, at *reading, n int) error {
	all := s.w.script.records[lane{s.env.Step, p.Split}]
	if at.next+n > len(all) {
		return fmt.Errorf("split %s has %d records, not %d", p.Split, len(all), at.next+n)
	}
	pos, arrived := array.NewInt64Builder(s.env.Alloc), array.NewInt64Builder(s.env.Alloc)
	defer pos.Release()
	defer arrived.Release()
	for _, r := range all[at.next : at.next+n] {
		if bad := s.dec.Append(r.payload); bad != nil {
			s.bad.AddRaw(bad, p.Split, strconv.Itoa(at.next), r.payload)
		} else {
			pos.Append(int64(at.next))
			if r.arrived == dataflow.MinTime {
				arrived.AppendNull()
			} else {
				arrived.Append(int64(r.arrived))
			}
		}
		at.next++
	}
	p.Bad = s.bad.Flush()
	if s.dec.Rows() == 0 {
		return nil
	}
	rows := int64(s.dec.Rows())
	cols := append(s.dec.Flush(), pos.NewArray())
	fields := append(append([]arrow.Field{}, s.dec.Schema().Fields()...), arrow.Field{Name: dataflow.SysPos, Type: dataflow.TypeInt64})
	if s.cfg.arrived {
		cols = append(cols, arrived.NewArray())
		fields = append(fields, arrow.Field{Name: dataflow.SysArrived, Type: dataflow.TypeInt64, Nullable: true})
	}
	p.Batch = array.NewRecordBatch(arrow.NewSchema(fields, nil), cols, rows)
	for _, c := range cols {
		c.Release()
	}
	return nil
}

// Close implements dataflow.Source.
func (s *source) Close() error {
	s.bad.Release()
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.run.tasks = slices.DeleteFunc(w.run.tasks, func(t *source) bool { return t == s })
	if w.run.busy == s {
		w.run.busy = nil
	}
	return nil
}

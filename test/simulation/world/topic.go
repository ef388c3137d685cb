package world

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/test/simulation/model"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// schema is that of all events.
var schema = arrow.NewSchema([]arrow.Field{
	{Name: "id", Type: dataflow.TypeInt64, Nullable: true}, {Name: "k", Type: dataflow.TypeString, Nullable: true},
	{Name: "ts", Type: dataflow.TypeTimestampTZ, Nullable: true}, {Name: "v", Type: dataflow.TypeInt32, Nullable: true},
}, nil)

// record is an event and when its broker has it.
type record struct {
	at time.Duration
	model.Event
}

// topic is what the brokers hold of one source.
type topic struct {
	name   string
	splits []*split
}

type split struct {
	name string
	born time.Duration
	recs []record
	// away are times at which the split's broker does not answer.
	away [][2]time.Duration
}

// end is how many records the split holds at t.
func (s *split) end(t time.Duration) int64 {
	n, _ := slices.BinarySearchFunc(s.recs, t, func(r record, t time.Duration) int {
		if r.at <= t {
			return -1
		}
		return 1
	})
	return int64(n)
}

func (s *split) isAway(t time.Duration) bool {
	return slices.ContainsFunc(s.away, func(a [2]time.Duration) bool { return a[0] <= t && t < a[1] })
}

func (t *topic) split(name dataflow.Split) *split {
	for _, s := range t.splits {
		if s.name == string(name) {
			return s
		}
	}
	return nil
}

func position(n int64) dataflow.Position { return dataflow.Position(fmt.Sprintf("%012d", n)) }

func offset(p dataflow.Position) int64 {
	n, err := strconv.ParseInt(string(p), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// TopicConfig is the config of the source sim.
type TopicConfig struct {
	// Topic that is read.
	Topic string `yaml:"topic,required"`
}

func init() {
	component.RegisterSource(component.Source[TopicConfig]{
		Name: "sim", Summary: "Reads a simulated topic.",
		Default: func() TopicConfig { return TopicConfig{} },
		Plan: func(component.SourceIn, TopicConfig) (component.SourcePlan, error) {
			return component.SourcePlan{Schema: schema, Pauses: true}, nil
		},
		New: func(context.Context, *dataflow.Env, TopicConfig) (dataflow.Source, error) { return nil, errUnbound },
	})
}

// reader reads splits of a topic for one task of one process.
type reader struct {
	p      *process
	t      *topic
	env    *dataflow.Env
	at     map[dataflow.Split]*place
	order  []dataflow.Split
	bad    *dataflow.BadRows
	fields *arrow.Schema
}

type place struct {
	next, until  int64
	paused, told bool
}

func (p *process) newReader(t *topic, env *dataflow.Env) *reader {
	return &reader{p: p, t: t, env: env, at: map[dataflow.Split]*place{}, bad: dataflow.NewBadRows(env),
		fields: arrow.NewSchema(append(slices.Clone(schema.Fields()), arrow.Field{Name: dataflow.SysPos, Type: dataflow.TypeInt64}), nil)}
}

// Discover implements dataflow.Discoverer.
func (r *reader) Discover(ctx context.Context) ([]dataflow.Split, error) {
	if err := r.p.call(ctx, "discover", 5*time.Millisecond); err != nil {
		return nil, err
	}
	var out []dataflow.Split
	for _, s := range r.t.splits {
		if s.born <= r.p.w.now() {
			out = append(out, dataflow.Split(s.name))
		}
	}
	return out, nil
}

// Start implements dataflow.Starter.
func (r *reader) Start(ctx context.Context, splits []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	return r.Begin(ctx, splits)
}

// Begin implements dataflow.Starter.
func (r *reader) Begin(ctx context.Context, splits []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	if err := r.p.call(ctx, "begin", 5*time.Millisecond); err != nil {
		return nil, err
	}
	out := map[dataflow.Split]dataflow.Position{}
	for _, s := range splits {
		out[s] = position(0)
	}
	return out, nil
}

// Ends implements dataflow.Ender.
func (r *reader) Ends(ctx context.Context, splits []dataflow.Split) (map[dataflow.Split]dataflow.Position, error) {
	if err := r.p.call(ctx, "ends", 5*time.Millisecond); err != nil {
		return nil, err
	}
	out := map[dataflow.Split]dataflow.Position{}
	for _, s := range splits {
		out[s] = position(r.t.split(s).end(r.p.w.now()))
	}
	return out, nil
}

// Assign implements dataflow.Source.
func (r *reader) Assign(ctx context.Context, splits []dataflow.SplitAt) error {
	r.p.w.yield()
	for _, a := range splits {
		at := &place{until: -1, next: offset(a.From)}
		if a.Until != nil {
			at.until = offset(a.Until)
		}
		if r.at[a.Split] == nil {
			r.order = append(r.order, a.Split)
		}
		r.at[a.Split] = at
	}
	return ctx.Err()
}

// Unassign implements dataflow.Source.
func (r *reader) Unassign(_ context.Context, splits []dataflow.Split) error {
	for _, s := range splits {
		delete(r.at, s)
		r.order = slices.DeleteFunc(r.order, func(x dataflow.Split) bool { return x == s })
	}
	return nil
}

// Pause implements dataflow.Pauser.
func (r *reader) Pause(splits ...dataflow.Split) {
	r.p.w.add("pauses", 1)
	for _, s := range splits {
		r.at[s].paused = true
	}
}

// Resume implements dataflow.Pauser.
func (r *reader) Resume(splits ...dataflow.Split) {
	for _, s := range splits {
		r.at[s].paused, r.at[s].told = false, false
	}
}

// Close implements dataflow.Source.
func (r *reader) Close() error {
	r.bad.Release()
	return nil
}

// Poll implements dataflow.Source.
func (r *reader) Poll(ctx context.Context, limit dataflow.PollLimit) (dataflow.Polled, error) {
	w := r.p.w
	until := w.now() + time.Duration(limit.WaitMicros)*time.Microsecond
	for {
		if err := r.p.call(ctx, "poll", time.Millisecond); err != nil {
			return dataflow.Polled{}, err
		}
		if w.chance(w.plan.pollErrors) && r.p.mayFail() {
			w.trace("source_errors", "%s/%d", r.t.name, r.env.Task)
			return dataflow.Polled{}, errSimulated
		}
		now := w.now()
		next := until
		for _, i := range w.perm(len(r.order)) {
			s, at := r.t.split(r.order[i]), r.at[r.order[i]]
			if at.paused || at.until >= 0 && at.next >= at.until && at.told {
				continue
			}
			if s.isAway(now) {
				if at.told && at.next != at.until {
					at.told = false // who does not answer is not known to have nothing more
					return dataflow.Polled{Split: dataflow.Split(s.name), Next: position(at.next)}, nil
				}
				next = min(next, now+100*time.Millisecond)
				continue
			}
			end := s.end(now)
			if at.next < end && (at.until < 0 || at.next < at.until) {
				return r.take(s, at, end, limit), nil
			}
			if !at.told {
				at.told = true
				return dataflow.Polled{Split: dataflow.Split(s.name), Next: position(at.next), CaughtUp: at.next >= end, AtUntil: at.next == at.until}, nil
			}
			if end < int64(len(s.recs)) {
				next = min(next, s.recs[end].at)
			}
		}
		if now >= until {
			return dataflow.Polled{}, nil
		}
		if err := pause(ctx, max(next-now, 100*time.Microsecond)); err != nil {
			return dataflow.Polled{}, err
		}
	}
}

// take reads some records of a split.
func (r *reader) take(s *split, at *place, end int64, limit dataflow.PollLimit) dataflow.Polled {
	w := r.p.w
	if at.until >= 0 {
		end = min(end, at.until)
	}
	n := min(end-at.next, int64(1+w.intn(w.plan.batch)), int64(limit.Rows))
	from := at.next
	b := array.NewRecordBuilder(memory.DefaultAllocator, r.fields)
	defer b.Release()
	rows := 0
	for i := from; i < from+n; i++ {
		e := s.recs[i].Event
		if w.o.Bug == "skip_record" && e.ID%97 == 13 {
			continue
		}
		if e.Poison {
			r.bad.AddRaw(&dataflow.Bad{Reason: "poison", Detail: "no row"}, dataflow.Split(s.name), strconv.FormatInt(i, 10), []byte("x"))
			continue
		}
		rows++
		b.Field(0).(*array.Int64Builder).Append(e.ID)
		b.Field(1).(*array.StringBuilder).Append(e.Key)
		b.Field(2).(*array.TimestampBuilder).Append(arrow.Timestamp(e.TS))
		b.Field(3).(*array.Int32Builder).Append(int32(e.V))
		b.Field(4).(*array.Int64Builder).Append(i)
	}
	at.next, at.told = from+n, false
	p := dataflow.Polled{Split: dataflow.Split(s.name), Next: position(at.next), AtUntil: at.next == at.until, Bad: r.bad.Flush()}
	at.told = p.AtUntil
	if rows > 0 {
		p.Batch = b.NewRecordBatch()
	}
	w.trace("polls", "%d %s/%s %d+%d", r.p.n, r.t.name, s.name, from, n)
	w.add("records", n)
	return p
}

// Ack implements dataflow.Acker.
func (r *reader) Ack(ctx context.Context, e dataflow.Epoch, upTo map[dataflow.Split]dataflow.Position) error {
	if err := r.p.call(ctx, "ack", 10*time.Millisecond); err != nil {
		return err
	}
	w := r.p.w
	if w.chance(20) {
		w.trace("acks_lost", "%s %d", r.t.name, e)
		return errSimulated
	}
	for s, p := range upTo {
		w.trace("acks", "%d %s/%s %s", r.p.n, r.t.name, s, p)
		w.checkAck(r.t, s, p)
	}
	return nil
}

var (
	_ dataflow.Source     = (*reader)(nil)
	_ dataflow.Discoverer = (*reader)(nil)
	_ dataflow.Starter    = (*reader)(nil)
	_ dataflow.Ender      = (*reader)(nil)
	_ dataflow.Pauser     = (*reader)(nil)
	_ dataflow.Acker      = (*reader)(nil)
)

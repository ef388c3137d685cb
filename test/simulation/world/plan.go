package world

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"frazil/dataflow/ingest"
	"frazil/test/simulation/model"
)

// base is the event time of the world's beginning, in microseconds.
const base = 1_700_000_000_000_000

// plan is what the seed decides before anything happens.
type plan struct {
	shape string
	yaml  string

	sources []*sourcePlan
	streams []*streamPlan
	tables  []*tablePlan

	every               time.Duration
	everyRows           int64
	memory, stateMemory int64
	ack                 string
	batch               int // records of a poll
	// pollErrors and commitErrors: one in so many.
	pollErrors, commitErrors int
	// incident is the mean time between two.
	incident time.Duration
	// stale: of how many looks at tables each process is told what was.
	stale int
	jumps []jump
}

// jump moves the wall clock.
type jump struct{ at, by time.Duration }

// sourcePlan is a source step and what its brokers or producers will have.
type sourcePlan struct {
	name                             string
	push                             bool
	outOfOrder, idle, drift, lookFor time.Duration
	topic                            *topic
	to                               *push
}

// streamPlan is a source, or several together, and the steps behind.
type streamPlan struct {
	from    string
	sources []*sourcePlan
	// within is the bound of a dedup in front of the steps; 0: none.
	within time.Duration
	steps  []*stepPlan
}

type stepKind string

const (
	tumbling stepKind = "tumbling"
	hopping  stepKind = "hopping"
	session  stepKind = "session"
	group    stepKind = "group"
)

type stepPlan struct {
	name                  string
	kind                  stepKind
	size, slide, lateness time.Duration
}

// tablePlan is a sink.
type tablePlan struct {
	name, from string
	of         *sourcePlan
	bad        bool
	changes    bool
	windows    bool
}

// maker makes a plan up.
type maker struct {
	*rand.Rand
	o    Options
	p    *plan
	text strings.Builder
	ops  strings.Builder
	sink strings.Builder
	ids  int64
	past []model.Event // to be copied
}

func pick[T any](m *maker, of ...T) T { return of[m.IntN(len(of))] }

func (m *maker) between(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(m.Int64N(int64(hi-lo)+1))
}

func makePlan(o Options) *plan {
	m := &maker{Rand: rand.New(rand.NewPCG(o.Seed, 0x3a)), o: o, p: &plan{}}
	p := m.p
	p.every = pick(m, 200*time.Millisecond, time.Second, 3*time.Second, 10*time.Second)
	p.memory, p.stateMemory = pick(m, int64(0), 0, 8<<20), pick(m, int64(0), 0, 1<<20)
	p.everyRows = pick(m, int64(0), 0, 50)
	p.ack = pick(m, ingest.AckWAL, ingest.AckWAL, ingest.AckCommit)
	p.batch = pick(m, 1, 3, 20, 500)
	p.pollErrors, p.commitErrors = pick(m, 500, 5000), pick(m, 5, 20, 100)
	p.incident = pick(m, 10*time.Second, 40*time.Second, 2*time.Minute)
	if o.Days {
		p.every = pick(m, 10*time.Second, time.Minute)
		p.everyRows, p.incident = 0, pick(m, time.Hour, 4*time.Hour)
	}
	m.jumps()
	m.pipeline()
	m.fill()
	p.stale = pick(m, 0, 0, 2) // the third look is believed
	return p
}

// jumps are made of the wall clock, forward and back.
func (m *maker) jumps() {
	if m.IntN(3) == 0 && !m.o.Days {
		return
	}
	most := 2 * time.Minute
	if m.o.Days {
		most = 30 * time.Hour
	}
	var sum time.Duration
	for at := time.Duration(0); at < m.o.For; at += m.between(m.o.For/20, m.o.For/4) {
		ahead := most
		if m.o.Days && at < m.o.For*5/6 {
			// A source that is idle goes with the wall clock: were that far ahead, all that
			// comes for the rest of the day would be late.
			ahead = m.o.For/48 - sum
		}
		by := m.between(-most, ahead)
		if m.IntN(2) == 0 {
			by /= 100
		}
		sum += by
		m.p.jumps = append(m.p.jumps, jump{at, by})
	}
}

func (m *maker) pipeline() {
	p := m.p
	text := &m.text
	fmt.Fprintf(text, "name: sim\nsources:\n")
	shape := m.IntN(6)
	if shape == 3 && m.o.Days {
		shape = 4 // alone, the one split of a push source is never idle
	}
	switch shape {
	case 0:
		p.shape = "one"
		m.stream(m.source("a", false))
	case 1:
		p.shape = "union"
		m.stream(m.source("a", false), m.source("b", false))
	case 2:
		p.shape = "parts"
		m.stream(m.source("a", false))
		m.stream(m.source("b", false))
	case 3:
		p.shape = "push"
		m.stream(m.source("p", true))
	case 4:
		p.shape = "push and topic"
		m.stream(m.source("a", false), m.source("p", true))
	default:
		p.shape = "push beside topic"
		m.stream(m.source("a", false))
		m.stream(m.source("p", true))
	}
	text.WriteString("operators:\n" + m.ops.String() + "sinks:\n" + m.sink.String())
	p.yaml = text.String()
	var kinds []string
	for _, s := range p.streams {
		for _, x := range s.steps {
			kinds = append(kinds, string(x.kind))
		}
	}
	p.shape += ": " + strings.Join(kinds, " ")
}

func (m *maker) source(name string, pushed bool) *sourcePlan {
	s := &sourcePlan{name: name, push: pushed}
	s.outOfOrder, s.lookFor = m.between(time.Second, 8*time.Second), m.between(2*time.Second, 30*time.Second)
	s.idle = pick(m, 0, m.between(3*time.Second, 20*time.Second))
	s.drift = pick(m, 0, 0, m.between(5*time.Second, 60*time.Second))
	if m.o.Days {
		s.outOfOrder, s.lookFor = m.between(time.Minute, 10*time.Minute), m.between(10*time.Minute, time.Hour)
		s.idle = pick(m, m.between(5*time.Minute, 30*time.Minute), m.between(5*time.Minute, 2*time.Hour))
		s.drift = pick(m, 0, 0, m.between(30*time.Minute, 2*time.Hour))
	}
	if pushed {
		fmt.Fprintf(&m.text, "  %s:\n    simpush: {}\n    decode: {json: {schema: {id: int64, k: string, ts: timestamptz(us), v: int32}}}\n", name)
	} else {
		fmt.Fprintf(&m.text, "  %s:\n    sim: {topic: %s}\n", name, name)
		m.table(&tablePlan{name: "bad_" + name, from: name + ".bad", of: s, bad: true})
	}
	fmt.Fprintf(&m.text, "    event_time: {column: ts, out_of_orderness: %s, discover_every: %s", s.outOfOrder.Round(time.Microsecond), s.lookFor.Round(time.Second))
	s.outOfOrder = s.outOfOrder.Round(time.Microsecond)
	if s.idle > 0 {
		fmt.Fprintf(&m.text, ", idle_after: %s", s.idle.Round(time.Millisecond))
	}
	if s.drift > 0 {
		fmt.Fprintf(&m.text, ", max_drift: %s", s.drift.Round(time.Millisecond))
	}
	m.text.WriteString("}\n")
	m.table(&tablePlan{name: "raw_" + name, from: name, of: s})
	m.p.sources = append(m.p.sources, s)
	return s
}

// sinkPrefix tells the sinks from the steps that they read.
const sinkPrefix = "to_"

func (m *maker) table(t *tablePlan) {
	fmt.Fprintf(&m.sink, "  %s%s: {from: %s, sim: {table: %s}}\n", sinkPrefix, t.name, t.from, t.name)
	m.p.tables = append(m.p.tables, t)
}

// stream makes some steps behind sources.
func (m *maker) stream(sources ...*sourcePlan) {
	s := &streamPlan{sources: sources, from: sources[0].name}
	tag := sources[0].name
	from := s.from
	if len(sources) > 1 {
		from = "all_" + tag
		fmt.Fprintf(&m.ops, "  %s: {from: [%s, %s], union: {}}\n", from, sources[0].name, sources[1].name)
	}
	if m.IntN(3) > 0 {
		s.within = pick(m, time.Minute, 30*time.Minute)
		if m.o.Days {
			s.within = pick(m, time.Hour, 12*time.Hour)
		}
		once := "once_" + tag
		fmt.Fprintf(&m.ops, "  %s: {from: %s, dedup: {key: [id], within: %s, order: event}}\n", once, from, s.within)
		m.table(&tablePlan{name: once, from: once})
		m.table(&tablePlan{name: "late_" + once, from: once + ".late"})
		from = once
	}
	s.from = from
	kinds := []stepKind{tumbling, hopping, session, group}
	some := m.Perm(len(kinds))[:1+m.IntN(3)]
	if m.o.Days && len(some) == 1 && kinds[some[0]] == group {
		some = append(some, m.IntN(3)) // a day must have windows
	}
	for _, i := range some {
		m.step(s, kinds[i], tag)
	}
	m.p.streams = append(m.p.streams, s)
}

const sums = "aggregate: {n: count(*), s: sum(v), lo: min(v), hi: max(v)}"

func (m *maker) step(s *streamPlan, kind stepKind, tag string) {
	x := &stepPlan{kind: kind, name: fmt.Sprintf("%s_%s", kind, tag)}
	scale := time.Second
	if m.o.Days {
		scale = time.Minute
	}
	x.size = time.Duration(pick(m, 2, 10, 30, 60)) * scale
	x.lateness = time.Duration(pick(m, 0, 0, 3, 15)) * scale
	late := ""
	if x.lateness > 0 {
		late = fmt.Sprintf(", allowed_lateness: %s", x.lateness)
	}
	switch kind {
	case tumbling:
		x.slide = x.size
		fmt.Fprintf(&m.ops, "  %s: {from: %s, window: {tumbling: %s, by: [k], %s%s}}\n", x.name, s.from, x.size, sums, late)
	case hopping:
		x.slide = x.size / time.Duration(pick(m, 2, 5))
		if x.size%x.slide != 0 {
			x.slide = x.size
		}
		fmt.Fprintf(&m.ops, "  %s: {from: %s, window: {hopping: {size: %s, slide: %s}, by: [k], %s%s}}\n", x.name, s.from, x.size, x.slide, sums, late)
	case session:
		fmt.Fprintf(&m.ops, "  %s: {from: %s, window: {session: {gap: %s}, by: [k], %s%s}}\n", x.name, s.from, x.size, sums, late)
	case group:
		fmt.Fprintf(&m.ops, "  %s: {from: %s, group: {by: [k], %s, expire_after: 1000h}}\n", x.name, s.from, sums)
	}
	m.table(&tablePlan{name: x.name, from: x.name, changes: kind == group, windows: kind != group})
	if kind != group {
		m.table(&tablePlan{name: "late_" + x.name, from: x.name + ".late"})
	}
	s.steps = append(s.steps, x)
}

// fill makes up what the brokers will hold and the producers will post.
func (m *maker) fill() {
	for _, s := range m.p.sources {
		if s.push {
			m.fillPush(s)
		} else {
			m.fillTopic(s)
		}
	}
}

// times are when a split or a producer has something: bursts, steady stretches, and
// long silences.
func (m *maker) times(from time.Duration, mean time.Duration) []time.Duration {
	var out []time.Duration
	for t := from; ; {
		switch m.IntN(60) {
		case 0:
			t += m.between(0, m.o.For/6)
		case 1:
			for range m.IntN(30) {
				out = append(out, t)
			}
		}
		t += time.Duration(float64(mean) * m.ExpFloat64())
		if t >= m.o.For {
			return out
		}
		out = append(out, t.Round(time.Microsecond))
	}
}

// event makes one up that is there at t; some are copies of earlier ones.
func (m *maker) event(s *sourcePlan, t time.Duration) model.Event {
	if n := len(m.past); n > 0 && m.IntN(20) == 0 {
		e := m.past[n-1-m.IntN(min(n, 50))]
		e.Source, e.Split, e.Pos = "", "", 0
		return e
	}
	m.ids++
	late := m.between(0, s.outOfOrder)
	switch m.IntN(40) {
	case 0:
		late = m.between(0, 10*s.outOfOrder)
	case 1:
		late = -m.between(0, s.outOfOrder)
	}
	e := model.Event{ID: m.ids, Key: fmt.Sprintf("k%d", m.IntN(m.keys())), TS: base + (t - late).Microseconds(), V: int64(m.IntN(2001) - 1000)}
	m.past = append(m.past, e)
	return e
}

func (m *maker) keys() int {
	if m.o.Days {
		return 5
	}
	return 8
}

func (m *maker) mean() time.Duration {
	if m.o.Days {
		return m.between(30*time.Second, 4*time.Minute)
	}
	return m.between(150*time.Millisecond, 2*time.Second)
}

// silence is a long time of a day in which a split has nothing.
func (m *maker) silence() (from, until time.Duration) {
	if !m.o.Days {
		return 0, 0
	}
	from = m.between(m.o.For/8, m.o.For*3/4)
	return from, from + m.between(m.o.For/12, m.o.For/4)
}

func (m *maker) fillTopic(s *sourcePlan) {
	s.topic = &topic{name: s.name}
	n := 1 + m.IntN(4)
	if m.o.Days {
		n = max(n, 2)
	}
	for i := range n {
		x := &split{name: fmt.Sprint(i)}
		if i > 0 && m.IntN(3) == 0 {
			x.born = m.between(0, m.o.For/2)
		}
		silent, until := m.silence()
		for _, t := range m.times(x.born, m.mean()) {
			if silent <= t && t < until {
				continue
			}
			e := m.event(s, t)
			e.Source, e.Split, e.Pos = s.name, x.name, int64(len(x.recs))
			if m.IntN(100) == 0 {
				e.Poison = true
			}
			x.recs = append(x.recs, record{t, e})
		}
		for range m.IntN(4) {
			from := m.between(0, m.o.For)
			x.away = append(x.away, [2]time.Duration{from, min(from+m.between(0, m.o.For/15), m.o.For)})
		}
		s.topic.splits = append(s.topic.splits, x)
	}
}

func (m *maker) fillPush(s *sourcePlan) {
	s.to = &push{name: s.name, acked: map[int64]bool{}}
	for i := range 1 + m.IntN(4) {
		p := &producer{name: fmt.Sprintf("%s%d", s.name, i), keyed: m.IntN(2) == 0, done: make(chan struct{})}
		for _, t := range m.times(0, m.mean()) {
			r := request{at: t}
			for range 1 + m.IntN(3) {
				e := m.event(s, t)
				e.Source, e.Split = s.name, string(ingest.Split)
				r.events = append(r.events, e)
			}
			p.requests = append(p.requests, r)
		}
		s.to.producers = append(s.to.producers, p)
	}
}

// furnish puts the plan's things into the world.
func (w *World) furnish() {
	for _, s := range w.plan.sources {
		if s.push {
			w.pushes[s.name] = s.to
		} else {
			w.topics[s.name] = s.topic
		}
	}
	for _, t := range w.plan.tables {
		of := t.of
		if t.bad {
			of = nil
		}
		w.tables[t.name] = &table{name: t.name, of: of, changes: t.changes, windows: t.windows, folded: map[string]string{}, epochs: map[int]int64{}}
	}
}

// hasPush says whether producers post to the pipeline.
func (p *plan) hasPush() bool {
	return slices.ContainsFunc(p.sources, func(s *sourcePlan) bool { return s.push })
}

package metamorphic

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"frazil/dataflow"
	"frazil/pipelines/rehearsal"
)

// stream is what is known of a step while a pipeline is made up.
type stream struct {
	step string
	// ints, floats, texts and times are its columns by type.
	ints, floats, texts, times []string
	// depth is how deep lists nest in its column q; 0: it is no list any more.
	depth      int
	changes    bool
	aggregated bool
}

func (s stream) columns() []string {
	return append(append(append(append([]string{}, s.texts...), s.ints...), s.floats...), s.times...)
}

// maker makes one pipeline up.
type maker struct {
	*rand.Rand
	sources, operators, sinks strings.Builder
	names                     []string
	n                         int
}

func (m *maker) pick(list ...string) string { return list[m.IntN(len(list))] }

func (m *maker) some(list []string, least int) []string {
	var out []string
	for _, i := range m.Perm(len(list)) {
		if len(out) < least || m.IntN(3) == 0 {
			out = append(out, list[i])
		}
	}
	return out
}

// pipeline makes a pipeline of one or two sources and one to four steps.
func (m *maker) pipeline() string {
	var in []stream
	for range 1 + m.IntN(4)/3 {
		in = append(in, m.source())
	}
	at := in[0]
	if len(in) > 1 {
		at = m.step(stream{ints: at.ints, floats: at.floats, texts: at.texts, times: at.times, depth: at.depth}, fmt.Sprintf("{from: [%s, %s], union: {}}", in[0].step, in[1].step))
	}
	for range m.IntN(4) {
		at = m.simple(at)
	}
	for i := range 1 + m.IntN(2) {
		if i > 0 && (at.changes || m.IntN(2) == 0) {
			break
		}
		if i == 0 && m.IntN(3) == 0 {
			m.sink(at)
		}
		at = m.grouping(at)
	}
	if m.IntN(3) == 0 {
		at = m.filter(at)
	}
	if at.changes && m.IntN(2) == 0 {
		if len(at.ints)+len(at.times) > 0 && m.IntN(2) == 0 {
			at = m.retop(at)
		} else {
			at = m.regroup(at)
		}
	}
	m.sink(at)
	return "sources:\n" + m.sources.String() + "operators:\n" + m.operators.String() + "sinks:\n" + m.sinks.String()
}

func (m *maker) source() stream {
	name := fmt.Sprintf("s%d", len(m.names))
	m.names = append(m.names, name)
	more := m.pick("", ", idle_after: 10s", ", max_ahead: 30s", ", max_drift: 20s")
	fmt.Fprintf(&m.sources, "  %s:\n    kafka: {brokers: [\"127.0.0.1:1\"], topics: [t]}\n", name)
	m.sources.WriteString("    decode: {json: {schema: {k: string, l: string, i: int64, j: int32, f: float64, q: \"list<list<int64>>\", ts: timestamptz}}}\n")
	fmt.Fprintf(&m.sources, "    event_time: {column: ts, out_of_orderness: %s%s}\n", m.pick("0s", "1s", "5s", "20s"), more)
	return stream{step: name, texts: []string{"k", "l"}, ints: []string{"i", "j"}, floats: []string{"f"}, times: []string{"ts"}, depth: 2}
}

// step writes an operator and returns s under its name.
func (m *maker) step(s stream, text string) stream {
	m.n++
	s.step = fmt.Sprintf("op%d", m.n)
	fmt.Fprintf(&m.operators, "  %s: %s\n", s.step, text)
	return s
}

func (m *maker) sink(s stream) {
	fmt.Fprintf(&m.sinks, "  out_%s: {from: %s, files: {path: out/%s}}\n", s.step, s.step, s.step)
}

// simple adds a step that makes no groups.
func (m *maker) simple(s stream) stream {
	switch m.IntN(8) {
	case 0:
		return m.filter(s)
	case 3:
		return m.unnest(s)
	case 4:
		return m.route(s)
	case 5:
		return m.shape(s)
	case 1:
		return m.over(s)
	case 2:
		m.n++
		name := fmt.Sprintf("c%d", m.n)
		out := m.step(s, fmt.Sprintf("{from: %s, project: {compute: {%s: %q}}}", s.step, name, m.pick(s.ints...)+" % 5 + "+m.pick(s.ints...)+" / "+m.pick("1", "2", "i")))
		out.ints = append(append([]string{}, s.ints...), name)
		return out
	}
	return m.step(s, fmt.Sprintf("{from: %s, dedup: {key: [%s], within: %s, order: event}}", s.step, strings.Join(m.some(append(append([]string{}, s.texts...), s.ints...), 1), ", "), m.pick("2s", "15s", "2m")))
}

// unnest makes rows of the lists of s.
func (m *maker) unnest(s stream) stream {
	if s.depth == 0 {
		return s
	}
	out, name := s, fmt.Sprintf("o%d", m.n)
	out.depth--
	out.ints = append(append([]string{}, s.ints...), name)
	if out.depth == 0 {
		out.ints = append(out.ints, "q")
	}
	return m.step(out, fmt.Sprintf("{from: %s, unnest: {column: q, ordinality: %s, keep_empty: %s}}", s.step, name, m.pick("true", "false")))
}

// route sends the rows of s different ways, and joins some of them again.
func (m *maker) route(s stream) stream {
	at := m.step(s, fmt.Sprintf("{from: %s, route: {match: %s, routes: {a: \"%s > %d\", b: \"6 / %s > 1\", c: \"%s = 'a'\"}}}",
		s.step, m.pick("first", "all"), m.pick(s.ints...), m.IntN(4), m.pick(s.ints...), m.pick(s.texts...)))
	var ports []string
	for _, p := range m.some([]string{"a", "b", "c", "else"}, 2) {
		ports = append(ports, at.step+"."+p)
	}
	return m.step(at, fmt.Sprintf("{from: [%s], union: {}}", strings.Join(ports, ", ")))
}

// shape renames, casts or holds to a contract.
func (m *maker) shape(s stream) stream {
	switch m.IntN(3) {
	case 0:
		old, name := m.pick(s.texts...), fmt.Sprintf("t%d", m.n)
		out := s
		out.texts = nil
		for _, t := range s.texts {
			if t == old {
				t = name
			}
			out.texts = append(out.texts, t)
		}
		return m.step(out, fmt.Sprintf("{from: %s, rename: {columns: {%s: %s}}}", s.step, old, name))
	case 1:
		return m.step(s, fmt.Sprintf("{from: %s, cast: {columns: {%s: %s}}}", s.step, m.pick(s.ints...), m.pick("int32", "int64", "\"decimal(1,0)\"")))
	}
	return m.step(s, fmt.Sprintf("{from: %s, contract: {required: [%s], ranges: {%s: {max: %d}}, rules: {r: \"6 / %s <> 2\"}}}",
		s.step, m.pick(s.texts...), m.pick(s.ints...), 2+m.IntN(4), m.pick(s.ints...)))
}

// over adds columns to s.
func (m *maker) over(s stream) stream {
	aggregates, added := m.aggregates(s)
	out := s
	out.ints = append(append([]string{}, s.ints...), added.ints...)
	out.floats = append(append([]string{}, s.floats...), added.floats...)
	out.texts = append(append([]string{}, s.texts...), added.texts...)
	frame := m.pick("rows_preceding: 3, expire_after: 30s", "range_preceding: 5s", "unbounded: {expire_after: 20s}")
	return m.step(out, fmt.Sprintf("{from: %s, over: {%s, by: [%s], aggregate: {%s}}}", s.step, frame, strings.Join(m.some(s.texts, 0), ", "), aggregates))
}

func (m *maker) filter(s stream) stream {
	var conditions []string
	if len(s.ints) > 0 {
		conditions = append(conditions, fmt.Sprintf("%s > %d", m.pick(s.ints...), m.IntN(4)))
	}
	if len(s.texts) > 0 {
		conditions = append(conditions, m.pick(s.texts...)+" is not null", m.pick(s.texts...)+" <> 'a'")
	}
	if len(conditions) == 0 {
		return s
	}
	return m.step(s, fmt.Sprintf("{from: %s, filter: {where: %q}}", s.step, m.pick(conditions...)))
}

// grouping adds a window, a group, a top or a dedup that keeps the last.
func (m *maker) grouping(s stream) stream {
	by := m.some(s.texts, 0)
	switch m.IntN(8) {
	case 0:
		aggregates, out := m.aggregates(s)
		out.changes = true
		out.texts = by
		return m.step(out, fmt.Sprintf("{from: %s, group: {by: [%s], aggregate: {%s}, expire_after: %s}}", s.step, strings.Join(by, ", "), aggregates, m.pick("5s", "30s", "10m")))
	case 1:
		return m.top(s, by)
	case 2:
		s.changes = true
		return m.step(s, fmt.Sprintf("{from: %s, dedup: {key: [%s], within: %s, keep: last}}", s.step, strings.Join(m.some(append(append([]string{}, s.texts...), s.ints...), 1), ", "), m.pick("5s", "30s", "10m")))
	}
	return m.window(s, by)
}

// regroup adds a group over changes.
func (m *maker) regroup(s stream) stream {
	aggregates, out := m.aggregates(s)
	texts, ints := m.some(s.texts, 0), m.some(s.ints, 0)
	out.changes, out.texts, out.ints = true, append(out.texts, texts...), append(out.ints, ints...)
	return m.step(out, fmt.Sprintf("{from: %s, group: {by: [%s], aggregate: {%s}}}", s.step, strings.Join(append(texts, ints...), ", "), aggregates))
}

// retop adds a top over changes.
func (m *maker) retop(s stream) stream {
	by := append(m.some(s.texts, 0), m.some(s.ints, 0)...)
	order := m.pick(append(append([]string{}, s.ints...), s.times...)...) + m.pick("", " desc")
	out, rank := s, fmt.Sprintf("rank%d", m.n)
	out.ints = append(append([]string{}, s.ints...), rank)
	return m.step(out, fmt.Sprintf("{from: %s, top: {by: [%s], order_by: [%q], limit: %d, rank: %s}}", s.step, strings.Join(by, ", "), order, 1+m.IntN(4), rank))
}

func (m *maker) top(s stream, by []string) stream {
	limit := 1 + m.IntN(3)
	order := m.pick(append(append([]string{}, s.ints...), s.times...)...) + m.pick("", " desc")
	window := m.pick("", "tumbling: 10s, ", "hopping: {size: 10s, slide: 5s}, ")
	out := s
	out.ints = append(append([]string{}, s.ints...), "place")
	rest := "ties: " + m.pick("row", "rank")
	if window == "" {
		rest, out.changes = "expire_after: "+m.pick("10s", "1m"), true
	} else {
		out.times = append(append([]string{}, s.times...), "window_start", "window_end")
	}
	return m.step(out, fmt.Sprintf("{from: %s, top: {%sby: [%s], order_by: [%q], limit: %d, rank: place, %s}}", s.step, window, strings.Join(by, ", "), order, limit, rest))
}

func (m *maker) window(s stream, by []string) stream {
	shape := m.pick("tumbling: 10s", "tumbling: 10s, offset: 3s", "hopping: {size: 20s, slide: 5s}", "hopping: {size: 7s, slide: 3s}",
		"cumulative: {size: 20s, step: 5s}", "session: {gap: 3s}", "session: {gap: 10s}", "count: {rows: 4, expire_after: 30s}", "global: {}", "tumbling: 1d, zone: Europe/Berlin")
	aggregates, out := m.aggregates(s)
	options := ""
	if m.IntN(3) == 0 {
		options += ", allowed_lateness: " + m.pick("2s", "15s")
	}
	switch m.IntN(5) {
	case 0:
		options += ", emit: updates"
		out.changes = true
	case 1:
		options += ", early: {rows: 3}, " + m.pick("mode: discarding", "emit: updates")
		out.changes = strings.HasSuffix(options, "updates")
	}
	out.texts, out.times = by, []string{"window_start", "window_end"}
	return m.step(out, fmt.Sprintf("{from: %s, window: {%s, by: [%s], aggregate: {%s}%s}}", s.step, shape, strings.Join(by, ", "), aggregates, options))
}

// aggregates makes one to four of them up, with columns g1, g2, ...
func (m *maker) aggregates(s stream) (string, stream) {
	out := stream{aggregated: true}
	var parts []string
	for k := range 1 + m.IntN(4) {
		name := fmt.Sprintf("g%d_%d", m.n, k)
		text := "count(*)"
		switch m.IntN(7) {
		case 0:
			if len(s.floats) > 0 {
				text = m.pick("sum", "avg", "min", "max") + "(" + m.pick(s.floats...) + ")"
				out.floats = append(out.floats, name)
				break
			}
			fallthrough
		case 1:
			if len(s.ints) > 0 {
				text = m.pick("min", "max") + "(" + m.pick(s.ints...) + ")"
			}
			out.ints = append(out.ints, name)
		case 2:
			if len(s.texts) > 0 {
				text = m.pick("min", "max", "first", "last") + "(" + m.pick(s.texts...) + ")"
				out.texts = append(out.texts, name)
				break
			}
			out.ints = append(out.ints, name)
		case 3:
			if c := s.columns(); len(c) > 0 {
				text = "count(distinct " + m.pick(c...) + ")"
			}
			out.ints = append(out.ints, name)
		case 4:
			if len(s.ints) > 0 {
				text = m.pick("sum", "avg", "stddev") + "(" + m.pick(s.ints...) + ")"
			} else {
				out.ints = append(out.ints, name)
			}
		default:
			out.ints = append(out.ints, name)
		}
		if len(s.ints) > 0 && m.IntN(4) == 0 {
			text += fmt.Sprintf(" filter (where %s > 1)", m.pick(s.ints...))
		}
		parts = append(parts, name+": "+quoted(text))
	}
	return strings.Join(parts, ", "), out
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

var start = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)

// records gives a piece some lanes per source with rows, mostly in order, some
// far behind, some that are no rows, and idle stretches and watermarks between.
func (m *maker) records(p *rehearsal.Piece, idle map[string]time.Duration) {
	var lanes []rehearsal.Lane
	clock := map[rehearsal.Lane]time.Duration{}
	for _, s := range m.names {
		for i := range 1 + m.IntN(3) {
			l := rehearsal.Lane{Source: s, Split: dataflow.Split(fmt.Sprintf("p%d", i))}
			lanes = append(lanes, l)
			p.AddLane(l)
		}
	}
	for range 20 + m.IntN(60) {
		l := lanes[m.IntN(len(lanes))]
		switch m.IntN(40) {
		case 0:
			if d := idle[l.Source]; d > 0 {
				p.Steps = append(p.Steps, rehearsal.Step{Kind: rehearsal.Idle, Lane: l, D: d})
			}
		case 1:
			to := dataflow.TimeOf(start.Add(clock[l] + time.Duration(m.IntN(20))*time.Second))
			p.Add(l, rehearsal.Record{Reached: &to})
		}
		clock[l] += time.Duration(m.IntN(3000)) * time.Millisecond
		at := start.Add(clock[l] - time.Duration(m.IntN(4))*time.Second)
		if m.IntN(15) == 0 {
			at = at.Add(-time.Duration(m.IntN(60)) * time.Second)
		}
		p.Add(l, rehearsal.Record{Payload: []byte(m.payload(at)), Arrived: dataflow.TimeOf(at.Add(-time.Duration(m.IntN(40)) * time.Second))})
	}
}

func (m *maker) payload(at time.Time) string {
	switch m.IntN(40) {
	case 0:
		return "{broken"
	case 1:
		return `{"k":"a","i":"text"}`
	case 2:
		return `{"k":"a","i":1}`
	}
	value := func(v string) string {
		if m.IntN(12) == 0 {
			return "null"
		}
		return v
	}
	return fmt.Sprintf(`{"k":%s,"l":%s,"i":%s,"j":%s,"f":%s,"q":%s,"ts":%q}`,
		value(`"`+m.pick("a", "b", "c")+`"`), value(`"`+m.pick("x", "y")+`"`), value(fmt.Sprint(m.IntN(6))),
		value(fmt.Sprint(m.IntN(3))), value(fmt.Sprint(float64(m.IntN(100))/8)), value(m.pick("[]", "[[1]]", "[[1,2],null,[2]]", "[[3,null,3],[],[4]]", "[[0],[0]]")), at.Format("2006-01-02T15:04:05.000Z"))
}

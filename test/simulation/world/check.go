package world

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
	"frazil/test/simulation/model"
)

// checkAck: nothing is acknowledged that the table of the source's rows does not hold.
func (w *World) checkAck(t *topic, s dataflow.Split, upTo dataflow.Position) {
	w.tab.Lock()
	held := offset(w.tables["raw_"+t.name].held.Positions.Get(t.name, s))
	w.tab.Unlock()
	for i := max(held, 0); i < offset(upTo); i++ {
		if !t.split(s).recs[i].Poison {
			w.fail("%s/%s is acknowledged up to %s, the table holds %d: record %d is not committed (I11)", t.name, s, upTo, held, i)
			return
		}
	}
}

// checkCommit: positions never go back, epochs grow, and the rows of a table that a
// source feeds are exactly those between the positions.
func (w *World) checkCommit(p *process, t *table, k dataflow.Commit, rows []string) {
	for step, splits := range k.At {
		for s, at := range splits {
			if held := offset(t.held.Positions.Get(step, s)); offset(at) < held {
				w.fail("commit %d of %s goes back in %s/%s from %d to %s (I9)", k.Epoch, t.name, step, s, held, at)
			}
		}
	}
	if last := t.epochs[p.n]; int64(k.Epoch) <= last {
		w.fail("process %d commits epoch %d of %s after epoch %d (I4)", p.n, k.Epoch, t.name, last)
	}
	if t.of != nil {
		w.checkRows(t, k, rows)
	}
}

func (w *World) checkRows(t *table, k dataflow.Commit, rows []string) {
	at := map[origin]bool{}
	for _, r := range rows {
		split, rest, _ := strings.Cut(r, "|")
		text, _, _ := strings.Cut(rest, "|")
		pos, _ := strconv.ParseInt(text, 10, 64)
		o := origin{split, pos}
		if at[o] {
			w.fail("commit %d of %s has the row %s/%d twice", k.Epoch, t.name, split, pos)
		}
		at[o] = true
	}
	name := t.of.name
	for s, next := range k.At[name] {
		from := max(offset(t.held.Positions.Get(name, s)), 0)
		if t.of.push {
			from = max(from, 1)
		}
		for i := from; i < offset(next); i++ {
			if !t.of.push && w.topics[name].split(s).recs[i].Poison {
				continue
			}
			o := origin{string(s), i}
			if !at[o] {
				w.fail("commit %d of %s goes to %s of %s/%s without the row %d (I9)", k.Epoch, t.name, next, name, s, i)
				return
			}
			delete(at, o)
		}
	}
	for o := range at {
		w.fail("commit %d of %s has the row %s/%d, which does not lie between its positions (I9)", k.Epoch, t.name, o.split, o.pos)
		return
	}
}

// checkManifest: in the history of a disk epochs grow, and neither positions nor
// watermarks go back; the ledger balances.
func (p *process) checkManifest(m *checkpoint.Manifest) {
	w, line := p.w, p.line
	w.tab.Lock()
	defer w.tab.Unlock()
	if m.Epoch <= line.epoch {
		w.fail("process %d writes epoch %d after epoch %d (I4)", p.n, m.Epoch, line.epoch)
	}
	positions := m.Positions()
	for step, splits := range line.positions {
		for s, at := range splits {
			if now := positions.Get(step, s); now.Compare(at) < 0 {
				w.fail("epoch %d: %s/%s goes back from %s to %s", m.Epoch, step, s, at, now)
			}
		}
	}
	for step, at := range line.watermarks {
		if now := m.Sources[step].Watermark; now < at {
			w.fail("epoch %d: the watermark of %s goes back from %s to %s (I5)", m.Epoch, step, at, now)
		}
	}
	line.epoch, line.positions, line.watermarks = m.Epoch, positions, m.Watermarks()
	p.checkLedger(m)
}

// checkLedger does the sums of the ledger.
func (p *process) checkLedger(m *checkpoint.Manifest) {
	law := func(step string, inputs []string) {
		c := m.Ledger.Steps[step]
		var sent int64
		for _, port := range inputs {
			sent += m.Ledger.Sent[port]
		}
		if inputs != nil && c.In != sent {
			p.w.fail("epoch %d: %s received %d rows of %v, which sent %d (I10)", m.Epoch, step, c.In, inputs, sent)
		}
		if out := c.Passed + c.Filtered + c.Late + c.Duplicate + c.Bad + c.Absorbed + c.Expired + c.Held + c.Staged + c.Superseded + c.Muted; c.In != out {
			p.w.fail("epoch %d: %s: %d rows came, %d have a fate: %+v (I10)", m.Epoch, step, c.In, out, c)
		}
	}
	ports := map[string][]string{}
	for _, s := range p.graph.Sources {
		ports[s.Name] = []string{s.Name, s.Name + ".bad"}
		law(s.Name, nil)
	}
	for _, op := range p.graph.Operators {
		for _, port := range op.Plan.Ports {
			name := op.Name
			if port.Name != "" {
				name += "." + port.Name
			}
			ports[op.Name] = append(ports[op.Name], name)
		}
	}
	for _, op := range p.graph.Operators {
		var in []string
		for _, r := range op.Inputs {
			in = append(in, ports[r.Step][r.Port])
		}
		law(op.Name, in)
	}
	for _, s := range p.graph.Sinks {
		law(s.Name, []string{ports[s.Input.Step][s.Input.Port]})
	}
}

// decisions are the clock's, as the tables hold them.
func (w *World) decisions() map[string][]model.Decision {
	type at struct {
		source, split string
		pos           int64
	}
	all := map[at]int64{}
	for _, name := range slices.Sorted(maps.Keys(w.tables)) {
		for _, d := range w.tables[name].held.Clock {
			k := at{d.Source, string(d.Split), d.Pos}
			if floor, ok := all[k]; ok && floor != int64(d.Floor) {
				w.fail("the tables hold two decisions of the clock at %v: %d and, in %s, %d", k, floor, name, d.Floor)
			}
			all[k] = int64(d.Floor)
		}
	}
	out := map[string][]model.Decision{}
	for k, floor := range all {
		out[k.source+"/"+k.split] = append(out[k.source+"/"+k.split], model.Decision{Source: k.source, Split: k.split, Pos: k.pos, Floor: floor})
	}
	w.add("clock_decisions", int64(len(all)))
	return out
}

// compare compares all tables with the model.
func (w *World) compare() {
	decisions := w.decisions()
	events := map[string][]model.Event{}
	for _, s := range w.plan.sources {
		splits := map[string][]model.Event{}
		if s.push {
			splits[string("0")] = w.pushed(s)
		} else {
			splits = w.recorded(s)
		}
		for _, name := range slices.Sorted(maps.Keys(splits)) {
			events[s.name] = append(events[s.name], model.Stamp(splits[name], s.outOfOrder.Microseconds(), decisions[s.name+"/"+name])...)
		}
	}
	for _, s := range w.plan.streams {
		var all []model.Event
		for _, x := range s.sources {
			all = append(all, events[x.name]...)
		}
		w.compareStream(s, all)
	}
}

// recorded are the events of a topic, by split; the tables that the source feeds must
// hold each of them.
func (w *World) recorded(s *sourcePlan) map[string][]model.Event {
	splits := map[string][]model.Event{}
	var rows, bad []string
	for _, x := range s.topic.splits {
		for _, r := range x.recs {
			splits[x.name] = append(splits[x.name], r.Event)
			if r.Poison {
				bad = append(bad, fmt.Sprintf("poison|no row|%s|%s|%s|%d|x|-", s.name, s.name, x.name, r.Pos))
			} else {
				rows = append(rows, model.Row(r.Event))
			}
		}
	}
	w.same("raw_"+s.name, rows)
	w.same("bad_"+s.name, bad)
	return splits
}

// pushed are the events of a push source in the order that the log gave them.
func (w *World) pushed(s *sourcePlan) []model.Event {
	t := w.tables["raw_"+s.name]
	w.same(t.name, model.Rows(s.to.posted))
	there := map[string]bool{}
	for _, r := range t.rows {
		there[r] = true
	}
	for _, e := range s.to.posted {
		if s.to.acked[e.ID] && !there[model.Row(e)] {
			w.fail("event %d was acknowledged to its producer and is lost", e.ID)
		}
	}
	var out []model.Event
	for i, o := range t.origin {
		e := model.Event{Source: s.name, Split: o.split, Pos: o.pos}
		parts := strings.Split(t.rows[i], "|")
		e.ID, _ = strconv.ParseInt(parts[0], 10, 64)
		e.Key = parts[1]
		e.TS, _ = strconv.ParseInt(parts[2], 10, 64)
		e.V, _ = strconv.ParseInt(parts[3], 10, 64)
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b model.Event) int { return int(a.Pos - b.Pos) })
	return out
}

func (w *World) compareStream(s *streamPlan, events []model.Event) {
	if s.within > 0 {
		var late []string
		events, late = model.Dedup(events, s.within.Microseconds())
		w.same(s.from, model.Rows(events))
		w.same("late_"+s.from, late)
	}
	for _, x := range s.steps {
		size, lateness := x.size.Microseconds(), x.lateness.Microseconds()
		switch x.kind {
		case group:
			var got []string
			for _, row := range w.tables[x.name].folded {
				got = append(got, row)
			}
			w.report(x.name, got, model.Groups(events))
		case session:
			rows, late := model.Sessions(events, size, lateness)
			w.same(x.name, rows)
			w.same("late_"+x.name, late)
		default:
			rows, late := model.Windows(events, size, x.slide.Microseconds(), lateness)
			w.same(x.name, rows)
			w.same("late_"+x.name, late)
		}
	}
}

func (w *World) same(table string, want []string) { w.report(table, w.tables[table].rows, want) }

func (w *World) report(table string, got, want []string) {
	w.add("rows_compared", int64(len(want)))
	if diff := model.Diff(got, want); diff != "" {
		w.fail("table %s: %s", table, diff)
	}
}

package operators

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"frazil/dataflow"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// What windows tell people about one key at one time (dataflow.Explainer). It is
// asked between two messages, when nothing waits in the builders of results.

// askedKey is a key that people wrote.
type askedKey struct {
	hash  uint64
	bytes []byte          // canonical
	shown json.RawMessage // a JSON object by name
}

// explain makes the parts of an explanation that all kinds of windows share.
func (s *windowShape) explain(env *dataflow.Env, text string) (askedKey, dataflow.Explanation, error) {
	k, err := readKey(env, s.groups.schema, text)
	if err != nil {
		return k, dataflow.Explanation{}, err
	}
	g := state.GroupOf(k.hash)
	return k, dataflow.Explanation{Key: k.shown, Mine: g >= env.Groups.Lo && g < env.Groups.Hi}, nil
}

// readKey reads a key: the value of a single column, the values of several in
// order and joined by commas, a JSON object by name; "-" where there is none.
func readKey(env *dataflow.Env, schema *arrow.Schema, text string) (askedKey, error) {
	b, err := keyRow(env, schema, text)
	if err != nil {
		return askedKey{}, err
	}
	defer b.Release()
	cols := make([]int, schema.NumFields())
	for i := range cols {
		cols[i] = i
	}
	enc, err := newKeyEncoder(schema, cols)
	if err != nil {
		return askedKey{}, err
	}
	enc.bind(b)
	k := askedKey{bytes: enc.append(nil, 0), shown: dataflow.RowJSON(b, 0)}
	k.hash = keyHash(k.bytes)
	return k, nil
}

// keyRow makes a batch of one row of the key; the caller owns it.
func keyRow(env *dataflow.Env, schema *arrow.Schema, text string) (arrow.RecordBatch, error) {
	var names []string
	for _, f := range schema.Fields() {
		names = append(names, f.Name)
	}
	wrong := func(why string) error {
		form := "- (the step has one group)"
		if len(names) > 0 {
			form = fmt.Sprintf("%s, or a JSON object of them", strings.Join(names, ","))
		}
		return fmt.Errorf("key %q: %s; expected %s", text, why, form)
	}
	if len(names) > 0 && strings.HasPrefix(text, "{") {
		var have map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &have); err != nil {
			return nil, wrong(err.Error())
		}
		for name := range have {
			if !slices.Contains(names, name) {
				return nil, wrong(fmt.Sprintf("the key has no column %q", name))
			}
		}
		if len(have) != len(names) {
			return nil, wrong("it does not name every column (null is a value)")
		}
		b, _, err := array.RecordFromJSON(env.Alloc, schema, strings.NewReader("["+text+"]"))
		if err != nil {
			return nil, wrong(err.Error())
		}
		return b, nil
	}
	parts := strings.Split(text, ",")
	switch {
	case len(names) == 0 && (text == "-" || text == ""):
		return array.NewRecordBatch(schema, nil, 1), nil
	case len(names) == 1:
		parts = []string{text}
	case len(parts) != len(names):
		return nil, wrong(fmt.Sprintf("it has %d values", len(parts)))
	}
	rb := array.NewRecordBuilder(env.Alloc, schema)
	defer rb.Release()
	for i, part := range parts {
		if err := rb.Field(i).AppendValueFromString(part); err != nil {
			return nil, wrong(fmt.Sprintf("column %s: %v", names[i], err))
		}
	}
	return rb.NewRecordBatch(), nil
}

// windowBounds are the bounds of a window for people: one without an end is due
// when the input ends.
func windowBounds(start, end, due int64) dataflow.WindowState {
	w := dataflow.WindowState{Start: dataflow.Time(start), End: dataflow.Time(end), Due: dataflow.Time(due)}
	if end >= globalEnd {
		w.Start, w.End, w.Due = dataflow.MinTime, dataflow.MaxTime, dataflow.MaxTime
	}
	return w
}

// Explain implements dataflow.Explainer.
func (w *windowKeyed) Explain(key string, at dataflow.Time) (dataflow.Explanation, error) {
	k, out, err := w.explain(w.env, key)
	if err != nil {
		return out, err
	}
	visitWindows(w.windows, int64(at), func(start, end int64) {
		x := windowBounds(start, end, w.due(end))
		if err == nil && out.Mine && end > w.fired {
			x.Holds, err = w.holds(k, start, end)
		}
		out.Windows = append(out.Windows, x)
	})
	return out, err
}

// holds is the row that a window would give now for a key, nil without one. It
// puts the key's panes together as when the window fires, in a pane of its own.
func (w *windowKeyed) holds(k askedKey, start, end int64) (json.RawMessage, error) {
	sum := &windowPane{start: start, first: end, table: state.NewTable(w.layout.stride), heaps: w.layout.newHeaps()}
	panes := w.open
	if w.sliding != nil {
		panes = slices.Concat(w.sliding.front, w.sliding.back, w.open)
	}
	var of []*windowPane
	for _, p := range panes {
		if p.start < start || p.start >= end || p.first > end {
			continue
		}
		e, ok := p.table.Find(k.hash, k.bytes)
		if !ok {
			continue
		}
		of = append(of, p)
		to, _ := sum.table.Upsert(k.hash, k.bytes)
		w.layout.mergeRow(sum.table.Row(to), sum.heaps, p.table.Row(e), p.heaps)
	}
	if len(of) == 0 {
		return nil, nil
	}
	if err := w.results.sumDistinct(of); err != nil {
		return nil, err
	}
	entries := w.results.sorter.sort(sum.table)
	b, err := w.results.batch(&windowFired{start, end, entries, sum.table, sum.heaps, sum, of}, entries)
	if err != nil {
		return nil, err
	}
	defer b.Release()
	return dataflow.RowJSON(b, 0), nil
}

// Explain implements dataflow.Explainer.
func (w *windowOrdered) Explain(key string, at dataflow.Time) (dataflow.Explanation, error) {
	k, out, err := w.explain(w.env, key)
	if err != nil {
		return out, err
	}
	add := func(id uint32, start, end int64) {
		if id != 0 {
			start, end = w.store.windows[id].start, w.store.windows[id].end
		}
		x := windowBounds(start, end, end+w.keep)
		if err == nil && id != 0 {
			x.Holds, err = w.holds(id)
		}
		out.Windows = append(out.Windows, x)
	}
	t, own := int64(at), uint32(0)
	if out.Mine { // it may have left the memory
		if own, err = w.find(k.hash, k.bytes); err != nil {
			return out, err
		}
	}
	switch w.kind {
	case orderedSession:
		var id, other uint32
		if own != 0 {
			id, other = w.sessionsAt(own, t, t+w.gap)
		}
		add(id, t, t+w.gap)
		if other != 0 {
			add(other, 0, 0)
		}
	case orderedCount:
		if own != 0 {
			for id := w.store.keys[own].first; id != 0; id = w.store.windows[id].next {
				add(id, 0, 0)
			}
		}
	default:
		w.windowsOf(t, func(start, end int64) { add(w.store.windowAt(own, start, end), start, end) })
	}
	slices.SortFunc(out.Windows, func(a, b dataflow.WindowState) int { return order(int64(a.Due), int64(b.Due)) })
	return out, err
}

// holds is the row that an open window would give now.
func (w *windowOrdered) holds(id uint32) (json.RawMessage, error) {
	r := w.results
	if r.n != 0 {
		return nil, errors.New("results wait to be sent")
	}
	s := w.store
	x := &s.windows[id]
	timing := timingEarly
	if x.marks&orderedFired != 0 {
		timing = timingLate
	}
	_, err := r.add(&orderedResult{key: s.key(x.key), start: x.start, end: x.end, timing: timing, acc: s.row(s.accs, id), heaps: s.heaps, op: dataflow.OpInsert})
	if err != nil {
		return nil, err
	}
	if r.changelog {
		r.b.Field(r.out.NumFields()-1).(*array.Uint8Builder).AppendValues(r.ops, nil)
	}
	r.n, r.ops, r.failed = 0, r.ops[:0], r.failed[:0]
	b := r.b.NewRecordBatch()
	defer b.Release()
	return dataflow.RowJSON(b, 0), nil
}

// explainedStampOrder is a stampOrder whose inner operator can be explained.
type explainedStampOrder struct {
	*stampOrder
	inner dataflow.Explainer
}

// Explain implements dataflow.Explainer.
func (o explainedStampOrder) Explain(key string, at dataflow.Time) (dataflow.Explanation, error) {
	x, err := o.inner.Explain(key, at)
	for _, r := range o.runs {
		x.Waiting += int64(len(r.stamps) - r.next)
	}
	return x, err
}

var (
	_ dataflow.Explainer        = (*windowKeyed)(nil)
	_ dataflow.Explainer        = (*windowOrdered)(nil)
	_ dataflow.Operator         = explainedStampOrder{}
	_ dataflow.WatermarkHandler = explainedStampOrder{}
	_ dataflow.BarrierHandler   = explainedStampOrder{}
)

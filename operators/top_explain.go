package operators

import (
	"encoding/json"

	"frazil/dataflow"
	"frazil/state"
)

// Explain implements dataflow.Explainer. A window holds the rows that it would give
// now, as {"rows": [...]}.
func (o *topWindow) Explain(key string, at dataflow.Time) (dataflow.Explanation, error) {
	k, err := readKey(o.env, o.by.schema, key)
	if err != nil {
		return dataflow.Explanation{}, err
	}
	g := state.GroupOf(k.hash)
	out := dataflow.Explanation{Key: k.shown, Mine: g >= o.env.Groups.Lo && g < o.env.Groups.Hi}
	visitWindows(o.windows, int64(at), func(start, end int64) {
		x := windowBounds(start, end, o.due(end))
		if err == nil && out.Mine && end > o.closed {
			x.Holds, err = o.holds(k, start, end)
		}
		out.Windows = append(out.Windows, x)
	})
	return out, err
}

// holds are the rows that a window would give now for a key, nil without any. It
// puts the key's panes together as when the window closes, in a pane of its own.
func (o *topWindow) holds(k askedKey, start, end int64) (json.RawMessage, error) {
	sum := o.newPane()
	for _, p := range o.panes {
		if p.cell.start < start || p.cell.start >= end || p.cell.first > end {
			continue
		}
		if e, ok := p.table.Find(k.hash, k.bytes); ok {
			sum.takeKey(p, e)
		}
	}
	if sum.table.Len() == 0 {
		return nil, nil
	}
	if _, err := o.append(sum, sum.table.At(0), end); err != nil {
		return nil, err
	}
	b := o.b.NewRecordBatch()
	defer b.Release()
	shown := struct {
		Rows []json.RawMessage `json:"rows"`
	}{}
	for i := range int(b.NumRows()) {
		shown.Rows = append(shown.Rows, dataflow.RowJSON(b, i))
	}
	return json.Marshal(shown)
}

var _ dataflow.Explainer = (*topWindow)(nil)

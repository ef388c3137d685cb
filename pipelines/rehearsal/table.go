package rehearsal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"frazil/dataflow"
)

// table is what a changelog makes when it is folded by its key. It refuses
// changes that do not fit the rows that are there.
type table struct {
	key []string
	// forgets: see dataflow.Stream.
	forgets bool
	// keys in the order of their first row, since a row takes the place of the one
	// before it.
	keys []string
	rows map[string]string
}

func newTable(s dataflow.Stream) *table {
	return &table{key: s.Key, forgets: s.Forgets, rows: map[string]string{}}
}

// apply folds one change, which is a row with dataflow.OpColumn in front.
func (t *table) apply(change string) error {
	op, row, err := splitChange(change)
	if err != nil {
		return err
	}
	key, err := t.keyOf(row)
	if err != nil {
		return err
	}
	have, there := t.rows[key]
	switch op {
	case dataflow.OpInsert.String(), dataflow.OpUpdateAfter.String():
		// An insert may take the place of a row that its step has forgotten.
		if there && (op != dataflow.OpInsert.String() || !t.forgets) {
			return fmt.Errorf("%s %s: the row %s is there and was not taken away", op, row, have)
		}
		if !slices.Contains(t.keys, key) {
			t.keys = append(t.keys, key)
		}
		t.rows[key] = row
	case dataflow.OpDelete.String(), dataflow.OpUpdateBefore.String():
		if have != row && (op != dataflow.OpDelete.String() || !t.forgets) {
			return fmt.Errorf("%s %s: the row that is there is %q", op, row, have)
		}
		delete(t.rows, key)
	default:
		return fmt.Errorf("change %s has the op %q", change, op)
	}
	return nil
}

// list gives the rows.
func (t *table) list() []string {
	out := []string{}
	for _, k := range t.keys {
		if row, ok := t.rows[k]; ok {
			out = append(out, row)
		}
	}
	return out
}

// splitChange takes {"op":"insert","a":1} apart.
func splitChange(change string) (op, row string, err error) {
	rest, ok := strings.CutPrefix(change, `{"`+dataflow.OpColumn+`":"`)
	op, rest, found := strings.Cut(rest, `"`)
	if !ok || !found {
		return "", "", fmt.Errorf("%s is no change", change)
	}
	return op, "{" + strings.TrimPrefix(rest, ","), nil
}

func (t *table) keyOf(row string) (string, error) {
	dec := json.NewDecoder(bytes.NewReader([]byte(row)))
	dec.UseNumber()
	var cols map[string]json.RawMessage
	if err := dec.Decode(&cols); err != nil {
		return "", fmt.Errorf("row %s: %w", row, err)
	}
	var b strings.Builder
	for _, k := range t.key {
		v, ok := cols[k]
		if !ok {
			return "", fmt.Errorf("row %s has no column %q of its key", row, k)
		}
		b.Write(v)
		b.WriteByte(',')
	}
	return b.String(), nil
}

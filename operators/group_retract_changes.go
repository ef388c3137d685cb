package operators

import (
	"fmt"

	"frazil/dataflow"
)

// retractChanges makes changes of the groups of a changelog.
type retractChanges struct {
	*groupChanges
	shape *groupRetractShape
	kept  *accLayout
	// One row of the other accumulators; the sums are in former.
	keptRow   []uint64
	keptHeaps []accHeap
}

func newRetractChanges(env *dataflow.Env, s *groupRetractShape, sums *accLayout) (*retractChanges, error) {
	g, err := newGroupChanges(env, s.groupShape, sums)
	if err != nil {
		return nil, err
	}
	g.badPort = retractBad
	kept := newAccLayout(s.kept.funcs)
	return &retractChanges{groupChanges: g, shape: s, kept: kept, keptRow: make([]uint64, kept.stride), keptHeaps: kept.newHeaps()}, nil
}

// add notes the change of a group from one value in the state to another; nil is
// none.
func (c *retractChanges) add(key, former, value []byte) error {
	p := groupPair{before: -1, after: -1}
	for _, side := range []struct {
		value []byte
		at    *int
	}{{former, &p.before}, {value, &p.after}} {
		if side.value == nil {
			continue
		}
		n := c.n
		bad, err := c.row(key, side.value)
		switch {
		case err != nil:
			return fmt.Errorf("group %x: %w", key, err)
		case bad == nil:
			*side.at = n
		case side.at == &p.after:
			*side.at, p.bad = n, bad
		}
	}
	c.pairs = append(c.pairs, p)
	return nil
}

// row appends the row of a value in the state, also if a result does not fit.
func (c *retractChanges) row(key, value []byte) (bad *dataflow.Bad, err error) {
	sums, kept, err := cutRetractState(value)
	if err != nil {
		return nil, err
	}
	clear(c.former)
	clear(c.keptRow)
	for h := range c.keptHeaps {
		c.keptHeaps[h].reset()
	}
	if err := c.layout.merge(c.former, c.formerHeaps, sums); err != nil {
		return nil, err
	}
	if err := c.kept.merge(c.keptRow, c.keptHeaps, kept); err != nil {
		return nil, err
	}
	c.n++
	cols := c.b.Fields()
	by := c.by.schema.NumFields()
	rest, err := c.keys.append(key, cols[:by])
	if err != nil || len(rest) > 0 {
		return nil, fmt.Errorf("decode key %x: %d bytes too many, %w", key, len(rest), err)
	}
	for i, b := range cols[by:] {
		var x *dataflow.Bad
		if at := c.shape.places[i]; at.kept {
			x = c.kept.result(at.at, b, c.keptRow, c.keptHeaps)
		} else {
			x = c.layout.result(at.at, b, c.former, c.formerHeaps)
		}
		if x != nil && bad == nil {
			x.Detail = "aggregate " + c.set.aggs[i].name + ": " + x.Detail
			bad = x
		}
	}
	return bad, nil
}

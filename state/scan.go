package state

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Scan implements KV: a merge of the layers, newest first, and Pebble.
func (kv *TaskKV) Scan(group int, lo, hi []byte, visit func(key, value []byte) error) (err error) {
	if err := kv.check(group); err != nil {
		return err
	}
	if hi != nil && view(lo) >= view(hi) {
		return nil
	}
	m := merge{kv: kv, group: group}
	// As in Get: first the list, then Pebble.
	frozen := kv.pending()
	m.add(kv.live.groups[group], lo, hi)
	for i := len(frozen) - 1; i >= 0; i-- {
		m.add(frozen[i].layer.groups[group], lo, hi)
	}
	if err := kv.store.enter(); err != nil {
		return fmt.Errorf("state of step %q: %w", kv.step, err)
	}
	defer kv.store.leave()
	if err := m.open(lo, hi); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.it.Close()) }()
	return m.run(visit)
}

// merge walks several layers and Pebble at once.
type merge struct {
	kv     *TaskKV
	group  int
	layers []layerCursor
	it     *pebble.Iterator
	key    []byte // the key at hand of a layer
}

// layerCursor is at the first of keys, which are records of gl that are not gone.
type layerCursor struct {
	gl   *groupLayer
	keys []uint32
}

// skip moves past records that are gone.
func (c *layerCursor) skip() {
	for len(c.keys) > 0 && c.gl.records[c.keys[0]].state == recordGone {
		c.keys = c.keys[1:]
	}
}

func (m *merge) add(gl *groupLayer, lo, hi []byte) {
	if gl != nil {
		c := layerCursor{gl: gl, keys: gl.keys(lo, hi)}
		c.skip()
		m.layers = append(m.layers, c)
	}
}

func (m *merge) open(lo, hi []byte) error {
	lower := append(appendStatePrefix(nil, m.kv.id, m.group), lo...)
	upper := appendGroupEnd(nil, m.kv.id, m.group)
	if hi != nil {
		upper = append(appendStatePrefix(nil, m.kv.id, m.group), hi...)
	}
	it, err := m.kv.store.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return fmt.Errorf("read state of step %q: %w", m.kv.step, err)
	}
	m.it = it
	it.First()
	return nil
}

func (m *merge) run(visit func(key, value []byte) error) error {
	for {
		// The smallest key; among equal ones the newest layer wins.
		best, found := "", false
		for i := range m.layers {
			c := &m.layers[i]
			if len(c.keys) == 0 {
				continue
			}
			if k := view(c.gl.key(c.keys[0])); !found || k < best {
				best, found = k, true
			}
		}
		var below []byte
		inPebble := m.it.Valid()
		if inPebble {
			below = m.it.Key()[statePrefixLen:]
		}
		switch {
		case inPebble && (!found || view(below) < best):
			if err := m.visitPebble(below, visit); err != nil {
				return err
			}
		case found:
			if err := m.visitLayers(best, visit); err != nil {
				return err
			}
			if inPebble && view(below) == best {
				m.it.Next()
			}
		default:
			if err := m.it.Error(); err != nil {
				return fmt.Errorf("read state of step %q: %w", m.kv.step, err)
			}
			return nil
		}
	}
}

// visitPebble hands over the entry at the iterator unless a layer hides it.
func (m *merge) visitPebble(key []byte, visit func(key, value []byte) error) error {
	for i := range m.layers {
		if m.layers[i].gl.covered(key) {
			m.it.Next()
			return nil
		}
	}
	v, err := m.it.ValueAndErr()
	if err != nil {
		return fmt.Errorf("read state of step %q: %w", m.kv.step, err)
	}
	if err := visit(key, v); err != nil {
		return err
	}
	m.it.Next()
	return nil
}

// visitLayers hands over the newest change of key unless it is a deletion, and
// moves every layer past key.
func (m *merge) visitLayers(key string, visit func(key, value []byte) error) error {
	var e entry
	decided := false
	m.key = append(m.key[:0], key...)
	for i := range m.layers {
		c := &m.layers[i]
		here := len(c.keys) > 0 && view(c.gl.key(c.keys[0])) == key
		if here && !decided {
			e, decided = c.gl.entry(c.keys[0]), true
		}
		if !decided && c.gl.covered(m.key) {
			e, decided = entry{deleted: true}, true
		}
		if here {
			c.keys = c.keys[1:]
			c.skip()
		}
	}
	if e.deleted {
		return nil
	}
	return visit(m.key, e.value)
}

package state

import "fmt"

// Drop removes all rows of a group, so that its user can write those that still
// count anew. It is how a log whose rows supersede each other stays as short as
// what it stands for.
func (l *Log) Drop(group int) error {
	gr := &l.groups[group]
	for _, b := range gr.buckets {
		if b.next > 0 || b.flushed > 0 {
			if err := l.kv.DeleteRange(group, l.blockKey(b.n, 0), l.endKey(b.n)); err != nil {
				return fmt.Errorf("drop log of key group %d: %w", group, err)
			}
		}
		l.rows -= b.rows
	}
	*gr = logGroup{}
	return nil
}

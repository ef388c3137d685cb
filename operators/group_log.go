package operators

import (
	"encoding/binary"
	"errors"
	"fmt"

	"frazil/dataflow"
	"frazil/state"
)

// keyLog keeps a value per key in a state.Log: what is written last counts. New
// and changed keys of an epoch lie together in blocks, which costs a fifth of an
// entry of the KV each. Per key group, when more than half of the rows have been
// superseded, the values that count are written again (see rewrite), so that
// a log stays at most twice as long as what it holds.
//
// A row is the format (docs/state-format.md):
//
//	uvarint length of the key, key, value; a key without a value is gone
type keyLog struct {
	log  *state.Log
	rows [state.NumGroups]int
	buf  []byte
}

// keyLogSlack keeps short logs from being written again and again.
const keyLogSlack = 64

// openKeyLog reads the log and hands every row to load in the order in which
// they were written; value is empty for a key that is gone.
func openKeyLog(env *dataflow.Env, prefix byte, load func(group int, key, value []byte) error) (*keyLog, error) {
	l := &keyLog{}
	var err error
	l.log, err = state.OpenLog(env.State, env.Groups, state.LogOptions{Prefix: prefix, Bucket: 1}, func(group int, row []byte) error {
		n, w := binary.Uvarint(row)
		if w <= 0 || n > uint64(len(row)-w) {
			return errors.New("a row of the log is cut off")
		}
		l.rows[group]++
		return load(group, row[w:w+int(n)], row[w+int(n):])
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// put writes a value, or that the key is gone if value is empty. It copies both.
func (l *keyLog) put(group int, key, value []byte) error {
	l.buf = binary.AppendUvarint(l.buf[:0], uint64(len(key)))
	l.buf = append(append(l.buf, key...), value...)
	l.rows[group]++
	return l.log.Append(group, 0, l.buf)
}

// rewrite writes those key groups anew whose log is mostly what has been
// superseded: store puts an entry of t that counts; live is how many there are.
func (l *keyLog) rewrite(env *dataflow.Env, live *[state.NumGroups]int, t *state.Table, store func(e state.Entry) error) error {
	full, err := l.begin(env, live)
	if err != nil || full == nil {
		return err
	}
	for i := range t.Len() {
		if e := t.At(i); full[state.GroupOf(t.Hash(e))] {
			if err := store(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin drops the log of those key groups that have more than twice as many rows
// as live keys, and returns which these are, nil for none. The caller puts all of
// their values.
func (l *keyLog) begin(env *dataflow.Env, live *[state.NumGroups]int) (full *[state.NumGroups]bool, err error) {
	for g := env.Groups.Lo; g < env.Groups.Hi; g++ {
		if l.rows[g] <= 2*live[g]+keyLogSlack {
			continue
		}
		if full == nil {
			full = &[state.NumGroups]bool{}
		}
		full[g] = true
		l.rows[g] = 0
		if err := l.log.Drop(g); err != nil {
			return nil, fmt.Errorf("write key group %d anew: %w", g, err)
		}
	}
	return full, nil
}

// flush writes what was put since the last flush into the KV.
func (l *keyLog) flush() error { return l.log.Flush() }

package state

import (
	"container/heap"
	"encoding/binary"
	"fmt"
)

// Timer is a moment at which something is due for a key. At is in the caller's
// unit, for operators a dataflow.Time.
type Timer struct {
	At    int64
	Group int
	Key   []byte
}

// Timers is a set of timers ordered by time, kept in a KV under one prefix byte
// and indexed in memory. Setting a timer twice is setting it once. Like its KV
// it has one user.
type Timers struct {
	kv     KV
	prefix byte
	// set holds every timer; queue holds each of them at least once, and may
	// hold some that were cancelled.
	set   map[timerKey]struct{}
	queue timerQueue
	key   []byte
}

type timerKey struct {
	at    int64
	group int
	key   string
}

// NewTimers loads the timers of groups that stand in kv under prefix.
func NewTimers(kv KV, groups Groups, prefix byte) (*Timers, error) {
	t := &Timers{kv: kv, prefix: prefix, set: map[timerKey]struct{}{}}
	for g := groups.Lo; g < groups.Hi; g++ {
		err := kv.Scan(g, []byte{prefix}, prefixEnd(prefix), func(k, _ []byte) error {
			if len(k) < 9 {
				return fmt.Errorf("timer key %x is too short", k)
			}
			tk := timerKey{at: parseTime(k[1:]), group: g, key: string(k[9:])}
			t.set[tk] = struct{}{}
			t.queue = append(t.queue, tk)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("load timers of key group %d: %w", g, err)
		}
	}
	heap.Init(&t.queue)
	return t, nil
}

// Len is the number of timers.
func (t *Timers) Len() int { return len(t.set) }

// Set adds a timer. It copies key.
func (t *Timers) Set(at int64, group int, key []byte) error {
	tk := timerKey{at, group, string(key)}
	if _, ok := t.set[tk]; ok {
		return nil
	}
	if err := t.kv.Set(group, t.encode(tk), nil); err != nil {
		return fmt.Errorf("set timer: %w", err)
	}
	t.set[tk] = struct{}{}
	heap.Push(&t.queue, tk)
	return nil
}

// Cancel removes a timer, also one that is not set.
func (t *Timers) Cancel(at int64, group int, key []byte) error {
	tk := timerKey{at, group, string(key)}
	if _, ok := t.set[tk]; !ok {
		return nil
	}
	if err := t.kv.Delete(group, t.encode(tk)); err != nil {
		return fmt.Errorf("cancel timer: %w", err)
	}
	delete(t.set, tk)
	return nil
}

// Next returns the time of the first timer; ok is false without one.
func (t *Timers) Next() (at int64, ok bool) {
	for len(t.queue) > 0 {
		if _, live := t.set[t.queue[0]]; live {
			return t.queue[0].at, true
		}
		heap.Pop(&t.queue)
	}
	return 0, false
}

// Due removes all timers with At <= upTo and returns them in the order of time,
// then key, then group. The caller owns the slice.
func (t *Timers) Due(upTo int64) ([]Timer, error) {
	var due []Timer
	for {
		at, ok := t.Next()
		if !ok || at > upTo {
			return due, nil
		}
		tk := heap.Pop(&t.queue).(timerKey)
		if err := t.kv.Delete(tk.group, t.encode(tk)); err != nil {
			return nil, fmt.Errorf("remove due timer: %w", err)
		}
		delete(t.set, tk)
		due = append(due, Timer{At: tk.at, Group: tk.group, Key: []byte(tk.key)})
	}
}

func (t *Timers) encode(tk timerKey) []byte {
	t.key = appendTime(append(t.key[:0], t.prefix), tk.at)
	t.key = append(t.key, tk.key...)
	return t.key
}

// appendTime appends t as 8 bytes that sort as t does.
func appendTime(dst []byte, t int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(t)^1<<63)
}

func parseTime(b []byte) int64 { return int64(binary.BigEndian.Uint64(b) ^ 1<<63) }

// prefixEnd is the first key after all keys that start with prefix.
func prefixEnd(prefix byte) []byte {
	if prefix == 0xff {
		return nil
	}
	return []byte{prefix + 1}
}

type timerQueue []timerKey

func (q timerQueue) Len() int { return len(q) }
func (q timerQueue) Less(i, j int) bool {
	a, b := &q[i], &q[j]
	if a.at != b.at {
		return a.at < b.at
	}
	if a.key != b.key {
		return a.key < b.key
	}
	return a.group < b.group
}
func (q timerQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *timerQueue) Push(x any)   { *q = append(*q, x.(timerKey)) }
func (q *timerQueue) Pop() any {
	old := *q
	x := old[len(old)-1]
	old[len(old)-1] = timerKey{}
	*q = old[:len(old)-1]
	return x
}

package state

import "errors"

// ErrNotFound is returned by Get for a key that is not there.
var ErrNotFound = errors.New("key not found")

// NumGroups is the fixed number of key groups. It is part of the format.
const NumGroups = 256

// Groups is a range of key groups: Lo included, Hi not.
type Groups struct{ Lo, Hi int }

// Contains says whether g owns group.
func (g Groups) Contains(group int) bool { return group >= g.Lo && group < g.Hi }

// GroupOf maps a key's hash to its group: the top 8 bits, so that the other
// bits are free for tables inside a group.
func GroupOf(hash uint64) int { return int(hash >> 56) }

// GroupsOf returns the range that task of tasks owns. Every group has exactly
// one owner.
func GroupsOf(task, tasks int) Groups {
	return Groups{Lo: task * NumGroups / tasks, Hi: (task + 1) * NumGroups / tasks}
}

// TaskOf returns the task of tasks that owns group.
func TaskOf(group, tasks int) int {
	t := group * tasks / NumGroups
	for t+1 < tasks && GroupsOf(t, tasks).Hi <= group {
		t++
	}
	return t
}

// KV is one operator's private, ordered key space, divided into key groups. Its
// one user is the task that owns it: it is not safe for concurrent use. A write
// is in every epoch whose barrier comes after it. Reads see the task's own
// writes at once. A group must be within the range the task owns.
type KV interface {
	// Get returns a copy of the value, or ErrNotFound.
	Get(group int, key []byte) ([]byte, error)
	// Set stores copies of key and value.
	Set(group int, key, value []byte) error
	// Delete removes the key, also one that is not there.
	Delete(group int, key []byte) error
	// DeleteRange removes all keys with lo <= key < hi; a nil hi is the end of
	// the group.
	DeleteRange(group int, lo, hi []byte) error
	// Scan visits keys with lo <= key < hi in order of bytes. visit borrows key
	// and value and must not write to the KV.
	Scan(group int, lo, hi []byte, visit func(key, value []byte) error) error
}

package outbox

import (
	"strings"
	"time"
)

const modePartitions = "drop_partitions"

// partition is one that could be dropped. What cleanTable.look returns of it is its text:
// the name, and what its rows looked like.
type partition struct{ name, rows string }

func (p partition) String() string { return p.name + "\x00" + p.rows }

func parsePartition(text string) partition {
	name, rows, _ := strings.Cut(text, "\x00")
	return partition{name, rows}
}

// patience spaces attempts to lock a table that is always in use: while a lock is waited
// for, whoever comes later waits as well.
type patience struct {
	pause time.Duration
	until time.Time
}

const maxPatience = 5 * time.Minute

// failed doubles the pause.
func (p *patience) failed(now time.Time) {
	p.pause = min(max(2*p.pause, time.Second), maxPatience)
	p.until = now.Add(p.pause)
}

func (p *patience) worked() { *p = patience{} }

package engine

import (
	"log/slog"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
)

// The first bad rows of each reason are logged one by one; after that a line now
// and then says how many more there were.
const (
	badLogged = 3
	badEvery  = 30 * time.Second
)

// badLog tells people about bad rows. Every row goes its way by the port "bad"
// besides. Safe for concurrent use.
type badLog struct {
	log *slog.Logger
	now func() time.Time
	mu  sync.Mutex
	of  map[[2]string]*badSeen
}

type badSeen struct {
	total, untold int64
	told          time.Time
}

func newBadLog(log *slog.Logger, now func() time.Time) *badLog {
	return &badLog{log: log, now: now, of: map[[2]string]*badSeen{}}
}

// note logs rows of b, which has BadSchema, as far as the limits allow.
func (l *badLog) note(step string, b arrow.RecordBatch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range int(b.NumRows()) {
		reason := strAt(b, 0, i)
		s := l.of[[2]string{step, reason}]
		if s == nil {
			s = &badSeen{}
			l.of[[2]string{step, reason}] = s
		}
		if s.total++; s.total <= badLogged {
			l.log.Warn("bad row", "step", step, "reason", reason, "detail", strAt(b, 1, i), "source", strAt(b, 3, i), "split", strAt(b, 4, i), "position", strAt(b, 5, i))
			s.told = l.now()
			continue
		}
		s.untold++
		if now := l.now(); now.Sub(s.told) >= badEvery {
			l.log.Warn("more bad rows", "step", step, "reason", reason, "since_last", s.untold, "total", s.total)
			s.told, s.untold = now, 0
		}
	}
}

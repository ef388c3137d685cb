package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/engine"
)

// progress shows how a run goes: a line that is rewritten on a terminal, a log
// line now and then elsewhere.
type progress struct {
	mu   sync.Mutex
	w    io.Writer
	term bool
	line string
	quit chan struct{}
	done chan struct{}
}

func newProgress(w io.Writer, term bool) *progress {
	return &progress{w: w, term: term, quit: make(chan struct{}), done: make(chan struct{})}
}

// logWriter lets log lines pass above the live line.
func (p *progress) logWriter(w io.Writer) io.Writer {
	return writerFunc(func(b []byte) (int, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.line != "" {
			fmt.Fprint(p.w, "\r\x1b[K")
		}
		n, err := w.Write(b)
		if p.line != "" {
			fmt.Fprint(p.w, p.line)
		}
		return n, err
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// start shows job until stop.
func (p *progress) start(job *engine.Job) {
	every := 10 * time.Second
	if p.term {
		every = 500 * time.Millisecond
	}
	go func() {
		defer close(p.done)
		t := time.NewTicker(every)
		defer t.Stop()
		var last engine.Status
		at := time.Now()
		for {
			select {
			case <-p.quit:
				return
			case now := <-t.C:
				s := job.Status()
				p.show(describe(s, float64(s.Read-last.Read)/now.Sub(at).Seconds(), now))
				last, at = s, now
			}
		}
	}()
}

func (p *progress) stop() {
	close(p.quit)
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.line != "" {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.line = ""
	}
}

func (p *progress) show(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.term {
		fmt.Fprintln(p.w, line)
		return
	}
	p.line = line
	fmt.Fprint(p.w, "\r\x1b[K"+line)
}

// describe is one line about a running job.
func describe(s engine.Status, rate float64, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s rows read, %s/s", s.Pipeline, thousands(s.Read), thousands(int64(rate)))
	wm := dataflow.MaxTime
	for _, src := range s.Sources {
		wm = min(wm, src.Watermark)
	}
	if wm != dataflow.MaxTime && wm != dataflow.MinTime {
		fmt.Fprintf(&b, " | watermark %s", time.UnixMicro(int64(wm)).UTC().Format("2006-01-02T15:04:05Z"))
	}
	fmt.Fprintf(&b, " | epoch %d", s.Epoch)
	var commits time.Time
	waiting := 0
	for _, t := range s.Targets {
		if t.LastCommitAt.After(commits) {
			commits = t.LastCommitAt
		}
		waiting += t.Waiting
	}
	if !commits.IsZero() {
		fmt.Fprintf(&b, ", committed %.1f s ago", now.Sub(commits).Seconds())
	}
	if waiting > 0 {
		fmt.Fprintf(&b, ", %d commits waiting", waiting)
	}
	var late, bad, dup int64
	for _, c := range s.Ledger.Steps {
		late, bad, dup = late+c.Late, bad+c.Bad, dup+c.Duplicate
	}
	fmt.Fprintf(&b, " | duplicate %s late %s bad %s", thousands(dup), thousands(late), thousands(bad))
	if s.Replaying {
		b.WriteString(" | replaying, muted")
	}
	return b.String()
}

// thousands groups digits for people.
func thousands(n int64) string {
	if n < 0 {
		return "-" + thousands(-n)
	}
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

package pipelines

import (
	"fmt"
	"io"
	"strings"
)

// WriteText writes d for people.
func (d Description) WriteText(out io.Writer) error {
	w := &textWriter{out: out}
	w.line(0, "pipeline %s (%s)", d.Pipeline, d.File)
	w.line(1, "parallelism %d, checkpoint every %s, memory %s, http %s", d.Parallelism, d.Every, d.Memory, d.HTTP)
	w.line(1, "state in %s, memory %s", d.StateDir, d.StateMemory)
	for _, s := range d.Sources {
		w.source(s)
	}
	for _, o := range d.Operators {
		w.operator(o)
	}
	for _, s := range d.Sinks {
		w.sink(s)
	}
	return w.err
}

// textWriter keeps the first error.
type textWriter struct {
	out io.Writer
	err error
}

func (w *textWriter) line(indent int, format string, args ...any) {
	if w.err == nil {
		_, w.err = fmt.Fprintf(w.out, strings.Repeat("  ", indent)+format+"\n", args...)
	}
}

func (w *textWriter) source(s SourceInfo) {
	w.line(0, "")
	w.line(0, "source %s (%s)", s.Name, s.Component)
	if e := s.EventTime; e != nil {
		drift := ""
		if e.MaxDrift != "" {
			drift = ", max drift " + e.MaxDrift
		}
		w.line(1, "event time %s, out of orderness %s, idle after %s, max ahead %s%s", e.Column, e.OutOfOrderness, e.IdleAfter, e.MaxAhead, drift)
	} else {
		w.line(1, "no event time")
	}
	extent := "ends by itself"
	if !s.Bounded {
		extent = "does not end"
	}
	if s.DiscoverEvery != "" {
		extent += ", looks for new splits every " + s.DiscoverEvery
	}
	if s.Tasks > 0 {
		extent += fmt.Sprintf(", at most %s", count(s.Tasks, "task"))
	}
	w.line(1, "%s", extent)
	w.replayable(s.NotReplayable)
	w.ports(s.Ports)
}

func (w *textWriter) operator(o OperatorInfo) {
	w.line(0, "")
	w.line(0, "operator %s (%s) from %s", o.Name, o.Component, strings.Join(o.From, ", "))
	if o.Keyed {
		by := ""
		if o.Key != "" {
			by = " by " + o.Key
		}
		w.line(1, "keyed%s; %s", by, count(o.Tasks, "task"))
	}
	if o.State != "" {
		w.line(1, "state: %s", o.State)
		if o.Spills != "" {
			w.line(1, "leaves memory: %s", o.Spills)
		}
	} else {
		w.line(1, "keeps nothing")
	}
	if o.Delay != "" {
		w.line(1, "holds the watermark back by %s", o.Delay)
	}
	w.replayable(o.NotReplayable)
	w.ports(o.Ports)
}

func (w *textWriter) sink(s SinkInfo) {
	w.line(0, "")
	w.line(0, "sink %s (%s) from %s", s.Name, s.Component, s.From)
	if s.Target != "" {
		w.line(1, "target %s", s.Target)
	}
	if s.Commits {
		w.line(1, "rows become visible at checkpoints, exactly once")
	} else {
		w.line(1, "rows are written through, at least once")
	}
	if s.Changelog {
		w.line(1, "reads a changelog")
	}
	w.replayable(s.NotReplayable)
	w.line(1, "fingerprint %s", s.Fingerprint)
}

func (w *textWriter) replayable(why string) {
	if why == "" {
		w.line(1, "replayable")
	} else {
		w.line(1, "not replayable: %s", why)
	}
}

func (w *textWriter) ports(ports []PortInfo) {
	for _, p := range ports {
		to := "quarantine"
		if len(p.Readers) > 0 {
			to = strings.Join(p.Readers, ", ")
		}
		w.line(1, "%s -> %s (%s)", p.Name, to, p.kind())
		if strings.HasSuffix(p.Name, ".bad") {
			continue // The columns of every port bad are the same; see the reference.
		}
		width := 0
		for _, c := range p.Columns {
			width = max(width, len(c.Name))
		}
		for _, c := range p.Columns {
			null := ""
			if !c.Nullable {
				null = " not null"
			}
			w.line(2, "%-*s  %s%s", width, c.Name, c.Type, null)
		}
	}
}

// kind says whether rows are only added.
func (p PortInfo) kind() string {
	switch {
	case !p.Changelog:
		return "append"
	case len(p.Key) == 0:
		return "changelog of one row"
	}
	return "changelog by " + strings.Join(p.Key, ", ")
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

package pipelines

import (
	"fmt"
	"strings"

	"frazil/dataflow/component"
)

// resolve finds the steps that every "from" names.
func (l *loader) resolve() {
	for _, s := range l.readersOfSteps() {
		for i := range s.from {
			r := &s.from[i]
			name, _, _ := strings.Cut(r.text, ".")
			r.step = l.steps[name]
			if msg := l.refusal(s, r, name); msg != "" {
				l.add(r.node, "", "%s", msg)
				s.broken, r.step, l.misnamed = true, nil, true
				continue
			}
			if r.port == "" || branches(r.step) {
				r.step.readers++
			}
		}
	}
}

func (l *loader) readersOfSteps() []*step {
	return append(append([]*step{}, l.operators...), l.sinks...)
}

// refusal says why a name in a "from" gives no rows, or "".
func (l *loader) refusal(s *step, r *ref, name string) string {
	switch {
	case r.step == nil:
		known := l.readable(s)
		return fmt.Sprintf("there is no step %q%s; steps: %s", name, component.DidYouMean(name, known), component.Names(known))
	case r.step == s:
		return fmt.Sprintf("step %q reads from itself", name)
	case r.step.kind == kindSink:
		return fmt.Sprintf("step %q is a sink and gives no rows; steps that do: %s", name, component.Names(l.readable(s)))
	}
	return ""
}

// branches says whether s has no main output.
func branches(s *step) bool {
	spec := component.OperatorNamed(componentOf(s))
	return s.kind == kindOperator && spec != nil && spec.Branches
}

func componentOf(s *step) string {
	if s.info == nil {
		return ""
	}
	return s.info.Name
}

// readable lists the steps that s may read from.
func (l *loader) readable(s *step) []string {
	var out []string
	for _, x := range append(append([]*step{}, l.sources...), l.operators...) {
		if x != s {
			out = append(out, x.name)
		}
	}
	return out
}

// order lists operators so that inputs come first, and reports cycles.
func (l *loader) order() []*step {
	const (
		open = 1
		done = 2
	)
	mark := map[*step]int{}
	var out, path []*step
	var visit func(s *step)
	visit = func(s *step) {
		if s.kind == kindSource || mark[s] == done {
			return
		}
		if mark[s] == open {
			l.cycle(path, s)
			return
		}
		mark[s] = open
		path = append(path, s)
		for _, r := range s.from {
			if r.step != nil {
				visit(r.step)
			}
		}
		path = path[:len(path)-1]
		mark[s] = done
		out = append(out, s)
	}
	for _, s := range l.operators {
		visit(s)
	}
	return out
}

// cycle reports that s, the end of path, reads from itself through path.
func (l *loader) cycle(path []*step, s *step) {
	from := len(path) - 1
	for path[from] != s {
		from--
	}
	names := []string{s.name} // In the direction of the rows: s's go to the last of path.
	for i := len(path) - 1; i >= from; i-- {
		names = append(names, path[i].name)
		path[i].broken = true
	}
	l.add(s.node, "from", "the steps form a cycle: %s; rows only go forward", strings.Join(names, " -> "))
}

// unread reports steps whose rows go nowhere.
func (l *loader) unread() {
	if l.misnamed || len(l.sinks) == 0 {
		return
	}
	for _, s := range append(append([]*step{}, l.sources...), l.operators...) {
		if s.readers > 0 {
			continue
		}
		parent, _ := l.root.At(s.kind + "s")
		for _, e := range parent.Entries {
			if e.Key == s.name {
				if branches(s) {
					l.addAt(parent, e, "nobody reads a port of step %q: name one in the \"from\" of a step or sink, as %s.NAME, or remove it", s.name, s.name)
					continue
				}
				l.addAt(parent, e, "nobody reads the rows of step %q: name it in the \"from\" of a step, send it to a sink (drop: {} throws rows away), or remove it", s.name)
			}
		}
	}
}

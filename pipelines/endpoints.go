package pipelines

import (
	"maps"
	"slices"

	"frazil/dataflow/component"
)

// endpoints is what the sources planned so far have taken of the outside.
type endpoints struct {
	targets map[string]string           // target: step
	shared  map[string]component.Shared // name: what the first source says
	first   map[string]string           // name: that source
}

// claim reports a source that others cannot be told apart from, or that shares
// something on other terms than a source before it.
func (l *loader) claim(s *step, plan component.SourcePlan) {
	e := &l.endpoints
	if e.targets == nil {
		e.targets, e.shared, e.first = map[string]string{}, map[string]component.Shared{}, map[string]string{}
	}
	if t := plan.Target; t != "" {
		if other := e.targets[t]; other != "" {
			l.add(s.block, "", "source %q takes what comes to %s already, which source %q names as well: give each its own", other, t, s.name)
		} else {
			e.targets[t] = s.name
		}
	}
	for _, name := range slices.Sorted(maps.Keys(plan.Shares)) {
		was, ok := e.shared[name]
		if !ok {
			e.shared[name], e.first[name] = plan.Shares[name], s.name
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(was)) {
			if now := plan.Shares[name][key]; now != was[key] {
				l.add(s.block, key, "%s is shared with source %q, which says %s here, and this one %s: write the same in both, or use another address", name, e.first[name], was[key], now)
			}
		}
	}
}

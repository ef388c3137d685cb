package engine

// stateShare is what one task of a keyed step may keep of its state in memory:
// half of the memory for state, divided among all of them. The other half is for
// changes that are not yet written: see pressure.go.
func (p *plant) stateShare() int64 {
	steps := 0
	for _, o := range p.g.Operators {
		if o.Plan.Keyed {
			steps++
		}
	}
	return max(p.o.StateMemory/2/int64(max(steps*p.g.Parallelism, 1)), 16<<10)
}

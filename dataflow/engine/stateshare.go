package engine

// StateShare is what one task of a keyed step may keep of its state in memory, of
// all that the pipeline may have for it: half, divided among all such tasks. The
// other half is for changes that are not yet written: see pressure.go.
func (g *Graph) StateShare(stateMemory int64) int64 {
	steps := 0
	for _, o := range g.Operators {
		if o.Plan.Keyed {
			steps++
		}
	}
	return max(stateMemory/2/int64(max(steps*g.Parallelism, 1)), 16<<10)
}

package engine

// lookForRoom notes whether the disk of the state has room for an epoch. Without it
// no epoch begins and nothing is read: a store that cannot write ends the process.
// It goes on by itself when there is room again.
func (c *coordinator) lookForRoom() {
	full := false
	for _, dir := range c.j.o.Disks {
		free, total, err := c.j.o.DiskFree(dir)
		full = full || err == nil && free < c.j.o.DiskReserve(total)/2
	}
	if full != c.diskFull {
		if c.diskFull = full; full {
			c.j.o.Log.Error("the disk of the state is full: nothing is read and no epoch begins until there is room", "folders", c.j.o.Disks)
		} else {
			c.j.o.Log.Info("there is room on the disk of the state again")
		}
		c.holdBacklogged()
	}
}

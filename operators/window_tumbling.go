package operators

// tumblingWindows assigns times to windows of one width that follow one another
// without a gap, one of them beginning at time 0. Times are microseconds.
type tumblingWindows struct{ width int64 }

// start returns the beginning of the window that holds t, also before 1970.
func (w tumblingWindows) start(t int64) int64 {
	r := t % w.width
	if r < 0 {
		r += w.width
	}
	return t - r
}

// end returns the end of the window from start on; it is not in the window.
func (w tumblingWindows) end(start int64) int64 { return start + w.width }

// assign writes the start of each time's window to starts.
func (w tumblingWindows) assign(starts, times []int64) {
	// Neighbouring rows mostly share a window; a division costs more than both
	// comparisons.
	lo, hi := int64(0), int64(0)
	for i, t := range times {
		if t < lo || t >= hi {
			lo = w.start(t)
			hi = lo + w.width
		}
		starts[i] = lo
	}
}

package expr

// joinTexts makes n, which is text || text, a chain of all texts that its left side joins
// already, so that each is copied once.
func joinTexts(n *node) {
	n.joins = true
	if left := n.args[0]; left.joins {
		n.args = append(left.args[:len(left.args):len(left.args)], n.args[1])
	}
}

// concatTexts joins any number of texts.
func concatTexts(c *call, out *vec, a []*vec) {
	size := 0
	for _, v := range a {
		if v.konst {
			size += c.n * len(v.bytes(0))
		} else {
			size += int(v.off[c.n] - v.off[0])
		}
	}
	reserve(out, size)
	off, data := growText(out, c.n)
	for i := range c.n {
		for _, v := range a {
			k := i & v.mask()
			data = append(data, v.raw[v.off[k]:v.off[k+1]]...)
		}
		off[i+1] = int32(len(data))
	}
	setText(out, off, data)
}

// reserve gives v scratch memory for so many bytes of text.
func reserve(v *vec, size int) {
	if w := (size + 7) / 8; cap(v.own) < w {
		v.own = make([]uint64, w+w/8+8)
	}
}

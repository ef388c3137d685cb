package expr

func init() {
	describeForm("date/time", "overlaps", "(start, end) overlaps (start, end)",
		"Whether two periods have a moment in common. The end, which does not belong to a period unless it is the start, may be given as an interval.",
		example{"(date '2024-02-16', date '2024-12-21') overlaps (date '2024-10-30', date '2025-10-30')", "true"},
		example{"(date '2024-02-16', interval '100 days') overlaps (date '2024-10-30', date '2025-10-30')", "false"})
	for _, k := range []kind{kTime, kTimestamp, kTimestampTZ} {
		for _, args := range [][]kind{{k, k, k, k}, {k, kInterval, k, kInterval}, {k, k, k, kInterval}, {k, kInterval, k, k}} {
			register(function{name: "overlaps", args: args, ret: kBool, loose: true, fails: true, kernel: overlapsKernel})
		}
	}
}

// overlaps reads (c, d) behind (a, b) overlaps.
func (p *parser) overlaps(pos int, a *ast) (*ast, error) {
	b, err := p.other()
	if err != nil {
		return nil, err
	}
	for _, r := range []*ast{a, b} {
		if r.op != opRow || len(r.args) != 2 {
			return nil, errAt(r.pos, "overlaps needs two periods: (start, end) overlaps (start, end)")
		}
	}
	return p.node(opCall, pos, "overlaps", a.args[0], a.args[1], b.args[0], b.args[1]), nil
}

// period is a start and an end, or nothing but the one that is known.
type period struct {
	from, to int64
	open     bool // to is not known
	null     bool // neither is
}

// periodAt reads row i of two operands; ok is false if the end is out of range.
func periodAt(k kind, a, b *vec, ends kind, i int) (p period, ok bool) {
	noFrom, noTo := a.isNull(i), b.isNull(i)
	if !noFrom {
		p.from = of[int64](a)[i&a.mask()]
	}
	switch {
	case noTo:
	case ends != kInterval:
		p.to = of[int64](b)[i&b.mask()]
	case noFrom:
		noTo = true
	case k == kTime:
		p.to = floorMod(p.from+of[interval](b)[i&b.mask()].us%dayUS, dayUS)
	case !finite(p.from):
		p.to = p.from
	default:
		if p.to, ok = addInterval(p.from, of[interval](b)[i&b.mask()]); !ok {
			return p, false
		}
	}
	switch {
	case noFrom && noTo:
		p.null = true
	case noFrom:
		p.from, p.open = p.to, true
	case noTo:
		p.open = true
	case p.from > p.to:
		p.from, p.to = p.to, p.from
	}
	return p, true
}

func overlapsKernel(c *call, out *vec, a []*vec) {
	b := growBits(out, c.n)
	b.fill(0)
	valid := out.needValid(c.n)
	kinds := c.node.args
	for i := range c.n {
		p, ok1 := periodAt(kinds[0].typ.k, a[0], a[1], kinds[1].typ.k, i)
		q, ok2 := periodAt(kinds[2].typ.k, a[2], a[3], kinds[3].typ.k, i)
		if !ok1 || !ok2 {
			outOfTime(c, i, "timestamp")
			continue
		}
		yes, known := p.overlaps(q)
		switch {
		case !known:
			valid.clear(i)
		case yes:
			b.set(i)
		}
	}
}

// overlaps is SQL's three-valued answer.
func (p period) overlaps(q period) (yes, known bool) {
	switch {
	case p.null || q.null:
		return false, false
	case p.from == q.from:
		return true, !p.open && !q.open
	case p.from < q.from:
		p, q = q, p
	}
	if q.open {
		return false, false
	}
	return p.from < q.to, p.from < q.to || !p.open
}

package expr

// rxTree divides a regular expression into the parts whose ends PostgreSQL
// chooses one after the other, each as long or as short as the part prefers.
// Its rules, which decide what groups hold: a part prefers what its first
// quantifier that prefers something prefers; alternatives prefer the longest;
// parts in front choose before those behind. Neighbours that capture nothing and
// prefer the same are one part.
type rxTree struct {
	op     rxPart
	flags  uint8 // rxLonger or rxShorter, rxMixed, rxCapture
	node   *rx   // all that the part matches
	kids   []*rxTree
	min    int
	max    int
	group  int
	prog   *rxProg
	dfa    *rxDFA
	groups []int // those inside, for rxLoop
}

type rxPart uint8

const (
	rxWhole  rxPart = iota // nothing inside matters
	rxPair                 // kids[0], then kids[1]
	rxChoice               // one of kids
	rxLoop                 // kids[0] min to max times
	rxAround               // kids[0], captured a second time
)

const (
	rxMixed   uint8 = 4 // parts inside prefer other than the whole
	rxCapture uint8 = 8
	rxPrefer        = rxLonger | rxShorter
)

// rxUp is what a part tells of its inside to what it is part of.
func rxUp(f uint8) uint8 {
	up := f &^ rxPrefer
	if f&rxPrefer == rxPrefer {
		up |= rxMixed
	}
	return up
}

// rxCombine gives a whole the preference of its first part that has one.
func rxCombine(a, b uint8) uint8 {
	prefer := a & rxPrefer
	if prefer == 0 {
		prefer = b & rxPrefer
	}
	return rxUp(a|b) | prefer
}

func rxMessy(f uint8) bool { return f&(rxMixed|rxCapture) != 0 }

// treeOf divides n.
func treeOf(n *rx) *rxTree {
	if n.op != rxAlt {
		return branchTree(n)
	}
	t := &rxTree{op: rxChoice, flags: rxLonger, node: n}
	for _, s := range n.subs {
		k := branchTree(s)
		t.kids = append(t.kids, k)
		t.flags |= rxCombine(t.flags, k.flags)
	}
	if !rxMessy(t.flags) {
		t.op, t.kids = rxWhole, nil
	}
	return t
}

func branchTree(n *rx) *rxTree {
	items := []*rx{n}
	if n.op == rxCat {
		items = n.subs
	}
	top := &rxTree{node: n}
	for i, it := range items {
		if it.op == rxAssert || it.op == rxRepeat && it.max == 0 {
			continue
		}
		atom, least, most, prefer := it, 1, 1, uint8(0)
		if it.op == rxRepeat {
			atom, least, most, prefer = it.subs[0], it.min, it.max, it.prefer
		}
		a := atomTree(atom)
		if f := top.flags | prefer | a.flags; atom.op != rxGroup && !rxMessy(rxUp(f)) {
			top.flags = f
			continue
		}
		part := loopTree(it, a, least, most, prefer)
		if rest := items[i+1:]; len(rest) > 0 {
			behind := branchTree(&rx{op: rxCat, subs: rest})
			part = &rxTree{op: rxPair, flags: rxCombine(prefer, a.flags), kids: []*rxTree{part, behind},
				node: &rx{op: rxCat, subs: items[i:]}}
			part.flags |= rxCombine(part.flags, behind.flags)
		}
		if i == 0 {
			return part
		}
		front := &rxTree{flags: top.flags, node: &rx{op: rxCat, subs: items[:i]}}
		top.op, top.kids = rxPair, []*rxTree{front, part}
		top.flags |= rxCombine(top.flags, part.flags)
		return top
	}
	return top
}

func atomTree(n *rx) *rxTree {
	if n.op != rxGroup {
		if n.op == rxSet {
			return &rxTree{node: n}
		}
		return treeOf(n)
	}
	t := treeOf(n.subs[0])
	if t.group != 0 {
		t = &rxTree{op: rxAround, flags: t.flags, node: n, kids: []*rxTree{t}}
	}
	t.flags |= rxCapture
	t.group = n.group
	return t
}

// loopTree is atom a, repeated.
func loopTree(it *rx, a *rxTree, least, most int, prefer uint8) *rxTree {
	f := rxCombine(prefer, a.flags)
	inner := a.flags & (rxPrefer | rxMixed)
	switch {
	case least == 1 && most == 1 && (prefer == 0 || inner == 0 || prefer == inner):
		return a
	case a.flags&rxCapture == 0:
		return &rxTree{flags: f & rxPrefer, node: it}
	case least > 0: // all but the last, of which alone the groups count
		more := most
		if most > 0 {
			more--
		}
		front := &rxTree{flags: f & rxPrefer, node: &rx{op: rxRepeat, subs: it.subs[:1], min: least - 1, max: more}}
		if it.op != rxRepeat {
			front.node = &rx{op: rxEmpty}
		}
		return &rxTree{op: rxPair, flags: f, node: it, kids: []*rxTree{front, a}}
	}
	return &rxTree{op: rxLoop, flags: f, node: it, kids: []*rxTree{a}, min: least, max: most, groups: groupsOf(it, nil)}
}

func groupsOf(n *rx, out []int) []int {
	if n.op == rxGroup {
		out = append(out, n.group)
	}
	for _, s := range n.subs {
		out = groupsOf(s, out)
	}
	return out
}

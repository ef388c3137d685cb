package rehearsal

import "time"

// move is the least thing that happens: steps are made of moves. A move is over
// when the task that made it asks for the next one, so that all tasks together
// follow one order.
type move struct {
	kind moveKind
	lane Lane
	n    int
	d    time.Duration
	// step is the index of the step that begins here, -1 within one.
	step int
}

type moveKind int

const (
	moveRead    moveKind = iota // n records of the lane, or what they have Reached
	moveCaught                  // the lane says that it is caught up
	moveClock                   // the clock goes on by d
	moveSync                    // every task sends its source's watermark
	moveBarrier                 // an epoch
	moveShow                    // what is committed is noted
	moveStop                    // a stop with a checkpoint
	moveEnd                     // the lane ends
	moveDrained                 // the last epoch of a drain
	moveKill                    // a crash
)

// moves takes steps apart; lanes end in their order in the piece.
func (p *Piece) moves(steps []Step) []move {
	var out []move
	next := map[Lane]int{}
	for i, s := range steps {
		first := len(out)
		add := func(m move) { m.step = -1; out = append(out, m) }
		switch s.Kind {
		case Read:
			p.reads(s, next, add)
		case Idle:
			add(move{kind: moveSync})
			add(move{kind: moveCaught, lane: s.Lane})
			add(move{kind: moveClock, d: s.D})
			add(move{kind: moveSync})
			add(move{kind: moveSync})
		case Clock:
			add(move{kind: moveClock, d: s.D})
			add(move{kind: moveSync})
		case Sync:
			add(move{kind: moveSync})
		case Checkpoint:
			add(move{kind: moveBarrier})
		case Show:
			add(move{kind: moveSync})
			add(move{kind: moveBarrier})
			add(move{kind: moveShow})
		case Kill:
			add(move{kind: moveKill})
		case Restart:
			add(move{kind: moveStop})
		case Drain:
			for _, l := range p.Lanes {
				add(move{kind: moveEnd, lane: l})
			}
			add(move{kind: moveDrained})
		}
		out[first].step = i
	}
	return out
}

// reads cuts a Read where the clock moves without a record, since one Poll says
// that once, behind its records.
func (p *Piece) reads(s Step, next map[Lane]int, add func(move)) {
	from, end := next[s.Lane], next[s.Lane]+s.N
	for i := from; i < end; i++ {
		if p.Records[s.Lane][i].Reached != nil {
			if i > from {
				add(move{kind: moveRead, lane: s.Lane, n: i - from})
			}
			add(move{kind: moveRead, lane: s.Lane, n: 1})
			from = i + 1
		}
	}
	if end > from {
		add(move{kind: moveRead, lane: s.Lane, n: end - from})
	}
	next[s.Lane] = end
}

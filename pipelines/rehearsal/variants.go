package rehearsal

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// Variant is one way to play a piece.
type Variant struct {
	Name    string
	steps   []Step
	tasks   int
	crashes map[int]bool
	// lost: the state is deleted at each crash.
	lost bool
	// memory of each instance of an operator, in bytes, beyond which it keeps its
	// state elsewhere; 0: what the engine gives it.
	memory int64
}

// Comparable says whether the counters of rows are those of the straight
// variant: where the state was lost some rows were counted twice.
func (v Variant) Comparable() bool { return !v.lost }

// Straight plays the piece as it is written.
func (p *Piece) Straight() Variant { return Variant{Name: "straight", steps: p.Steps, tasks: 1} }

// Variants are the ways to play p beside the straight one. rng decides the random
// ones. There are none where a step may give other rows each time.
func (p *Piece) Variants(rng *rand.Rand) []Variant {
	if p.free {
		return nil
	}
	one := p.rebatch(p.Steps, func(int) int { return 1 })
	out := []Variant{
		{Name: "one row a batch", steps: one, tasks: 1},
		{Name: "two tasks", steps: p.Steps, tasks: 2},
		{Name: "three tasks", steps: one, tasks: 3},
	}
	if !p.replays && !p.shuffles {
		for i := range out {
			out[i].tasks = min(out[i].tasks, p.mostTasks())
		}
	}
	random := func(n int) int { return 1 + rng.IntN(n) }
	for i := range 3 {
		steps := p.rebatch(p.Steps, random)
		if p.shuffles {
			steps = shuffle(steps, rng)
		}
		out = append(out, Variant{Name: fmt.Sprintf("random %d", i), steps: barriers(steps, rng), tasks: 1 + rng.IntN(p.mostTasks())})
	}
	if p.shuffles {
		out = append(out, Variant{Name: "split by split", steps: gather(p.Steps, p.Lanes), tasks: 2})
	}
	for i := range 2 {
		steps := p.rebatch(p.Steps, random)
		if i > 0 {
			steps = barriers(steps, rng)
		}
		out = append(out, Variant{Name: "a crash before every step", steps: steps, tasks: 1 + rng.IntN(p.mostTasks()), crashes: everyStep(steps)})
	}
	if p.replays {
		steps := barriers(p.rebatch(p.Steps, random), rng)
		out = append(out, Variant{Name: "the state lost before every third step", steps: steps, tasks: 1 + rng.IntN(p.mostTasks()), crashes: everyThird(steps), lost: true})
	}
	return out
}

// Random is one more way: batches, interleaving, epochs, parallelism, stops,
// crashes, a lost state and the memory of operators are all up to rng. Its name says what came out.
func (p *Piece) Random(rng *rand.Rand) Variant {
	most := []int{1, 3, 20, 1000}[rng.IntN(4)]
	v := Variant{tasks: 1 + rng.IntN(p.mostTasks()+1), crashes: map[int]bool{}}
	if p.mostTasks() == 1 {
		v.tasks = 1
	}
	steps := p.rebatch(p.Steps, func(int) int { return 1 + rng.IntN(most) })
	if p.shuffles && rng.IntN(4) > 0 {
		steps = shuffle(steps, rng)
	}
	if rng.IntN(4) > 0 {
		steps = barriers(steps, rng)
	}
	stops := rng.IntN(3)
	for range stops {
		i := rng.IntN(len(steps))
		steps = slices.Insert(steps, i, Step{Kind: Restart})
	}
	crashes := []int{0, 0, 1, 3, 10}[rng.IntN(5)]
	for range crashes {
		v.crashes[rng.IntN(len(steps))] = true
	}
	v.memory = []int64{0, 0, 1, 4 << 10}[rng.IntN(4)]
	v.steps, v.lost = steps, p.replays && crashes > 0 && rng.IntN(3) == 0
	v.Name = fmt.Sprintf("batches of up to %d, %d tasks, %d stops, %d crashes, state lost %t, memory %d", most, v.tasks, stops, len(v.crashes), v.lost, v.memory)
	return v
}

// mostTasks is 1 where rows of several tasks would meet in an order that
// decides.
func (p *Piece) mostTasks() int {
	if p.shuffles || len(p.Lanes) == 1 {
		return 3
	}
	return 1
}

func everyStep(steps []Step) map[int]bool {
	out := map[int]bool{}
	for i := range steps {
		out[i] = true
	}
	return out
}

func everyThird(steps []Step) map[int]bool {
	out := map[int]bool{}
	for i := 2; i < len(steps); i += 3 {
		out[i] = true
	}
	return out
}

// rebatch cuts the records of each lane anew; size gets how many there are.
func (p *Piece) rebatch(steps []Step, size func(left int) int) []Step {
	var out []Step
	for _, st := range steps {
		if st.Kind != Read {
			out = append(out, st)
			continue
		}
		for n := st.N; n > 0; {
			k := min(n, size(n))
			n -= k
			out = append(out, Step{Kind: Read, Lane: st.Lane, N: k})
		}
	}
	return out
}

// sections calls f with every run of steps between two fences, and keeps what
// it returns. Behind the first Idle nothing is touched: from which watermark a
// split goes on when it wakes up depends on what the others have given by then,
// which is a decision of the clock.
func sections(steps []Step, f func([]Step) []Step) []Step {
	var out, open []Step
	for i, st := range steps {
		if st.Kind == Idle {
			return append(append(out, f(open)...), steps[i:]...)
		}
		if st.fence() {
			out = append(append(out, f(open)...), st)
			open = nil
			continue
		}
		if st.Kind == Read {
			open = append(open, st)
		}
	}
	return append(out, f(open)...)
}

// shuffle merges the lanes in another order, each lane keeping its own.
func shuffle(steps []Step, rng *rand.Rand) []Step {
	return sections(steps, func(open []Step) []Step {
		lanes := map[Lane][]Step{}
		order := make([]Lane, 0, len(open))
		for _, st := range open {
			lanes[st.Lane] = append(lanes[st.Lane], st)
			order = append(order, st.Lane)
		}
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		var out []Step
		for _, l := range order {
			out = append(out, lanes[l][0])
			lanes[l] = lanes[l][1:]
		}
		return out
	})
}

// gather reads each lane in one batch, one lane after the other, last one first.
func gather(steps []Step, lanes []Lane) []Step {
	return sections(steps, func(open []Step) []Step {
		n := map[Lane]int{}
		for _, st := range open {
			n[st.Lane] += st.N
		}
		var out []Step
		for _, l := range slices.Backward(lanes) {
			if n[l] > 0 {
				out = append(out, Step{Kind: Read, Lane: l, N: n[l]})
			}
		}
		return out
	})
}

// barriers puts epochs between steps.
func barriers(steps []Step, rng *rand.Rand) []Step {
	var out []Step
	for _, st := range steps {
		if rng.IntN(3) == 0 {
			out = append(out, Step{Kind: Checkpoint})
		}
		out = append(out, st)
	}
	return out
}

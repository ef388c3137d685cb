//go:build failpoints

package failpoints

import (
	"testing"

	"frazil/dataflow/failpoint"
	"frazil/dataflow/flowtest/full"
)

// pairsPerPortion pairs are played in one scene: each site fails in what follows the
// failure of the one before it.
const pairsPerPortion = 8

// sequence lists sites so that each is followed once by each, itself included; the
// last one by the first.
func sequence(sites []failpoint.Site) []failpoint.Site {
	var out []failpoint.Site
	for i, a := range sites {
		out = append(out, a)
		for _, b := range sites[i+1:] {
			out = append(out, a, b)
		}
	}
	return out
}

func TestTheSequenceHasEveryPairOnce(t *testing.T) {
	sites := failpoint.Sites()
	list := sequence(sites)
	if len(list) != len(sites)*len(sites) {
		t.Fatalf("%d sites for %d pairs", len(list), len(sites)*len(sites))
	}
	seen := map[[2]failpoint.Site]bool{}
	for i, a := range list {
		seen[[2]failpoint.Site{a, list[(i+1)%len(list)]}] = true
	}
	if len(seen) != len(list) {
		t.Fatalf("%d pairs, want %d", len(seen), len(list))
	}
}

// TestEverySiteAfterEvery lets one site fail, and another in what follows.
func TestEverySiteAfterEvery(t *testing.T) {
	list := sequence(failpoint.Sites())
	total := (len(list) + pairsPerPortion - 1) / pairsPerPortion
	full.Suite{Name: "failpoint-pairs", Total: total, Short: 2}.Run(t, func(t *testing.T, portion int) full.Figures {
		var steps []failpoint.Step
		f := full.Figures{}
		for i := portion * pairsPerPortion; i <= min((portion+1)*pairsPerPortion, len(list)); i++ {
			site := list[i%len(list)]
			steps = append(steps, failpoint.Step{Site: site, Action: failpoint.Error})
			f["hit_"+string(site)]++
		}
		t.Logf("%v", steps)
		playRounds(t, f, 1, steps...)
		f["pairs"] = int64(len(steps) - 1)
		return f
	})
}

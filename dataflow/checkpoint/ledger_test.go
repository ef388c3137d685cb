package checkpoint

import (
	"strings"
	"testing"

	"frazil/dataflow"
)

// I10: a row that is received but not sent, or has no fate, is found.
func TestTheLedgerFindsWhatDoesNotAddUp(t *testing.T) {
	readers := []Reader{{Step: "win", Ports: []string{"in", "other"}}, {Step: "late", Ports: []string{"win.late"}}}
	good := func() Ledger {
		return Ledger{
			Steps: map[string]dataflow.Counts{"win": {In: 9, Late: 2, Absorbed: 6, Held: 1, Created: 3}, "late": {In: 2, Staged: 2}},
			Sent:  map[string]int64{"in": 5, "other": 4, "win": 3, "win.late": 2},
		}
	}
	if err := good().Check(readers); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(Ledger){
		"win received 9 rows of in+other, which sent 10": func(l Ledger) { l.Sent["in"]++ },
		"late received 2 rows of win.late, which sent 1": func(l Ledger) { l.Sent["win.late"]-- },
		"win: 1 rows have no fate":                       func(l Ledger) { c := l.Steps["win"]; c.Absorbed--; l.Steps["win"] = c },
		"late: -1 rows have no fate":                     func(l Ledger) { c := l.Steps["late"]; c.Staged++; l.Steps["late"] = c },
	} {
		l := good()
		change(l)
		if err := l.Check(readers); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	sum := good().Plus(good())
	if sum.Steps["win"].In != 18 || sum.Sent["in"] != 10 || sum.Late() != 4 || sum.Check(readers) != nil {
		t.Errorf("sum %+v", sum)
	}
}

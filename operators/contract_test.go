package operators

import (
	"context"
	"maps"
	"testing"

	"frazil/dataflow"
)

// TestContractCountsByRule: each rule counts the rows that break it, one row several.
func TestContractCountsByRule(t *testing.T) {
	r := newStatelessRig(t)
	r.env.Broken = &dataflow.Tally{}
	cfg := ContractConfig{
		ContractRules: ContractRules{
			Required: []string{"price"}, Allowed: map[string][]Scalar{"channel": {"a", "b"}},
			Ranges: map[string]ContractRange{"qty": {Min: "1", Max: "9"}},
		},
	}
	op, err := newContract(context.Background(), r.env, statelessIn(statelessInput), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer op.Close()
	r.run(t, op, `[{"price":1,"channel":"a","qty":1},{"price":null,"channel":"c","qty":0},{"price":2,"channel":"d","qty":10},{"price":null,"channel":null,"qty":null}]`)
	want := map[string]int64{"required.price": 2, "allowed.channel": 2, "ranges.qty.min": 1, "ranges.qty.max": 1}
	if got := r.env.Broken.Load(); !maps.Equal(got, want) {
		t.Errorf("counts %v, want %v", got, want)
	}
}

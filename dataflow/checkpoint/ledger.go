package checkpoint

import (
	"fmt"
	"sort"
	"strings"

	"frazil/dataflow"
)

// Ledger counts every row's fate since the pipeline first started, exact at the
// barrier it is taken at.
type Ledger struct {
	// Steps by name.
	Steps map[string]dataflow.Counts `json:"steps"`
	// Sent by port ("step" or "step.port").
	Sent map[string]int64 `json:"sent"`
}

// NewLedger is empty.
func NewLedger() Ledger {
	return Ledger{Steps: map[string]dataflow.Counts{}, Sent: map[string]int64{}}
}

// Plus returns the sum; the receivers stay as they are.
func (l Ledger) Plus(o Ledger) Ledger {
	out := NewLedger()
	for _, x := range []Ledger{l, o} {
		for k, v := range x.Steps {
			out.Steps[k] = out.Steps[k].Plus(v)
		}
		for k, v := range x.Sent {
			out.Sent[k] += v
		}
	}
	return out
}

// Reader says which ports a step reads.
type Reader struct {
	Step  string
	Ports []string
}

// Check returns the laws that l breaks: for every reader, rows received are the
// rows its ports sent; for every step that reads, the step's own law.
func (l Ledger) Check(readers []Reader) error {
	var broken []string
	for _, r := range readers {
		var sent int64
		for _, p := range r.Ports {
			sent += l.Sent[p]
		}
		c := l.Steps[r.Step]
		if c.In != sent {
			broken = append(broken, fmt.Sprintf("%s received %d rows of %s, which sent %d", r.Step, c.In, strings.Join(r.Ports, "+"), sent))
		}
		if left := c.Balance(); left != 0 {
			broken = append(broken, fmt.Sprintf("%s: %d rows have no fate: %+v", r.Step, left, c))
		}
	}
	if broken == nil {
		return nil
	}
	sort.Strings(broken)
	return fmt.Errorf("the ledger does not balance (I10): %s", strings.Join(broken, "; "))
}

// Late sums rows that left by late ports.
func (l Ledger) Late() int64 {
	var n int64
	for _, c := range l.Steps {
		n += c.Late
	}
	return n
}

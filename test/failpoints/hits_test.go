//go:build failpoints

package failpoints

import (
	"os"
	"path/filepath"
	"testing"

	"frazil/dataflow/failpoint"
	"frazil/dataflow/flowtest/full"
)

// TestEverySiteWasHit looks at the figures of the full tier: once a suite is through,
// each site must have acted in it.
func TestEverySiteWasHit(t *testing.T) {
	dir := os.Getenv("FRAZIL_FULL")
	if dir == "" {
		t.Skip("figures are of the full tier: FRAZIL_FULL=DIR")
	}
	for _, name := range []string{"failpoint-errors", "failpoint-panics", "failpoint-kills", "failpoint-stalls", "failpoint-pairs"} {
		p, err := full.Read(filepath.Join(dir, name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d of %d portions", name, p.Done, p.Total)
		if p.Done < p.Total || p.Total == 0 {
			continue
		}
		for _, s := range failpoint.Sites() {
			if p.Figures["hit_"+string(s)] == 0 {
				t.Errorf("%s: %s never acted", name, s)
			}
		}
	}
}

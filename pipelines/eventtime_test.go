package pipelines

import (
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
)

// A bound that a source cannot keep is refused; one that changes no row does not
// make another pipeline of it.
func TestMaxDriftNeedsASourceThatHoldsSplitsBack(t *testing.T) {
	c := &eventTimeConfig{Column: "ts", MaxDrift: component.Duration(time.Minute), DiscoverEvery: component.Duration(defaultDiscovery)}
	plan := component.SourcePlan{Schema: arrow.NewSchema([]arrow.Field{{Name: "ts", Type: dataflow.TypeTimestampTZ}}, nil)}
	if _, err := planEventTime(c, "pipe", plan); err == nil || !strings.Contains(err.Error(), "max_drift: the source pipe cannot hold") {
		t.Errorf("a source that cannot pause: %v", err)
	}
	plan.Pauses = true
	et, err := planEventTime(c, "pipe", plan)
	if err != nil || et.MaxDrift != time.Minute {
		t.Fatalf("%+v, %v", et, err)
	}
	without := *c
	without.MaxDrift = 0
	if canonical(c.printed(), nil) != canonical(&without, nil) {
		t.Error("max_drift is part of the fingerprint")
	}
}

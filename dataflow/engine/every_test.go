package engine

import (
	"testing"
	"time"

	"frazil/dataflow/checkpoint"
)

// B3: rows or bytes ask for an epoch before its time.
func TestRowsAndBytesAskForAnEpochBeforeItsTime(t *testing.T) {
	for name, o := range map[string]Options{"rows": {EveryRows: 2000}, "bytes": {EveryBytes: 50_000}} {
		t.Run(name, func(t *testing.T) {
			// It goes on until an epoch is there, long before the hour is over.
			src := seqStep(1, 1<<40, 1, nil)
			src.Bounded = false
			target := &memTarget{}
			seen := make(chan struct{}, 1)
			o.Every = time.Hour
			o.OnManifest = func(m *checkpoint.Manifest) {
				if m.Ledger.Steps["src"].In >= 2000 {
					select {
					case seen <- struct{}{}:
					default:
					}
				}
			}
			r := start(t, &Graph{Name: "p", Parallelism: 1, Sources: []*Source{src}, Sinks: []*Sink{target.sink("out", PortRef{"src", 0})}}, o)
			select {
			case <-seen:
			case <-time.After(time.Minute):
				t.Fatalf("no epoch: %+v", r.job.Status())
			}
		})
	}
}

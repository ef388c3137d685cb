package generate

import (
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/flowtest"
)

func TestConformance(t *testing.T) {
	t.Run("counter", func(t *testing.T) {
		cfg := DefaultCounter()
		cfg.Count, cfg.Splits = 23, 3
		conform(t, Config{Counter: &cfg})
	})
	t.Run("nexmark", func(t *testing.T) {
		cfg := DefaultNexmark()
		cfg.Events, cfg.Splits = 170, 3
		conform(t, Config{Nexmark: &cfg})
	})
	t.Run("fleet", func(t *testing.T) {
		cfg := DefaultFleet()
		cfg.Events, cfg.Splits, cfg.Sites, cfg.Devices = 60, 3, 2, 3
		cfg.Malformed, cfg.Duplicates = 0.2, 0.2
		conform(t, Config{Fleet: &cfg})
	})
}

func conform(t *testing.T, cfg Config) {
	u := flowtest.SourceUnderTest{
		New:     func(t *testing.T) dataflow.Source { return newTestSource(t, testEnv(t), cfg) },
		Records: map[dataflow.Split]int{}, Ends: true,
	}
	s := newTestSource(t, testEnv(t), cfg)
	for n := range s.stream.splits() {
		u.Records[splitName(n)] = int(s.stream.length(n))
	}
	flowtest.SourceSuite(t, u)
}

package state_test

import (
	"log/slog"
	"testing"

	"frazil/dataflow/flowtest"
	"frazil/state"
)

func TestConformance(t *testing.T) {
	groups := state.Groups{Lo: 3, Hi: 7}
	stores := map[state.KV]*state.Store{}
	open := func(t *testing.T, s *state.Store) state.KV {
		kv, err := s.KV("step", groups)
		if err != nil {
			t.Fatal(err)
		}
		stores[kv] = s
		return kv
	}
	flowtest.KVSuite(t, flowtest.KVUnderTest{
		Groups: groups, Refuses: true,
		New: func(t *testing.T) state.KV {
			s, err := state.Open(t.TempDir(), state.Options{Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			return open(t, s)
		},
		Epoch: func(t *testing.T, kv state.KV) state.KV {
			s := stores[kv]
			if err := s.Write([]*state.Delta{kv.(*state.TaskKV).Freeze()}, []byte("manifest")); err != nil {
				t.Fatal(err)
			}
			// What comes behind the epoch is forgotten.
			if err := kv.Set(groups.Lo, []byte("forgotten"), nil); err != nil {
				t.Fatal(err)
			}
			s.Reset()
			return open(t, s)
		},
	})
}

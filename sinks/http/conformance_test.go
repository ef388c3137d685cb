package http

import (
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/flowtest"
)

func TestConformance(t *testing.T) {
	flowtest.SinkSuite(t, func(t *testing.T) flowtest.SinkUnderTest {
		r := newReceiver(t)
		in := component.SinkIn{Input: dataflow.Stream{Schema: flowtest.SinkSchema}}
		return flowtest.SinkUnderTest{
			NewWriter: func(t *testing.T) dataflow.Writer {
				w, err := newWriter(t.Context(), r.env, in, r.cfg)
				must(t, err)
				return w
			},
			NewCommitter: func(t *testing.T) dataflow.Committer {
				k, err := component.SinkNamed("http").NewCommitter(t.Context(), r.env, in, &r.cfg)
				must(t, err)
				return k
			},
			Visible: func(*testing.T) []string { return r.taken() },
		}
	})
}

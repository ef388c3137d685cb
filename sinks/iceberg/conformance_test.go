package iceberg

import (
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/flowtest"
)

func TestConformance(t *testing.T) {
	flowtest.SinkSuite(t, func(t *testing.T) flowtest.SinkUnderTest {
		h := newHarness(t, flowtest.SinkSchema)
		return flowtest.SinkUnderTest{
			NewWriter: func(t *testing.T) dataflow.Writer { return h.writer() },
			NewCommitter: func(t *testing.T) dataflow.Committer {
				c, err := NewCommitter(h.ctx, h.env, h.in, h.cfg)
				if err != nil {
					t.Fatal(err)
				}
				return c
			},
			Visible: func(*testing.T) []string { return h.rows() },
		}
	})
}

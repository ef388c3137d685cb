package kafka

import (
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/flowtest"
)

func TestConformance(t *testing.T) {
	flowtest.SinkSuite(t, func(t *testing.T) flowtest.SinkUnderTest {
		p := newPlace(t)
		in := component.SinkIn{Input: dataflow.Stream{Schema: flowtest.SinkSchema}}
		return flowtest.SinkUnderTest{
			NewWriter: func(t *testing.T) dataflow.Writer {
				w, err := newWriter(t.Context(), p.env, in, p.cfg)
				must(t, err)
				return w
			},
			NewCommitter: func(t *testing.T) dataflow.Committer {
				k, err := newCommitter(t.Context(), p.env, in, p.cfg)
				must(t, err)
				return k
			},
			Visible: func(t *testing.T) (rows []string) {
				for _, r := range p.records(p.cfg.Topic) {
					rows = append(rows, string(r.Value))
				}
				return rows
			},
		}
	})
}

package mqtt

import (
	"strings"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/flowtest"
)

func TestConformance(t *testing.T) {
	flowtest.SinkSuite(t, func(t *testing.T) flowtest.SinkUnderTest {
		p := newPlace(t)
		p.subscribe()
		in := component.SinkIn{Input: dataflow.Stream{Schema: flowtest.SinkSchema}}
		return flowtest.SinkUnderTest{
			NewWriter: func(t *testing.T) dataflow.Writer {
				w, err := newWriter(t.Context(), p.env, in, p.cfg)
				must(t, err)
				return w
			},
			NewCommitter: func(t *testing.T) dataflow.Committer {
				k, err := component.SinkNamed("mqtt").NewCommitter(t.Context(), p.env, in, &p.cfg)
				must(t, err)
				return k
			},
			Visible: func(*testing.T) (rows []string) {
				for _, m := range p.messages() {
					rows = append(rows, strings.TrimPrefix(m, "t "))
				}
				return rows
			},
		}
	})
}

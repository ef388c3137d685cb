package kafka

import (
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/flowtest"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestConformance(t *testing.T) {
	r := fakeRig(t)
	r.create("t", 3, nil)
	r.put(r.client, "t", 0, "a", "!bad", "", "b")
	r.tx("x", "t", 0, kgo.TryCommit, "c", "d")
	r.tx("y", "t", 0, kgo.TryAbort, "no")
	r.put(r.client, "t", 0, "e")
	r.put(r.client, "t", 2, "f", "g")
	r.tx("z", "t", 2, kgo.TryAbort, "no", "no")
	flowtest.SourceSuite(t, flowtest.SourceUnderTest{
		New: func(t *testing.T) dataflow.Source {
			q := &rig{t: t, cluster: r.cluster, brokers: r.brokers, client: r.client, admin: r.admin}
			return q.source(q.config("t"))
		},
		Records: map[dataflow.Split]int{"t/0": 7, "t/1": 0, "t/2": 2},
		Cuts:    5,
	})
}

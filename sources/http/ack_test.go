package http

import (
	"context"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/ingest"
)

// TestAckCommit: the answer comes when the records are committed, and a pipeline
// that stops before says so.
func TestAckCommit(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Ack = ingest.AckCommit })
	answers := make(chan answer, 1)
	post := func() { answers <- r.post(typeJSON, `{"id":1}`) }
	go post()
	ctx := context.Background()
	var next dataflow.Position
	for n := 0; n == 0; {
		p, err := r.src.Poll(ctx, dataflow.PollLimit{Rows: 10, Bytes: 1 << 20, WaitMicros: 1e6})
		if err != nil {
			t.Fatal(err)
		}
		if p.Batch != nil {
			n, next = int(p.Batch.NumRows()), p.Next
		}
		p.Release()
	}
	select {
	case a := <-answers:
		t.Fatalf("answered before the commit: %s", a.Body)
	default:
	}
	if err := r.src.(dataflow.Acker).Ack(ctx, 1, map[dataflow.Split]dataflow.Position{"0": next}); err != nil {
		t.Fatal(err)
	}
	a := <-answers
	a.expect(t, 200, "")
	go post()
	r.rows(1)
	if err := r.ep.Close(); err != nil {
		t.Fatal(err)
	}
	a = <-answers
	a.expect(t, 503, "not_committed")
}

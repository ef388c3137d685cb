package kafka

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"frazil/dataflow"
)

// A paused partition with more waiting than the queues may hold does not keep the
// client from fetching the others, holds no more than what was under way, is not
// taken for a stalled one, and goes on where it stood.
func TestAPausedPartitionWaitsBesideTheOthers(t *testing.T) {
	r := fakeRig(t)
	r.create("t", 2, nil)
	const records = 1200
	value := func(i int) string { // that cannot be compressed: answers are bounded as they travel
		b := make([]byte, 6<<10)
		_, _ = rand.NewChaCha8([32]byte{byte(i), byte(i >> 8)}).Read(b)
		return base64.StdEncoding.EncodeToString(b)
	}
	for p := range int32(2) {
		var values []string
		for i := range records {
			values = append(values, value(i))
		}
		r.put(r.client, "t", p, values...)
	}
	cfg := r.config("t")
	cfg.FetchMax = 2 << 20
	s := r.source(cfg)
	r.assign(s, dataflow.SplitAt{Split: "t/0"}, dataflow.SplitAt{Split: "t/1"})
	h := harvest{}
	h.until(t, s, func() bool { return h["t/0"] != nil && len(h["t/0"].rows) > 0 })
	s.poll.Lock()
	before := s.poll.byName["t/0"].queued()
	s.poll.Unlock()
	s.Pause("t/0")
	read := len(h["t/0"].rows)
	h.until(t, s, func() bool { return h["t/1"] != nil && len(h["t/1"].rows) == records && h["t/1"].caught })
	// Longer than it takes to find a partition stalled.
	for end := time.Now().Add(stallTicks * s.watch.every); time.Now().Before(end); {
		if err := h.poll(t, s, dataflow.PollLimit{Rows: 100, Bytes: 1 << 20, WaitMicros: 20_000}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(h["t/0"].rows); n != read {
		t.Fatalf("%d rows came of the paused partition", n-read)
	}
	s.poll.Lock()
	held, counted := s.poll.byName["t/0"].queued(), s.poll.buffered
	s.poll.Unlock()
	// What was in the queue, and one answer of the broker.
	if held > before+int64(cfg.FetchMax) || counted != 0 {
		t.Errorf("%d bytes are held of the paused partition, %d were when it was paused; %d are counted", held, before, counted)
	}
	s.Resume("t/0")
	h.until(t, s, func() bool { return len(h["t/0"].rows) == records && h["t/0"].caught })
	for i, row := range h["t/0"].rows {
		if row != fmt.Sprintf("%d=%s", i, value(i)) {
			t.Fatalf("row %d is %.20s", i, row)
		}
	}
}

package kafka

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// waitingDecoder cannot read payloads that begin with ? until there is an answer.
type waitingDecoder struct {
	*textDecoder
	outside *outside
}

type outside struct {
	known atomic.Bool
	err   atomic.Pointer[error]
	asked atomic.Int64
}

func (d *waitingDecoder) Missing(payload []byte) func(context.Context) error {
	if !strings.HasPrefix(string(payload), "?") || d.outside.known.Load() {
		return nil
	}
	return func(context.Context) error {
		d.outside.asked.Add(1)
		if err := d.outside.err.Load(); err != nil {
			return *err
		}
		d.outside.known.Store(true)
		return nil
	}
}

func waitingSource(r *rig, a *outside) *source {
	r.t.Helper()
	s := r.source(r.config("t"))
	s.poll.rows.release()
	alloc := memory.NewGoAllocator()
	var err error
	if s.poll.rows, err = newRows(s.env, s.cfg, &waitingDecoder{newTextDecoder(alloc), a}); err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (a *outside) fail(err error) { a.err.Store(&err) }

// TestASplitWaitsForWhatItsRecordNeeds: what came before is given, other splits go on, a
// pause and an end change nothing, and then it goes on where it stood.
func TestASplitWaitsForWhatItsRecordNeeds(t *testing.T) {
	r := fakeRig(t)
	r.create("t", 2, nil)
	r.put(r.client, "t", 0, "a", "b", "?c", "d", "?e")
	r.put(r.client, "t", 1, "x")
	a := &outside{}
	a.fail(dataflow.Unavailable(errors.New("the registry is away")))
	s := waitingSource(r, a)
	r.assign(s, dataflow.SplitAt{Split: "t/0"}, dataflow.SplitAt{Split: "t/1"})
	h := harvest{}
	h.until(t, s, func() bool {
		return h["t/0"] != nil && len(h["t/0"].rows) == 2 && h["t/1"] != nil && h["t/1"].caught && a.asked.Load() > 1
	})
	r.put(r.client, "t", 1, "y")
	h.until(t, s, func() bool { return len(h["t/1"].rows) == 2 })
	want(t, "rows", h["t/0"].rows, []string{"0=a", "1=b"})
	if h["t/0"].caught || h["t/0"].next.offset != 2 {
		t.Errorf("the split that waits stands at %+v", h["t/0"])
	}
	if got := s.Trouble(); len(got) != 1 || got[0] != "the registry is away" {
		t.Errorf("trouble %q", got)
	}
	s.Pause("t/0")
	a.err.Store(nil)
	for !a.known.Load() {
		if _, err := s.Poll(t.Context(), testLimit); err != nil {
			t.Fatal(err)
		}
	}
	polls := h["t/0"].polls
	for range 5 {
		if err := h.poll(t, s, testLimit); err != nil {
			t.Fatal(err)
		}
	}
	if h["t/0"].polls != polls {
		t.Error("a paused split gives something")
	}
	s.Resume("t/0")
	h.until(t, s, func() bool { return len(h["t/0"].rows) == 5 && h["t/0"].caught })
	want(t, "rows", h["t/0"].rows, []string{"0=a", "1=b", "2=?c", "3=d", "4=?e"})
	if got := s.Trouble(); len(got) != 0 {
		t.Errorf("trouble %q", got)
	}
	s.poll.Lock()
	defer s.poll.Unlock()
	if s.poll.buffered != 0 {
		t.Errorf("%d bytes are counted and nothing waits", s.poll.buffered)
	}
}

func TestASplitThatWaitsIsGivenUpAtOnce(t *testing.T) {
	r := fakeRig(t)
	r.create("t", 1, nil)
	r.put(r.client, "t", 0, "?c")
	a := &outside{}
	a.fail(dataflow.Unavailable(errors.New("away")))
	s := waitingSource(r, a)
	r.assign(s, dataflow.SplitAt{Split: "t/0"})
	h := harvest{}
	h.until(t, s, func() bool { return a.asked.Load() > 0 })
	if err := s.Unassign(t.Context(), []dataflow.Split{"t/0"}); err != nil {
		t.Fatal(err)
	}
	a.err.Store(nil)
	r.assign(s, dataflow.SplitAt{Split: "t/0"})
	h.until(t, s, func() bool { return h["t/0"] != nil && len(h["t/0"].rows) == 1 })
	// Close ends what still asks; the test's end looks for goroutines.
	a.known.Store(false)
	a.fail(dataflow.Unavailable(errors.New("away")))
	r.put(r.client, "t", 0, "?d")
	n := a.asked.Load()
	h.until(t, s, func() bool { return a.asked.Load() > n })
}

func TestWhatCannotBeHadAtAllEndsTheSource(t *testing.T) {
	r := fakeRig(t)
	r.create("t", 1, nil)
	r.put(r.client, "t", 0, "?c")
	a := &outside{}
	a.fail(dataflow.Permanentf("access denied"))
	s := waitingSource(r, a)
	r.assign(s, dataflow.SplitAt{Split: "t/0"})
	for stop := time.Now().Add(20 * time.Second); ; {
		_, err := s.Poll(t.Context(), testLimit)
		if errors.Is(err, dataflow.ErrPermanent) && strings.Contains(err.Error(), "read t/0 at offset 0: access denied") {
			return
		}
		if err != nil || time.Now().After(stop) {
			t.Fatal(err)
		}
	}
}

package kafka

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"frazil/dataflow"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (r *rig) deleteBefore(topic string, partition int32, offset int64) {
	r.t.Helper()
	o := kadm.Offsets{}
	o.AddOffset(topic, partition, offset, -1)
	if _, err := r.admin.DeleteRecords(r.t.Context(), o); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) recreate(topic string, partitions int32) {
	r.t.Helper()
	if _, err := r.admin.DeleteTopic(r.t.Context(), topic); err != nil {
		r.t.Fatal(err)
	}
	r.create(topic, partitions, nil)
	r.client = r.newClient()
}

func (r *rig) begin(s *source, split dataflow.Split) position {
	r.t.Helper()
	m, err := s.Begin(r.t.Context(), []dataflow.Split{split})
	if err != nil {
		r.t.Fatal(err)
	}
	p, err := parsePosition(m[split])
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

func wantGap(t *testing.T, err error, parts ...string) {
	t.Helper()
	if !errors.Is(err, dataflow.ErrGap) {
		t.Fatalf("got %v, want a gap", err)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("the error does not say %q: %v", p, err)
		}
	}
}

func TestDeletedHeadIsAGap(t *testing.T) {
	r := fakeRig(t)
	r.create("t", 1, nil)
	r.put(r.client, "t", 0, "a", "b", "c", "d", "e")
	s := r.source(r.config("t"))
	from := r.begin(s, "t/0")
	from.offset = 1
	r.deleteBefore("t", 0, 3)
	r.assign(s, dataflow.SplitAt{Split: "t/0", From: from.encode()})
	wantGap(t, pollError(t, s), "t/0", "offset 1 is wanted", "offsets 3 to 5", "on_gap: continue")

	cfg := r.config("t")
	cfg.OnGap = gapContinue
	s = r.source(cfg)
	r.assign(s, dataflow.SplitAt{Split: "t/0", From: from.encode()})
	h := harvest{}
	h.until(t, s, func() bool { return h["t/0"] != nil && h["t/0"].next.offset == 5 })
	want(t, "rows", h["t/0"].rows, []string{"3=d", "4=e"})
	if h["t/0"].skipped["gap"] != 2 {
		t.Errorf("skipped %v, want a gap of 2", h["t/0"].skipped)
	}
	// A position inside the log is no gap, whatever the records' times say.
	from.offset = 4
	s = r.source(r.config("t"))
	r.assign(s, dataflow.SplitAt{Split: "t/0", From: from.encode()})
	h = harvest{}
	h.until(t, s, func() bool { return h["t/0"] != nil && h["t/0"].next.offset == 5 })
	want(t, "rows", h["t/0"].rows, []string{"4=e"})
}

// Retention overtakes a reader that runs.
func TestHeadDeletedWhileReadingIsAGap(t *testing.T) {
	for _, onGap := range []string{gapFail, gapContinue} {
		r := fakeRig(t)
		r.create("t", 1, nil)
		r.put(r.client, "t", 0, "a", "b")
		cfg := r.config("t")
		cfg.OnGap = onGap
		s := r.source(cfg)
		r.assign(s, dataflow.SplitAt{Split: "t/0"})
		h := harvest{}
		h.until(t, s, func() bool { return h["t/0"] != nil && h["t/0"].next.offset == 2 })
		fault := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.NotLeaderForPartition, Count: -1})
		r.put(r.client, "t", 0, "c", "d", "e")
		r.deleteBefore("t", 0, 4)
		fault.Remove()
		if onGap == gapFail {
			wantGap(t, pollError(t, s), "offset 2 is wanted", "offsets 4 to 5")
			continue
		}
		h.until(t, s, func() bool { return h["t/0"].next.offset == 5 })
		want(t, "rows", h["t/0"].rows, []string{"0=a", "1=b", "4=e"})
		if h["t/0"].skipped["gap"] != 2 {
			t.Errorf("skipped %v, want a gap of 2", h["t/0"].skipped)
		}
	}
}

// A recreated topic has the offsets that are wanted, with other records.
func TestRecreatedTopicIsAGap(t *testing.T) {
	r := fakeRig(t)
	r.create("t", 1, nil)
	r.put(r.client, "t", 0, "a", "b")
	s := r.source(r.config("t"))
	from := r.begin(s, "t/0")
	from.offset = 1
	r.recreate("t", 1)
	r.put(r.client, "t", 0, "x", "y", "z")
	s = r.source(r.config("t"))
	r.assign(s, dataflow.SplitAt{Split: "t/0", From: from.encode()})
	wantGap(t, pollError(t, s), "t/0", "offset 1 is wanted", "offsets 0 to 3", "deleted and created again", from.id)

	cfg := r.config("t")
	cfg.OnGap = gapContinue
	s = r.source(cfg)
	ends, err := s.Ends(t.Context(), []dataflow.Split{"t/0"})
	if err != nil {
		t.Fatal(err)
	}
	r.assign(s, dataflow.SplitAt{Split: "t/0", From: from.encode(), Until: ends["t/0"]})
	h := harvest{}
	h.until(t, s, h.allAtUntil(1))
	g := h["t/0"]
	if g.next.gen != 1 || g.next.offset != 3 || g.next.id == from.id {
		t.Errorf("stands at %+v, want offset 3 of generation 1 and another id", g.next)
	}
	sys := func(off int64) int64 { return 1<<genShift | off }
	want(t, "rows", g.rows, []string{fmt.Sprintf("%d=x", sys(0)), fmt.Sprintf("%d=y", sys(1)), fmt.Sprintf("%d=z", sys(2))})
	if got := s.Locate("t/0", sys(2)); got != "t/0@2 (generation 1)" {
		t.Errorf("the place is %q", got)
	}
	// From there on nothing is missing.
	r.put(r.client, "t", 0, "w")
	s = r.source(r.config("t"))
	r.assign(s, dataflow.SplitAt{Split: "t/0", From: g.next.encode()})
	h = harvest{}
	h.until(t, s, func() bool { return h["t/0"] != nil && h["t/0"].next.offset == 4 })
	want(t, "rows", h["t/0"].rows, []string{fmt.Sprintf("%d=w", sys(3))})
}

func TestTopicRecreatedWhileReading(t *testing.T) {
	for _, onGap := range []string{gapFail, gapContinue} {
		r := fakeRig(t)
		r.create("t", 2, nil)
		r.put(r.client, "t", 0, "a", "b")
		r.put(r.client, "t", 1, "c")
		cfg := r.config("t")
		cfg.OnGap = onGap
		s := r.source(cfg)
		r.assign(s, dataflow.SplitAt{Split: "t/0"}, dataflow.SplitAt{Split: "t/1"})
		h := harvest{}
		h.until(t, s, func() bool {
			return h["t/0"] != nil && h["t/0"].next.offset == 2 && h["t/1"] != nil && h["t/1"].next.offset == 1
		})
		r.recreate("t", 2)
		r.put(r.client, "t", 0, "x", "y", "z")
		r.put(r.client, "t", 1, "w")
		if onGap == gapFail {
			wantGap(t, pollError(t, s), "deleted and created again")
			continue
		}
		h.until(t, s, func() bool { return len(h["t/0"].rows) == 5 && len(h["t/1"].rows) == 2 })
		want(t, "t/0", h["t/0"].rows[2:], []string{fmt.Sprintf("%d=x", 1<<genShift), fmt.Sprintf("%d=y", 1<<genShift|1), fmt.Sprintf("%d=z", 1<<genShift|2)})
		want(t, "t/1", h["t/1"].rows[1:], []string{fmt.Sprintf("%d=w", 1<<genShift)})
	}
}

func TestPositionBehindTheEndIsAGap(t *testing.T) {
	r := fakeRig(t)
	r.create("t", 1, nil)
	r.put(r.client, "t", 0, "a", "b")
	for _, id := range []string{"kept", ""} {
		s := r.source(r.config("t"))
		from := r.begin(s, "t/0")
		from.offset = 7
		if id == "" {
			from.id = ""
		}
		r.assign(s, dataflow.SplitAt{Split: "t/0", From: from.encode()})
		wantGap(t, pollError(t, s), "offset 7 is wanted", "offsets 0 to 2", "ends before the position")
		cfg := r.config("t")
		cfg.OnGap = gapContinue
		s = r.source(cfg)
		r.assign(s, dataflow.SplitAt{Split: "t/0", From: from.encode()})
		h := harvest{}
		h.until(t, s, func() bool { return h["t/0"] != nil && h["t/0"].caught && h["t/0"].next.offset == 2 })
		if g := h["t/0"].next.gen; g != 1 {
			t.Errorf("generation %d, want 1: positions must not fall back", g)
		}
		if n := len(h["t/0"].rows); id == "kept" && n != 0 || id == "" && n != 2 {
			t.Errorf("%d rows with id %q: a truncated log is read on from its end, an unknown one from its start", n, id)
		}
	}
}

// Compaction leaves holes, and may take the last records: neither is a gap and
// a bounded read ends all the same.
func TestHolesAndACompactedTail(t *testing.T) {
	r := fakeRig(t)
	r.create("t", 1, map[string]*string{"cleanup.policy": kadm.StringPtr("compact")})
	for _, kv := range []string{"k0=a", "k1=b", "k1=c", "k1=d", "k2=e"} {
		k, v, _ := strings.Cut(kv, "=")
		r.putRecord(r.client, &kgo.Record{Topic: "t", Key: []byte(k), Value: []byte(v)})
	}
	r.cluster.Compact()
	h := r.bounded(r.source(r.config("t")))
	want(t, "rows", h["t/0"].rows, []string{"0=a", "3=d", "4=e"})
	if !strings.Contains(r.log.String(), "compacted") {
		t.Error("no word that a replay may differ")
	}

	// The tail: the broker says that the log ends at 9, and has nothing behind 4.
	r.cluster.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		lo := req.(*kmsg.ListOffsetsRequest)
		resp := lo.ResponseKind().(*kmsg.ListOffsetsResponse)
		for _, rt := range lo.Topics {
			st := kmsg.NewListOffsetsResponseTopic()
			st.Topic = rt.Topic
			for _, rp := range rt.Partitions {
				sp := kmsg.NewListOffsetsResponseTopicPartition()
				sp.Partition = rp.Partition
				sp.Offset = 9
				if rp.Timestamp == -2 {
					sp.Offset = 0
				}
				st.Partitions = append(st.Partitions, sp)
			}
			resp.Topics = append(resp.Topics, st)
		}
		return resp, nil, true
	})
	probes := 0
	r.cluster.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		r.cluster.KeepControl()
		f := req.(*kmsg.FetchRequest)
		if f.SessionEpoch != -1 || len(f.Topics) == 0 || f.Topics[0].Partitions[0].FetchOffset < 5 {
			return nil, nil, false
		}
		probes++
		resp := f.ResponseKind().(*kmsg.FetchResponse)
		st := kmsg.NewFetchResponseTopic()
		st.TopicID, st.Topic = f.Topics[0].TopicID, f.Topics[0].Topic
		sp := kmsg.NewFetchResponseTopicPartition()
		sp.HighWatermark, sp.LastStableOffset, sp.LogStartOffset = 9, 9, 0
		st.Partitions = append(st.Partitions, sp)
		resp.Topics = append(resp.Topics, st)
		return resp, nil, true
	})
	s := r.source(r.config("t"))
	h = r.bounded(s)
	want(t, "rows", h["t/0"].rows, []string{"0=a", "3=d", "4=e"})
	if h["t/0"].next.offset != 9 || probes == 0 {
		t.Errorf("stands at %d after %d probes, want 9", h["t/0"].next.offset, probes)
	}
	// An Until inside the hole is met exactly, too.
	until := h["t/0"].next
	until.offset = 7
	r.assign(s, dataflow.SplitAt{Split: "t/0", Until: until.encode(), From: position{id: until.id}.encode()})
	h = harvest{}
	h.until(t, s, h.allAtUntil(1))
	if h["t/0"].next.offset != 7 {
		t.Errorf("stands at %d, want 7", h["t/0"].next.offset)
	}
}

func TestBrokerRestartsAreSurvived(t *testing.T) {
	dir := t.TempDir()
	port := freePort(t)
	start := func() *kfake.Cluster {
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port), kfake.DataDir(dir), kfake.SleepOutOfOrder())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	addr := []string{fmt.Sprintf("127.0.0.1:%d", port)}

	// Nobody is there when the source starts.
	r := &rig{t: t, brokers: addr}
	s := r.source(r.config("t"))
	r.assign(s, dataflow.SplitAt{Split: "t/0"})
	h := harvest{}
	h.until(t, s, func() bool { return strings.Contains(r.log.String(), "still waiting") })
	if log := r.log.String(); !strings.Contains(log, "refused") || !strings.Contains(log, addr[0]) {
		t.Errorf("the log does not say what is wrong: %s", log)
	}
	if len(h) > 0 {
		t.Fatalf("something came from nowhere: %v", h)
	}

	c := start()
	w := brokerRig(t, addr)
	w.create("t", 1, nil)
	w.put(w.client, "t", 0, "a", "b")
	h.until(t, s, func() bool { return h["t/0"] != nil && h["t/0"].next.offset == 2 && h["t/0"].caught })
	c.Close()
	// Gone: the split is not caught up any more, and Poll goes on waiting.
	h.until(t, s, func() bool { return !h["t/0"].caught })
	c = start()
	defer c.Close()
	w.client.Close()
	w = brokerRig(t, addr)
	w.put(w.client, "t", 0, "c")
	h.until(t, s, func() bool { return h["t/0"].next.offset == 3 && h["t/0"].caught })
	want(t, "rows", h["t/0"].rows, []string{"0=a", "1=b", "2=c"})
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// A leader that changes gives every record once.
func TestLeadersMayChange(t *testing.T) {
	r := fakeRig(t, kfake.NumBrokers(3))
	r.create("t", 3, nil)
	s := r.source(r.config("t"))
	r.assign(s, dataflow.SplitAt{Split: "t/0"}, dataflow.SplitAt{Split: "t/1"}, dataflow.SplitAt{Split: "t/2"})
	h := harvest{}
	var all [3][]string
	for round := range 5 {
		for p := range int32(3) {
			v := fmt.Sprintf("v%d", round)
			r.put(r.client, "t", p, v)
			all[p] = append(all[p], fmt.Sprintf("%d=%s", round, v))
		}
		h.until(t, s, func() bool {
			n := 0
			for _, g := range h {
				n += len(g.rows)
			}
			return n == 3*(round+1)
		})
		r.cluster.ShufflePartitionLeaders()
	}
	for p := range int32(3) {
		want(t, fmt.Sprint("partition ", p), h[splitName("t", p)].rows, all[p])
	}
}

func TestMissingTopicsAndRefusals(t *testing.T) {
	r := fakeRig(t)
	r.create("t", 1, nil)
	if _, err := r.source(r.config("t", "nope")).Discover(t.Context()); err == nil || !strings.Contains(err.Error(), `topic "nope" does not exist`) || errors.Is(err, dataflow.ErrPermanent) {
		t.Errorf("got %v, want that the topic does not exist, and that it may yet come", err)
	}
	r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Err: kerr.TopicAuthorizationFailed, Count: -1})
	s := r.source(r.config("t"))
	r.assign(s, dataflow.SplitAt{Split: "t/0"})
	if err := pollError(t, s); !errors.Is(err, dataflow.ErrPermanent) || !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("got %v, want a permanent refusal", err)
	}
	for _, at := range []dataflow.SplitAt{{Split: "t"}, {Split: "t/x"}, {Split: "t/0", From: []byte("12")}, {Split: "t/0", Until: []byte("{}")}} {
		if err := s.Assign(t.Context(), []dataflow.SplitAt{at}); !errors.Is(err, dataflow.ErrPermanent) {
			t.Errorf("assign %v: got %v, want a permanent error", at, err)
		}
	}
}

// Fetch errors of all kinds end in rows or in an error, never in silence.
func TestFetchErrors(t *testing.T) {
	for _, e := range []*kerr.Error{kerr.NotLeaderForPartition, kerr.UnknownTopicOrPartition, kerr.FencedLeaderEpoch, kerr.OffsetOutOfRange, kerr.KafkaStorageError, kerr.UnknownTopicID} {
		r := fakeRig(t)
		r.create("t", 1, nil)
		r.put(r.client, "t", 0, "a", "b", "c")
		r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "t", Err: e, Count: 8})
		s := r.source(r.config("t"))
		r.assign(s, dataflow.SplitAt{Split: "t/0"})
		h := harvest{}
		h.until(t, s, func() bool { return h["t/0"] != nil && h["t/0"].next.offset == 3 })
		want(t, e.Message, h["t/0"].rows, []string{"0=a", "1=b", "2=c"})
	}
	r := fakeRig(t)
	r.create("t", 1, nil)
	r.put(r.client, "t", 0, "a")
	// What the client retries for ever is at least said.
	corrupt := r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "t", Err: kerr.CorruptMessage, Count: -1})
	s := r.source(r.config("t"))
	r.assign(s, dataflow.SplitAt{Split: "t/0"})
	h := harvest{}
	h.until(t, s, func() bool { return strings.Contains(r.log.String(), "CORRUPT_MESSAGE") })
	corrupt.Remove()
	r.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "t", Err: kerr.UnknownServerError, Count: -1})
	s = r.source(r.config("t"))
	r.assign(s, dataflow.SplitAt{Split: "t/0"})
	if err := pollError(t, s); !strings.Contains(err.Error(), "t/0 at offset 0") {
		t.Errorf("got %v, want where it happened", err)
	}
}

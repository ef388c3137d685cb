package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"frazil/dataflow"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestAllPartitionsOfAllTopicsAreRead(t *testing.T) {
	r := fakeRig(t)
	r.create("a", 3, nil)
	r.create("b", 1, nil)
	r.put(r.client, "a", 0, "x", "y")
	r.put(r.client, "a", 2, "z")
	r.put(r.client, "b", 0, "w")
	h := r.bounded(r.source(r.config("a", "b")))
	want(t, "a/0", h["a/0"].rows, []string{"0=x", "1=y"})
	want(t, "a/1", h["a/1"].rows, nil)
	want(t, "a/2", h["a/2"].rows, []string{"0=z"})
	want(t, "b/0", h["b/0"].rows, []string{"0=w"})
}

// Case C08, with markers and aborted records at the end and an open
// transaction behind it.
func TestMarkersAndAbortedRecordsArePassedOver(t *testing.T) {
	r := fakeRig(t)
	r.create("t", 1, nil)
	transactions(t, r, "t")
}

func transactions(t *testing.T, r *rig, topic string) {
	split := splitName(topic, 0)
	r.tx(topic+"-a", topic, 0, kgo.TryCommit, `{"id":1}`, `{"id":2}`)
	r.tx(topic+"-b", topic, 0, kgo.TryAbort, `{"id":99}`)
	ids := []string{`0={"id":1}`, `1={"id":2}`}
	h := r.bounded(r.source(r.config(topic)))
	want(t, "rows", h[split].rows, ids)
	if n := h[split].next.offset; n != 5 {
		t.Errorf("stored position %d, want 5", n)
	}

	open := r.openTx(topic+"-c", topic, 0, `{"id":3}`)
	s := r.source(r.config(topic))
	h = r.bounded(s)
	want(t, "rows before an open transaction", h[split].rows, ids)
	if n := h[split].next.offset; n != 5 {
		t.Errorf("stored position %d with a transaction open, want 5", n)
	}

	// Without a bound the split is caught up, then goes on when the transaction
	// is committed, and is caught up behind the marker.
	s = r.source(r.config(topic))
	r.assign(s, dataflow.SplitAt{Split: split})
	h = harvest{}
	h.until(t, s, func() bool { return h[split] != nil && h[split].caught })
	want(t, "rows while it is open", h[split].rows, ids)
	if err := open.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	h.until(t, s, func() bool { return h[split].caught && h[split].next.offset == 7 })
	want(t, "rows after the commit", h[split].rows, append(ids, `5={"id":3}`))

	cfg := r.config(topic)
	cfg.Isolation = readUncommitted
	h = r.bounded(r.source(cfg))
	want(t, "uncommitted", h[split].rows, []string{`0={"id":1}`, `1={"id":2}`, `3={"id":99}`, `5={"id":3}`})
}

// Every Until cuts exactly there, and reading from there gives the rest.
func TestUntilCutsExactlyAndEveryPositionResumes(t *testing.T) {
	r := fakeRig(t)
	r.create("t", 1, nil)
	r.put(r.client, "t", 0, "a", "b")
	r.tx("x", "t", 0, kgo.TryCommit, "c", "d")
	r.tx("y", "t", 0, kgo.TryAbort, "no", "no")
	r.put(r.client, "t", 0, "e", "", "f")
	r.tx("z", "t", 0, kgo.TryCommit, "g")
	all := []string{"0=a", "1=b", "2=c", "3=d", "8=e", "10=f", "11=g"}
	s := r.source(r.config("t"))
	ends, err := s.Ends(t.Context(), []dataflow.Split{"t/0"})
	if err != nil {
		t.Fatal(err)
	}
	end, _ := parsePosition(ends["t/0"])
	if end.offset != 13 {
		t.Fatalf("the topic ends at %d, want 13", end.offset)
	}
	for cut := int64(0); cut <= end.offset; cut++ {
		mid := end
		mid.offset = cut
		begin := end
		begin.offset = 0
		h := harvest{}
		r.assign(s, dataflow.SplitAt{Split: "t/0", From: begin.encode(), Until: mid.encode()})
		h.until(t, s, h.allAtUntil(1))
		if h["t/0"].next != mid {
			t.Fatalf("until %d: stands at %v", cut, h["t/0"].next)
		}
		k := 0
		for _, row := range all {
			var off int64
			fmt.Sscanf(row, "%d=", &off)
			if off < cut {
				k++
			}
		}
		want(t, fmt.Sprintf("until %d", cut), h["t/0"].rows, all[:k])
		h["t/0"].at, h["t/0"].rows = false, nil
		r.assign(s, dataflow.SplitAt{Split: "t/0", From: mid.encode(), Until: end.encode()})
		h.until(t, s, h.allAtUntil(1))
		want(t, fmt.Sprintf("from %d", cut), h["t/0"].rows, all[k:])
	}
}

func TestTombstonesAndBadRecordsAreNoRows(t *testing.T) {
	r := fakeRig(t)
	r.create("t", 1, nil)
	r.put(r.client, "t", 0, "a", "", "!broken", "b", "", "")
	r.putRecord(r.client, &kgo.Record{Topic: "t", Value: []byte{}})
	h := r.bounded(r.source(r.config("t")))
	g := h["t/0"]
	want(t, "rows", g.rows, []string{"0=a", "3=b", "6="})
	want(t, "bad", g.bad, []string{"t/0@2: text !broken"})
	if g.skipped["tombstone"] != 3 || len(g.skipped) != 1 {
		t.Errorf("skipped %v, want 3 tombstones", g.skipped)
	}
}

func TestMetadataColumns(t *testing.T) {
	r := fakeRig(t)
	r.create("t", 2, nil)
	r.create("u", 1, nil)
	rec := &kgo.Record{Topic: "t", Partition: 1, Key: []byte("k"), Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("1")}, {Key: "n"}}}
	r.putRecord(r.client, rec)
	r.put(r.client, "u", 0, "w")
	cfg := r.config("t", "u")
	cfg.Metadata = Metadata{Key: "k", Headers: "hs", Timestamp: "at", Topic: "topic", Partition: "part", Offset: "off"}
	s := r.source(cfg)
	r.assign(s, dataflow.SplitAt{Split: "t/1"}, dataflow.SplitAt{Split: "u/0"})
	seen := map[dataflow.Split]string{}
	for len(seen) < 2 {
		p, err := s.Poll(t.Context(), testLimit)
		if err != nil {
			t.Fatal(err)
		}
		if p.Batch != nil {
			seen[p.Split] = string(dataflow.RowJSON(p.Batch, 0))
		}
		p.Release()
	}
	at := rec.Timestamp.UTC().Format("2006-01-02T15:04:05.000000Z")
	if got, want := seen["t/1"], `{"v":"v","k":"6b","hs":[{"key":"h","value":"31"},{"key":"n","value":null}],"at":"`+at+`","topic":"t","part":1,"off":0}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if !strings.Contains(seen["u/0"], `"k":null,"hs":[]`) {
		t.Errorf("got %s, want no key and no headers", seen["u/0"])
	}
}

func TestLatestIsResolvedOnce(t *testing.T) {
	r := fakeRig(t)
	r.create("t", 1, nil)
	r.put(r.client, "t", 0, "old")
	cfg := r.config("t")
	cfg.Start = startLatest
	start, err := r.source(cfg).Start(t.Context(), []dataflow.Split{"t/0"})
	if err != nil {
		t.Fatal(err)
	}
	r.put(r.client, "t", 0, "a", "b") // while nothing runs
	s := r.source(cfg)
	r.assign(s, dataflow.SplitAt{Split: "t/0", From: start["t/0"]})
	h := harvest{}
	h.until(t, s, func() bool { return h["t/0"] != nil && h["t/0"].next.offset == 3 })
	want(t, "rows", h["t/0"].rows, []string{"1=a", "2=b"})
}

func TestNewPartitionsAreFoundAndReadFromTheirBeginning(t *testing.T) {
	r := fakeRig(t)
	r.create("t", 1, nil)
	cfg := r.config("t")
	cfg.Start = startLatest
	s := r.source(cfg)
	r.assign(s, dataflow.SplitAt{Split: "t/0"})
	h := harvest{}
	h.until(t, s, func() bool { return h["t/0"] != nil && h["t/0"].caught })
	if _, err := r.admin.CreatePartitions(t.Context(), 1, "t"); err != nil {
		t.Fatal(err)
	}
	more := r.newClient()
	r.put(more, "t", 1, "first", "second")
	splits, err := s.Discover(t.Context())
	if err != nil || fmt.Sprint(splits) != "[t/0 t/1]" {
		t.Fatal(splits, err)
	}
	begin, err := s.Begin(t.Context(), splits[1:])
	if err != nil {
		t.Fatal(err)
	}
	r.assign(s, dataflow.SplitAt{Split: "t/1", From: begin["t/1"]})
	h.until(t, s, func() bool { return h["t/1"] != nil && h["t/1"].next.offset == 2 })
	want(t, "t/1", h["t/1"].rows, []string{"0=first", "1=second"})
}

func TestAllCodecs(t *testing.T) {
	r := fakeRig(t)
	r.create("t", 1, nil)
	allCodecs(t, r, "t")
}

func allCodecs(t *testing.T, r *rig, topic string) {
	var all []string
	for _, c := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		client := r.newClient(kgo.ProducerBatchCompression(c))
		var recs []*kgo.Record
		for i := range 3 {
			v := strings.Repeat(fmt.Sprintf("value-%d ", i), 40)
			recs = append(recs, &kgo.Record{Topic: topic, Value: []byte(v)})
			all = append(all, fmt.Sprintf("%d=%s", len(all), v))
		}
		if err := client.ProduceSync(t.Context(), recs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	want(t, "rows", r.bounded(r.source(r.config(topic)))[splitName(topic, 0)].rows, all)
}

// takesTurns reads four partitions of 25 records to their ends. From when on all
// records wait in the queues, no partition may get ahead of another that has more
// by more than a batch; it says whether there was anything left to compare.
func takesTurns(t *testing.T, r *rig, s *source) (compared bool) {
	t.Helper()
	const records, batch = 25, 7
	splits, err := s.Discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var at []dataflow.SplitAt
	for _, sp := range splits {
		at = append(at, dataflow.SplitAt{Split: sp})
	}
	r.assign(s, at...)
	fetched := func() bool {
		s.poll.Lock()
		defer s.poll.Unlock()
		return !slices.ContainsFunc(s.poll.splits, func(sp *split) bool { return sp.next < records })
	}
	h, since := harvest{}, map[dataflow.Split]int(nil)
	for all := false; !all; {
		if since == nil && fetched() {
			since = map[dataflow.Split]int{}
			for sp, g := range h {
				since[sp] = len(g.rows)
			}
		}
		if err := h.poll(t, s, dataflow.PollLimit{Rows: batch, Bytes: 1 << 20, WaitMicros: 10_000}); err != nil {
			t.Fatal(err)
		}
		least, most := records, 0
		all = len(h) == len(splits)
		for _, sp := range splits {
			rows := 0
			if g := h[sp]; g != nil {
				rows = len(g.rows)
			}
			if rows < records {
				all = false
				least, most = min(least, rows-since[sp]), max(most, rows-since[sp])
			}
		}
		if since == nil || all {
			continue
		}
		if compared = true; most-least > batch {
			t.Fatalf("of two splits that both have more, one gave %d rows more than the other", most-least)
		}
	}
	return compared
}

func TestPartitionsTakeTurnsAndLimitsHold(t *testing.T) {
	r := fakeRig(t)
	r.create("t", 4, nil)
	for p := range int32(4) {
		for range 25 {
			r.put(r.client, "t", p, "0123456789")
		}
	}
	for compared := false; !compared; {
		compared = takesTurns(t, r, r.source(r.config("t")))
	}
	// A bound in bytes holds too, but for one record.
	s := r.source(r.config("t"))
	r.assign(s, dataflow.SplitAt{Split: "t/0"})
	for rows := 0; rows < 25; {
		p, err := s.Poll(t.Context(), dataflow.PollLimit{Rows: 100, Bytes: 15, WaitMicros: 10_000})
		if err != nil {
			t.Fatal(err)
		}
		if p.Batch != nil {
			if n := p.Batch.NumRows(); n > 2 {
				t.Fatalf("%d rows of 10 bytes for a bound of 15", n)
			}
			rows += int(p.Batch.NumRows())
		}
		p.Release()
	}
}

func TestUnassignedSplitsAreForgotten(t *testing.T) {
	r := fakeRig(t)
	r.create("t", 2, nil)
	r.put(r.client, "t", 0, "a", "b", "c")
	r.put(r.client, "t", 1, "d")
	s := r.source(r.config("t"))
	r.assign(s, dataflow.SplitAt{Split: "t/0"}, dataflow.SplitAt{Split: "t/1"})
	h := harvest{}
	for h["t/0"] == nil || len(h["t/0"].rows) == 0 {
		if err := h.poll(t, s, dataflow.PollLimit{Rows: 1, WaitMicros: 10_000}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Unassign(t.Context(), []dataflow.Split{"t/0"}); err != nil {
		t.Fatal(err)
	}
	from := h["t/0"].next
	before := len(h["t/0"].rows)
	r.put(r.client, "t", 1, "e")
	h.until(t, s, func() bool { return h["t/1"] != nil && len(h["t/1"].rows) == 2 })
	if n := len(h["t/0"].rows); n != before {
		t.Fatalf("%d rows came after Unassign", n-before)
	}
	r.assign(s, dataflow.SplitAt{Split: "t/0", From: from.encode()})
	h.until(t, s, func() bool { return h["t/0"].next.offset == 3 })
	want(t, "t/0", h["t/0"].rows, []string{"0=a", "1=b", "2=c"})
}

func TestAckMirrorsPositionsToTheGroup(t *testing.T) {
	r := fakeRig(t)
	r.create("t", 2, nil)
	s := r.source(r.config("t"))
	for range 2 { // it may be repeated
		if err := s.Ack(t.Context(), 1, map[dataflow.Split]dataflow.Position{
			"t/0": position{offset: 3}.encode(), "t/1": position{gen: 2, offset: 8}.encode(),
		}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := r.admin.FetchOffsets(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range []int64{3, 8} {
		if o, _ := got.Lookup("t", int32(p)); o.At != want {
			t.Errorf("group offset of partition %d: %d, want %d", p, o.At, want)
		}
	}
}

func TestPollEndsWithItsContextAndWithClose(t *testing.T) {
	r := fakeRig(t)
	r.create("t", 1, nil)
	s := r.source(r.config("t"))
	p, err := s.Poll(t.Context(), dataflow.PollLimit{WaitMicros: 1000})
	if err != nil || p.Split != "" {
		t.Fatal(p, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.Poll(ctx, dataflow.PollLimit{WaitMicros: 60e6})
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	go func() {
		_, err := s.Poll(t.Context(), dataflow.PollLimit{WaitMicros: 60e6})
		done <- err
	}()
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("got %v, want that the source is closed", err)
	}
}

// Case C05: whatever the group's offsets say, reading goes on at our position.
func TestGroupOffsetsAreNeverRead(t *testing.T) {
	r := fakeRig(t)
	r.create("t", 1, nil)
	for i := range 10 {
		r.put(r.client, "t", 0, fmt.Sprintf(`{"id":%d}`, i))
	}
	for _, group := range []int64{-1, 2, 8} {
		if group >= 0 {
			o := kadm.Offsets{}
			o.AddOffset("t", 0, group, -1)
			if _, err := r.admin.CommitOffsets(t.Context(), "test", o); err != nil {
				t.Fatal(err)
			}
		}
		s := r.source(r.config("t"))
		from := r.begin(s, "t/0")
		from.offset = 5
		ends, err := s.Ends(t.Context(), []dataflow.Split{"t/0"})
		if err != nil {
			t.Fatal(err)
		}
		r.assign(s, dataflow.SplitAt{Split: "t/0", From: from.encode(), Until: ends["t/0"]})
		h := harvest{}
		h.until(t, s, h.allAtUntil(1))
		want(t, fmt.Sprint("group at ", group), h["t/0"].rows, []string{`5={"id":5}`, `6={"id":6}`, `7={"id":7}`, `8={"id":8}`, `9={"id":9}`})
		// Nothing new: the split stands where it is asked to, at once.
		r.assign(s, dataflow.SplitAt{Split: "t/0", From: ends["t/0"], Until: ends["t/0"]})
		h = harvest{}
		if err := h.poll(t, s, dataflow.PollLimit{}); err != nil || !h["t/0"].at || len(h["t/0"].rows) > 0 {
			t.Errorf("got %+v, %v; want that the split stands at its end", h["t/0"], err)
		}
	}
}

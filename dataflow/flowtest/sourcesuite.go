package flowtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow/array"
)

// SourceUnderTest is a source component as [SourceSuite] uses it.
type SourceUnderTest struct {
	// New opens the source anew over the same records. The suite closes it.
	New func(t *testing.T) dataflow.Source
	// Records per split, bad and skipped ones included; what is skipped without
	// a count (transaction markers) is not.
	Records map[dataflow.Split]int
	// Ends: a split says Ended behind its last record.
	Ends bool
	// Cuts bounds how many positions of a split are tried; 0: all.
	Cuts int
}

// SourceSuite checks what dataflow.Source and the abilities beside it promise:
// every position resumes exactly, every Until cuts exactly, positions grow, and
// AtUntil, Ended and CaughtUp are told.
func SourceSuite(t *testing.T, u SourceUnderTest) {
	t.Run("splits and starts", func(t *testing.T) { sourceSplits(t, u) })
	t.Run("every position resumes and cuts", func(t *testing.T) { sourceCuts(t, u) })
	t.Run("ends", func(t *testing.T) { sourceEnds(t, u) })
	t.Run("poll heeds its context and limits", func(t *testing.T) { sourcePoll(t, u) })
	t.Run("paused splits wait", func(t *testing.T) { sourcePause(t, u) })
	t.Run("unassigned splits give nothing", func(t *testing.T) { sourceUnassign(t, u) })
	t.Run("close", func(t *testing.T) { sourceClose(t, u) })
}

// harvest is what came of one split.
type harvest struct {
	items []string // records in order, with their places
	next  dataflow.Position
	// at holds how many items came before each position told.
	at                       map[string]int
	positions                []dataflow.Position
	skipped                  int
	atUntil, ended, caughtUp bool
	sys                      int64
}

type sourceRig struct {
	t      *testing.T
	src    dataflow.Source
	splits []dataflow.Split
	got    map[dataflow.Split]*harvest
}

func openSource(t *testing.T, u SourceUnderTest) *sourceRig {
	t.Helper()
	r := &sourceRig{t: t, src: u.New(t), got: map[dataflow.Split]*harvest{}}
	t.Cleanup(func() { must(t, r.src.Close()) })
	splits, err := r.src.(dataflow.Discoverer).Discover(t.Context())
	must(t, err)
	slices.Sort(splits)
	r.splits = splits
	return r
}

func (r *sourceRig) begin() map[dataflow.Split]dataflow.Position {
	r.t.Helper()
	m, err := r.src.(dataflow.Starter).Begin(r.t.Context(), r.splits)
	must(r.t, err)
	return m
}

func (r *sourceRig) assign(split dataflow.Split, from, until dataflow.Position) {
	r.t.Helper()
	r.got[split] = &harvest{at: map[string]int{}, sys: -1}
	must(r.t, r.src.Assign(r.t.Context(), []dataflow.SplitAt{{Split: split, From: from, Until: until}}))
}

// poll polls once and notes what came.
func (r *sourceRig) poll(limit dataflow.PollLimit) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	p, err := r.src.Poll(ctx, limit)
	if err != nil {
		r.t.Fatalf("poll: %v", err)
	}
	defer p.Release()
	if p.Split == "" {
		return
	}
	h := r.got[p.Split]
	if h == nil {
		r.t.Fatalf("poll returned the split %q, which is not assigned", p.Split)
	}
	if p.Next == nil {
		r.t.Fatalf("split %s: no position", p.Split)
	}
	if h.next != nil && h.next.Compare(p.Next) > 0 {
		r.t.Fatalf("split %s: position went back from %s to %s", p.Split, h.next, p.Next)
	}
	for _, c := range p.Next {
		if c < ' ' || c > '~' {
			r.t.Fatalf("split %s: position %q cannot be shown to people", p.Split, p.Next)
		}
	}
	r.take(&p, h, limit)
	h.next, h.caughtUp = p.Next, p.CaughtUp
	h.atUntil, h.ended = h.atUntil || p.AtUntil, h.ended || p.Ended
	if _, ok := h.at[string(p.Next)]; !ok {
		h.positions = append(h.positions, p.Next)
	}
	h.at[string(p.Next)] = len(h.items)
}

func (r *sourceRig) take(p *dataflow.Polled, h *harvest, limit dataflow.PollLimit) {
	r.t.Helper()
	for _, n := range p.Skipped {
		h.skipped += int(n)
	}
	if p.Bad != nil {
		for i := range int(p.Bad.NumRows()) {
			h.items = append(h.items, "bad "+string(dataflow.RowJSON(p.Bad, i)))
		}
	}
	if p.Batch == nil {
		return
	}
	if n := int(p.Batch.NumRows()); n > limit.Rows {
		r.t.Fatalf("split %s: %d rows, at most %d were asked for", p.Split, n, limit.Rows)
	}
	pos := p.Batch.Column(dataflow.Column(p.Batch.Schema(), dataflow.SysPos)).(*array.Int64)
	for i := range int(p.Batch.NumRows()) {
		if at := pos.Value(i); at <= h.sys {
			r.t.Fatalf("split %s: %s %d follows %d", p.Split, dataflow.SysPos, at, h.sys)
		}
		h.sys = pos.Value(i)
		h.items = append(h.items, fmt.Sprintf("%d %s", h.sys, dataflow.RowJSON(p.Batch, i)))
		if l, ok := r.src.(dataflow.Locator); ok && l.Locate(p.Split, h.sys) == "" {
			r.t.Fatalf("split %s: row %d has no place for people", p.Split, h.sys)
		}
	}
}

// sameItems compares without regard to the order of rows and bad records in one
// Polled; that of rows is judged by their places.
func sameItems(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

var oneRow = dataflow.PollLimit{Rows: 1, Bytes: 1 << 20, WaitMicros: 20_000}

// until polls until done says so.
func (r *sourceRig) until(limit dataflow.PollLimit, done func() bool) {
	r.t.Helper()
	for n := 0; !done(); n++ {
		if n == 20_000 {
			r.t.Fatalf("no end: %+v", r.got)
		}
		r.poll(limit)
	}
}

// whole reads a split from its beginning to where it ends now, one row a poll.
func (r *sourceRig) whole(u SourceUnderTest, split dataflow.Split) *harvest {
	r.t.Helper()
	r.assign(split, r.begin()[split], r.end(u, split))
	h := r.got[split]
	r.until(oneRow, func() bool { return h.ended || h.atUntil })
	if n := len(h.items) + h.skipped; n != u.Records[split] {
		r.t.Fatalf("split %s: %d records, want %d: %q", split, n, u.Records[split], h.items)
	}
	return h
}

// end is where a split that does not say Ended ends now; nil for others.
func (r *sourceRig) end(u SourceUnderTest, split dataflow.Split) dataflow.Position {
	r.t.Helper()
	if u.Ends {
		return nil
	}
	ends, err := r.src.(dataflow.Ender).Ends(r.t.Context(), []dataflow.Split{split})
	must(r.t, err)
	return ends[split]
}

func sourceSplits(t *testing.T, u SourceUnderTest) {
	r := openSource(t, u)
	if len(r.splits) != len(u.Records) {
		t.Fatalf("splits %v, want those of %v", r.splits, u.Records)
	}
	begin := r.begin()
	start, err := r.src.(dataflow.Starter).Start(t.Context(), r.splits)
	must(t, err)
	for split, n := range u.Records {
		if !slices.Contains(r.splits, split) || begin[split] == nil || start[split] == nil {
			t.Fatalf("split %s: begin %q, start %q, splits %v", split, begin[split], start[split], r.splits)
		}
		if e, ok := r.src.(dataflow.Ender); ok {
			ends, err := e.Ends(t.Context(), []dataflow.Split{split})
			must(t, err)
			if c := begin[split].Compare(ends[split]); n > 0 && c >= 0 || n == 0 && c > 0 {
				t.Fatalf("split %s of %d records begins at %s and ends at %s", split, n, begin[split], ends[split])
			}
		}
	}
}

func sourceCuts(t *testing.T, u SourceUnderTest) {
	for split, n := range u.Records {
		if n == 0 {
			continue
		}
		r := openSource(t, u)
		all := r.whole(u, split)
		begin, end := r.begin()[split], all.next
		cuts := all.positions
		if u.Cuts > 0 && len(cuts) > u.Cuts {
			rng := suiteRand(t)
			rng.Shuffle(len(cuts), func(i, j int) { cuts[i], cuts[j] = cuts[j], cuts[i] })
			cuts = cuts[:u.Cuts]
		}
		big := dataflow.PollLimit{Rows: 1000, Bytes: 1 << 20, WaitMicros: 20_000}
		for _, cut := range cuts {
			k := all.at[string(cut)]
			r := openSource(t, u)
			r.assign(split, begin, cut)
			h := r.got[split]
			r.until(big, func() bool { return h.atUntil })
			if h.next.Compare(cut) != 0 || !sameItems(h.items, all.items[:k]) {
				t.Fatalf("split %s until %s: stands at %s after\n%q, want\n%q", split, cut, h.next, h.items, all.items[:k])
			}
			// Assigned again where it stands, to there and then to the end.
			r.assign(split, cut, cut)
			h = r.got[split]
			r.until(big, func() bool { return h.atUntil })
			if len(h.items) > 0 || h.next.Compare(cut) != 0 {
				t.Fatalf("split %s that stands at its until %s gave %q", split, cut, h.items)
			}
			r.assign(split, cut, end)
			h = r.got[split]
			r.until(big, func() bool { return h.atUntil })
			if !sameItems(h.items, all.items[k:]) {
				t.Fatalf("split %s read on from %s gave\n%q, want\n%q", split, cut, h.items, all.items[k:])
			}
			// And by another process.
			r = openSource(t, u)
			r.assign(split, cut, end)
			h = r.got[split]
			r.until(oneRow, func() bool { return h.atUntil })
			if !sameItems(h.items, all.items[k:]) {
				t.Fatalf("split %s from %s gave\n%q, want\n%q", split, cut, h.items, all.items[k:])
			}
		}
	}
}

// sourceEnds reads all splits at once, without a bound.
func sourceEnds(t *testing.T, u SourceUnderTest) {
	r := openSource(t, u)
	begin := r.begin()
	for _, split := range r.splits {
		r.assign(split, begin[split], nil)
	}
	r.until(dataflow.PollLimit{Rows: 7, Bytes: 1 << 20, WaitMicros: 20_000}, func() bool {
		for split, h := range r.got {
			if len(h.items)+h.skipped < u.Records[split] || !h.caughtUp || u.Ends && !h.ended {
				return false
			}
		}
		return true
	})
	for split, h := range r.got {
		if n := len(h.items) + h.skipped; n != u.Records[split] || h.atUntil || h.ended != u.Ends {
			t.Errorf("split %s: %d records, want %d; at until %v, ended %v", split, n, u.Records[split], h.atUntil, h.ended)
		}
	}
	// Nothing more to say.
	p, err := r.src.Poll(t.Context(), dataflow.PollLimit{Rows: 1, Bytes: 1, WaitMicros: 1000})
	must(t, err)
	defer p.Release()
	if p.Batch != nil || p.Bad != nil {
		t.Errorf("rows behind the end: %+v", p)
	}
	if !u.Ends {
		return
	}
	// Ended is told again in the next run.
	r2 := openSource(t, u)
	for split, h := range r.got {
		r2.assign(split, h.next, nil)
		again := r2.got[split]
		r2.until(oneRow, func() bool { return again.ended })
		if len(again.items) > 0 {
			t.Errorf("split %s gave %q behind its end", split, again.items)
		}
	}
}

func sourcePoll(t *testing.T, u SourceUnderTest) {
	r := openSource(t, u)
	p, err := r.src.Poll(t.Context(), dataflow.PollLimit{Rows: 10, Bytes: 1 << 20, WaitMicros: 1000})
	if err != nil || p.Split != "" {
		t.Fatalf("poll without splits: %+v, %v", p, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.src.Poll(ctx, dataflow.PollLimit{Rows: 10, Bytes: 1 << 20, WaitMicros: 60_000_000}); !errors.Is(err, context.Canceled) {
		t.Fatalf("poll with a cancelled context: %v", err)
	}
	// While it waits.
	ctx, cancel = context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := r.src.Poll(ctx, dataflow.PollLimit{Rows: 10, Bytes: 1 << 20, WaitMicros: 60_000_000})
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("poll whose context ends: %v", err)
	}
}

func sourceUnassign(t *testing.T, u SourceUnderTest) {
	r := openSource(t, u)
	begin := r.begin()
	for _, split := range r.splits {
		r.assign(split, begin[split], nil)
	}
	r.poll(oneRow)
	gone := r.splits[0]
	must(t, r.src.Unassign(t.Context(), []dataflow.Split{gone}))
	delete(r.got, gone)
	for range 200 {
		r.poll(dataflow.PollLimit{Rows: 100, Bytes: 1 << 20})
	}
	// Assigned again it starts where it is told to.
	r.assign(gone, begin[gone], r.end(u, gone))
	h := r.got[gone]
	r.until(oneRow, func() bool { return h.ended || h.atUntil })
	if n := len(h.items) + h.skipped; n != u.Records[gone] {
		t.Errorf("split %s: %d records, want %d", gone, n, u.Records[gone])
	}
}

func sourceClose(t *testing.T, u SourceUnderTest) {
	s := u.New(t)
	must(t, s.Close())
	must(t, s.Close())
	if p, err := s.Poll(t.Context(), oneRow); err == nil {
		t.Errorf("poll of a closed source: %+v, want an error", p)
	}
	// Close ends a Poll that waits.
	s = u.New(t)
	done := make(chan error, 1)
	go func() {
		_, err := s.Poll(context.Background(), dataflow.PollLimit{Rows: 10, Bytes: 1 << 20, WaitMicros: 60_000_000})
		done <- err
	}()
	must(t, s.Close())
	<-done
}

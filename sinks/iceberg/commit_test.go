package iceberg

import (
	"context"
	"errors"
	"strings"
	"testing"

	"frazil/dataflow"

	icebergo "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

func TestCreateCommitAndReadBack(t *testing.T) {
	h := newHarness(t, idSchema())
	c := h.committer()
	if _, found, err := c.Describe(h.ctx); err != nil || found {
		t.Fatalf("before the first commit: found %v, %v", found, err)
	}
	got, err := c.Committed(h.ctx)
	h.must(err)
	if got.Positions != nil || got.ID == "" || !got.ClockComplete {
		t.Fatalf("a new table holds %+v", got)
	}
	h.must(c.Commit(h.ctx, h.next(1, 3, h.stage(1, idRows(0, 3)...))))
	h.must(c.Commit(h.ctx, h.next(2, 5, h.stage(2, idRows(3, 5)...))))
	h.expect(idWant(0, 5)...)

	got, err = c.Committed(h.ctx)
	h.must(err)
	if p := string(got.Positions.Get("src", "p0")); p != string(at0(5).Get("src", "p0")) || got.Plan != "fp" || got.Watermarks["src"] != 2000 {
		t.Fatalf("held: %+v", got)
	}
	info := h.info()
	if info.Rows != 5 || len(info.Files) != 2 || len(info.Snapshots) != 2 {
		t.Fatalf("info: %+v", info)
	}
	sum := info.Snapshots[1].Summary
	if sum["frazil.epoch"] != "2" || sum["frazil.watermark"] != "2000" || sum["frazil.sink"] != "p.s" || sum["frazil.positions-digest"] == "" {
		t.Fatalf("summary: %v", sum)
	}
}

// I9: the same commit again changes nothing.
func TestCommitTwiceIsDone(t *testing.T) {
	h := newHarness(t, idSchema())
	c := h.committer()
	first := h.next(1, 3, h.stage(1, idRows(0, 3)...))
	second := h.next(2, 4, h.stage(2, idRows(3, 4)...))
	for _, cm := range []dataflow.Commit{first, first, second, first, second} {
		h.must(c.Commit(h.ctx, cm))
	}
	h.expect(idWant(0, 4)...)
	if n := len(h.info().Snapshots); n != 2 {
		t.Fatalf("%d snapshots, want 2", n)
	}
}

// Two copies of one state directory commit overlapping ranges: the second is
// fenced, and so is one from an older place that goes further.
func TestFenced(t *testing.T) {
	h := newHarness(t, idSchema())
	c := h.committer()
	h.must(c.Commit(h.ctx, h.next(1, 3, h.stage(1, idRows(0, 3)...))))
	for _, from := range []dataflow.Positions{{}, at0(2), at0(4)} {
		err := c.Commit(h.ctx, dataflow.Commit{Epoch: 2, From: from, At: at0(6), Parts: []dataflow.Part{h.stage(2, idRows(2, 6)...)}})
		if !errors.Is(err, dataflow.ErrFenced) {
			t.Fatalf("from %v: %v, want fenced", from, err)
		}
	}
	h.expect(idWant(0, 3)...)
}

// C04: an outside writer moves the table between load and commit, twice.
func TestConflictRestagesTheSameFiles(t *testing.T) {
	h := newHarness(t, idSchema())
	c := h.committer()
	h.must(c.Commit(h.ctx, h.next(1, 3, h.stage(1, idRows(1, 4)...))))
	part := h.stage(2, idRows(4, 7)...)
	before := h.dataFiles()
	outside := [][]string{idRows(100, 102), idRows(102, 103)}
	atStep = func(_ context.Context, step string) error {
		if step == "loaded" && len(outside) > 0 {
			rows := outside[0]
			outside = outside[1:]
			h.outsideAppend(rows...)
		}
		return nil
	}
	h.must(c.Commit(h.ctx, h.next(2, 6, part)))
	h.expect(append(append(idWant(1, 7), idWant(100, 102)...), idWant(102, 103)...)...)
	if n := c.conflicts.Load(); n != 2 {
		t.Fatalf("%d conflicts, want 2", n)
	}
	if n := h.dataFiles(); n != before+2 {
		t.Fatalf("%d data files, want %d: ours once and two from outside", n, before+2)
	}
}

// C04, variant: the outside writer only sets a property, which is kept.
func TestPropertyOnlyChangeIsKept(t *testing.T) {
	for _, at := range []string{"loaded", "staged"} {
		h := newHarness(t, idSchema())
		c := h.committer()
		h.must(c.Commit(h.ctx, h.next(1, 3, h.stage(1, idRows(0, 3)...))))
		done := false
		atStep = func(_ context.Context, step string) error {
			if step == at && !done {
				done = true
				h.outside(func(tx *table.Transaction) error { return tx.SetProperties(icebergo.Properties{"owner": "ops"}) })
			}
			return nil
		}
		h.must(c.Commit(h.ctx, h.next(2, 4, h.stage(2, idRows(3, 4)...))))
		atStep = nil
		h.expect(idWant(0, 4)...)
		tbl, err := loadTable(h.ctx, c.lake, h.cfg)
		h.must(err)
		if tbl.Properties()["owner"] != "ops" {
			t.Fatalf("%s: the outside property was lost", at)
		}
	}
}

// outside changes the table as another program would.
func (h *harness) outside(change func(tx *table.Transaction) error) {
	h.t.Helper()
	ccfg, err := catalogOf(h.in.PlanEnv, h.cfg.Catalog)
	h.must(err)
	l, err := connect(h.ctx, ccfg)
	h.must(err)
	defer l.close()
	tbl, err := loadTable(h.ctx, l, h.cfg)
	h.must(err)
	tx := tbl.NewTransaction()
	h.must(change(tx))
	_, err = tx.Commit(h.ctx)
	h.must(err)
}

// outsideAppend adds rows by another pipeline.
func (h *harness) outsideAppend(rows ...string) {
	h.t.Helper()
	saved := atStep
	atStep = nil
	defer func() { atStep = saved }()
	o := *h
	o.env = &dataflow.Env{Pipeline: "other", Step: "s", Alloc: h.mem, Splits: h.env.Splits}
	c, err := NewCommitter(h.ctx, o.env, o.in, o.cfg)
	h.must(err)
	defer c.Close()
	got, err := c.Committed(h.ctx)
	h.must(err)
	n := 1
	if got.Positions != nil {
		n = 2
	}
	h.must(c.Commit(h.ctx, dataflow.Commit{Epoch: dataflow.Epoch(n), From: got.Positions, At: at0(n), Parts: []dataflow.Part{o.stage(1, rows...)}}))
}

// F01, I12: the answer is lost, with and without the commit having happened.
// Nothing is lost, doubled or removed.
func TestUnknownOutcome(t *testing.T) {
	lost := errors.New("504 gateway timeout")
	for _, step := range []string{"staged", "accepted"} {
		for _, outsider := range []bool{false, true} {
			h := newHarness(t, idSchema())
			c := h.committer()
			h.must(c.Commit(h.ctx, h.next(1, 3, h.stage(1, idRows(0, 3)...))))
			part := h.stage(2, idRows(3, 5)...)
			files := h.dataFiles()
			failed := false
			atStep = func(_ context.Context, s string) error {
				if s != step || failed {
					return nil
				}
				failed = true
				if outsider {
					h.outsideAppend(idRows(100, 101)...)
				}
				return lost
			}
			h.must(c.Commit(h.ctx, h.next(2, 5, part)))
			atStep = nil
			want := idWant(0, 5)
			if outsider {
				want, files = append(want, idWant(100, 101)...), files+1
			}
			h.expect(want...)
			if !failed || c.unknown.Load() != 1 {
				t.Fatalf("%s: outcome was not unknown", step)
			}
			if n := h.dataFiles(); n != files {
				t.Fatalf("%s: %d data files, want %d", step, n, files)
			}
		}
	}
}

// A catalog that never answers: transient, no file removed, and the same commit
// succeeds later.
func TestOutageIsTransient(t *testing.T) {
	h := newHarness(t, idSchema())
	c := h.committer()
	cm := h.next(1, 3, h.stage(1, idRows(0, 3)...))
	c.must(t, c.Committed)
	atStep = func(context.Context, string) error { return errors.New("connection refused") }
	err := c.Commit(h.ctx, cm)
	if err == nil || errors.Is(err, dataflow.ErrPermanent) || errors.Is(err, dataflow.ErrFenced) || !strings.Contains(err.Error(), "connection refused") {
		t.Fatalf("got %v", err)
	}
	atStep = nil
	h.must(c.Commit(h.ctx, cm))
	h.expect(idWant(0, 3)...)
}

func (c *Committer) must(t *testing.T, f func(context.Context) (dataflow.Committed, error)) {
	t.Helper()
	if _, err := f(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// C01: the process dies around the commit; another one finds the manifest and
// commits from the parts alone.
func TestCrashAroundCommit(t *testing.T) {
	for _, step := range []string{"written", "loaded", "staged", "accepted", "after"} {
		h := newHarness(t, idSchema())
		first, err := NewCommitter(h.ctx, h.env, h.in, h.cfg)
		h.must(err)
		h.must(first.Commit(h.ctx, h.next(1, 3, h.stage(1, idRows(0, 3)...))))
		cm := h.next(2, 6, h.stage(2, idRows(3, 6)...))
		dead := errors.New("killed")
		ctx, kill := context.WithCancelCause(h.ctx)
		atStep = func(_ context.Context, s string) error {
			if s == step {
				kill(dead)
				return dead
			}
			return nil
		}
		if step != "written" {
			if err := first.Commit(ctx, cm); step == "after" != (err == nil) {
				t.Fatalf("%s: %v", step, err)
			}
		}
		kill(nil)
		atStep = nil
		h.must(first.Close())

		again := h.committer()
		h.must(again.Commit(h.ctx, cm))
		h.must(again.Commit(h.ctx, h.next(3, 7, h.stage(3, idRows(6, 7)...))))
		h.expect(idWant(0, 7)...)
		if got := h.positions(); got != string(at0(7).Get("src", "p0")) {
			t.Fatalf("%s: stored position %s", step, got)
		}
	}
}

func TestRecreatedTableIsRefused(t *testing.T) {
	h := newHarness(t, idSchema())
	c := h.committer()
	cm := h.next(1, 3, h.stage(1, idRows(0, 3)...))
	h.must(c.lake.DropTable(h.ctx, []string{"db", "t"}))
	if err := c.Commit(h.ctx, cm); !errors.Is(err, dataflow.ErrPermanent) || !strings.Contains(err.Error(), "gone") {
		t.Fatalf("dropped: %v", err)
	}
	c.must(t, c.Committed)
	if err := c.Commit(h.ctx, cm); !errors.Is(err, dataflow.ErrPermanent) || !strings.Contains(err.Error(), "recreated") {
		t.Fatalf("recreated: %v", err)
	}
}

func TestRolledBackTableIsRefused(t *testing.T) {
	h := newHarness(t, idSchema())
	c := h.committer()
	h.must(c.Commit(h.ctx, h.next(1, 3, h.stage(1, idRows(0, 3)...))))
	h.must(c.Commit(h.ctx, h.next(2, 4, h.stage(2, idRows(3, 4)...))))
	tbl, err := loadTable(h.ctx, c.lake, h.cfg)
	h.must(err)
	first := tbl.Metadata().Snapshots()[0].SnapshotID
	h.outside(func(tx *table.Transaction) error { return tx.RollbackToSnapshot(first) })
	if _, err := c.Committed(h.ctx); !errors.Is(err, dataflow.ErrPermanent) || !strings.Contains(err.Error(), "rolled back") {
		t.Fatalf("got %v", err)
	}
}

// S06: the spec and the schema are changed by another tool between write and
// commit.
func TestEvolvedBetweenWriteAndCommit(t *testing.T) {
	h := newHarness(t, idSchema())
	c := h.committer()
	h.must(c.Commit(h.ctx, h.next(1, 3, h.stage(1, idRows(0, 3)...))))
	cm := h.next(2, 4, h.stage(2, idRows(3, 4)...))
	h.outside(func(tx *table.Transaction) error {
		return tx.UpdateSpec(true).AddField("id", icebergo.BucketTransform{NumBuckets: 4}, "id_bucket").Commit()
	})
	h.outside(func(tx *table.Transaction) error {
		return tx.UpdateSchema(true, false).AddColumn([]string{"extra"}, icebergo.PrimitiveTypes.String, "", false, nil).Commit()
	})
	h.must(c.Commit(h.ctx, cm))
	h.must(c.Commit(h.ctx, h.next(3, 6, h.stage(3, idRows(4, 6)...)))) // a new writer: new spec
	var want []string
	for _, r := range idWant(0, 6) {
		want = append(want, strings.TrimSuffix(r, "}")+`,"extra":null}`)
	}
	h.expect(want...)
	tbl, err := loadTable(h.ctx, c.lake, h.cfg)
	h.must(err)
	tasks, err := tbl.Scan().PlanFiles(h.ctx)
	h.must(err)
	specs := map[int32]int{}
	for _, task := range tasks {
		specs[task.File.SpecID()]++
	}
	if specs[0] != 2 || specs[1] == 0 {
		t.Fatalf("files by spec: %v", specs)
	}
}

func TestClockDecisions(t *testing.T) {
	h := newHarness(t, idSchema())
	c := h.committer()
	var want []dataflow.ClockDecision
	for e := 1; e <= 3; e++ {
		cm := h.next(dataflow.Epoch(e), e, h.stage(dataflow.Epoch(e), idRows(e, e+1)...))
		d := dataflow.ClockDecision{Source: "src", Split: "p0", Pos: 7, Floor: dataflow.Time(e)}
		cm.Clock = append(cm.Clock, d)
		want = append(want, d)
		h.must(c.Commit(h.ctx, cm))
	}
	got, err := c.Committed(h.ctx)
	h.must(err)
	if !got.ClockComplete || len(got.Clock) != 3 || got.Clock[0] != want[0] || got.Clock[2] != want[2] {
		t.Fatalf("got %+v", got)
	}
	h.outside(func(tx *table.Transaction) error {
		return tx.ExpireSnapshots(table.WithRetainLast(1), table.WithOlderThan(0))
	})
	if got, err = c.Committed(h.ctx); err != nil || got.ClockComplete || len(got.Clock) == 3 {
		t.Fatalf("after expiry: %+v, %v", got, err)
	}
}

// A commit without rows moves the positions and is fenced like any other.
func TestCommitWithoutRows(t *testing.T) {
	h := newHarness(t, idSchema())
	c := h.committer()
	c.must(t, c.Committed)
	h.must(c.Commit(h.ctx, h.next(1, 3)))
	h.must(c.Commit(h.ctx, h.next(2, 5, h.stage(2, idRows(0, 2)...))))
	h.expect(idWant(0, 2)...)
	if n := len(h.info().Snapshots); n != 2 {
		t.Fatalf("%d snapshots, want 2", n)
	}
}

func TestFormatVersion3(t *testing.T) {
	h := newHarness(t, idSchema())
	h.cfg.FormatVersion = 3
	h.cfg.PartitionBy = []string{"v"}
	c := h.committer()
	h.must(c.Commit(h.ctx, h.next(1, 3, h.stage(1, idRows(0, 3)...))))
	h.must(c.Commit(h.ctx, h.next(2, 4, h.stage(2, idRows(3, 4)...))))
	h.expect(idWant(0, 4)...)
}

// Two writers, two processes' worth of catalogs, one sqlite file: no commit is
// lost to a locked database (F03).
func TestTwoSinksCommitAtOnce(t *testing.T) {
	h := newHarness(t, idSchema())
	c := h.committer()
	c.must(t, c.Committed)
	const each = 15
	errs := make(chan error, 2)
	for i := range 2 {
		o := *h
		o.env = &dataflow.Env{Pipeline: "p", Step: []string{"a", "b"}[i], Alloc: h.mem, Splits: h.env.Splits}
		o.held, o.wm = dataflow.Positions{}, nil
		var commits []dataflow.Commit
		for e := range each {
			id := i*1000 + e
			commits = append(commits, o.next(dataflow.Epoch(e+1), e+1, o.stage(1, idRows(id, id+1)...)))
		}
		go func() {
			c, err := NewCommitter(o.ctx, o.env, o.in, o.cfg)
			for _, cm := range commits {
				if err == nil {
					err = c.Commit(o.ctx, cm)
				}
			}
			errs <- errors.Join(err, c.Close())
		}()
	}
	h.must(errors.Join(<-errs, <-errs))
	h.expect(append(idWant(0, each), idWant(1000, 1000+each)...)...)
}

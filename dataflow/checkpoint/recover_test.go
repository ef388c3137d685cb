package checkpoint

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"frazil/dataflow"
)

func at(a, b string) dataflow.Positions {
	p := dataflow.Positions{}
	if a != "" {
		p.Set("src", "0", dataflow.Position(a))
	}
	if b != "" {
		p.Set("src", "1", dataflow.Position(b))
	}
	return p
}

func wm(t dataflow.Time) map[string]dataflow.Time { return map[string]dataflow.Time{"src": t} }

func manifestAt(a, b string, w dataflow.Time, t *TargetState) *Manifest {
	return &Manifest{
		Sources: map[string]*SourceState{"src": {Watermark: w, Splits: map[dataflow.Split]*SplitState{"0": {Position: a}, "1": {Position: b}}}},
		Targets: map[string]*TargetState{"out": t},
	}
}

// facts of a sink whose manifest entry is at done.
func facts(known *TargetState, found dataflow.Committed) SinkFacts {
	found.ClockComplete = true
	found.Plan = "plan"
	return SinkFacts{Name: "out", Target: "t", Known: known, Found: found, Fingerprint: "plan"}
}

func TestATargetWhereTheStateLeftItCommitsWhatIsPending(t *testing.T) {
	known := &TargetState{Target: "t", ID: "u", Done: at("3", "3"), DoneWatermarks: wm(30), Pending: []dataflow.Commit{
		{Epoch: 4, From: at("3", "3"), At: at("4", "4"), Watermarks: wm(40)}, {Epoch: 5, From: at("4", "4"), At: at("4", "4"), Watermarks: wm(50)},
	}}
	for _, c := range []struct {
		name  string
		found dataflow.Committed
		left  []dataflow.Epoch
	}{
		{"nothing of it has happened", dataflow.Committed{ID: "u", Positions: at("3", "3"), Watermarks: wm(30)}, []dataflow.Epoch{4, 5}},
		{"the first has happened", dataflow.Committed{ID: "u", Positions: at("4", "4"), Watermarks: wm(40)}, []dataflow.Epoch{5}},
		{"both have, the second by time alone", dataflow.Committed{ID: "u", Positions: at("4", "4"), Watermarks: wm(50)}, nil},
	} {
		r, err := Recover(manifestAt("4", "4", 50, known), []SinkFacts{facts(known, c.found)}, true, nil)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var left []dataflow.Epoch
		for _, p := range r.Targets["out"].Pending {
			left = append(left, p.Epoch)
		}
		if !slices.Equal(left, c.left) || len(r.Replays) != 0 {
			t.Errorf("%s: pending %v, replays %v", c.name, left, r.Replays)
		}
	}
}

func TestATargetBeyondTheStateIsReplayedMuted(t *testing.T) {
	known := &TargetState{Target: "t", ID: "u", Done: at("3", "3"), DoneWatermarks: wm(30)}
	for name, found := range map[string]dataflow.Committed{
		"further in one split":     {ID: "u", Positions: at("9", "4"), Watermarks: wm(40)},
		"further by time alone":    {ID: "u", Positions: at("4", "4"), Watermarks: wm(90)},
		"with a split found later": {ID: "u", Positions: func() dataflow.Positions { p := at("4", "4"); p.Set("src", "2", dataflow.Position("1")); return p }(), Watermarks: wm(40)},
	} {
		r, err := Recover(manifestAt("4", "4", 40, known), []SinkFacts{facts(known, found)}, true, []string{"screen"})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(r.Replays) != 1 || !slices.Equal(r.Replays[0].Unmute, []string{"out", "screen"}) || compareAll(r.Replays[0].Until, found.Positions) != same {
			t.Errorf("%s: %+v", name, r.Replays)
		}
	}
}

func TestALostStateReplaysTargetsInTheirOrderFromTheRecordedStart(t *testing.T) {
	a := facts(nil, dataflow.Committed{Positions: at("9", "9"), Watermarks: wm(90), Start: at("1", "2")})
	b := facts(nil, dataflow.Committed{Positions: at("5", "7"), Watermarks: wm(50), Start: at("1", "2")})
	b.Name = "late"
	none := facts(nil, dataflow.Committed{})
	none.Name = "never"
	r, err := Recover(nil, []SinkFacts{a, b, none}, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	if compareAll(r.Start, at("1", "2")) != same || len(r.Replays) != 2 || r.Replays[0].Unmute[0] != "late" || r.Replays[1].Unmute[0] != "out" {
		t.Fatalf("%+v", r)
	}
	if slices.Contains(r.Muted, "never") {
		t.Fatal("a target that holds nothing is not muted")
	}
}

// Two sources, each with a table of its own, and one of both: they were committed up to
// different epochs when the state was lost.
func TestTargetsOfDifferentSourcesAreReplayedInTheirOrder(t *testing.T) {
	p := func(a, b string) dataflow.Committed {
		f := dataflow.Committed{Positions: dataflow.Positions{}, Watermarks: map[string]dataflow.Time{}, Plan: "plan", ClockComplete: true}
		for step, pos := range map[string]string{"a": a, "b": b} {
			if pos != "" {
				f.Positions.Set(step, "0", dataflow.Position(pos))
				f.Watermarks[step] = dataflow.Time(pos[0])
			}
		}
		return f
	}
	for name, c := range map[string]struct {
		found map[string]dataflow.Committed
		want  [][]string // one of the orders that fit
		cross bool
	}{
		"the one of both is behind":  {found: map[string]dataflow.Committed{"ab": p("2", "3"), "b": p("", "5"), "a": p("4", "")}, want: [][]string{{"ab", "b"}, {"ab", "a"}}},
		"the one of both is further": {found: map[string]dataflow.Committed{"ab": p("4", "5"), "b": p("", "3"), "a": p("2", "")}, want: [][]string{{"b", "ab"}, {"a", "ab"}}},
		"it stands between":          {found: map[string]dataflow.Committed{"ab": p("3", "3"), "b": p("", "5"), "a": p("2", "")}, want: [][]string{{"a", "ab"}, {"ab", "b"}}},
		"they cross":                 {found: map[string]dataflow.Committed{"ab": p("2", "3"), "ba": p("3", "2")}, cross: true},
	} {
		var sinks []SinkFacts
		for _, n := range []string{"b", "ba", "ab", "a"} {
			if f, ok := c.found[n]; ok {
				sinks = append(sinks, SinkFacts{Name: n, Target: dataflow.Target(n), Found: f, Fingerprint: "plan"})
			}
		}
		r, err := Recover(nil, sinks, true, nil)
		if c.cross != (err != nil) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		place := map[string]int{}
		for i, x := range r.Replays {
			for _, n := range x.Unmute {
				place[n] = i
			}
		}
		for _, w := range c.want {
			if place[w[0]] >= place[w[1]] {
				t.Errorf("%s: %s does not come before %s: %+v", name, w[0], w[1], r.Replays)
			}
		}
	}
}

// A state that was lost, and lost again right behind its first manifest: that knows a
// split which nobody had found when the target was written.
func TestASplitOfWhichNothingWasReadIsNowhereYet(t *testing.T) {
	m := manifestAt("0", "0", dataflow.MinTime, nil)
	delete(m.Targets, "out")
	m.Sources["src"].Start = map[dataflow.Split]string{"0": "0", "1": "0"}
	found := dataflow.Committed{ID: "u", Positions: at("7", ""), Watermarks: wm(70)}
	r, err := Recover(m, []SinkFacts{facts(nil, found)}, true, nil)
	if err != nil || len(r.Replays) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	m.Sources["src"].Splits["1"].Position = "2"
	if _, err := Recover(m, []SinkFacts{facts(nil, found)}, true, nil); !errors.Is(err, ErrCannotResume) {
		t.Errorf("a split was read that the target knows nothing of: %v", err)
	}
}

// The target is further, and its watermark lower: another process read on from an
// earlier epoch while this one let an idle split out.
func TestAStateOfAnotherHistoryIsRefused(t *testing.T) {
	known := &TargetState{Target: "t", ID: "u", Done: at("3", "3"), DoneWatermarks: wm(30)}
	found := dataflow.Committed{ID: "u", Positions: at("9", "4"), Watermarks: wm(35)}
	for reason, advice := range map[string]string{"": "move this state directory away", "of a push source": "run that one"} {
		s := facts(known, found)
		s.NotReplayable = reason
		_, err := Recover(manifestAt("4", "4", 40, known), []SinkFacts{s}, true, nil)
		if !errors.Is(err, ErrCannotResume) || !strings.Contains(err.Error(), "another process has gone on from an earlier epoch") || !strings.HasSuffix(strings.Split(err.Error(), ": then")[0], advice) {
			t.Errorf("got %v", err)
		}
	}
}

// Two processes on copies of one write-ahead log: the other one has committed its own
// records under the numbers that this one has given to others.
func TestOtherRowsAtTheSamePositionsAreNoCommitOfThisState(t *testing.T) {
	known := func() *TargetState {
		return &TargetState{Target: "t", ID: "u", Done: at("3", "3"), DoneWatermarks: wm(30),
			Pending: []dataflow.Commit{{Epoch: 7, ID: "mine", From: at("3", "3"), At: at("4", "4"), Watermarks: wm(40)}}}
	}
	for id, good := range map[string]bool{"mine": true, "other": false} {
		found := dataflow.Committed{ID: "u", Positions: at("4", "4"), Watermarks: wm(40), Commits: []string{"before", id}}
		r, err := Recover(manifestAt("4", "4", 40, known()), []SinkFacts{facts(known(), found)}, true, nil)
		switch {
		case good && (err != nil || len(r.Targets["out"].Pending) != 0):
			t.Errorf("%+v, %v", r.Targets, err)
		case !good && (!errors.Is(err, ErrCannotResume) || !strings.Contains(err.Error(), "other rows under the positions of epoch 7")):
			t.Errorf("got %v", err)
		}
	}
}

func TestALostStateOfAPipelineWithoutKeyedStateStartsAtTheTargets(t *testing.T) {
	a := facts(nil, dataflow.Committed{Positions: at("9", "9"), Watermarks: wm(90), Start: at("1", "2")})
	r, err := Recover(nil, []SinkFacts{a}, false, nil)
	if err != nil || len(r.Replays) != 0 || compareAll(r.Start, at("9", "9")) != same {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestWhatNoReplayMendsIsRefusedWithTheReason(t *testing.T) {
	known := func() *TargetState {
		return &TargetState{Target: "t", ID: "u", Done: at("3", "3"), DoneWatermarks: wm(30)}
	}
	beyond := dataflow.Committed{ID: "u", Positions: at("9", "9"), Watermarks: wm(90)}
	for _, c := range []struct {
		name   string
		known  *TargetState
		found  dataflow.Committed
		change func(*SinkFacts)
		want   string
	}{
		{"rolled back", known(), dataflow.Committed{ID: "u", Positions: at("2", "2")}, nil, "rolled back"},
		{"recreated", known(), dataflow.Committed{ID: "other"}, nil, "recreated"},
		{"emptied", known(), dataflow.Committed{ID: "u"}, nil, "no longer holds"},
		{"crossed", known(), dataflow.Committed{ID: "u", Positions: at("9", "1")}, nil, "rolled back"},
		{"renamed", nil, dataflow.Committed{ID: "u", Positions: at("1", "1")}, nil, "removed or renamed"},
		{"not replayable", known(), beyond, func(f *SinkFacts) { f.NotReplayable = "dedup takes rows as they come" }, "dedup takes rows as they come"},
		{"another plan", known(), beyond, func(f *SinkFacts) { f.Fingerprint = "new" }, "another version"},
		{"expired decisions", known(), beyond, func(f *SinkFacts) { f.Found.ClockComplete = false }, "expired"},
	} {
		f := facts(c.known, c.found)
		if c.change != nil {
			c.change(&f)
		}
		_, err := Recover(manifestAt("4", "4", 40, c.known), []SinkFacts{f}, true, nil)
		if !errors.Is(err, ErrCannotResume) || !errors.Is(err, dataflow.ErrPermanent) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A replay was stopped exactly where the target stands, before it was unmuted: the
// state is there, whatever it knew of the target before. Other sources say nothing.
func TestAReplayThatWasStoppedWhereTheTargetStandsIsOver(t *testing.T) {
	found := dataflow.Committed{ID: "u", Positions: at("7", "5"), Watermarks: wm(70)}
	m := func(w dataflow.Time, known *TargetState) *Manifest {
		m := manifestAt("7", "5", w, known)
		m.Sources["other"] = &SourceState{Watermark: 90, Splits: map[dataflow.Split]*SplitState{"0": {Position: "9"}}}
		return m
	}
	old := &TargetState{Target: "t", ID: "u", Done: at("3", "3"), DoneWatermarks: wm(30), Pending: []dataflow.Commit{{Epoch: 4, From: at("3", "3"), At: at("4", "4"), Watermarks: wm(40)}}}
	for name, known := range map[string]*TargetState{"it knew nothing": nil, "it knew an older place": old} {
		r, err := Recover(m(70, known), []SinkFacts{facts(known, found)}, true, nil)
		if err != nil || len(r.Replays) != 0 || len(r.Targets["out"].Pending) != 0 || !stands(found, r.Targets["out"].Done, r.Targets["out"].DoneWatermarks) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		r, err = Recover(m(60, known), []SinkFacts{facts(known, found)}, true, nil)
		if err != nil || len(r.Replays) != 1 {
			t.Errorf("%s, and the watermark is behind: %+v, %v", name, r, err)
		}
		if _, err = Recover(m(80, known), []SinkFacts{facts(known, found)}, true, nil); !errors.Is(err, ErrCannotResume) {
			t.Errorf("%s, and the watermark is further: %v", name, err)
		}
	}
}

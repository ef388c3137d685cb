package dataflow

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"testing"
)

func testAt(pos ...string) Positions {
	p := Positions{}
	for i, x := range pos {
		if x != "" {
			p.Set("in", Split(rune('0'+i)), Position(x))
		}
	}
	return p
}

func testWM(t Time) map[string]Time { return map[string]Time{"in": t} }

// I9: what a target holds only grows, and rows of a range are in it once.
func TestDecideCommit(t *testing.T) {
	held := Committed{Positions: testAt("5", "7"), Watermarks: testWM(50)}
	claimed, empty := held, Committed{Claim: Claim{Token: 2, By: "b"}}
	claimed.Claim = empty.Claim
	made := held
	made.Commits = []string{"a", "b"}
	next := func(token uint64, by string) Commit {
		return Commit{From: testAt("5", "7"), At: testAt("6", "7"), FromWatermarks: testWM(50), Claim: Claim{Token: token, By: by}}
	}
	for _, c := range []struct {
		name string
		held Committed
		c    Commit
		want CommitDecision
	}{
		{"a new target", Committed{}, Commit{At: testAt("1", "2")}, Publish},
		{"a new target for a commit that follows others", Committed{}, Commit{From: testAt("1", "2"), At: testAt("3", "4")}, Fenced},
		{"the next one", held, Commit{From: testAt("5", "7"), At: testAt("6", "7"), FromWatermarks: testWM(50), Watermarks: testWM(60)}, Publish},
		{"exactly what is held", held, Commit{From: testAt("1", "2"), At: testAt("5", "7"), FromWatermarks: testWM(10), Watermarks: testWM(50)}, Done},
		{"an older one", held, Commit{From: testAt("1", "2"), At: testAt("3", "4"), FromWatermarks: testWM(10), Watermarks: testWM(30)}, Done},
		{"an older one at the same place in one split", held, Commit{From: testAt("1", "7"), At: testAt("3", "7"), Watermarks: testWM(90)}, Done},
		{"a range that overlaps", held, Commit{From: testAt("4", "7"), At: testAt("6", "7")}, Fenced},
		{"a gap", held, Commit{From: testAt("6", "7"), At: testAt("8", "7")}, Fenced},
		{"ahead in one split, behind in another", held, Commit{From: testAt("5", "6"), At: testAt("9", "6"), FromWatermarks: testWM(50)}, Fenced},
		{"a first commit of another life", held, Commit{At: testAt("9", "9")}, Fenced},
		{"a split that is new", held, Commit{From: testAt("5", "7"), At: testAt("5", "7", "1"), FromWatermarks: testWM(50)}, Publish},
		{"a new split that is there", held, Commit{From: testAt("5"), At: testAt("6", "8"), FromWatermarks: testWM(50)}, Fenced},
		{"splits that it does not name", held, Commit{From: testAt("5"), At: testAt("6"), FromWatermarks: testWM(50)}, Publish},
		{"time alone", held, Commit{From: testAt("5", "7"), At: testAt("5", "7"), FromWatermarks: testWM(50), Watermarks: testWM(60)}, Publish},
		{"time alone, from an older time", held, Commit{From: testAt("5", "7"), At: testAt("5", "7"), FromWatermarks: testWM(40), Watermarks: testWM(60)}, Fenced},
		{"the next rows, from an older time", held, Commit{From: testAt("5", "7"), At: testAt("6", "7"), FromWatermarks: testWM(40), Watermarks: testWM(60)}, Fenced},
		{"the next one of whom the claim is", claimed, next(2, "b"), Publish},
		{"the next one of an older claim", claimed, next(1, "a"), Fenced},
		{"the next one of another claim of that number", claimed, next(2, "a"), Fenced},
		{"the next one by a claim that is not there", held, next(2, "b"), Fenced},
		{"the first one of an older claim", empty, Commit{At: testAt("1", "2"), Claim: Claim{Token: 1, By: "a"}}, Fenced},
		{"what is held, by its ID", made, Commit{At: testAt("5", "7"), Watermarks: testWM(50), ID: "b"}, Done},
		{"an older one, by its ID", made, Commit{At: testAt("4", "7"), Watermarks: testWM(40), ID: "a"}, Done},
		{"other rows of the same place", made, Commit{From: testAt("4", "7"), At: testAt("5", "7"), Watermarks: testWM(50), ID: "c"}, Fenced},
		{"other rows of an older place", made, Commit{From: testAt("3", "7"), At: testAt("4", "7"), Watermarks: testWM(40), ID: "c"}, Fenced},
		{"the next one, by its ID", made, Commit{From: testAt("5", "7"), At: testAt("6", "7"), FromWatermarks: testWM(50), ID: "c"}, Publish},
		{"with an ID, where none was held", held, Commit{At: testAt("5", "7"), Watermarks: testWM(50), ID: "c"}, Done},
		{"the same place, an older time", held, Commit{From: testAt("5", "7"), At: testAt("5", "7"), FromWatermarks: testWM(30), Watermarks: testWM(40)}, Done},
	} {
		if got := DecideCommit(c.held, c.c); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestATargetRemembersTheLastCommits(t *testing.T) {
	var held []string
	for n := range 40 {
		before := slices.Clone(held)
		next := Commit{ID: strconv.Itoa(n)}.After(held)
		if !slices.Equal(held, before) {
			t.Fatal("what was held has changed")
		}
		held = next
	}
	if len(held) != KeepCommits || held[0] != "24" || held[KeepCommits-1] != "39" || !slices.Equal(Commit{}.After(held), held) {
		t.Errorf("%v", held)
	}
}

func TestCompareWatermarks(t *testing.T) {
	for _, c := range []struct {
		a, b map[string]Time
		want int
	}{
		{nil, nil, 0}, {testWM(1), testWM(1), 0}, {testWM(1), testWM(2), -1}, {testWM(2), testWM(1), 1},
		{nil, testWM(MinTime), 0}, {testWM(1), nil, 1}, {nil, testWM(1), -1}, {testWM(1), testWM(MaxTime), -1},
		{map[string]Time{"a": 1, "b": 9}, map[string]Time{"a": 2, "b": 1}, -1},
		{map[string]Time{"a": 1, "b": 9}, map[string]Time{"a": 1, "b": 1}, 1},
	} {
		if got := CompareWatermarks(c.a, c.b); got != c.want {
			t.Errorf("%v against %v: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestPositionsAreTextInJSON(t *testing.T) {
	p := Positions{"in": {"0": Position(`{"row":"007"}`), "1": Position("000")}, "other": {}}
	text, err := json.Marshal(p)
	if want := `{"in":{"0":"{\"row\":\"007\"}","1":"000"},"other":{}}`; err != nil || string(text) != want {
		t.Fatalf("%s, %v; want %s", text, err, want)
	}
	var back Positions
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back["in"], p["in"]) {
		t.Fatalf("%v, %v", back, err)
	}
	if err := json.Unmarshal([]byte(`{"in":{"0":7}}`), &back); err == nil {
		t.Fatal("a position that is no text was read")
	}
}

func TestPositionsMergeAndCloneWithoutSharing(t *testing.T) {
	a := testAt("1", "2")
	m := MergePositions(a, testAt("3", "", "9"))
	if !reflect.DeepEqual(m, testAt("3", "2", "9")) {
		t.Fatalf("merged %v", m)
	}
	m.Set("in", "0", Position("x"))
	if !reflect.DeepEqual(a, testAt("1", "2")) {
		t.Fatalf("the original changed: %v", a)
	}
	if got := MergePositions(nil, a).Splits("in"); !reflect.DeepEqual(got, []Split{"0", "1"}) {
		t.Fatalf("splits %v", got)
	}
}

func TestTimesStayAtTheEnds(t *testing.T) {
	for _, c := range []struct{ got, want Time }{
		{MinTime.Sub(1e9), MinTime}, {MaxTime.Sub(1e9), MaxTime}, {MaxTime.Add(1e9), MaxTime}, {Time(5).Sub(1000), 4},
		{(MinTime + 1).Sub(1e9), MinTime}, {(MaxTime - 1).Add(1e9), MaxTime}, {Time(0).Add(1e9), 1_000_000},
	} {
		if c.got != c.want {
			t.Errorf("%d, want %d", c.got, c.want)
		}
	}
}

func TestClosedUpToOnlyGrows(t *testing.T) {
	var none *ClosedUpTo
	c := NewClosedUpTo(5)
	c.Raise(3)
	if none.Get() != MinTime || c.Get() != 5 {
		t.Fatalf("%s, %s", none.Get(), c.Get())
	}
	if c.Raise(9); c.Get() != 9 {
		t.Fatalf("%s", c.Get())
	}
}

// I10: every row has one fate.
func TestBalanceIsWhatHasNoFate(t *testing.T) {
	c := Counts{In: 55, Passed: 1, Filtered: 2, Late: 3, Duplicate: 4, Bad: 5, Absorbed: 6, Expired: 7, Held: 8, Staged: 9, Superseded: 5, Muted: 5, Created: 99, PartlyLate: 99}
	if got := c.Balance(); got != 0 {
		t.Fatalf("%d rows are left over", got)
	}
	c.Late--
	if got := c.Balance(); got != 1 {
		t.Fatalf("%d rows are left over, want 1", got)
	}
}

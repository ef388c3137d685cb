package files

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/codec"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/klauspost/compress/zstd"
)

// rig is a folder with files and a clock that moves with every look.
type rig struct {
	t   *testing.T
	dir string
	cfg Config
	now time.Time
}

func newRig(t *testing.T, cfg Config) *rig {
	def := DefaultConfig()
	if cfg.Mode == "" {
		cfg.Mode = def.Mode
	}
	if cfg.Lanes == 0 {
		cfg.Lanes = def.Lanes
	}
	if cfg.OnGap == "" {
		cfg.OnGap = def.OnGap
	}
	cfg.Poll = def.Poll
	if cfg.Paths == nil {
		cfg.Paths = []string{"*"}
	}
	return &rig{t: t, dir: t.TempDir(), cfg: cfg, now: time.Unix(1772359200, 0)}
}

// write makes a file, compressed by its extension, and gives it a new time.
func (r *rig) write(name, content string) {
	r.t.Helper()
	r.put(name, pack(r.t, name, content))
}

func (r *rig) put(name string, b []byte) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		r.t.Fatal(err)
	}
	r.now = r.now.Add(time.Minute)
	if err := os.Chtimes(path, r.now, r.now); err != nil {
		r.t.Fatal(err)
	}
}

// add appends to a plain file.
func (r *rig) add(name, content string) {
	r.t.Helper()
	f, err := os.OpenFile(filepath.Join(r.dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.WriteString(content)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) remove(name string) {
	if err := os.Remove(filepath.Join(r.dir, name)); err != nil {
		r.t.Fatal(err)
	}
}

func pack(t testing.TB, name, content string) []byte {
	var out bytes.Buffer
	switch filepath.Ext(name) {
	case ".gz":
		z := gzip.NewWriter(&out)
		_, _ = z.Write([]byte(content))
		_ = z.Close()
	case ".zst":
		z, err := zstd.NewWriter(&out)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = z.Write([]byte(content))
		_ = z.Close()
	default:
		return []byte(content)
	}
	return out.Bytes()
}

// reading is a Source under test with everything it gave.
type reading struct {
	*Source
	t       *testing.T
	r       *rig
	rows    []string
	bad     []string
	next    map[dataflow.Split]dataflow.Position
	places  []dataflow.Position // of lane 0, after every Polled
	skipped map[string]int64
}

func (r *rig) open() *reading {
	r.t.Helper()
	alloc := memory.NewCheckedAllocator(memory.NewGoAllocator())
	env := &dataflow.Env{
		Pipeline: "p", Step: "in", Dir: r.dir, Alloc: alloc, Splits: &dataflow.SplitTable{},
		Now: func() time.Time { r.now = r.now.Add(time.Minute); return r.now },
		NewDecoder: func() (dataflow.Decoder, error) {
			return codec.NewJSON(codec.JSONConfig{Schema: component.NamedTypes{{Name: "n", Type: "int64"}}, MaxRecord: 1 << 20}, alloc)
		},
	}
	s, err := New(env, r.cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := errors.Join(s.Close(), s.Close()); err != nil {
			r.t.Error(err)
		}
		alloc.AssertSize(r.t, 0)
	})
	return &reading{Source: s, t: r.t, r: r, next: map[dataflow.Split]dataflow.Position{}, skipped: map[string]int64{}}
}

// from opens a source on lane 0.
func (r *rig) from(from, until dataflow.Position) *reading {
	r.t.Helper()
	g := r.open()
	g.assign("0", from, until)
	return g
}

func (g *reading) assign(split dataflow.Split, from, until dataflow.Position) {
	g.t.Helper()
	if err := g.Assign(context.Background(), []dataflow.SplitAt{{Split: split, From: from, Until: until}}); err != nil {
		g.t.Fatal(err)
	}
}

// poll polls once and notes what came.
func (g *reading) poll(rows int) (dataflow.Polled, error) {
	p, err := g.Poll(context.Background(), dataflow.PollLimit{Rows: rows, Bytes: 1 << 20})
	defer p.Release()
	if err != nil {
		return p, err
	}
	if p.Split != "" {
		if old := g.next[p.Split]; old != nil && old.Compare(p.Next) > 0 {
			g.t.Fatalf("position went back from %s to %s", old, p.Next)
		}
		g.next[p.Split] = p.Next
		if p.Split == "0" {
			g.places = append(g.places, p.Next)
		}
	}
	for k, n := range p.Skipped {
		g.skipped[k] += n
	}
	if p.Batch != nil {
		pos := p.Batch.Column(int(p.Batch.NumCols()) - 1).(*array.Int64)
		for i := range int(p.Batch.NumRows()) {
			g.rows = append(g.rows, strings.TrimPrefix(string(dataflow.RowJSON(p.Batch, i)), `{"n":`)+"@"+g.Locate(p.Split, pos.Value(i)))
		}
	}
	if p.Bad != nil {
		for i := range int(p.Bad.NumRows()) {
			raw := p.Bad.Column(6).(*array.Binary).Value(i)
			if len(raw) > 40 {
				raw = append(raw[:10:10], fmt.Sprintf("... %d bytes", len(raw))...)
			}
			g.bad = append(g.bad, fmt.Sprintf("%s@%s %q", p.Bad.Column(0).(*array.String).Value(i), p.Bad.Column(5).(*array.String).Value(i), raw))
		}
	}
	return p, nil
}

// run polls until the lanes have ended or nothing more is there.
func (g *reading) run(rows int) (last dataflow.Polled) {
	g.t.Helper()
	for {
		p, err := g.poll(rows)
		if err != nil {
			g.t.Fatal(err)
		}
		if p.Split == "" {
			return last
		}
		last = p
	}
}

// fails polls until an error comes, which must be a gap.
func (g *reading) fails(want string) {
	g.t.Helper()
	for range 100 {
		if _, err := g.poll(1000); err != nil {
			if !errors.Is(err, dataflow.ErrGap) || !strings.Contains(err.Error(), want) {
				g.t.Fatalf("got %v, want a gap with %q", err, want)
			}
			return
		}
	}
	g.t.Fatalf("no error; want a gap with %q", want)
}

func (g *reading) want(rows ...string) {
	g.t.Helper()
	if fmt.Sprint(g.rows) != fmt.Sprint(rows) {
		g.t.Fatalf("got rows %v\nwant %v", g.rows, rows)
	}
	g.rows = nil
}

func lines(from, to int) string {
	var s strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&s, `{"n":%d}`+"\n", i)
	}
	return s.String()
}

func TestRowsComeInTheOrderOfFilesAndLines(t *testing.T) {
	r := newRig(t, Config{Metadata: Metadata{Path: "path", Line: "line"}})
	r.write("b.ndjson.gz", "\n"+lines(3, 5))
	r.write("c.ndjson.zst", `{"n":5}`+"\r\n   \r\n"+`{"n":6}`)
	r.write("a.ndjson", lines(0, 3))
	r.write("b2", "")
	r.write(".hidden", lines(7, 8))
	r.write("dir/d.ndjson", lines(8, 9))
	g := r.from(nil, nil)
	last := g.run(2)
	if !last.Ended || !last.CaughtUp {
		t.Errorf("last %+v", last)
	}
	g.want(`0,"path":"a.ndjson","line":1}@a.ndjson:1`, `1,"path":"a.ndjson","line":2}@a.ndjson:2`, `2,"path":"a.ndjson","line":3}@a.ndjson:3`,
		`3,"path":"b.ndjson.gz","line":2}@b.ndjson.gz:2`, `4,"path":"b.ndjson.gz","line":3}@b.ndjson.gz:3`,
		`5,"path":"c.ndjson.zst","line":1}@c.ndjson.zst:1`, `6,"path":"c.ndjson.zst","line":3}@c.ndjson.zst:3`)
	if g.bad != nil {
		t.Errorf("bad %v", g.bad)
	}
}

func TestBadLinesLeaveWithTheirPlaceAndBytes(t *testing.T) {
	r := newRig(t, Config{})
	long := `{"n":1,"x":"` + strings.Repeat("x", 3<<20) + `"}`
	just := `{"n":2,"x":"` + strings.Repeat("x", 1<<20-14) + `"}`
	r.write("a", "{\"n\":0}\nnonsense\r\n"+long+"\n"+just+"\n"+just+" \n{\"n\":\"x\"}\n{\"n\":3}\n"+long)
	g := r.from(nil, nil)
	g.run(100)
	g.want("0}@a:1", "2}@a:4", "3}@a:7")
	want := []string{`invalid_json@a:2 "nonsense"`, `too_large@a:3 "{\"n\":1,\"x\"... 1048576 bytes"`, `too_large@a:5 "{\"n\":2,\"x\"... 1048577 bytes"`,
		`mistyped@a:6 "{\"n\":\"x\"}"`, `too_large@a:8 "{\"n\":1,\"x\"... 1048576 bytes"`}
	if fmt.Sprint(g.bad) != fmt.Sprint(want) {
		t.Errorf("bad\n%s\nwant\n%s", strings.Join(g.bad, "\n"), strings.Join(want, "\n"))
	}
}

// kinds are ways to write the same lines.
var kinds = map[string][3]string{
	"plain": {"a.ndjson", "b.ndjson", "c.ndjson"}, "gzip": {"a.gz", "b.gz", "c.gz"},
	"zstd": {"a.zst", "b.zst", "c.zst"}, "mixed": {"a.gz", "b.ndjson", "c.zst"},
}

func TestReadingGoesOnFromEveryPositionAndStopsAtEveryOne(t *testing.T) {
	for kind, names := range kinds {
		t.Run(kind, func(t *testing.T) {
			r := newRig(t, Config{})
			r.write(names[0], lines(0, 40)+"\n\n")
			r.write(names[1], "")
			r.write(names[1]+"b", "bad\n"+lines(41, 60))
			r.write(names[2], strings.TrimSuffix(lines(60, 80), "\n"))
			whole := r.from(nil, nil)
			whole.run(1)
			all, places := whole.rows, whole.places
			if len(all) != 79 || len(places) < 82 {
				t.Fatalf("%d rows, %d places", len(all), len(places))
			}
			rnd := rand.New(rand.NewSource(1))
			for i, p := range places {
				// From the start to here, and from here to a later place.
				head := r.from(nil, p)
				if last := head.run(1 + rnd.Intn(30)); !last.AtUntil || !bytes.Equal(last.Next, p) {
					t.Fatalf("until %s: stands at %s, at until %t", p, last.Next, last.AtUntil)
				}
				j := i + rnd.Intn(len(places)-i)
				head.assign("0", p, places[j])
				if last := head.run(1 + rnd.Intn(30)); !last.AtUntil || !bytes.Equal(last.Next, places[j]) {
					t.Fatalf("until %s: stands at %s", places[j], last.Next)
				}
				tail := r.from(places[j], nil)
				if last := tail.run(1 + rnd.Intn(30)); !last.Ended {
					t.Fatalf("from %s: not ended", places[j])
				}
				if got := append(head.rows, tail.rows...); fmt.Sprint(got) != fmt.Sprint(all) {
					t.Fatalf("until %s and %s:\ngot  %v\nwant %v", p, places[j], got, all)
				}
				// Rows that an earlier process has read have the places that they had there.
				for line := range int64(84) {
					if got, want := tail.Locate("0", line), whole.Locate("0", line); got != want {
						t.Fatalf("from %s: line %d is %s, want %s", places[j], line, got, want)
					}
				}
			}
		})
	}
}

func TestEndsAreWhereReadingEnds(t *testing.T) {
	for kind, names := range kinds {
		t.Run(kind, func(t *testing.T) {
			for _, mode := range []string{ModeEnd, ModeFollow} {
				r := newRig(t, Config{Mode: mode})
				r.write(names[0], lines(0, 40))
				r.write(names[1], lines(40, 50)+`{"n":50}`)
				if mode == ModeEnd {
					r.write(names[2], "")
				}
				ends, err := r.open().Ends(context.Background(), []dataflow.Split{"0"})
				if err != nil {
					t.Fatal(err)
				}
				g := r.from(nil, nil)
				g.run(7)
				want := map[string]int{ModeEnd: 51, ModeFollow: 50}[mode]
				if !bytes.Equal(ends["0"], g.next["0"]) || len(g.rows) != want {
					t.Errorf("%s: ends %s, read %d rows to %s", mode, ends["0"], len(g.rows), g.next["0"])
				}
			}
		})
	}
}

func TestPositionsAreReadableAndStartAtTheBeginning(t *testing.T) {
	r := newRig(t, Config{Lanes: 2})
	g := r.open()
	splits, _ := g.Discover(context.Background())
	start, err := g.Start(context.Background(), splits)
	if err != nil || len(start) != 2 || string(start["1"]) != `{"row":"00000000000000000000","lanes":2}` {
		t.Errorf("start %s, %v", start, err)
	}
	p := position{Row: 12, File: "b", Line: 3, Offset: 99, Sum: 255, Done: finished{1, 16, 7}, Lanes: 1}
	const want = `{"row":"00000000000000000012","file":"b","line":3,"offset":99,"sum":"ff","done":{"files":1,"sum":"10","newest":7},"lanes":1}`
	if got := p.encode(); string(got) != want {
		t.Errorf("got %s", got)
	}
	if back, err := decodePosition(dataflow.Position(want)); err != nil || back != p {
		t.Errorf("read back %+v, %v", back, err)
	}
}

func TestLanesShareTheFiles(t *testing.T) {
	r := newRig(t, Config{Lanes: 3})
	for i := range 12 {
		r.write(fmt.Sprintf("f%02d", i), lines(i*10, i*10+10))
	}
	g := r.open()
	splits, _ := g.Discover(context.Background())
	for _, s := range splits {
		g.assign(s, nil, nil)
	}
	g.run(3)
	seen := map[string]bool{}
	for _, row := range g.rows {
		seen[row] = true
	}
	if len(g.rows) != 120 || len(seen) != 120 || len(g.next) != 3 {
		t.Errorf("%d rows, %d different, %d lanes", len(g.rows), len(seen), len(g.next))
	}
	r.cfg.Lanes = 2
	other := r.open()
	other.assign("0", g.next["0"], nil)
	if _, err := other.poll(1); !errors.Is(err, dataflow.ErrPermanent) || !strings.Contains(err.Error(), "lanes: 3") {
		t.Errorf("other number of lanes: %v", err)
	}
}

func TestASecondRunReadsOnlyWhatIsNew(t *testing.T) {
	for _, name := range []string{"b", "b.gz"} {
		r := newRig(t, Config{})
		r.write("a", lines(0, 3))
		r.write(name, lines(3, 6))
		g := r.from(nil, nil)
		g.run(2)
		g = r.from(g.next["0"], nil)
		if last := g.run(2); !last.Ended || g.rows != nil {
			t.Errorf("nothing new: %+v, rows %v", last, g.rows)
		}
		r.write(name, lines(3, 7))
		r.write("c", lines(7, 9))
		g = r.from(g.next["0"], nil)
		g.run(2)
		g.want("6}@"+name+":4", "7}@c:1", "8}@c:2")
	}
}

func TestFollowReadsAppendedLinesAndNewFiles(t *testing.T) {
	r := newRig(t, Config{Mode: ModeFollow})
	g := r.from(nil, nil)
	if p := g.run(10); !p.CaughtUp {
		t.Errorf("an empty folder: %+v", p)
	}
	r.add("a", `{"n":0}`+"\n"+`{"n"`)
	if p := g.run(10); !p.CaughtUp || p.Ended {
		t.Errorf("%+v", p)
	}
	g.want("0}@a:1")
	r.add("a", `:1}`)
	g.run(10)
	g.want()
	r.add("a", "\n"+`{"n":2}`)
	g.run(10)
	g.want("1}@a:2")
	// The next file ends the one before, with its last line as it is.
	r.write("b.gz", lines(3, 4))
	g.run(10)
	g.want("2}@a:3", "3}@b.gz:1")
	// A compressed file that grows by a member, and one that is half written.
	half := pack(t, "c.gz", lines(5, 2000))
	r.put("b.gz", append(pack(t, "b.gz", lines(3, 4)), pack(t, "b.gz", lines(4, 5))...))
	g.run(10)
	g.want("4}@b.gz:2")
	r.put("c.gz", half[:3])
	g.run(10)
	g.want()
	r.put("c.gz", half[:len(half)-5])
	g.run(10000)
	r.put("c.gz", half)
	g.run(10000)
	if len(g.rows) != 1995 || g.rows[1994] != "1999}@c.gz:1995" {
		t.Errorf("%d rows", len(g.rows))
	}
	g.rows = nil
	// Finished files may go.
	r.remove("a")
	r.add("d", lines(9, 10))
	g.run(10)
	g.want("9}@d:1")
	again := r.from(g.next["0"], nil)
	r.add("d", lines(10, 11))
	again.run(10)
	again.want("10}@d:2")
}

func TestFollowSaysOnceThatItIsCaughtUp(t *testing.T) {
	r := newRig(t, Config{Mode: ModeFollow})
	r.write("a", lines(0, 1))
	g := r.from(nil, nil)
	p, err := g.poll(10)
	if err != nil || !p.CaughtUp || p.Split != "0" {
		t.Fatalf("%+v, %v", p, err)
	}
	if p, err = g.poll(10); err != nil || p.Split != "" {
		t.Fatalf("%+v, %v", p, err)
	}
	r.add("a", lines(1, 3))
	if p, err = g.poll(2); err != nil || p.CaughtUp || p.Split != "0" {
		t.Fatalf("%+v, %v", p, err)
	}
	if p, err = g.poll(2); err != nil || !p.CaughtUp || p.Split != "0" {
		t.Fatalf("%+v, %v", p, err)
	}
}

func TestChangesToWhatWasReadAreGaps(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(r *rig)
		want   string
		// With on_gap: continue: the rows that still come.
		rows []string
	}{
		{"a finished file was rewritten", func(r *rig) { r.write("a", lines(7, 10)) }, `file "a" is new or changed, but the lane is at "b" already`, []string{"5}@b:3"}},
		{"a new file sorts before", func(r *rig) { r.write("aa", lines(7, 10)) }, `file "aa" is new or changed`, []string{"5}@b:3"}},
		{"the current file was rewritten", func(r *rig) { r.write("b", lines(10, 13)) }, `other bytes stand before line 3`, []string{"10}@b:1", "11}@b:2", "12}@b:3"}},
		{"the current file is shorter", func(r *rig) { r.write("b", lines(3, 4)) }, `it is shorter`, []string{"3}@b:1"}},
		{"the current file is gone", func(r *rig) { r.remove("b"); r.write("c", lines(8, 9)) }, `file "b", read up to line 2, is gone`, []string{"8}@c:1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Config{})
			r.write("a", lines(0, 3))
			r.write("b", lines(3, 6))
			g := r.from(nil, nil)
			for len(g.rows) < 5 {
				if _, err := g.poll(1); err != nil {
					t.Fatal(err)
				}
			}
			c.change(r)
			r.from(g.next["0"], nil).fails(c.want)
			r.cfg.OnGap = GapContinue
			on := r.from(g.next["0"], nil)
			on.run(10)
			on.want(c.rows...)
			if on.skipped[SkippedGap] != 1 {
				t.Errorf("counted %v", on.skipped)
			}
		})
	}
}

func TestChangesWhileFollowingAreGaps(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(r *rig)
		want   string
		rows   []string
	}{
		{"a finished file grew", func(r *rig) { r.add("a", lines(7, 8)) }, `file "a" changed after it was finished; the lane is at "b"`, nil},
		{"a new file sorts before", func(r *rig) { r.write("aa", lines(7, 10)) }, `file "aa" is new, but the lane is at "b" already`, nil},
		{"the current file was cut", func(r *rig) { r.put("b", []byte(lines(3, 4))) }, `file "b" was replaced or cut after line 3 (byte 24)`, []string{"3}@b:1"}},
		{"the current file was replaced", func(r *rig) { r.remove("b"); r.write("x", ""); r.write("b", lines(20, 30)); r.remove("x") }, `file "b" was replaced or cut`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, onGap := range []string{GapFail, GapContinue} {
				r := newRig(t, Config{Mode: ModeFollow, OnGap: onGap})
				r.write("a", lines(0, 3))
				r.write("b", lines(3, 6))
				g := r.from(nil, nil)
				g.run(10)
				g.rows = nil
				c.change(r)
				if onGap == GapFail {
					g.fails(c.want)
					continue
				}
				g.run(10)
				if c.rows != nil {
					g.want(c.rows...)
				}
				if g.skipped[SkippedGap] != 1 {
					t.Errorf("counted %v", g.skipped)
				}
				r.add("b", lines(50, 51))
				g.run(10)
				if n := len(g.rows); n == 0 || !strings.HasPrefix(g.rows[n-1], "50}@b:") {
					t.Errorf("afterwards %v", g.rows)
				}
			}
		})
	}
}

func TestALastLineThatWasContinuedIsAGap(t *testing.T) {
	r := newRig(t, Config{})
	r.write("a", lines(0, 2)+`{"n":2}`)
	g := r.from(nil, nil)
	g.run(10)
	g.want("0}@a:1", "1}@a:2", "2}@a:3")
	r.add("a", "\n"+lines(3, 4))
	r.from(g.next["0"], nil).fails("line 3, which was the last and had no end, was continued")
}

func TestDamagedFilesAreGaps(t *testing.T) {
	for _, name := range []string{"a.gz", "a.zst"} {
		r := newRig(t, Config{})
		b := pack(t, name, lines(0, 5000))
		r.put(name, b[:len(b)/2])
		r.write("b", lines(7, 8))
		r.from(nil, nil).fails("compressed data breaks off or is damaged")
		r.cfg.OnGap = GapContinue
		g := r.from(nil, nil)
		g.run(10000)
		if n := len(g.rows); n == 0 || g.rows[n-1] != "7}@b:1" || g.skipped[SkippedGap] != 1 {
			t.Errorf("%s: %d rows, counted %v", name, n, g.skipped)
		}
	}
}

func TestABoundBehindTheEndOfTheFilesIsAGap(t *testing.T) {
	r := newRig(t, Config{})
	r.write("a", lines(0, 5))
	g := r.from(nil, nil)
	g.run(10)
	r.write("a", lines(0, 3))
	r.from(nil, g.next["0"]).fails("expected lines up to 5, the files end after 3")
}

func TestMissingFilesAreSaidAtOnce(t *testing.T) {
	r := newRig(t, Config{Paths: []string{"events.ndjson"}})
	if _, err := r.from(nil, nil).poll(1); !errors.Is(err, dataflow.ErrPermanent) || !strings.Contains(err.Error(), `file "events.ndjson" does not exist`) {
		t.Errorf("got %v", err)
	}
	r.cfg.Paths = []string{"events-*.ndjson"}
	if p := r.from(nil, nil).run(1); !p.Ended {
		t.Errorf("no match: %+v", p)
	}
}

func TestPollEndsWithItsContextAndWithClose(t *testing.T) {
	r := newRig(t, Config{Mode: ModeFollow})
	g := r.from(nil, nil)
	g.run(1)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		_, err := g.Poll(ctx, dataflow.PollLimit{WaitMicros: 1e12})
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	go func() {
		_, err := g.Poll(context.Background(), dataflow.PollLimit{WaitMicros: 1e12})
		done <- err
	}()
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, errClosed) {
		t.Errorf("got %v", err)
	}
}

func TestPlanSaysWhatIsWrongAndWhatComes(t *testing.T) {
	decoded, err := codec.JSONConfig{Schema: component.NamedTypes{{Name: "n", Type: "int64"}}}.ArrowSchema()
	if err != nil {
		t.Fatal(err)
	}
	good := DefaultConfig()
	good.Paths = []string{"a"}
	good.Metadata = Metadata{Path: "p", Line: "l"}
	p, err := plan(component.SourceIn{Decoded: decoded}, good)
	if err != nil || !p.Bounded || p.NotReplayable != "" || p.Tasks != 1 || p.Schema.NumFields() != 3 {
		t.Errorf("%+v, %v", p, err)
	}
	good.Mode, good.OnGap = ModeFollow, GapContinue
	if p, err = plan(component.SourceIn{Decoded: decoded}, good); err != nil || p.Bounded || p.NotReplayable == "" {
		t.Errorf("%+v, %v", p, err)
	}
	bad := Config{Paths: []string{"[a"}, Mode: "tail", OnGap: "skip", Metadata: Metadata{Path: "n", Line: "_l"}}
	_, err = plan(component.SourceIn{Decoded: decoded}, bad)
	want := `paths[0]: "[a" is no path or pattern: a [ needs its ]
mode: "tail" is unknown: expected end or follow
poll: 0s is too short: expected more than 0, as 1s
lanes: 0 is out of range: expected 1 to 256
on_gap: "skip" is unknown: expected fail or continue
metadata.path: column "n" is there already: choose another name
metadata.line: column "_l": names beginning with "_" are reserved`
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	if _, err = plan(component.SourceIn{}, good); err == nil || !strings.Contains(err.Error(), "add a decode block") {
		t.Errorf("without decode: %v", err)
	}
}

package model

import (
	"fmt"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var splits = []Split{{"lines", 0}, {"topic", 0}, {"pushed", 0}, {"side", 0}}

func input(records int) Input {
	in := Input{}
	for _, s := range splits {
		in[s] = Generate(7, s, records)
		for i := range in[s] {
			in[s][i].Where = fmt.Sprint(s.Number, ":", i)
		}
	}
	return in
}

// An oracle that shares code with what it judges judges nothing.
func TestTheModelImportsTheStandardLibraryOnly(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		ast, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range ast.Imports {
			if strings.Contains(i.Path.Value, ".") || strings.Contains(i.Path.Value, "frazil") {
				t.Errorf("%s imports %s", f, i.Path.Value)
			}
		}
	}
}

// TestByHand holds the oracle against rows that were worked out on paper. Times are
// seconds after the beginning.
func TestByHand(t *testing.T) {
	var records []Record
	put := func(id, site string, et, v int64) {
		e := Event{Src: "topic", Pos: int64(len(records)), ID: id, Site: site, ET: begin + et*1000, V: v}
		records = append(records, Record{Event: e, Where: fmt.Sprint("p", len(records))})
	}
	put("a", "x", 1, 11)  // watermark -4
	put("b", "x", 12, 21) // 7
	put("a", "x", 1, 11)  // a copy
	put("c", "x", 18, 30) // filtered; 13
	put("d", "x", 9, 41)  // 13 is its window's end 10 and 3: late for both
	put("e", "y", 17, 7)
	put("f", "x", 27, 5)  // 22
	put("g", "x", 11, 99) // 22 is behind its end 20, not behind 23: late for top only
	put("h", "x", 1, 1)   // 22 less 20 is behind it: stale
	got := Expected(Input{{"topic", 0}: records})
	us := func(s int64) int64 { return (begin + s*1000) * 1000 }
	want := map[string][]Row{
		"minutes": {
			{"site": "x", "window_start": us(0), "window_end": us(10), "n": int64(1), "s": "11", "hi": int64(11)},
			{"site": "x", "window_start": us(10), "window_end": us(20), "n": int64(2), "s": "120", "hi": int64(99)},
			{"site": "x", "window_start": us(20), "window_end": us(30), "n": int64(1), "s": "5", "hi": int64(5)},
			{"site": "y", "window_start": us(10), "window_end": us(20), "n": int64(1), "s": "7", "hi": int64(7)},
		},
		"totals": {{"site": "x", "n": int64(5), "s": "177"}, {"site": "y", "n": int64(1), "s": "7"}},
		"quarantine": {
			{"step": "best", "port": "late", "reason": "late", "source": "topic", "position": "topic 0 4", "raw": nil},
			{"step": "best", "port": "late", "reason": "late", "source": "topic", "position": "topic 0 7", "raw": nil},
		},
	}
	for name, rows := range want {
		if d := Compare(Tables{name: rows}, Tables{name: got[name]}); !d.Same() {
			t.Errorf("%s: %s", name, d)
		}
	}
	var ids []string
	for _, table := range []string{"raw", "plain", "late", "stale", "best"} {
		for _, r := range got[table] {
			ids = append(ids, fmt.Sprint(table, ":", r["id"]))
		}
	}
	raw, best := strings.Join(ids[:9], " "), ids[9+6+1+1:]
	if raw != "raw:a raw:b raw:a raw:c raw:d raw:e raw:f raw:g raw:h" || strings.Join(ids[9:17], " ") != "plain:a plain:b plain:d plain:e plain:f plain:g late:d stale:h" || len(best) != 4 {
		t.Errorf("got %v", ids)
	}
}

func TestTheInputShowsEverything(t *testing.T) {
	want := Expected(input(2000))
	for name := range Keys {
		if len(want[name]) < 12 {
			t.Errorf("only %d rows in %s", len(want[name]), name)
		}
	}
	if !reflect.DeepEqual(Generate(3, splits[0], 50), Generate(3, splits[0], 50)) {
		t.Error("the same seed makes other records")
	}
	if d := Compare(want, Expected(input(2000))); !d.Same() || d.Rows < 10_000 {
		t.Errorf("a table differs from itself: %s", d)
	}
}

// Every fault that a table can have is planted into every table and must be found,
// under its own name.
func TestTheVerifierFindsWhatIsPlanted(t *testing.T) {
	want := Expected(input(1500))
	for name := range Keys {
		for fault, plant := range map[string]func(rows []Row) []Row{
			"lost":    func(rows []Row) []Row { return append(rows[:5:5], rows[6:]...) },
			"doubled": func(rows []Row) []Row { return append(rows, rows[5]) },
			"wrong": func(rows []Row) []Row {
				return change(rows, 5, func(r Row) {
					for _, c := range []string{"v", "n", "reason"} {
						if r[c] != nil {
							r[c] = int64(-1)
						}
					}
				})
			},
			"unexpected": func(rows []Row) []Row {
				return change(append(rows, rows[5]), len(rows), func(r Row) { r[Keys[name][len(Keys[name])-1]] = "elsewhere" })
			},
			"damaged": func(rows []Row) []Row {
				return change(rows, 5, func(r Row) { r["sum"] = "0123456789abcdef" })
			},
			"another in its place": func(rows []Row) []Row {
				return change(rows, 5, func(r Row) { clear(r); copyInto(r, rows[6]) })
			},
		} {
			if fault == "damaged" && want[name][0]["sum"] == nil {
				continue
			}
			d := Compare(Tables{name: want[name]}, Tables{name: plant(append([]Row(nil), want[name]...))})
			found := map[string]bool{"lost": d.Lost == 1 && d.Doubled+d.Wrong+d.Unexpected == 0, "doubled": d.Doubled == 1 && d.Lost+d.Wrong+d.Unexpected == 0,
				"wrong": d.Wrong == 1 && d.Lost+d.Doubled+d.Unexpected == 0, "unexpected": d.Unexpected == 1 && d.Lost+d.Doubled+d.Wrong == 0,
				"damaged": d.Damaged == 1 && d.Wrong == 1, "another in its place": d.Lost == 1 && d.Doubled == 1}
			if !found[fault] {
				t.Errorf("%s, %s: %s", name, fault, d)
			}
		}
	}
	if d := Compare(want, Tables{}); d.Lost != d.Rows {
		t.Errorf("nothing is there, and it finds %s", d)
	}
}

func change(rows []Row, i int, how func(Row)) []Row {
	r := Row{}
	copyInto(r, rows[i])
	how(r)
	rows[i] = r
	return rows
}

func copyInto(to, from Row) {
	for c, v := range from {
		to[c] = v
	}
}

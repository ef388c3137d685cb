//go:build failpoints

package failpoints

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sort"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
	"frazil/dataflow/engine"
	"frazil/pipelines"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
)

// held is what the outputs of a scene hold, and the ledgers.
type held struct {
	out     map[string]rows
	ledgers map[string]*checkpoint.Manifest
}

// read reads everything that a scene has written.
func (s *scene) read(t *testing.T) held {
	t.Helper()
	h := held{out: map[string]rows{}, ledgers: map[string]*checkpoint.Manifest{}}
	columns := map[string][]string{"table": {"id", "ts"}, "copy": {"id", "ts"}, "minutes": {"c", "k", "window_start"}, "raw": {"k", "n", "ts"}}
	for _, name := range []string{"push", "lines"} {
		pl, problems := pipelines.Load(s.path(name+".yaml"), pipelines.Options{Parallelism: 2})
		if pl == nil {
			t.Fatal(problems)
		}
		for _, sink := range pl.Graph.Sinks {
			h.out[sink.Name] = readTable(t, pl.Graph, sink, columns[sink.Name])
		}
		store, err := state.Open(s.path(name), state.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		raw, err := store.Manifest()
		if err == nil {
			h.ledgers[name], err = checkpoint.Decode(raw)
		}
		if err == nil && name == "lines" {
			err = engine.ReadQuarantine(store, func(q engine.Quarantined) error {
				h.out["quarantine"] = append(h.out["quarantine"], q.ID)
				return nil
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range h.out {
		sort.Strings(r)
	}
	return h
}

func readTable(t *testing.T, g *engine.Graph, sink *engine.Sink, columns []string) (out rows) {
	t.Helper()
	ctx := context.Background()
	k, err := sink.NewCommitter(ctx, engine.OutsideEnv(g, sink.Name))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	err = k.(dataflow.TableReader).Rows(ctx, func(b arrow.RecordBatch) error {
		for i := range int(b.NumRows()) {
			out = append(out, text(t, dataflow.RowJSON(b, i), columns...))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// check says what is wrong with what the outputs hold: every row, and every count.
func (h held) check(want map[string]rows) (wrong []string) {
	for _, name := range []string{"table", "copy", "minutes", "raw", "quarantine"} {
		if len(want[name]) == 0 {
			wrong = append(wrong, name+": nothing is expected of it")
		}
		wrong = append(wrong, compare(name, h.out[name], want[name])...)
	}
	counts := map[string]dataflow.Counts{}
	for _, m := range h.ledgers {
		for step, c := range m.Ledger.Steps {
			counts[step] = c
			if left := c.In - (c.Passed + c.Filtered + c.Late + c.Duplicate + c.Bad + c.Absorbed + c.Held + c.Staged + c.Superseded + c.Muted); step != "counts" && left != 0 {
				wrong = append(wrong, fmt.Sprintf("ledger: %d rows of %s have no fate: %+v", left, step, c))
			}
		}
	}
	number := func(what string, got int64, want int) {
		if got != int64(want) {
			wrong = append(wrong, fmt.Sprintf("ledger: %s: %d, want %d", what, got, want))
		}
	}
	number("rows into copy", counts["copy"].In, len(want["copy"]))
	number("rows into once", counts["once"].In, len(want["copy"]))
	number("duplicates", counts["once"].Duplicate, len(want["copy"])-len(want["table"]))
	number("rows into table", counts["table"].In, len(want["table"]))
	number("rows into raw", counts["raw"].In, len(want["raw"]))
	number("rows into minutes' table", h.ledgers["lines"].Ledger.Sent["counts"], len(want["minutes"]))
	q := h.ledgers["lines"].Quarantine
	if q == nil {
		return append(wrong, "ledger: no quarantine")
	}
	number("rows in the quarantine", q.Rows, len(want["quarantine"]))
	number("rows kept, less those sent again", q.Kept-q.SentAgain, len(want["quarantine"]))
	return wrong
}

// TestWhatIsLostDoubledOrNotCountedIsFound plays a scene in which nothing goes wrong
// and takes away, doubles, alters and miscounts.
func TestWhatIsLostDoubledOrNotCountedIsFound(t *testing.T) {
	s, _ := playScene(t)
	want := s.want()
	if wrong := s.read(t).check(want); len(wrong) > 0 {
		t.Fatalf("nothing went wrong, and yet: %v\n%s", wrong, s.tail())
	}
	for name := range want {
		for what, harm := range map[string]func(rows) rows{
			"lost":    func(r rows) rows { return r[1:] },
			"doubled": func(r rows) rows { return append(slices.Clone(r), r[0]) },
			"altered": func(r rows) rows { return append(slices.Clone(r[1:]), r[0]+"0") },
		} {
			h := s.read(t)
			h.out[name] = harm(h.out[name])
			if len(h.check(want)) == 0 {
				t.Errorf("a row of %s was %s, and nobody noticed", name, what)
			}
		}
	}
	h := s.read(t)
	c := h.ledgers["push"].Ledger.Steps["once"]
	c.Duplicate--
	h.ledgers["push"].Ledger.Steps["once"] = c
	if len(h.check(want)) == 0 {
		t.Error("a row was not counted, and nobody noticed")
	}
	for step, f := range map[string]func(q *checkpoint.QuarantineCounts){
		"kept": func(q *checkpoint.QuarantineCounts) { q.Kept++ },
		"rows": func(q *checkpoint.QuarantineCounts) { q.Rows-- },
	} {
		h := s.read(t)
		f(h.ledgers["lines"].Quarantine)
		if len(h.check(want)) == 0 {
			t.Errorf("the quarantine's %s was wrong, and nobody noticed", step)
		}
	}
}

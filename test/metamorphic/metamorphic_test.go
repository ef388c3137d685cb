package metamorphic

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/engine"
	"frazil/pipelines"
	"frazil/pipelines/filetest"
	"frazil/pipelines/rehearsal"
	_ "frazil/pipelines/std"
)

// each is how many configurations every pipeline is run under, beside the
// straight one.
const each = 5

// configurations is how many are tried in all: FRAZIL_METAMORPHIC, or fewer
// without it.
func configurations(t *testing.T) int {
	text := os.Getenv("FRAZIL_METAMORPHIC")
	if text == "" {
		if testing.Short() {
			return 20
		}
		return 100
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("FRAZIL_METAMORPHIC=%s: %v", text, err)
	}
	return n
}

// seedOf is a new one, or FRAZIL_SEED, which then is the only pipeline's.
func seedOf(t *testing.T) (uint64, bool) {
	text := os.Getenv("FRAZIL_SEED")
	if text == "" {
		return uint64(time.Now().UnixNano()), false
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("FRAZIL_SEED=%s: %v", text, err)
	}
	return n, true
}

func TestRandomPipelinesGiveTheSameRowsUnderRandomConfigurations(t *testing.T) {
	seed, only := seedOf(t)
	pipelines := configurations(t) / each
	if only {
		pipelines = 1
	}
	for i := range pipelines {
		s := seed + uint64(i)
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			t.Parallel()
			try(t, s)
		})
	}
}

// try makes a pipeline up and compares what its configurations give.
func try(t *testing.T, seed uint64) {
	m := &maker{Rand: rand.New(rand.NewPCG(seed, 1))}
	text, p := m.accepted(t)
	p.Start = start
	p.Finish()
	straight, err := p.Play(context.Background(), p.Straight(), nil)
	if err != nil {
		t.Fatalf("FRAZIL_SEED=%d: straight: %v\n%s", seed, err, text)
	}
	for range each {
		v := p.Random(m.Rand)
		got, err := p.Play(context.Background(), v, nil)
		if err != nil {
			t.Fatalf("FRAZIL_SEED=%d: %s: %v\n%s", seed, v.Name, err, text)
		}
		if diff := differ(p, straight, got, v.Comparable()); diff != "" {
			t.Fatalf("FRAZIL_SEED=%d: %s:\n%s\n%s", seed, v.Name, diff, text)
		}
	}
}

// accepted makes pipelines up until lint takes one.
func (m *maker) accepted(t *testing.T) (string, *rehearsal.Piece) {
	for range 50 {
		m.sources, m.operators, m.sinks = strings.Builder{}, strings.Builder{}, strings.Builder{}
		m.names, m.n = nil, 0
		text := "name: made-up\n" + m.pipeline()
		idle := map[string]time.Duration{}
		p, err := rehearsal.New(func(parallelism int) (*engine.Graph, error) {
			x, problems := pipelines.Parse("made-up.yaml", []byte(text), pipelines.Options{Parallelism: parallelism})
			if x == nil {
				return nil, problems
			}
			filetest.Watch(x.Graph)
			for _, s := range x.Graph.Sources {
				idle[s.Name] = s.EventTime.IdleAfter
			}
			return x.Graph, nil
		})
		if err != nil {
			t.Logf("lint refuses: %v", err)
			continue
		}
		m.records(p, idle)
		return text, p
	}
	t.Fatal("no pipeline of 50 is accepted")
	return "", nil
}

// differ says how two outcomes differ, "" if they do not.
func differ(p *rehearsal.Piece, want, got *rehearsal.Outcome, ledger bool) string {
	var b strings.Builder
	for _, k := range p.Sinks {
		w, g := normal(want.End[k.Name]), normal(got.End[k.Name])
		if slices.EqualFunc(w, g, sameRow) {
			continue
		}
		fmt.Fprintf(&b, "%s: %d rows, straight %d\n", k.Name, len(g), len(w))
		for _, r := range w {
			if !slices.ContainsFunc(g, func(x string) bool { return sameRow(r, x) }) {
				fmt.Fprintf(&b, "  - %s\n", r)
			}
		}
		for _, r := range g {
			if !slices.ContainsFunc(w, func(x string) bool { return sameRow(r, x) }) {
				fmt.Fprintf(&b, "  + %s\n", r)
			}
		}
	}
	if !ledger {
		return b.String()
	}
	for step, w := range want.Ledger {
		g := got.Ledger[step]
		if p.ChangeReaders[step] {
			continue
		}
		if p.ChangeMakers[step] {
			w.Created, g.Created = 0, 0
		}
		if w != g {
			fmt.Fprintf(&b, "ledger of %s: %s, straight %s\n", step, counts(g), counts(w))
		}
	}
	return b.String()
}

func counts(c dataflow.Counts) string {
	b, _ := json.Marshal(c)
	return string(b)
}

// normal orders rows so that floats that differ in their last digits do not
// change their place.
func normal(rows []string) []string {
	key := map[string]string{}
	for _, r := range rows {
		var cols map[string]any
		_ = json.Unmarshal([]byte(r), &cols) // Rows are JSON.
		for k, v := range cols {
			if f, ok := v.(float64); ok {
				cols[k] = strconv.FormatFloat(f, 'g', 6, 64)
			}
		}
		b, _ := json.Marshal(cols)
		key[r] = string(b)
	}
	out := slices.Clone(rows)
	sort.Slice(out, func(i, j int) bool { return key[out[i]] < key[out[j]] })
	return out
}

// sameRow compares two rows, floats within 1e-12.
func sameRow(a, b string) bool {
	if a == b {
		return true
	}
	var x, y map[string]any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil || len(x) != len(y) {
		return false
	}
	for k, v := range x {
		f, ok1 := v.(float64)
		g, ok2 := y[k].(float64)
		if ok1 && ok2 && math.Abs(f-g) <= 1e-12*math.Max(math.Abs(f), math.Abs(g)) {
			continue
		}
		if fmt.Sprint(v) != fmt.Sprint(y[k]) {
			return false
		}
	}
	return true
}

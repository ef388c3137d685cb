package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
	"strings"
	"text/tabwriter"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/checkpoint"
	"frazil/dataflow/engine"
	"frazil/pipelines"
	"frazil/state"
)

// tablesWithin bounds the look at the tables of a run that has ended.
const tablesWithin = 15 * time.Second

// summary says what a run did: ledger, tables, how to read them.
func (c *cli) summary(w io.Writer, p *pipelines.Pipeline, job *engine.Job, res engine.Result, store *state.Store, took time.Duration) {
	if res.Nothing {
		fmt.Fprintf(w, "%s: nothing more to do: every row that the sources have is in the tables (epoch %d)\n", p.Name, res.Manifest.Epoch)
	} else {
		s := job.Status()
		fmt.Fprintf(w, "%s: %s rows read in %.1f s", p.Name, thousands(s.Read), took.Seconds())
		if res.Manifest != nil {
			fmt.Fprintf(w, ", epoch %d", res.Manifest.Epoch)
		}
		fmt.Fprintln(w)
	}
	if res.Manifest != nil {
		fmt.Fprintln(w)
		writeLedger(w, p.Graph, res.Manifest)
	}
	ctx, cancel := context.WithTimeout(context.Background(), tablesWithin)
	defer cancel()
	infos, err := describeTables(ctx, p)
	if err != nil {
		fmt.Fprintf(w, "\nthe tables could not be read: %v\n", err)
		return
	}
	if len(infos) > 0 {
		fmt.Fprintln(w)
		writeTables(w, infos)
		fmt.Fprintf(w, "\nRead them:  frazil table rows %s --file %s\n", infos[0].Table, p.File)
	}
	n := 0
	if err := engine.ReadQuarantine(store, func(engine.Quarantined) error { n++; return nil }); err == nil && n > 0 {
		fmt.Fprintf(w, "Quarantine: %d rows of ports that nobody reads; frazil quarantine list --file %s\n", n, p.File)
	}
}

// writeLedger prints the fates of every step in the order of the graph.
func writeLedger(w io.Writer, g *engine.Graph, m *checkpoint.Manifest) {
	tw := tabwriter.NewWriter(w, 2, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "STEP\tIN\tPASSED\tFILTERED\tLATE\tDUPLICATE\tBAD\tABSORBED\tHELD\tCREATED\tSTAGED\tMUTED\t")
	for _, step := range stepOrder(g) {
		c := m.Ledger.Steps[step]
		fmt.Fprintf(tw, "%s", step)
		for _, n := range []int64{c.In, c.Passed, c.Filtered, c.Late, c.Duplicate, c.Bad, c.Absorbed, c.Held, c.Created, c.Staged, c.Muted} {
			if n == 0 {
				fmt.Fprint(tw, "\t-")
			} else {
				fmt.Fprintf(tw, "\t%s", thousands(n))
			}
		}
		fmt.Fprintln(tw, "\t")
	}
	tw.Flush()
	for _, s := range g.Sinks {
		if n := m.Ledger.Steps[s.Name].Refused; n > 0 {
			fmt.Fprintf(w, "%s: %s of the staged rows were refused by the target for good; the sink keeps them with the reasons\n", s.Name, thousands(n))
		}
	}
	for _, s := range g.Sources {
		src := m.Sources[s.Name]
		if src == nil {
			continue
		}
		writeCounts(w, s.Name+": records that are no rows", src.Skipped)
		writeCounts(w, s.Name+": fields outside the schema, ignored", src.Extra)
	}
}

// writeCounts prints the most frequent names, if there are any.
func writeCounts(w io.Writer, what string, counts map[string]int64) {
	if len(counts) == 0 {
		return
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, n := range names[:min(len(names), 10)] {
		parts = append(parts, n+" "+thousands(counts[n]))
	}
	if len(names) > 10 {
		parts = append(parts, fmt.Sprintf("and %d more names", len(names)-10))
	}
	fmt.Fprintf(w, "%s: %s\n", what, strings.Join(parts, ", "))
}

func stepOrder(g *engine.Graph) []string {
	var out []string
	for _, s := range g.Sources {
		out = append(out, s.Name)
	}
	for _, o := range g.Operators {
		out = append(out, o.Name)
	}
	for _, s := range g.Sinks {
		out = append(out, s.Name)
	}
	return out
}

// tableOf is one sink whose target can be read.
type tableOf struct {
	Step string
	dataflow.TableInfo
	Found bool
}

// eachTable calls f with every sink that can read its table.
func eachTable(ctx context.Context, p *pipelines.Pipeline, f func(step string, r dataflow.TableReader) error) error {
	for _, s := range p.Graph.Sinks {
		if s.NewCommitter == nil {
			continue
		}
		k, err := s.NewCommitter(ctx, engine.OutsideEnv(p.Graph, s.Name))
		if err != nil {
			return fmt.Errorf("sink %s: %w", s.Name, err)
		}
		r, ok := k.(dataflow.TableReader)
		if ok {
			err = f(s.Name, r)
		}
		if cerr := k.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return fmt.Errorf("sink %s: %w", s.Name, err)
		}
	}
	return nil
}

func describeTables(ctx context.Context, p *pipelines.Pipeline) ([]tableOf, error) {
	var out []tableOf
	err := eachTable(ctx, p, func(step string, r dataflow.TableReader) error {
		info, found, err := r.Describe(ctx)
		if err != nil {
			return err
		}
		out = append(out, tableOf{step, info, found})
		return nil
	})
	sort.SliceStable(out, func(i, j int) bool { return out[i].Table < out[j].Table })
	return out, err
}

func writeTables(w io.Writer, infos []tableOf) {
	tw := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "TABLE\tROWS\tSNAPSHOT\tLOCATION")
	for _, t := range infos {
		if !t.Found {
			fmt.Fprintf(tw, "%s\t0\t-\tnot created yet\n", t.Table)
			continue
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", t.Table, thousands(t.Rows), t.Snapshot, t.Location)
	}
	tw.Flush()
}

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"frazil/dataflow"
	"frazil/pipelines"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

func init() {
	register(command{"outbox", "setup|check|drop FILE", "make, check or remove what outbox sources need in their databases", (*cli).outbox})
}

// outsideWait bounds one visit of a database.
const outsideWait = time.Minute

func (c *cli) outbox(args []string) int {
	var dry bool
	var only string
	rest, code, ok := c.flags("outbox", args, func(fs *flag.FlagSet) {
		fs.BoolVar(&dry, "dry-run", false, "setup and drop: print the statements, and run none")
		fs.StringVar(&only, "source", "", "this source only (default: all of the file)")
	})
	if !ok {
		return code
	}
	verbs := map[string]func(*outsideJob) error{"setup": (*outsideJob).setup, "check": (*outsideJob).check, "drop": (*outsideJob).drop}
	if len(rest) != 2 || verbs[rest[0]] == nil {
		return c.wrong("outbox needs setup, check or drop, and a pipeline file")
	}
	p := c.load(rest[1])
	if p == nil {
		return exitWrong
	}
	ctx, cancel := context.WithTimeout(context.Background(), outsideWait)
	defer cancel()
	found := false
	var errs []error
	for _, s := range p.Graph.Sources {
		if only != "" && s.Name != only {
			continue
		}
		src, err := s.New(ctx, &dataflow.Env{
			Pipeline: p.Name, Step: s.Name, Tasks: 1, Dir: p.Graph.Dir, Now: time.Now, Alloc: memory.DefaultAllocator,
			Log: slog.New(slog.DiscardHandler), Splits: &dataflow.SplitTable{}, NewDecoder: s.NewDecoder, Preview: true,
		})
		if err != nil {
			return c.failed(err)
		}
		if o, ok := src.(dataflow.Outsider); ok {
			found = true
			if err := c.outside(ctx, p, s.Name, o, dry, verbs[rest[0]]); err != nil {
				errs = append(errs, fmt.Errorf("source %s: %w", s.Name, err))
			}
		}
		if err := src.Close(); err != nil {
			errs = append(errs, err)
		}
	}
	if !found {
		return c.wrong("%s has no outbox source%s", rest[1], map[bool]string{true: " of the name " + only}[only != ""])
	}
	if err := errors.Join(errs...); err != nil {
		return c.failed(err)
	}
	return exitOK
}

func (c *cli) outside(ctx context.Context, p *pipelines.Pipeline, step string, o dataflow.Outsider, dry bool, do func(*outsideJob) error) error {
	out, err := o.Outside(ctx)
	if err != nil {
		return err
	}
	defer out.Close()
	return do(&outsideJob{c: c, ctx: ctx, step: step, out: out, dry: dry})
}

// outsideJob is one visit.
type outsideJob struct {
	c    *cli
	ctx  context.Context
	step string
	out  dataflow.Outside
	dry  bool
}

func (j *outsideJob) print(format string, args ...any) {
	fmt.Fprintf(j.c.out, j.step+": "+format+"\n", args...)
}

// check prints how everything stands, with the statements that mend what is wrong.
func (j *outsideJob) check() error {
	things, err := j.out.Things(j.ctx)
	if err != nil {
		return err
	}
	wrong := 0
	for _, t := range things {
		state := "ok"
		if t.Wrong {
			state = "WRONG"
			wrong++
		}
		if t.Detail != "" {
			state += ", " + t.Detail
		}
		j.print("%s: %s", t.Name, state)
		j.statements("  run ", t.Fix)
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d things are missing or wrong; frazil outbox setup makes what it may", wrong, len(things))
	}
	return nil
}

func (j *outsideJob) statements(before string, list []string) {
	for _, s := range list {
		fmt.Fprintf(j.c.out, "%s%s;\n", before, strings.TrimSuffix(s, ";"))
	}
}

// setup makes what is missing. What it may not make it says.
func (j *outsideJob) setup() error {
	things, err := j.out.Things(j.ctx)
	if err != nil {
		return err
	}
	left := 0
	for _, t := range things {
		switch {
		case !t.Wrong:
			j.print("%s: ok", t.Name)
		case t.Manual || len(t.Fix) == 0:
			left++
			j.print("%s: WRONG, %s; somebody has to run", t.Name, t.Detail)
			j.statements("  ", t.Fix)
		default:
			if err := j.run(t.Name, "made", t.Fix); err != nil {
				return err
			}
		}
	}
	if left > 0 {
		return fmt.Errorf("%d of %d things are for somebody else to make", left, len(things))
	}
	return nil
}

// run runs statements, or prints them.
func (j *outsideJob) run(name, done string, list []string) error {
	if j.dry {
		j.print("%s: would run", name)
		j.statements("  ", list)
		return nil
	}
	for _, s := range list {
		if err := j.out.Do(j.ctx, s); err != nil {
			return err
		}
	}
	j.print("%s: %s", name, done)
	j.statements("  ", list)
	return nil
}

// drop removes what belongs to the pipeline, the last first.
func (j *outsideJob) drop() error {
	things, err := j.out.Things(j.ctx)
	if err != nil {
		return err
	}
	for i := len(things) - 1; i >= 0; i-- {
		if t := things[i]; len(t.Drop) > 0 {
			if err := j.run(t.Name, "dropped", t.Drop); err != nil {
				return err
			}
		}
	}
	return nil
}

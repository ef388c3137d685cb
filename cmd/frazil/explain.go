package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/engine"
	"frazil/pipelines"
)

func init() {
	register(command{"explain", "window FILE [STEP] KEY TIME [--format text|ndjson]", "say what a window of a running pipeline holds and what keeps it open", (*cli).explain})
}

func (c *cli) explain(args []string) int {
	var form string
	rest, code, ok := c.flags("explain", args, func(fs *flag.FlagSet) { format(fs, &form, "text", "ndjson") })
	if !ok {
		return code
	}
	if len(rest) < 4 || len(rest) > 5 || rest[0] != "window" {
		return c.wrong("explain needs: window FILE STEP KEY TIME, or without STEP where one step has windows, as in explain window fleet.yaml minute hall-3,d17 2026-03-01T10:00:30Z; KEY is the values of the group's columns joined by commas, or a JSON object; - where there is none")
	}
	at, err := parseInstant(rest[len(rest)-1])
	if err != nil {
		return c.wrong("%v", err)
	}
	p := c.load(rest[1])
	if p == nil {
		return exitWrong
	}
	step := rest[2]
	if len(rest) == 4 {
		names := windowSteps(p)
		if len(names) != 1 {
			return c.wrong("the pipeline has %d steps with windows (%s): name the one you mean before the key", len(names), strings.Join(names, ", "))
		}
		step = names[0]
	}
	e, err := askWindow(p, step, rest[len(rest)-2], at)
	if err != nil {
		return c.failed(err)
	}
	if form == "ndjson" {
		err = json.NewEncoder(c.out).Encode(e)
	} else {
		err = writeWindow(c.out, e)
	}
	if err != nil {
		return c.failed(err)
	}
	return exitOK
}

// windowSteps names the steps that are windows.
func windowSteps(p *pipelines.Pipeline) []string {
	var out []string
	for _, o := range p.Graph.Operators {
		if o.Component == "window" {
			out = append(out, o.Name)
		}
	}
	return out
}

// parseInstant reads an event time as people write it; without a zone it is UTC.
func parseInstant(s string) (dataflow.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, s, time.UTC); err == nil {
			return dataflow.TimeOf(t), nil
		}
	}
	return 0, fmt.Errorf("time %q: expected RFC 3339, as 2026-03-01T10:00:30Z", s)
}

func askWindow(p *pipelines.Pipeline, step, key string, at dataflow.Time) (*engine.WindowExplanation, error) {
	q := url.Values{"step": {step}, "key": {key}, "at": {at.String()}}
	resp, ok, err := askRunning(p, "/api/explain/window?"+q.Encode())
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("no running process of pipeline %s answers: explain window asks the one that holds the windows, so start it (frazil run %s, with http not off); what the last epoch counted is shown by frazil ledger --file %s", p.Name, p.File, p.File)
	}
	defer resp.Body.Close()
	var e engine.WindowExplanation
	return &e, json.NewDecoder(resp.Body).Decode(&e)
}

// explainWindow answers askWindow.
func (a *api) explainWindow(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	at, err := parseInstant(q.Get("at"))
	if err != nil {
		reply(w, http.StatusBadRequest, problem{err.Error()})
		return
	}
	e, err := a.job.ExplainWindow(r.Context(), q.Get("step"), q.Get("key"), at)
	if err != nil {
		reply(w, http.StatusUnprocessableEntity, problem{err.Error()})
		return
	}
	reply(w, http.StatusOK, e)
}

func writeWindow(out io.Writer, e *engine.WindowExplanation) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, step %s, key %s, at %s\n", e.Pipeline, e.Step, e.Key, e.At)
	fmt.Fprintf(&b, "  watermark of the step %s since %s (%s ago)\n", e.Watermark, e.Since.UTC().Format("15:04:05Z"), e.Now.Sub(e.Since).Round(time.Second))
	fmt.Fprintf(&b, "  greatest event time so far %s\n", e.Greatest)
	if e.Waiting > 0 {
		fmt.Fprintf(&b, "  %s rows wait in front of the step for the watermark to pass their stamps\n", thousands(e.Waiting))
	}
	if len(e.Windows) == 0 {
		fmt.Fprintf(&b, "\nno window of this key holds that time: either none has begun there, or it is closed and given\n")
	}
	for _, w := range e.Windows {
		fmt.Fprintf(&b, "\nwindow %s to %s: %s\n", w.Start, w.End, w.State)
		switch {
		case w.State == engine.WindowClosed:
			fmt.Fprintf(&b, "  closed when the watermark reached %s; rows for it are late now\n", w.Due)
		case w.Due == engine.Instant(dataflow.MaxTime):
			b.WriteString("  closes at the end of the input\n")
		default:
			fmt.Fprintf(&b, "  closes when the watermark of the step reaches %s\n", w.Due)
		}
		switch {
		case len(w.Holds) > 0 && string(w.Holds) != "null":
			fmt.Fprintf(&b, "  would give now %s\n", w.Holds)
		case w.State == engine.WindowNotBegun:
			b.WriteString("  no row of any key has reached its start\n")
		case w.State == engine.WindowOpen:
			b.WriteString("  no row of this key yet\n")
		}
	}
	if e.OnTheWay {
		fmt.Fprintf(&b, "\nno split holds it back: the sources have come far enough, and the step will when it has worked through what waits (%s rows between tasks now)\n", thousands(e.QueueRows))
	}
	if len(e.Holds) > 0 {
		b.WriteString("\nheld back by\n")
	}
	const most = 5
	for i, h := range e.Holds {
		if i == most {
			fmt.Fprintf(&b, "  and %d more splits, less far behind; --format ndjson shows all\n", len(e.Holds)-most)
			break
		}
		for j, line := range h.Text(e.Now) {
			indent := "    "
			if j == 0 {
				indent = "  "
			}
			b.WriteString(indent + line + "\n")
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"frazil/dataflow/engine"
	"frazil/pipelines"
)

func init() {
	register(command{"quarantine", "list|show|export|retry|fix|discard [ID...] --file FILE", "show, mend and send again the rows of late and bad ports that nobody reads", (*cli).quarantine})
}

// quarantineFlags are the options of all actions.
type quarantineFlags struct {
	file, format               string
	reason, step, port, source string
	limit                      int
	all, yes, atSource         bool
	payload, payloadFile, row  string
	hasPayload, hasRow         bool
	columns, with, from        string
	set                        []string
}

// filtered says whether rows are chosen by what they are.
func (f *quarantineFlags) filtered() bool {
	return f.reason+f.step+f.port+f.source != "" || f.all
}

func (f *quarantineFlags) match(q *engine.Quarantined) bool {
	return (f.reason == "" || f.reason == q.Reason) && (f.step == "" || f.step == q.Step) &&
		(f.port == "" || f.port == q.Port) && (f.source == "" || f.source == q.Source)
}

func (f *quarantineFlags) register(fs *flag.FlagSet) {
	fs.StringVar(&f.file, "file", "", "the pipeline file")
	format(fs, &f.format, "table", "ndjson")
	fs.StringVar(&f.reason, "reason", "", "only rows with this reason")
	fs.StringVar(&f.step, "step", "", "only rows that this step has refused")
	fs.StringVar(&f.port, "port", "", "only rows of this port: bad or late")
	fs.StringVar(&f.source, "source", "", "only rows of this source")
	fs.BoolVar(&f.all, "all", false, "retry, fix, discard: all rows that the other filters let through")
	fs.IntVar(&f.limit, "limit", 3, "list: rows shown of each reason; 0: all")
	fs.BoolVar(&f.yes, "yes", false, "discard: do not ask")
	fs.Func("payload", "fix: the new payload", func(s string) error { f.payload, f.hasPayload = s, true; return nil })
	fs.StringVar(&f.payloadFile, "payload-file", "", "fix: a file that holds the new payload, byte by byte")
	fs.Func("row", "fix: a JSON object with all columns of the source, in place of a payload", func(s string) error { f.row, f.hasRow = s, true; return nil })
	fs.StringVar(&f.columns, "columns", "", "retry, fix: a JSON object with the columns that do not come from the payload (metadata)")
	fs.Func("set", "fix: FIELD=EXPRESSION over the fields of a JSON payload; may be repeated", func(s string) error { f.set = append(f.set, s); return nil })
	fs.StringVar(&f.with, "with", "", "fix: an expression over the payload's text, raw, that gives the new one")
	fs.StringVar(&f.from, "from", "", "fix: a file of lines as export writes them, with payloads that were edited")
	fs.BoolVar(&f.atSource, "at-source", false, "retry, fix: a row that a step behind the source has refused begins anew at its source")
}

func (c *cli) quarantine(args []string) int {
	var f quarantineFlags
	rest, code, ok := c.flags("quarantine", args, f.register)
	if !ok {
		return code
	}
	if f.file == "" {
		return c.wrong("quarantine needs --file FILE")
	}
	if len(rest) == 0 {
		return c.wrong("quarantine needs one of list, show, export, retry, fix, discard")
	}
	actions := map[string]func(*pipelines.Pipeline, *quarantineFlags, []string) int{
		"list": c.quarantineList, "show": c.quarantineShow, "export": c.quarantineExport,
		"retry": c.quarantineRetry, "fix": c.quarantineFix, "discard": c.quarantineDiscard,
	}
	action := actions[rest[0]]
	if action == nil {
		return c.wrong("quarantine needs one of list, show, export, retry, fix, discard; not %q", rest[0])
	}
	p := c.load(f.file)
	if p == nil {
		return exitWrong
	}
	return action(p, &f, rest[1:])
}

// chosen calls visit with the rows that are named or match.
func chosen(d desk, f *quarantineFlags, ids []string, visit func(engine.Quarantined) error) error {
	return d.Rows(func(q engine.Quarantined) error {
		if len(ids) > 0 && !slices.Contains(ids, q.ID) || !f.match(&q) {
			return nil
		}
		return visit(q)
	})
}

// reasonGroup is what list shows of one reason.
type reasonGroup struct {
	step, port, reason string
	rows, sent         int
	first, last        time.Time
	examples           []engine.Quarantined
}

func (g *reasonGroup) add(q engine.Quarantined, limit int) {
	g.rows++
	if q.SentAgain {
		g.sent++
	}
	if !q.At.IsZero() && (g.first.IsZero() || q.At.Before(g.first)) {
		g.first = q.At
	}
	if q.At.After(g.last) {
		g.last = q.At
	}
	q.Raw, q.Row = nil, nil
	g.examples = append(g.examples, q)
	if limit > 0 && len(g.examples) > 4*limit {
		g.cut(limit)
	}
}

// cut keeps the oldest examples.
func (g *reasonGroup) cut(limit int) {
	slices.SortFunc(g.examples, func(a, b engine.Quarantined) int {
		if k := a.At.Compare(b.At); k != 0 {
			return k
		}
		return strings.Compare(a.ID, b.ID)
	})
	if limit > 0 && len(g.examples) > limit {
		g.examples = g.examples[:limit]
	}
}

func (c *cli) quarantineList(p *pipelines.Pipeline, f *quarantineFlags, ids []string) int {
	if f.format == "ndjson" {
		return c.atDesk(p, func(d desk) error {
			enc := json.NewEncoder(c.out)
			return chosen(d, f, ids, func(q engine.Quarantined) error { return enc.Encode(q) })
		})
	}
	groups := map[[3]string]*reasonGroup{}
	code := c.atDesk(p, func(d desk) error {
		return chosen(d, f, ids, func(q engine.Quarantined) error {
			k := [3]string{q.Step, q.Port, q.Reason}
			if groups[k] == nil {
				groups[k] = &reasonGroup{step: q.Step, port: q.Port, reason: q.Reason}
			}
			groups[k].add(q, f.limit)
			return nil
		})
	})
	if code != exitOK {
		return code
	}
	var list []*reasonGroup
	total := 0
	for _, g := range groups {
		g.cut(f.limit)
		list = append(list, g)
		total += g.rows
	}
	slices.SortFunc(list, func(a, b *reasonGroup) int {
		if a.rows != b.rows {
			return b.rows - a.rows
		}
		return strings.Compare(a.step+"\x00"+a.port+"\x00"+a.reason, b.step+"\x00"+b.port+"\x00"+b.reason)
	})
	for _, g := range list {
		fmt.Fprintf(c.out, "%s.%s  %s  %s%s\n", g.step, g.port, g.reason, plural(g.rows, "row"), g.when())
		for _, q := range g.examples {
			fmt.Fprintf(c.out, "  %s  %s%s\n", q.ID, q.Detail, sentMark(q))
		}
		if n := g.rows - len(g.examples); n > 0 {
			fmt.Fprintf(c.out, "  and %d more\n", n)
		}
	}
	fmt.Fprintln(c.out, plural(total, "row"))
	return exitOK
}

func sentMark(q engine.Quarantined) string {
	if q.SentAgain {
		return "  (sent again)"
	}
	return ""
}

func (g *reasonGroup) when() string {
	out := ""
	if !g.first.IsZero() {
		out = ", kept " + g.first.Format(time.RFC3339)
		if !g.last.Truncate(time.Second).Equal(g.first.Truncate(time.Second)) {
			out += " to " + g.last.Format(time.RFC3339)
		}
	}
	if g.sent > 0 {
		out += fmt.Sprintf(", %d sent again", g.sent)
	}
	return out
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// atDesk is atDesk that reports its error.
func (c *cli) atDesk(p *pipelines.Pipeline, f func(desk) error) int {
	if err := atDesk(p, f); err != nil {
		return c.failed(err)
	}
	return exitOK
}

func (c *cli) quarantineShow(p *pipelines.Pipeline, f *quarantineFlags, ids []string) int {
	if len(ids) == 0 {
		return c.wrong("quarantine show needs an ID")
	}
	seen := map[string]bool{}
	code := c.atDesk(p, func(d desk) error {
		enc := json.NewEncoder(c.out)
		return chosen(d, f, ids, func(q engine.Quarantined) error {
			seen[q.ID] = true
			if f.format == "ndjson" {
				return enc.Encode(q)
			}
			fmt.Fprintf(c.out, "id        %s\nstep      %s\nport      %s\nreason    %s\ndetail    %s\n", q.ID, q.Step, q.Port, q.Reason, q.Detail)
			if !q.At.IsZero() {
				fmt.Fprintf(c.out, "kept      %s\n", q.At.Format(time.RFC3339))
			}
			if q.Raw != nil {
				fmt.Fprintf(c.out, "raw       %q\n", q.Raw)
			}
			if q.Row != nil {
				fmt.Fprintf(c.out, "row       %s\n", q.Row)
			}
			if q.SentAgain {
				fmt.Fprint(c.out, "sent      again, and not yet read\n")
			}
			return nil
		})
	})
	if code != exitOK {
		return code
	}
	for _, id := range ids {
		if !seen[id] {
			return c.failed(fmt.Errorf("there is no quarantined row %q; frazil quarantine list shows the ids", id))
		}
	}
	return exitOK
}

// exported is a line of export, and of what fix --from reads.
type exported struct {
	ID       string          `json:"id"`
	Step     string          `json:"step,omitempty"`
	Port     string          `json:"port,omitempty"`
	Reason   string          `json:"reason,omitempty"`
	Detail   string          `json:"detail,omitempty"`
	Source   string          `json:"source,omitempty"`
	Split    string          `json:"split,omitempty"`
	Position string          `json:"position,omitempty"`
	At       time.Time       `json:"at,omitzero"`
	Payload  *string         `json:"payload,omitempty"`
	Base64   []byte          `json:"payload_base64,omitempty"`
	Columns  json.RawMessage `json:"columns,omitempty"`
	Row      json.RawMessage `json:"row,omitempty"`
}

func (c *cli) quarantineExport(p *pipelines.Pipeline, f *quarantineFlags, ids []string) int {
	return c.atDesk(p, func(d desk) error {
		enc := json.NewEncoder(c.out)
		enc.SetEscapeHTML(false)
		return chosen(d, f, ids, func(q engine.Quarantined) error {
			e := exported{ID: q.ID, Step: q.Step, Port: q.Port, Reason: q.Reason, Detail: q.Detail, Source: q.Source, Split: q.Split, Position: q.Where, At: q.At, Row: q.Row}
			switch {
			case q.Raw == nil:
			case utf8.Valid(q.Raw):
				text := string(q.Raw)
				e.Payload = &text
			default:
				e.Base64 = q.Raw
			}
			return enc.Encode(e)
		})
	})
}

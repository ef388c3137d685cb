package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"

	"frazil/dataflow/component"
	"frazil/dataflow/engine"
	"frazil/pipelines"
)

// Bounds of one request to a running pipeline.
const (
	resendRows   = 2000
	resendBytes  = 8 << 20
	discardRows  = 5000
	refusalsTold = 20
)

// resender sends rows again in requests of bounded size, and counts.
type resender struct {
	c       *cli
	d       desk
	list    []engine.Resend
	bytes   int
	sent    int
	again   int
	refused int
	reasons map[string]int
}

func (r *resender) add(x engine.Resend) error {
	r.list = append(r.list, x)
	if r.bytes += len(x.Raw) + len(x.Row) + 64; len(r.list) >= resendRows || r.bytes >= resendBytes {
		return r.flush()
	}
	return nil
}

func (r *resender) flush() error {
	if len(r.list) == 0 {
		return nil
	}
	out, err := r.d.Resend(r.list)
	r.list, r.bytes = nil, 0
	for _, x := range out {
		switch {
		case x.Sent:
			r.sent++
		case x.Again:
			r.again++
		case x.Reason != "":
			r.refuse(x.ID, x.Reason, x.Detail)
		}
	}
	return err
}

// refuse counts a row that was not sent, and tells the first ones.
func (r *resender) refuse(id, reason, detail string) {
	if r.refused++; r.refused <= refusalsTold {
		fmt.Fprintf(r.c.err, "%s  %s  %s\n", id, reason, detail)
	}
	r.reasons[reason]++
}

// resend calls each with a resender and tells what became of the rows.
func (c *cli) resend(p *pipelines.Pipeline, ids []string, each func(*resender) error) int {
	r := &resender{c: c, reasons: map[string]int{}}
	err := atDesk(p, func(d desk) error {
		r.d = d
		if err := each(r); err != nil {
			return err
		}
		return r.flush()
	})
	if r.refused > refusalsTold {
		fmt.Fprintf(c.err, "and %d more\n", r.refused-refusalsTold)
	}
	if r.sent > 0 {
		when := "the next run reads them, once"
		if r.d.running() {
			when = "they are durable, and are read once"
		}
		fmt.Fprintf(c.out, "%s sent again: %s\n", plural(r.sent, "row"), when)
	}
	if r.again > 0 {
		fmt.Fprintf(c.out, "%s had been sent before, and not yet read\n", plural(r.again, "row"))
	}
	if r.refused > 0 {
		fmt.Fprintf(c.out, "%s not sent: %s\n", plural(r.refused, "row"), counted(r.reasons))
	}
	switch {
	case err != nil:
		return c.failed(err)
	case r.sent+r.again+r.refused == 0:
		return c.failed(errors.New("no row of the quarantine was chosen"))
	case r.refused > 0 && (len(ids) > 0 || r.sent == 0):
		return exitFailed
	}
	return exitOK
}

// counted writes counts by reason, the most frequent first.
func counted(n map[string]int) string {
	var names []string
	for k := range n {
		names = append(names, k)
	}
	sort.Slice(names, func(i, j int) bool {
		return n[names[i]] > n[names[j]] || n[names[i]] == n[names[j]] && names[i] < names[j]
	})
	var out []string
	for _, k := range names {
		out = append(out, fmt.Sprintf("%d %s", n[k], k))
	}
	return strings.Join(out, ", ")
}

// select each of the chosen rows; those that were named and are not there are
// refused.
func (r *resender) each(f *quarantineFlags, ids []string, visit func(engine.Quarantined) error) error {
	missing := map[string]bool{}
	for _, id := range ids {
		missing[id] = true
	}
	err := chosen(r.d, f, ids, func(q engine.Quarantined) error {
		delete(missing, q.ID)
		return visit(q)
	})
	for _, id := range ids {
		if missing[id] {
			r.refuse(id, "not_there", "the quarantine has no such row; frazil quarantine list shows the ids")
		}
	}
	return err
}

func (f *quarantineFlags) columnsJSON() (json.RawMessage, error) {
	if f.columns == "" {
		return nil, nil
	}
	if !json.Valid([]byte(f.columns)) {
		return nil, errors.New("--columns is no JSON")
	}
	return json.RawMessage(f.columns), nil
}

func (c *cli) quarantineRetry(p *pipelines.Pipeline, f *quarantineFlags, ids []string) int {
	if len(ids) == 0 && !f.filtered() {
		return c.wrong("quarantine retry needs an ID, or which rows: --reason, --step, --port, --source or --all")
	}
	cols, err := f.columnsJSON()
	if err != nil {
		return c.wrong("%v", err)
	}
	return c.resend(p, ids, func(r *resender) error {
		return r.each(f, ids, func(q engine.Quarantined) error {
			return r.add(engine.Resend{ID: q.ID, Columns: cols, AtSource: f.atSource})
		})
	})
}

func (c *cli) quarantineFix(p *pipelines.Pipeline, f *quarantineFlags, ids []string) int {
	if f.from != "" {
		return c.fixFrom(p, f, ids)
	}
	if len(ids) == 0 && !f.filtered() {
		return c.wrong("quarantine fix needs an ID, or which rows: --reason, --step, --port, --source or --all")
	}
	mend, err := f.mender(p)
	if err != nil {
		return c.wrong("%v", err)
	}
	cols, err := f.columnsJSON()
	if err != nil {
		return c.wrong("%v", err)
	}
	return c.resend(p, ids, func(r *resender) error {
		return r.each(f, ids, func(q engine.Quarantined) error {
			x := engine.Resend{ID: q.ID, Columns: cols, AtSource: f.atSource}
			if err := mend(&q, &x); err != nil {
				r.refuse(q.ID, "not_mended", err.Error())
				return nil
			}
			return r.add(x)
		})
	})
}

// mender is how fix makes a new payload of a row.
func (f *quarantineFlags) mender(p *pipelines.Pipeline) (func(*engine.Quarantined, *engine.Resend) error, error) {
	ways := 0
	for _, on := range []bool{f.hasPayload, f.payloadFile != "", f.hasRow, len(f.set) > 0, f.with != ""} {
		if on {
			ways++
		}
	}
	if ways != 1 {
		return nil, errors.New("quarantine fix needs one of --payload, --payload-file, --row, --set, --with, --from")
	}
	switch {
	case f.payloadFile != "":
		raw, err := os.ReadFile(f.payloadFile)
		if err != nil {
			return nil, err
		}
		return func(_ *engine.Quarantined, x *engine.Resend) error { x.Raw = raw; return nil }, nil
	case f.hasPayload:
		return func(_ *engine.Quarantined, x *engine.Resend) error { x.Raw = []byte(f.payload); return nil }, nil
	case f.hasRow:
		if !json.Valid([]byte(f.row)) {
			return nil, errors.New("--row is no JSON")
		}
		return func(_ *engine.Quarantined, x *engine.Resend) error { x.Row = json.RawMessage(f.row); return nil }, nil
	case f.with != "":
		m := p.NewTextMender(f.with)
		return func(q *engine.Quarantined, x *engine.Resend) (err error) {
			if q.Raw == nil {
				return errors.New("no payload was kept with it: give one (--payload, --row), or set columns (--set)")
			}
			x.Raw, err = m.Text(q.Raw)
			return err
		}, nil
	}
	set, err := parseSet(f.set)
	if err != nil {
		return nil, err
	}
	m := p.NewMender(set)
	return func(q *engine.Quarantined, x *engine.Resend) (err error) {
		switch {
		case q.Raw != nil:
			x.Raw, err = m.JSON(q.Source, q.Raw)
		case q.Row != nil && q.Step == q.Source:
			var row json.RawMessage
			if row, err = engine.RowPayload(p.Graph, q); err == nil {
				x.Row, err = m.Row(q.Source, row)
			}
		default:
			err = errors.New("a step behind the source has refused it: give a payload for the source (--payload)")
		}
		return err
	}, nil
}

// parseSet reads FIELD=EXPRESSION.
func parseSet(list []string) (component.NamedExprs, error) {
	var out component.NamedExprs
	for _, s := range list {
		name, text, ok := strings.Cut(s, "=")
		if name = strings.TrimSpace(name); !ok || name == "" || strings.TrimSpace(text) == "" {
			return nil, fmt.Errorf("--set %q: expected FIELD=EXPRESSION, as temp=temp/10", s)
		}
		out = append(out, component.NamedExpr{Name: name, Expr: strings.TrimSpace(text)})
	}
	return out, nil
}

// fixFrom sends the rows of an edited export.
func (c *cli) fixFrom(p *pipelines.Pipeline, f *quarantineFlags, ids []string) int {
	if len(ids) > 0 || f.filtered() {
		return c.wrong("quarantine fix --from FILE takes its rows from the file")
	}
	file, err := os.Open(f.from)
	if err != nil {
		return c.failed(err)
	}
	defer file.Close()
	return c.resend(p, nil, func(r *resender) error {
		dec := json.NewDecoder(bufio.NewReader(file))
		for n := 1; ; n++ {
			var e exported
			if err := dec.Decode(&e); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return fmt.Errorf("line %d of %s: %w", n, f.from, err)
			}
			x := engine.Resend{ID: e.ID, Raw: e.Base64, Row: e.Row, Columns: e.Columns, AtSource: f.atSource}
			if e.Payload != nil {
				x.Raw, x.Row = []byte(*e.Payload), nil
			}
			if e.ID == "" || x.Raw == nil && x.Row == nil {
				return fmt.Errorf("line %d of %s: expected id and payload, payload_base64 or row", n, f.from)
			}
			if err := r.add(x); err != nil {
				return err
			}
		}
	})
}

func (c *cli) quarantineDiscard(p *pipelines.Pipeline, f *quarantineFlags, ids []string) int {
	if len(ids) == 0 && !f.filtered() {
		return c.wrong("quarantine discard needs an ID, or which rows: --reason, --step, --port, --source or --all")
	}
	err := atDesk(p, func(d desk) error {
		var list []string
		reasons := map[string]int{}
		sent := 0
		err := chosen(d, f, ids, func(q engine.Quarantined) error {
			if q.SentAgain {
				sent++
				return nil
			}
			list = append(list, q.ID)
			reasons[q.Reason]++
			return nil
		})
		if err != nil {
			return err
		}
		if sent > 0 {
			fmt.Fprintf(c.err, "%s sent again and not yet read: left alone\n", plural(sent, "row"))
		}
		if len(list) == 0 {
			return errors.New("no row of the quarantine was chosen")
		}
		fmt.Fprintf(c.out, "%s to discard: %s\n", plural(len(list), "row"), counted(reasons))
		if !f.yes && !c.agreed() {
			return errors.New("nothing was discarded: say --yes")
		}
		total := 0
		for len(list) > 0 {
			k := min(len(list), discardRows)
			n, err := d.Discard(list[:k])
			if err != nil {
				return err
			}
			total, list = total+n, list[k:]
		}
		fmt.Fprintf(c.out, "%s discarded, and counted\n", plural(total, "row"))
		return nil
	})
	if err != nil {
		return c.failed(err)
	}
	return exitOK
}

// agreed asks on a terminal.
func (c *cli) agreed() bool {
	if !isTerminal(os.Stdin) || !isTerminal(c.out) {
		return false
	}
	fmt.Fprint(c.out, "Discard them? [y/N] ")
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	return err == nil && strings.EqualFold(strings.TrimSpace(line), "y")
}

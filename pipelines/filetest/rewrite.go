package filetest

import (
	"bytes"
	"fmt"
	"sort"
	"strings"

	"frazil/dataflow/component"
	"frazil/pipelines"
	"frazil/pipelines/rehearsal"
)

// edit replaces text[from:to].
type edit struct {
	from, to int
	text     string
}

// Rewrite writes into the text of a file what the straight variants of failed
// tests gave: their expect blocks that differ, and counters of the ledger.
// Everything else stays as it is; comments inside such a block are lost. changed
// says whether anything is new.
func Rewrite(text []byte, results []*Result) (out []byte, changed bool, err error) {
	var edits []edit
	for _, r := range results {
		if r.OK() || r.Seen == nil {
			continue
		}
		es, err := r.Seen.edits(text)
		if err != nil {
			return nil, false, fmt.Errorf("test %q: %w", r.Test.Name, err)
		}
		edits = append(edits, es...)
	}
	sort.Slice(edits, func(i, j int) bool { return edits[i].from > edits[j].from })
	out = bytes.Clone(text)
	for _, e := range edits {
		out = append(out[:e.from:e.from], append([]byte(e.text), out[e.to:]...)...)
	}
	return out, len(edits) > 0, nil
}

func (s *Seen) edits(text []byte) ([]edit, error) {
	var out []edit
	i := 0
	for n, st := range s.test.Steps {
		if st.Kind != rehearsal.Show {
			continue
		}
		if len(s.against(st.Expect, s.steps[i], "")) > 0 {
			item := s.test.Node.Get("steps").Items[n]
			e, err := s.replaced(text, item, st.Expect, s.steps[i])
			if err != nil {
				return nil, err
			}
			out = append(out, e)
		}
		i++
	}
	switch {
	case s.test.Expect != nil && len(s.against(s.test.Expect, s.end, "")) > 0:
		e, err := s.replaced(text, s.test.Node, s.test.Expect, s.end)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	case s.test.Expect == nil && len(s.against(&pipelines.Expectation{}, s.rest, "")) > 0:
		e, err := s.added(text)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	for _, l := range s.test.Ledger {
		if got := pipelines.CounterOf(s.ledger[l.Step], l.Counter); got != l.Want {
			at := offset(text, l.Node.Line, l.Node.Col)
			end := at
			for end < len(text) && (text[end] == '_' || text[end] == '-' || text[end] >= '0' && text[end] <= '9') {
				end++
			}
			out = append(out, edit{at, end, fmt.Sprint(got)})
		}
	}
	return out, nil
}

// replaced is the edit of the expect block that stands in n.
func (s *Seen) replaced(text []byte, n *component.Node, e *pipelines.Expectation, got map[string][]row) (edit, error) {
	for _, k := range n.Entries {
		if k.Key != "expect" {
			continue
		}
		from := offset(text, k.Line, k.Col)
		line := text[bytes.LastIndexByte(text[:from], '\n')+1 : from]
		indent := len([]rune(string(line)))
		if strings.Trim(string(line), " -") != "" {
			return edit{}, fmt.Errorf("line %d: an expect inside { } is not rewritten: give it a line of its own", k.Line)
		}
		return edit{from, blockEnd(text, from, indent), s.block(e, got, indent)}, nil
	}
	return edit{}, fmt.Errorf("line %d: the expect is not found", n.Line)
}

// added is the edit that puts an expect block behind the test.
func (s *Seen) added(text []byte) (edit, error) {
	n := s.test.Node
	first := n.Entries[0]
	from := offset(text, first.Line, first.Col)
	line := string(text[bytes.LastIndexByte(text[:from], '\n')+1 : from])
	if strings.Trim(line, " -") != "" {
		return edit{}, fmt.Errorf("line %d: a test inside { } is not rewritten: give its keys lines of their own", n.Line)
	}
	indent := len(line)
	last := n.Entries[len(n.Entries)-1]
	end := blockEnd(text, offset(text, last.Line, last.Col), indent)
	return edit{end, end, "\n" + strings.Repeat(" ", indent) + s.block(nil, s.end, indent)}, nil
}

// block writes an expect block without the line end behind it.
func (s *Seen) block(e *pipelines.Expectation, got map[string][]row, indent int) string {
	old := map[string]pipelines.ExpectedRows{}
	var order []string
	if e != nil {
		for _, o := range e.Outputs {
			old[o.Output] = o
			order = append(order, o.Output)
		}
	}
	for _, o := range s.outs {
		if _, named := old[o.Name]; !named && len(got[o.Name]) > 0 {
			order = append(order, o.Name)
		}
	}
	if len(order) == 0 {
		return "expect: {}"
	}
	var b strings.Builder
	b.WriteString("expect:")
	pad := "\n" + strings.Repeat(" ", indent+2)
	for _, name := range order {
		b.WriteString(pad + keyText(name) + ":")
		s.rows(&b, name, old[name], got[name], pad+"  ")
	}
	return b.String()
}

func (s *Seen) rows(b *strings.Builder, name string, old pipelines.ExpectedRows, got []row, pad string) {
	var only map[string]bool
	if old.Some {
		b.WriteString(pad + "columns: some")
		only = map[string]bool{}
		for _, r := range old.Rows {
			for _, e := range r.Node.Entries {
				only[e.Key] = true
			}
		}
		if len(only) == 0 {
			only = nil
		}
	}
	if old.Ordered {
		b.WriteString(pad + "ordered: true")
	}
	if old.Some || old.Ordered {
		b.WriteString(pad + "rows:")
		pad += "  "
	}
	if len(got) == 0 {
		b.WriteString(" []")
		return
	}
	for _, o := range s.outs {
		if o.Name != name {
			continue
		}
		lines := make([]string, len(got))
		for i, r := range got {
			lines[i] = rowText(s.columns(o), r, only)
		}
		if !old.Ordered {
			sort.Strings(lines)
		}
		for _, l := range lines {
			b.WriteString(pad + "- " + l)
		}
	}
}

// offset is where line and column, counted from 1, stand in text.
func offset(text []byte, line, col int) int {
	at := 0
	for ; line > 1; line-- {
		at += bytes.IndexByte(text[at:], '\n') + 1
	}
	for _, r := range string(text[at:]) {
		if col == 1 {
			break
		}
		col--
		at += len(string(r))
	}
	return at
}

// blockEnd is where the value of the key at from ends, whose keys stand indent
// deep: behind its last line, without the line end.
func blockEnd(text []byte, from, indent int) int {
	end := lineEnd(text, from)
	if depth := flowDepth(text[from:end]); depth > 0 {
		for depth > 0 && end < len(text) {
			next := lineEnd(text, end+1)
			depth += flowDepth(text[end+1 : next])
			end = next
		}
		return end
	}
	for at := end + 1; at < len(text); {
		next := lineEnd(text, at)
		line := text[at:next]
		body := bytes.TrimLeft(line, " ")
		deep := len(line) - len(body)
		switch {
		case len(bytes.TrimSpace(body)) == 0 || body[0] == '#' && deep <= indent:
		case deep <= indent:
			return end
		default:
			end = next
		}
		at = next + 1
	}
	return end
}

func lineEnd(text []byte, at int) int {
	if at >= len(text) {
		return len(text)
	}
	if i := bytes.IndexByte(text[at:], '\n'); i >= 0 {
		return at + i
	}
	return len(text)
}

// flowDepth is how many brackets a line leaves open, outside of quotes and
// comments.
func flowDepth(line []byte) int {
	depth := 0
	var quote byte
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quote == '"' && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '#' && i > 0 && line[i-1] == ' ':
			return depth
		case (c == '"' || c == '\'') && (i == 0 || strings.IndexByte(" [{,:", line[i-1]) >= 0):
			quote = c
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
	}
	return depth
}

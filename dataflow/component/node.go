package component

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Kind is what a Node is.
type Kind int

// The kinds of nodes.
const (
	Null Kind = iota
	Text
	Number
	Bool
	List
	Map
)

// String names k as messages do.
func (k Kind) String() string {
	return [...]string{"nothing", "text", "a number", "true or false", "a list", "a block of keys"}[k]
}

// Node is one value of a parsed YAML file, with its place. It is immutable and
// safe to share.
type Node struct {
	// File, Line and Col say where the value starts, counted from 1.
	File      string
	Line, Col int
	// Path is the way from the top of the file: operators.minute.window.by[0].
	Path string
	Kind Kind
	// Text is a scalar's text, variables expanded.
	Text string
	// Items are a list's elements.
	Items []*Node
	// Entries are a map's keys and values in the order of the file.
	Entries []Entry

	src *source
	// raw is the text before expansion, set where the text holds a secret.
	raw string
	// style tells how offsets in Text lie in the file.
	style style
	// expanded: the text came from variables, which have no YAML type.
	expanded bool
	// indent is that of a literal block.
	indent int
}

// Entry is one key of a map.
type Entry struct {
	Key       string
	Line, Col int
	Value     *Node
}

type style int

const (
	styleOpaque style = iota // offsets in the text say nothing about the file
	stylePlain
	styleQuoted
	styleLiteral
)

// Get returns the value of a key, or nil.
func (n *Node) Get(key string) *Node {
	if n == nil {
		return nil
	}
	for i := range n.Entries {
		if n.Entries[i].Key == key {
			return n.Entries[i].Value
		}
	}
	return nil
}

// At follows path, relative to n, as far as it exists, and returns the deepest
// node there and whether the whole path was found.
func (n *Node) At(path string) (*Node, bool) {
	for path != "" {
		next, rest := n.step(path)
		if next == nil {
			return n, false
		}
		n, path = next, rest
	}
	return n, true
}

func (n *Node) step(path string) (*Node, string) {
	if strings.HasPrefix(path, "[") {
		num, rest, _ := strings.Cut(path[1:], "]")
		i, err := strconv.Atoi(num)
		if err != nil || i < 0 || i >= len(n.Items) {
			return nil, ""
		}
		return n.Items[i], strings.TrimPrefix(rest, ".")
	}
	var best *Entry
	for i := range n.Entries {
		e := &n.Entries[i]
		if rest, ok := strings.CutPrefix(path, e.Key); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			if best == nil || len(e.Key) > len(best.Key) {
				best = e
			}
		}
	}
	if best == nil {
		return nil, ""
	}
	return best.Value, strings.TrimPrefix(path[len(best.Key):], ".")
}

// Join appends a relative path to a path.
func Join(base, path string) string {
	if base == "" || path == "" || path[0] == '[' {
		return base + path
	}
	return base + "." + path
}

// place returns line and column of the byte offset in a scalar's text, and
// whether they are exact.
func (n *Node) place(offset int) (line, col int) {
	if offset <= 0 || offset > len(n.Text) || n.expanded {
		return n.Line, n.Col
	}
	before := n.Text[:offset]
	switch n.style {
	case stylePlain:
		return n.Line, n.Col + utf8.RuneCountInString(before)
	case styleQuoted:
		return n.Line, n.Col + 1 + utf8.RuneCountInString(before)
	case styleLiteral:
		last := strings.LastIndexByte(before, '\n') + 1
		return n.Line + 1 + strings.Count(before, "\n"), n.indent + 1 + utf8.RuneCountInString(before[last:])
	}
	return n.Line, n.Col
}

// Locate gives p, whose path is relative to n, its full path and its place in
// the file. A problem with an offset also shows the text with a caret.
func (n *Node) Locate(p Problem) Problem {
	if p.File != "" {
		return p
	}
	at, found := n.At(p.Path)
	p.Path = Join(n.Path, p.Path)
	p.File, p.Line, p.Col = at.File, at.Line, at.Col
	if found && p.Offset > 0 && at.raw == "" {
		p.Line, p.Col = at.place(p.Offset)
		p.Excerpt = caret(at.Text, p.Offset)
	}
	return p
}

// LocateAll locates what err says. An err that is no Problems becomes one.
func (n *Node) LocateAll(err error) Problems {
	var out Problems
	for _, p := range AsProblems(err) {
		out = append(out, n.Locate(p))
	}
	return out
}

// problem is one about n itself.
func (n *Node) problem(msg string) Problem { return n.Locate(Problem{Msg: msg}) }

// caret shows the line of text around offset and a mark below it.
func caret(text string, offset int) string {
	offset = min(offset, len(text))
	start := strings.LastIndexByte(text[:offset], '\n') + 1
	line, _, _ := strings.Cut(text[start:], "\n")
	pad := strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, text[start:offset])
	return line + "\n" + pad + "^"
}

package component

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxNodes bounds a file, so that aliases of aliases cannot fill the memory.
const maxNodes = 200_000

// Parse reads one YAML document. file is its name for messages and says from
// which folder ${file:...} starts; lookup gives the value of a variable. YAML
// is parsed first and variables are expanded inside scalar values only, so that
// no variable changes the structure and none is looked for in a comment. All
// problems are returned, with their places; the node is nil if the text is no
// YAML.
func Parse(file string, text []byte, lookup func(string) (string, bool)) (*Node, Problems) {
	return ParseWith(file, text, Values{Lookup: lookup})
}

// ParseWith is Parse with other ideas of what is not set, or secret.
func ParseWith(file string, text []byte, vals Values) (*Node, Problems) {
	src := &source{file: file, dir: filepath.Dir(file), vals: vals}
	f, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, Problems{syntaxProblem(file, string(text), err)}
	}
	c := &converter{src: src, anchors: map[string]ast.Node{}}
	var body ast.Node
	for _, d := range f.Docs {
		if d.Body == nil {
			continue
		}
		if body != nil {
			t := d.Body.GetToken()
			return nil, Problems{{File: file, Line: t.Position.Line, Col: 1, Msg: "a second YAML document: one file holds one pipeline"}}
		}
		body = d.Body
	}
	if body == nil {
		return nil, Problems{{File: file, Line: 1, Col: 1, Msg: "the file is empty"}}
	}
	n := c.convert(body, "", nil)
	return n, c.problems
}

func syntaxProblem(file, text string, err error) Problem {
	p := Problem{File: file, Line: 1, Col: 1, Msg: "YAML: " + err.Error()}
	var y yaml.Error
	if !errors.As(err, &y) {
		return p
	}
	p.Msg = "YAML: " + y.GetMessage()
	if t := y.GetToken(); t != nil && t.Position != nil {
		p.Line, p.Col = t.Position.Line, max(t.Position.Column, 1)
	}
	lines := strings.Split(text, "\n")
	if p.Line < 1 || p.Line > len(lines) {
		return p
	}
	line := lines[p.Line-1]
	switch {
	case strings.Contains(line, "${"):
		p.Msg += `; inside { } and [ ], or with ": " in it, write "${NAME}" in quotes`
	case strings.Contains(line, "\t"):
		p.Msg += "; YAML indents with spaces, not tabs"
	case strings.Count(line, ": ") > 1 && strings.HasPrefix(y.GetMessage(), "mapping value"):
		p.Msg += `; text that holds ": " is written in quotes`
	}
	return p
}

type converter struct {
	src      *source
	anchors  map[string]ast.Node
	problems Problems
	// depth guards against aliases within themselves.
	depth int
}

// report says what is wrong with a value, after which nothing more is said of it.
func (c *converter) report(n *Node, msg string) {
	c.problems = append(c.problems, n.problem(msg))
	n.src = nil
}

func (c *converter) convert(a ast.Node, path string, key *token.Token) *Node {
	n := &Node{File: c.src.file, Path: path, Line: 1, Col: 1, src: c.src}
	if key != nil {
		n.Line, n.Col = key.Position.Line, key.Position.Column
	}
	c.src.nodes++
	if c.src.nodes > maxNodes || c.depth > 100 {
		if c.src.nodes == maxNodes+1 || c.depth > 100 {
			c.src.nodes = maxNodes + 2
			c.report(n, fmt.Sprintf("the file has more than %d values, or is nested more than 100 deep", maxNodes))
		}
		return n
	}
	c.depth++
	defer func() { c.depth-- }()
	if a == nil {
		return n
	}
	switch a := a.(type) {
	case *ast.AnchorNode:
		c.anchors[a.Name.GetToken().Value] = a.Value
		return c.convert(a.Value, path, key)
	case *ast.AliasNode:
		name := a.Value.GetToken().Value
		if v := c.anchors[name]; v != nil {
			return c.convert(v, path, key)
		}
		c.report(n, fmt.Sprintf("alias *%s: no anchor &%s stands before it", name, name))
		return n
	case *ast.TagNode:
		n.Line, n.Col = a.GetToken().Position.Line, a.GetToken().Position.Column
		c.report(n, fmt.Sprintf("tag %s: tags are not used here; leave it out", a.GetToken().Value))
		return n
	case *ast.MappingNode:
		c.convertMap(n, a.Values)
		return n
	case *ast.MappingValueNode:
		c.convertMap(n, []*ast.MappingValueNode{a})
		return n
	case *ast.SequenceNode:
		n.Kind = List
		if p := a.GetToken().Position; p != nil {
			n.Line, n.Col = p.Line, p.Column
		}
		for i, v := range a.Values {
			n.Items = append(n.Items, c.convert(v, fmt.Sprintf("%s[%d]", path, i), nil))
		}
		return n
	}
	c.convertScalar(n, a)
	return n
}

func (c *converter) convertMap(n *Node, values []*ast.MappingValueNode) {
	n.Kind = Map
	for i, v := range values {
		t := v.Key.GetToken()
		if i == 0 {
			n.Line, n.Col = t.Position.Line, t.Position.Column
		}
		e := Entry{Key: t.Value, Line: t.Position.Line, Col: t.Position.Column}
		switch v.Key.(type) {
		case *ast.MergeKeyNode:
			c.report(n, `merge key "<<" is not used here: write the keys out`)
			continue
		case *ast.MappingKeyNode, *ast.AliasNode, *ast.AnchorNode, *ast.TagNode:
			c.report(n, "keys are plain text")
			continue
		}
		e.Value = c.convert(v.Value, Join(n.Path, e.Key), t)
		if old := n.entry(e.Key); old != nil {
			c.problems = append(c.problems, Problem{File: n.File, Line: e.Line, Col: e.Col, Path: Join(n.Path, e.Key),
				Msg: fmt.Sprintf("key %q stands on line %d and again on line %d: keep one", e.Key, old.Line, e.Line)})
			continue
		}
		n.Entries = append(n.Entries, e)
	}
}

func (n *Node) entry(key string) *Entry {
	for i := range n.Entries {
		if n.Entries[i].Key == key {
			return &n.Entries[i]
		}
	}
	return nil
}

// numberRule covers what YAML readers take for a number, and 1e3.
var numberRule = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)

func (c *converter) convertScalar(n *Node, a ast.Node) {
	t := a.GetToken()
	if t.Type == token.ImplicitNullType {
		return
	}
	n.Line, n.Col = t.Position.Line, t.Position.Column
	n.Kind, n.Text, n.style = Text, t.Value, stylePlain
	origin := strings.TrimLeft(t.Origin, " \t\r\n")
	switch a := a.(type) {
	case *ast.NullNode:
		n.Kind, n.Text = Null, ""
		return
	case *ast.BoolNode:
		n.Kind = Bool
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		n.Kind = Number
	case *ast.LiteralNode:
		n.Text, n.style = a.Value.GetToken().Value, styleOpaque
		if t.Type == token.LiteralType {
			n.style = styleLiteral
			o := a.Value.GetToken().Origin
			n.indent = len(o) - len(strings.TrimLeft(o, " "))
		}
	case *ast.StringNode:
		switch {
		case t.Type == token.DoubleQuoteType || t.Type == token.SingleQuoteType:
			n.style = styleOpaque
			if len(origin) > 1 && strings.HasPrefix(origin[1:], n.Text) {
				n.style = styleQuoted
			}
		case numberRule.MatchString(n.Text):
			n.Kind = Number
		case !strings.HasPrefix(origin, n.Text):
			n.style = styleOpaque
		}
	default:
		c.report(n, "expected a value, a list or a block of keys")
	}
	c.expandScalar(n)
}

func (c *converter) expandScalar(n *Node) {
	if !strings.Contains(n.Text, "${") {
		return
	}
	c.src.at = n.Path
	x := c.src.expand(n.Text, nil)
	switch {
	case x.err != nil:
		n.style = styleOpaque
		n.expanded = true
		c.report(n, x.err.Error())
	case x.secrets:
		n.raw = n.Text
	default:
		n.Text, n.expanded = x.text, true
	}
}

package pipelines

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// WriteNDJSON writes d for programs, one JSON object a line: the pipeline, then
// each step in the order of the rows, told apart by "kind".
func (d Description) WriteNDJSON(out io.Writer) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	head := d
	head.Sources, head.Operators, head.Sinks = nil, nil, nil
	err := e.Encode(struct {
		Kind string `json:"kind"`
		Description
		// The steps have lines of their own.
		Sources   *int `json:"sources,omitempty"`
		Operators *int `json:"operators,omitempty"`
		Sinks     *int `json:"sinks,omitempty"`
	}{Kind: "pipeline", Description: head})
	for i := 0; i < len(d.Sources) && err == nil; i++ {
		err = e.Encode(struct {
			Kind string `json:"kind"`
			SourceInfo
		}{kindSource, d.Sources[i]})
	}
	for i := 0; i < len(d.Operators) && err == nil; i++ {
		err = e.Encode(struct {
			Kind string `json:"kind"`
			OperatorInfo
		}{kindOperator, d.Operators[i]})
	}
	for i := 0; i < len(d.Sinks) && err == nil; i++ {
		err = e.Encode(struct {
			Kind string `json:"kind"`
			SinkInfo
		}{kindSink, d.Sinks[i]})
	}
	return err
}

// edge is one reader of a port, label what tells it from the others of the step.
type edge struct {
	from, to, label string
	changelog       bool
}

// graphEdges lists who reads what, in the order of the steps. Ports that nobody
// reads go to the quarantine and are no edge.
func (d Description) graphEdges() []edge {
	var out []edge
	add := func(step string, ports []PortInfo) {
		for _, p := range ports {
			_, label, _ := strings.Cut(p.Name, ".")
			for _, r := range p.Readers {
				out = append(out, edge{step, r, label, p.Changelog})
			}
		}
	}
	for _, s := range d.Sources {
		add(s.Name, s.Ports)
	}
	for _, o := range d.Operators {
		add(o.Name, o.Ports)
	}
	return out
}

// WriteDot writes the graph for Graphviz. Changelogs are dashed, keyed steps have
// a double border.
func (d Description) WriteDot(out io.Writer) error {
	w := &textWriter{out: out}
	w.line(0, "digraph %q {", d.Pipeline)
	w.line(1, "rankdir=LR;")
	node := func(name, component, more string) {
		w.line(1, "%q [label=%q, %s];", name, name+"\n"+component, more)
	}
	for _, s := range d.Sources {
		node(s.Name, s.Component, "shape=cds")
	}
	for _, o := range d.Operators {
		shape := "shape=box"
		if o.Keyed {
			shape += ", peripheries=2"
		}
		node(o.Name, o.Component, shape)
	}
	for _, s := range d.Sinks {
		node(s.Name, s.Component, "shape=cylinder")
	}
	for _, e := range d.graphEdges() {
		var with []string
		if e.label != "" {
			with = append(with, fmt.Sprintf("label=%q", e.label))
		}
		if e.changelog {
			with = append(with, "style=dashed")
		}
		attributes := ""
		if len(with) > 0 {
			attributes = " [" + strings.Join(with, ", ") + "]"
		}
		w.line(1, "%q -> %q%s;", e.from, e.to, attributes)
	}
	w.line(0, "}")
	return w.err
}

// WriteMermaid writes the graph for Mermaid, which Markdown pages show. Names
// carry a prefix there, since a step may have the name of a keyword.
func (d Description) WriteMermaid(out io.Writer) error {
	w := &textWriter{out: out}
	w.line(0, "flowchart LR")
	for _, s := range d.Sources {
		w.line(1, `s_%s>"%s<br>%s"]`, s.Name, s.Name, s.Component)
	}
	for _, o := range d.Operators {
		form := `s_%s["%s<br>%s"]`
		if o.Keyed {
			form = `s_%s[["%s<br>%s"]]`
		}
		w.line(1, form, o.Name, o.Name, o.Component)
	}
	for _, s := range d.Sinks {
		w.line(1, `s_%s[("%s<br>%s")]`, s.Name, s.Name, s.Component)
	}
	for _, e := range d.graphEdges() {
		arrow := "-->"
		if e.changelog {
			arrow = "-.->"
		}
		if e.label != "" {
			arrow += "|" + e.label + "|"
		}
		w.line(1, "s_%s %s s_%s", e.from, arrow, e.to)
	}
	return w.err
}

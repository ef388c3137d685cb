package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"

	"frazil/dataflow/component"
	"frazil/operators/expr"
)

func init() {
	register(command{"functions", "[NAME] [--format text|ndjson]", "list functions and operators of expressions, or explain one with examples", (*cli).functions})
}

func (c *cli) functions(args []string) int {
	var form string
	rest, code, ok := c.flags("functions", args, func(fs *flag.FlagSet) { format(fs, &form, "text", "ndjson") })
	if !ok {
		return code
	}
	all := expr.Functions()
	switch {
	case len(rest) > 1:
		return c.wrong("functions takes one NAME")
	case len(rest) == 1:
		name := strings.ToLower(rest[0])
		found := slices.DeleteFunc(slices.Clone(all), func(f expr.Function) bool { return f.Name != name })
		switch {
		case len(found) > 0:
			all = found
		case slices.Contains(expr.AggregateNames(), name):
			return c.wrong("%s is an aggregate: it belongs into the aggregate block of window, group and over, see docs/guides/aggregates.md", name)
		default:
			return c.wrong("there is no function or operator %q%s; frazil functions lists them", name, component.DidYouMean(name, functionNames(all)))
		}
	}
	switch {
	case form == "ndjson":
		c.functionsNDJSON(all)
	case len(rest) == 1:
		for i, f := range all {
			if i > 0 {
				fmt.Fprintln(c.out)
			}
			c.function(f)
		}
	default:
		c.functionList(all)
	}
	return exitOK
}

func functionNames(all []expr.Function) []string {
	names := slices.Clone(expr.AggregateNames())
	for _, f := range all {
		names = append(names, f.Name)
	}
	return names
}

// functionList shows one line of each, by group.
func (c *cli) functionList(all []expr.Function) {
	group := ""
	for _, f := range all {
		if f.Group != group {
			if group != "" {
				fmt.Fprintln(c.out)
			}
			group = f.Group
			fmt.Fprintln(c.out, group)
		}
		fmt.Fprintf(c.out, "  %-20s %s\n", f.Name, firstSentence(f.Text))
	}
	fmt.Fprintf(c.out, "\naggregates (docs/guides/aggregates.md)\n")
	line := " "
	for _, n := range expr.AggregateNames() {
		if len(line)+len(n) > 96 {
			fmt.Fprintln(c.out, line)
			line = " "
		}
		line += " " + n
	}
	fmt.Fprintln(c.out, line)
}

// firstSentence cuts a text behind its first sentence, without the point, and
// where it gets long.
func firstSentence(s string) string {
	s, _, _ = strings.Cut(strings.TrimSuffix(s, "."), ". ")
	if r := []rune(s); len(r) > 96 {
		s = strings.TrimRight(string(r[:93]), " ") + "..."
	}
	return s
}

// function explains one in full.
func (c *cli) function(f expr.Function) {
	fmt.Fprintf(c.out, "%s (%s)\n\n", f.Name, f.Group)
	for _, line := range wrap(f.Text, 88) {
		fmt.Fprintln(c.out, line)
	}
	fmt.Fprintln(c.out)
	for _, s := range f.Signatures {
		fmt.Fprintf(c.out, "  %s\n", s)
	}
	fmt.Fprint(c.out, "\nexamples\n")
	for _, e := range f.Examples {
		fmt.Fprintf(c.out, "  %s\n    %s\n", e.Expr, e.Value)
	}
}

// wrap breaks a text into lines of at most so many bytes, where words allow it.
func wrap(s string, width int) []string {
	var out []string
	line := ""
	for _, w := range strings.Fields(s) {
		if line != "" && len(line)+1+len(w) > width {
			out = append(out, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += w
	}
	return append(out, line)
}

func (c *cli) functionsNDJSON(all []expr.Function) {
	type example struct {
		Expr  string `json:"expr"`
		Value string `json:"value"`
	}
	e := json.NewEncoder(c.out)
	e.SetEscapeHTML(false)
	for _, f := range all {
		examples := make([]example, len(f.Examples))
		for i, x := range f.Examples {
			examples[i] = example(x)
		}
		_ = e.Encode(struct {
			Name       string    `json:"name"`
			Group      string    `json:"group"`
			Signatures []string  `json:"signatures"`
			Text       string    `json:"text"`
			Examples   []example `json:"examples"`
		}{f.Name, f.Group, f.Signatures, f.Text, examples})
	}
}

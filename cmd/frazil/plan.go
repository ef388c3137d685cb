package main

import (
	"encoding/json"
	"flag"
)

func init() {
	register(command{"plan", "FILE [--format text|json|ndjson|dot|mermaid]", "show columns, keys, state, changes and what can be replayed", (*cli).plan})
}

func (c *cli) plan(args []string) int {
	var form string
	files, code, ok := c.flags("plan", args, func(fs *flag.FlagSet) { format(fs, &form, "text", "json", "ndjson", "dot", "mermaid") })
	if !ok {
		return code
	}
	if len(files) != 1 {
		return c.wrong("plan needs one FILE")
	}
	p := c.load(files[0])
	if p == nil {
		return exitWrong
	}
	d := p.Describe()
	var err error
	switch form {
	case "json":
		e := json.NewEncoder(c.out)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		err = e.Encode(d)
	case "ndjson":
		err = d.WriteNDJSON(c.out)
	case "dot":
		err = d.WriteDot(c.out)
	case "mermaid":
		err = d.WriteMermaid(c.out)
	default:
		err = d.WriteText(c.out)
	}
	if err != nil {
		return c.failed(err)
	}
	return exitOK
}

package main

import (
	"encoding/json"
	"flag"
)

func init() {
	register(command{"plan", "FILE [--format text|json]", "show graph, columns, state and what can be replayed", (*cli).plan})
}

func (c *cli) plan(args []string) int {
	var form string
	files, code, ok := c.flags("plan", args, func(fs *flag.FlagSet) { format(fs, &form, "text", "json") })
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
	if form == "json" {
		e := json.NewEncoder(c.out)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		err = e.Encode(d)
	} else {
		err = d.WriteText(c.out)
	}
	if err != nil {
		return c.failed(err)
	}
	return exitOK
}

package main

import (
	"encoding/json"
	"flag"
	"fmt"

	"frazil/dataflow/component"
	"frazil/pipelines"
)

func init() {
	register(command{"components", "[--format text|ndjson]", "list sources, operators, sinks and connections", (*cli).components})
	register(command{"help", "[COMMAND | COMPONENT]", "explain a command, or a component and all its options", (*cli).help})
}

func (c *cli) components(args []string) int {
	var form string
	rest, code, ok := c.flags("components", args, func(fs *flag.FlagSet) { format(fs, &form, "text", "ndjson") })
	if !ok {
		return code
	}
	if len(rest) > 0 {
		return c.wrong("components takes no %q; frazil help %s explains one", rest[0], rest[0])
	}
	if form == "ndjson" {
		e := json.NewEncoder(c.out)
		for _, i := range component.All() {
			_ = e.Encode(map[string]string{"kind": i.Kind, "name": i.Name, "summary": i.Summary})
		}
		return exitOK
	}
	kind := ""
	for _, i := range component.All() {
		if i.Kind != kind {
			if kind != "" {
				fmt.Fprintln(c.out)
			}
			kind = i.Kind
			fmt.Fprintf(c.out, "%ss\n", kind)
		}
		fmt.Fprintf(c.out, "  %-16s %s\n", i.Name, i.Summary)
	}
	return exitOK
}

func (c *cli) help(args []string) int {
	args, code, ok := c.flags("help", args, nil)
	if !ok {
		return code
	}
	if len(args) == 0 {
		c.usage(c.out)
		return exitOK
	}
	if len(args) > 1 {
		return c.wrong("help takes one name")
	}
	found := false
	for _, i := range append(component.All(), pipelines.Blocks()...) {
		if i.Name != args[0] {
			continue
		}
		if found {
			fmt.Fprint(c.out, "\n\n")
		}
		found = true
		fmt.Fprint(c.out, component.Reference(i))
	}
	if found {
		return exitOK
	}
	names := commandNames()
	for _, cmd := range commands {
		if cmd.name == args[0] {
			return cmd.run(c, []string{"--help"})
		}
	}
	for _, i := range append(component.All(), pipelines.Blocks()...) {
		names = append(names, i.Name)
	}
	return c.wrong("there is no command or component %q%s; frazil components lists them", args[0], component.DidYouMean(args[0], names))
}

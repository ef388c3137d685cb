package main

import "fmt"

func init() {
	register(command{"lint", "FILE...", "check pipeline files without connecting to anything", (*cli).lint})
}

func (c *cli) lint(args []string) int {
	files, code, ok := c.flags("lint", args, nil)
	if !ok {
		return code
	}
	if len(files) == 0 {
		return c.wrong("lint needs a FILE")
	}
	for _, f := range files {
		if c.load(f) == nil {
			code = exitWrong
			continue
		}
		fmt.Fprintf(c.out, "%s: OK\n", f)
	}
	return code
}

package main

import "frazil/pipelines"

func init() {
	register(command{"schema", "", "write the JSON Schema of pipeline files, for editors", (*cli).schema})
}

func (c *cli) schema(args []string) int {
	rest, code, ok := c.flags("schema", args, nil)
	if !ok {
		return code
	}
	if len(rest) > 0 {
		return c.wrong("schema takes no %q", rest[0])
	}
	if _, err := c.out.Write(pipelines.Schema()); err != nil {
		return c.failed(err)
	}
	return exitOK
}

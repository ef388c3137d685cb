package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"frazil/dataflow"
	"frazil/pipelines"

	"github.com/apache/arrow-go/v18/arrow"
)

func init() {
	register(command{"table", "list|rows|snapshots|files [NAME] --file FILE", "show the tables that a pipeline writes", (*cli).table})
}

func (c *cli) table(args []string) int {
	var out string
	p, rest, code := c.pipelineFlag("table", args, &out, "table", "ndjson")
	if p == nil {
		return code
	}
	if len(rest) == 0 || len(rest) > 2 {
		return c.wrong("table needs list, rows, snapshots or files, and may name a table")
	}
	name := ""
	if len(rest) == 2 {
		name = rest[1]
	}
	var err error
	switch rest[0] {
	case "list":
		err = c.tableList(p, name, out)
	case "rows":
		err = c.tableRows(p, name)
	case "snapshots":
		err = c.tableParts(p, name, out, func(i dataflow.TableInfo) []any { return anys(i.Snapshots) })
	case "files":
		err = c.tableParts(p, name, out, func(i dataflow.TableInfo) []any { return anys(i.Files) })
	default:
		return c.wrong("table knows list, rows, snapshots and files, not %q", rest[0])
	}
	if err != nil {
		return c.failed(err)
	}
	return exitOK
}

func anys[T any](in []T) []any {
	out := make([]any, len(in))
	for i, x := range in {
		out[i] = x
	}
	return out
}

func (c *cli) tableList(p *pipelines.Pipeline, name, out string) error {
	infos, err := describeTables(context.Background(), p)
	if err != nil {
		return err
	}
	var shown []tableOf
	enc := json.NewEncoder(c.out)
	for _, t := range infos {
		if name != "" && t.Table != name && t.Step != name {
			continue
		}
		shown = append(shown, t)
		if out == "ndjson" {
			if err := enc.Encode(t.TableInfo); err != nil {
				return err
			}
		}
	}
	if len(shown) == 0 {
		return noTable(name, infos)
	}
	if out == "table" {
		writeTables(c.out, shown)
	}
	return nil
}

func noTable(name string, infos []tableOf) error {
	var known []string
	for _, t := range infos {
		known = append(known, t.Table)
	}
	return fmt.Errorf("the pipeline writes no table %q; its tables: %s", name, strings.Join(known, ", "))
}

// pick calls f with the one table that name means; "" means the only one.
func (c *cli) pick(p *pipelines.Pipeline, name string, f func(dataflow.TableInfo, dataflow.TableReader) error) error {
	infos, err := describeTables(context.Background(), p)
	if err != nil {
		return err
	}
	step := ""
	for _, t := range infos {
		if t.Table == name || t.Step == name || name == "" && len(infos) == 1 {
			step = t.Step
			if !t.Found {
				return fmt.Errorf("table %s has not been created yet", t.Table)
			}
		}
	}
	if step == "" {
		return noTable(name, infos)
	}
	return eachTable(context.Background(), p, func(s string, r dataflow.TableReader) error {
		if s != step {
			return nil
		}
		info, _, err := r.Describe(context.Background())
		if err != nil {
			return err
		}
		return f(info, r)
	})
}

func (c *cli) tableRows(p *pipelines.Pipeline, name string) error {
	return c.pick(p, name, func(_ dataflow.TableInfo, r dataflow.TableReader) error {
		w := bufio.NewWriter(c.out)
		err := r.Rows(context.Background(), func(b arrow.RecordBatch) error {
			for i := range int(b.NumRows()) {
				if _, err := w.Write(append(dataflow.RowJSON(b, i), '\n')); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		return w.Flush()
	})
}

func (c *cli) tableParts(p *pipelines.Pipeline, name, out string, parts func(dataflow.TableInfo) []any) error {
	return c.pick(p, name, func(i dataflow.TableInfo, _ dataflow.TableReader) error {
		enc := json.NewEncoder(c.out)
		if out == "table" {
			enc.SetIndent("", "  ")
		}
		for _, x := range parts(i) {
			if err := enc.Encode(x); err != nil {
				return err
			}
		}
		return nil
	})
}

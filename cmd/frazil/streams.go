package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"frazil/dataflow/engine"
	"frazil/pipelines"
)

func init() {
	register(command{"streams", "--file FILE [--format table|ndjson]", "show how rows come from each source to each table of a running pipeline", (*cli).streams})
}

func (c *cli) streams(args []string) int {
	var out string
	p, rest, code := c.pipelineFlag("streams", args, &out, "table", "ndjson")
	if p == nil {
		return code
	}
	if len(rest) > 0 {
		return c.wrong("streams takes no argument %q", rest[0])
	}
	list, err := askStreams(p)
	if err != nil {
		return c.failed(err)
	}
	if out == "table" {
		writeStreams(c.out, list, time.Now())
		return exitOK
	}
	enc := json.NewEncoder(c.out)
	for _, s := range list {
		if err := enc.Encode(s); err != nil {
			return c.failed(err)
		}
	}
	return exitOK
}

func askStreams(p *pipelines.Pipeline) ([]engine.Stream, error) {
	resp, ok, err := askRunning(p, "/api/streams")
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("pipeline %s is not running, or its http is off: streams are shown by the process that runs it (frazil ledger shows what the last epoch counted)", p.Name)
	}
	defer resp.Body.Close()
	var list []engine.Stream
	return list, json.NewDecoder(resp.Body).Decode(&list)
}

func writeStreams(w io.Writer, list []engine.Stream, now time.Time) {
	tw := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "STREAM_NAME\tTABLE_NAME\tSTATUS\tROWS_INGESTED\tBYTES_WRITTEN\tLAG_MS\tLAST_FLUSH_TIME\tBUFFER_ROWS\tBUFFER_BYTES\tWAL_SEQUENCE")
	for _, s := range list {
		table, flush, seq := s.Table, "-", "-"
		if table == "" {
			table = "-"
		}
		if s.LastFlush != nil {
			flush = s.LastFlush.UTC().Format("2006-01-02T15:04:05.000Z")
		}
		if s.WALSequence != nil {
			seq = fmt.Sprint(*s.WALSequence)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%d\t%d\t%d\t%s\t%d\t%d\t%s\n", s.Name, table, s.Status, s.RowsIngested, s.BytesWritten, s.LagMillis, flush, s.BufferRows, s.BufferBytes, seq)
	}
	tw.Flush()
}

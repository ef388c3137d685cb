package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"frazil/dataflow/ingest"
	"frazil/pipelines"
	"frazil/state/wal"
)

func init() {
	register(command{"wal", "[list|show STREAM|check|repair STREAM] --file FILE", "show what is in the write-ahead logs of push sources, check them, or repair a damaged one", (*cli).wal})
}

// walFlags are the options of wal.
type walFlags struct {
	file, format    string
	from, to, limit uint64
	acceptLoss      bool
}

func (f *walFlags) define(fs *flag.FlagSet) {
	fs.StringVar(&f.file, "file", "", "the pipeline file")
	format(fs, &f.format, "table", "json")
	fs.Uint64Var(&f.from, "from", 0, "show: the first record (default: the oldest that is there)")
	fs.Uint64Var(&f.to, "to", 0, "show: the last record (default: the newest)")
	fs.Uint64Var(&f.limit, "limit", 0, "show: so many records at most (default: all)")
	fs.BoolVar(&f.acceptLoss, "accept-loss", false, "repair: give up the records that are damaged")
}

func (c *cli) wal(args []string) int {
	var f walFlags
	rest, code, ok := c.flags("wal", args, f.define)
	if !ok {
		return code
	}
	if f.file == "" {
		return c.wrong("wal needs --file FILE")
	}
	verb := "list"
	if len(rest) > 0 {
		verb, rest = rest[0], rest[1:]
	}
	if n := map[string]int{"show": 1, "repair": 1}[verb]; len(rest) != n {
		return c.wrong("wal %s takes %d arguments beside --file", verb, n)
	}
	p := c.load(f.file)
	if p == nil {
		return exitWrong
	}
	var err error
	switch verb {
	case "list":
		err = c.walList(p, f)
	case "check":
		err = c.walCheck(p)
	case "show":
		err = c.walShow(filepath.Join(p.WALDir, rest[0]), f)
	case "repair":
		err = c.walRepair(filepath.Join(p.WALDir, rest[0]), rest[0], f)
	default:
		return c.wrong("wal does not know %q: expected list, show, check or repair", verb)
	}
	if err != nil {
		return c.failed(err)
	}
	return exitOK
}

// walInfo is one log.
type walInfo struct {
	Stream string `json:"stream"`
	Dir    string `json:"dir"`
	*wal.Info
}

// walInfos reads the logs of p, whether it runs or not.
func walInfos(p *pipelines.Pipeline) ([]walInfo, error) {
	names, err := wal.Streams(p.WALDir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(names) == 0 {
		return nil, fmt.Errorf("pipeline %s has no write-ahead log: there is none in %s", p.Name, p.WALDir)
	}
	if err != nil {
		return nil, err
	}
	var out []walInfo
	for _, name := range names {
		dir := filepath.Join(p.WALDir, name)
		info, err := wal.Inspect(dir)
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", name, err)
		}
		out = append(out, walInfo{name, dir, info})
	}
	return out, nil
}

func (c *cli) walList(p *pipelines.Pipeline, f walFlags) error {
	list, err := walInfos(p)
	if err != nil {
		return err
	}
	if f.format == "json" {
		enc := json.NewEncoder(c.out)
		for _, i := range list {
			if err := enc.Encode(i); err != nil {
				return err
			}
		}
		return nil
	}
	writeWAL(c.out, list)
	return nil
}

func writeWAL(w io.Writer, list []walInfo) {
	tw := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "STREAM\tSEGMENTS\tBYTES\tFIRST\tLAST\tCOMMITTED\tWAITING\tOLDEST_WAITING\tKEYS\tSTATE")
	for _, i := range list {
		bytes, first := i.KeyBytes, i.Next
		for n, s := range i.Segments {
			bytes += s.Bytes
			if n == 0 {
				first = s.First
			}
		}
		oldest, state := "-", "ok"
		if i.Oldest > 0 {
			oldest = time.UnixMicro(i.Oldest).UTC().Format(time.RFC3339)
		}
		if len(i.Problems) > 0 {
			state = "damaged"
		}
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%d\t%s\n", i.Stream, len(i.Segments), bytes, first, i.Next-1, i.Committed, i.BacklogRecords, oldest, i.Keys, state)
	}
	tw.Flush()
	for _, i := range list {
		writeDamage(w, i)
	}
}

// writeDamage says what is damaged and what that costs.
func writeDamage(w io.Writer, i walInfo) {
	for _, p := range i.Problems {
		fmt.Fprintf(w, "%s: %s\n", i.Stream, p)
	}
	for _, r := range i.Lost {
		fmt.Fprintf(w, "%s: the records %s cannot be read\n", i.Stream, r)
	}
	for _, r := range i.LostKeys {
		fmt.Fprintf(w, "%s: the idempotency keys of the records %s cannot be read: their retries would not be recognised\n", i.Stream, r)
	}
}

func (c *cli) walCheck(p *pipelines.Pipeline) error {
	list, err := walInfos(p)
	if err != nil {
		return err
	}
	damaged := 0
	for _, i := range list {
		writeDamage(c.out, i)
		n, err := ingest.CheckLog(i.Dir)
		if err != nil {
			fmt.Fprintf(c.out, "%s: %v\n", i.Stream, err)
		}
		if err != nil || len(i.Problems) > 0 {
			damaged++
			continue
		}
		fmt.Fprintf(c.out, "%s: %d records and %d idempotency keys read, all well\n", i.Stream, n, i.Keys)
	}
	if damaged > 0 {
		return fmt.Errorf("%d of %d logs are damaged; see frazil wal repair", damaged, len(list))
	}
	return nil
}

// errEnough ends a scan.
var errEnough = errors.New("enough")

func (c *cli) walShow(dir string, f walFlags) error {
	enc := json.NewEncoder(c.out)
	n := uint64(0)
	err := ingest.ReadLog(dir, f.from, f.to, func(r ingest.LogRecord) error {
		if n++; f.limit > 0 && n > f.limit {
			return errEnough
		}
		return enc.Encode(r)
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

func (c *cli) walRepair(dir, name string, f walFlags) error {
	info, err := wal.Inspect(dir)
	if err != nil {
		return err
	}
	if len(info.Problems) == 0 {
		fmt.Fprintf(c.out, "%s: nothing is damaged\n", name)
		return nil
	}
	if !f.acceptLoss {
		writeDamage(c.out, walInfo{name, dir, info})
		return errors.New("nothing was changed: --accept-loss gives up what cannot be read, and keeps the damaged files in " + filepath.Join(dir, "damaged"))
	}
	if info, err = wal.Repair(dir); err != nil {
		return err
	}
	for _, r := range info.Lost {
		fmt.Fprintf(c.out, "%s: the records %s were given up\n", name, r)
	}
	for _, r := range info.LostKeys {
		fmt.Fprintf(c.out, "%s: the idempotency keys of the records %s were given up\n", name, r)
	}
	fmt.Fprintf(c.out, "%s: repaired; the damaged files are in %s\n", name, filepath.Join(dir, "damaged"))
	return nil
}

package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
	"unicode"

	"frazil/dataflow/codec"
	"frazil/dataflow/component"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

func init() {
	register(command{"infer", "FILE... [--rows N] [--block]", "propose a decode block from a sample of JSON lines", (*cli).infer})
}

// maxLine bounds one record of a sample.
const maxLine = 256 << 20

func (c *cli) infer(args []string) int {
	rows, block := 10_000, false
	files, code, ok := c.flags("infer", args, func(fs *flag.FlagSet) {
		fs.IntVar(&rows, "rows", rows, "read at most so many records of each file")
		fs.BoolVar(&block, "block", false, "write the blocks decode and event_time only, not a whole pipeline")
	})
	if !ok {
		return code
	}
	if len(files) == 0 || rows < 1 {
		return c.wrong("infer needs a FILE, and --rows of 1 or more")
	}
	s := codec.NewSample()
	for _, f := range files {
		s.NextFile()
		if err := sampleFile(s, f, rows); err != nil {
			return c.failed(fmt.Errorf("%s: %w", f, err))
		}
	}
	p, err := s.Propose()
	if err != nil {
		return c.failed(fmt.Errorf("%s: %w; one JSON document a line is expected (jq -c . FILE makes such lines)", files[0], err))
	}
	w := &strings.Builder{}
	fmt.Fprintf(w, "# Proposed by frazil infer from %d records; %d of them would be bad.\n", p.Rows, p.Refused)
	for _, r := range p.Remarks {
		fmt.Fprintf(w, "# %s.\n", oneLine(r))
	}
	indent := ""
	if !block {
		indent = "    "
		fmt.Fprintf(w, "name: %s\nsources:\n  records:\n    files: {paths: [%s]}\n", pipelineNameOf(files[0]), strings.Join(pathTexts(files), ", "))
	}
	writeDecode(w, indent, p)
	writeEventTime(w, indent, p)
	if !block {
		fmt.Fprint(w, "sinks:\n  out: {from: records, console: {}}\n")
	}
	if _, err := io.WriteString(c.out, w.String()); err != nil {
		return c.failed(err)
	}
	return exitOK
}

// sampleFile adds the first records of a file, decompressed.
func sampleFile(s *codec.Sample, name string, rows int) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<16)
	magic, _ := in.Peek(4)
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(in)
		if err != nil {
			return err
		}
		in = bufio.NewReaderSize(z, 1<<16)
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return err
		}
		defer z.Close()
		in = bufio.NewReaderSize(z, 1<<16)
	}
	var line []byte
	for n := 0; n < rows; {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			if len(line) > maxLine {
				return fmt.Errorf("line %d is longer than 256MiB", n+1)
			}
			continue
		}
		if text := bytes.TrimSpace(line); len(text) > 0 {
			s.Add(text)
			n++
		}
		line = line[:0]
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func writeDecode(w *strings.Builder, indent string, p *codec.Proposal) {
	fmt.Fprintf(w, "%sdecode:\n%s  json:\n", indent, indent)
	if len(p.Config.Schema) > 0 {
		fmt.Fprintf(w, "%s    schema:\n", indent)
	}
	for _, c := range p.Config.Schema {
		fmt.Fprintf(w, "%s      %s: %s%s\n", indent, yamlText(c.Name), yamlText(c.Type), comment(p.Notes[c.Name]))
	}
	if n := len(p.Config.Required); n > 0 {
		names := make([]string, n)
		for i, r := range p.Config.Required {
			names[i] = yamlText(r)
		}
		fmt.Fprintf(w, "%s    # Never null or missing in the sample; a record without one of them is bad.\n", indent)
		fmt.Fprintf(w, "%s    required: [%s]\n", indent, strings.Join(names, ", "))
	}
	if p.Config.Whole != "" {
		fmt.Fprintf(w, "%s    whole: %s\n", indent, yamlText(p.Config.Whole))
	}
	if p.Config.Depth != 0 {
		fmt.Fprintf(w, "%s    depth: %d\n", indent, p.Config.Depth)
	}
	if p.Config.MaxRecord != 0 {
		fmt.Fprintf(w, "%s    max_record: %s\n", indent, p.Config.MaxRecord)
	}
}

func comment(note string) string {
	if note == "" {
		return ""
	}
	return "  # " + oneLine(note)
}

// oneLine keeps a comment a comment, whatever the sample holds.
func oneLine(s string) string {
	if r := []rune(s); len(r) > 200 {
		s = string(r[:200]) + "..."
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

var (
	plainText = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*(\([A-Za-z0-9_,]*\)|<[A-Za-z0-9_<>(),]*>)?$`)
	yamlWord  = regexp.MustCompile(`(?i)^(true|false|null|yes|no|on|off|y|n)$`)
)

// yamlText writes a key or a value, in quotes where needed.
func yamlText(s string) string {
	if plainText.MatchString(s) && !yamlWord.MatchString(s) {
		return s
	}
	if !strings.ContainsAny(s, `'`) {
		return "'" + s + "'"
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// disorders are lengths that people choose.
var disorders = []time.Duration{0, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour}

func niceDisorder(d time.Duration) component.Duration {
	for _, n := range disorders {
		if n >= d {
			return component.Duration(n)
		}
	}
	day := 24 * time.Hour
	return component.Duration((d + day - 1) / day * day)
}

func writeEventTime(w *strings.Builder, indent string, p *codec.Proposal) {
	if len(p.Times) == 0 {
		fmt.Fprintf(w, "%s# No column is a time, so there is no event_time, and no windows.\n", indent)
		return
	}
	for i, t := range p.Times {
		what := fmt.Sprintf("%s: %s to %s", t.Column, t.From, t.To)
		switch {
		case t.Disorder == 0:
			what += ", in order within each file"
		case t.Disorder > 10*t.Usual:
			what += fmt.Sprintf(", 99 of 100 records less than %s out of order, the others up to %s", niceDisorder(max(t.Usual, time.Second)), t.Disorder)
		default:
			what += fmt.Sprintf(", up to %s out of order", t.Disorder)
		}
		if t.Ahead > 0 {
			what += fmt.Sprintf("; %d records are from the future, consider max_ahead", t.Ahead)
		}
		if t.Nulls > 0 {
			what += fmt.Sprintf("; null in %d, which would be bad as event time", t.Nulls)
		}
		fmt.Fprintf(w, "%s# %s.\n", indent, oneLine(what))
		if i > 0 || t.Nulls > 0 {
			fmt.Fprintf(w, "%s# event_time: {column: %s, out_of_orderness: %s}\n", indent, yamlText(t.Column), bound(t))
			continue
		}
		fmt.Fprintf(w, "%sevent_time: {column: %s, out_of_orderness: %s}\n", indent, yamlText(t.Column), bound(t))
	}
}

// bound is the disorder to allow: all of it, but for a few stragglers.
func bound(t codec.TimeGuess) component.Duration {
	if t.Disorder > 10*max(t.Usual, time.Second) {
		return niceDisorder(max(t.Usual, time.Second))
	}
	return niceDisorder(t.Disorder)
}

// pathTexts are the paths as the source files reads them, with \ before what
// would be a pattern.
func pathTexts(files []string) []string {
	out := make([]string, len(files))
	for i, f := range files {
		out[i] = yamlText(strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(f))
	}
	return out
}

// pipelineNameOf makes a name of a file's.
func pipelineNameOf(file string) string {
	base, _, _ := strings.Cut(filepath.Base(file), ".")
	name := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(base), "-"), "-")
	if name == "" || name[0] < 'a' {
		name = strings.Trim("records-"+name, "-")
	}
	return name
}

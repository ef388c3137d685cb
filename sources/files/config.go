package files

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
)

// Values of Config.Mode.
const (
	ModeEnd    = "end"
	ModeFollow = "follow"
)

// Values of Config.OnGap.
const (
	GapFail     = "fail"
	GapContinue = "continue"
)

// Config of the source "files".
type Config struct {
	// Paths lists files to read, relative to the pipeline file; *, ? and [a-z]
	// match within a name: [events/*.ndjson.gz]. Names that begin with a dot are
	// matched only by a pattern that does so too.
	Paths []string `yaml:"paths,required"`
	// Mode: end reads what is there at the start and ends; follow waits for new
	// files and for lines added to the last one. Default: end.
	Mode string `yaml:"mode" oneof:"end,follow"`
	// Poll is how often follow looks for new files and changes. Default: 1s.
	Poll component.Duration `yaml:"poll"`
	// Lanes is the number of sequences that are read side by side; a file belongs
	// to one by its name. Changing it starts anew. Default: 1.
	Lanes int `yaml:"lanes"`
	// OnGap says what happens when a file that was read has changed, or one
	// appears before it: fail, or continue (what changed is passed over, counted
	// and logged). Default: fail.
	OnGap string `yaml:"on_gap" oneof:"fail,continue"`
	// Metadata adds columns that tell where a row comes from. Default: none.
	Metadata Metadata `yaml:"metadata"`
}

// Metadata names the columns for what is known about a row beside its content.
type Metadata struct {
	// Path names a string column for the path of the file, as matched. Default:
	// none.
	Path string `yaml:"path"`
	// Line names an int64 column for the number of the line, from 1. Default:
	// none.
	Line string `yaml:"line"`
}

// DefaultConfig holds the defaults.
func DefaultConfig() Config {
	return Config{Mode: ModeEnd, Poll: component.Duration(time.Second), Lanes: 1, OnGap: GapFail}
}

// maxLanes bounds lanes: each holds a file open.
const maxLanes = 256

func init() {
	component.RegisterSource(component.Source[Config]{
		Name:    "files",
		Summary: "Reads newline-delimited records from files, plain or compressed, to their end or for ever.",
		Doc: "Files are read in lanes, each in the order of the names of its files; a lane is a split, with one position\n" +
			"and one watermark. gzip and zstd are recognised by their content. A blank line is no record. In mode end a\n" +
			"last line without a newline is a record, in mode follow it waits for the rest.\n\n" +
			"A finished file that changed, or a new one that sorts before it, is a gap: files should be written once,\n" +
			"under names that grow, and appended to only while they are the last. Finished files may be removed.\n\n" +
			"Delivery: exactly once per position; the same files give the same rows again. Memory: one block per lane\n" +
			"(256 KiB, up to the largest record) and one batch.",
		Default: DefaultConfig,
		Plan:    plan,
		New: func(ctx context.Context, env *dataflow.Env, cfg Config) (dataflow.Source, error) {
			return New(env, cfg)
		},
	})
}

// Check reports everything wrong with c, as component.Problems. It is pure.
func (c Config) Check() error {
	var ps component.Problems
	add := func(path, format string, args ...any) {
		ps = append(ps, component.Problem{Path: path, Msg: fmt.Sprintf(format, args...)})
	}
	if len(c.Paths) == 0 {
		add("paths", "no file is named: write paths: [events.ndjson] or a pattern as [events/*.ndjson.gz]")
	}
	for i, p := range c.Paths {
		if _, err := filepath.Match(p, ""); err != nil || p == "" {
			add(fmt.Sprintf("paths[%d]", i), "%q is no path or pattern: a [ needs its ]", p)
		}
	}
	if c.Mode != ModeEnd && c.Mode != ModeFollow {
		add("mode", "%q is unknown: expected end or follow", c.Mode)
	}
	if c.Poll <= 0 {
		add("poll", "%s is too short: expected more than 0, as 1s", c.Poll)
	}
	if c.Lanes < 1 || c.Lanes > maxLanes {
		add("lanes", "%d is out of range: expected 1 to %d", c.Lanes, maxLanes)
	}
	if c.OnGap != GapFail && c.OnGap != GapContinue {
		add("on_gap", "%q is unknown: expected fail or continue", c.OnGap)
	}
	if len(ps) == 0 {
		return nil
	}
	return ps
}

func plan(in component.SourceIn, cfg Config) (component.SourcePlan, error) {
	var ps component.Problems
	if err := cfg.Check(); err != nil {
		ps = err.(component.Problems)
	}
	if in.Decoded == nil {
		ps = append(ps, component.Problem{Msg: "files holds bytes: add a decode block beside it, as decode: {json: {schema: {...}}}"})
		return component.SourcePlan{}, ps
	}
	if in.Binary {
		ps = append(ps, component.Problem{Msg: "files are read by lines, and payloads of this format may hold the end of a line: expected decode: json, json_schema, text or raw"})
	}
	schema, err := outSchema(in.Decoded, cfg.Metadata)
	if err != nil {
		ps = append(ps, err.(component.Problems)...)
	}
	if len(ps) > 0 {
		return component.SourcePlan{}, ps
	}
	p := component.SourcePlan{Schema: schema, Tasks: cfg.Lanes, Bounded: cfg.Mode == ModeEnd, Pauses: true}
	if cfg.OnGap == GapContinue {
		p.NotReplayable = "on_gap: continue passes over files that changed, so that another read may give other rows"
	}
	return p, nil
}

// outSchema appends the metadata columns.
func outSchema(decoded *arrow.Schema, m Metadata) (*arrow.Schema, error) {
	fields := slices.Clone(decoded.Fields())
	var ps component.Problems
	for _, c := range []struct {
		key, name string
		typ       arrow.DataType
	}{{"path", m.Path, dataflow.TypeString}, {"line", m.Line, dataflow.TypeInt64}} {
		if c.name == "" {
			continue
		}
		taken := slices.ContainsFunc(fields, func(f arrow.Field) bool { return f.Name == c.name })
		switch {
		case taken:
			ps = append(ps, component.Problem{Path: "metadata." + c.key, Msg: fmt.Sprintf("column %q is there already: choose another name", c.name)})
		case dataflow.IsSystem(c.name):
			ps = append(ps, component.Problem{Path: "metadata." + c.key, Msg: fmt.Sprintf("column %q: names beginning with %q are reserved", c.name, dataflow.SysPrefix)})
		}
		fields = append(fields, arrow.Field{Name: c.name, Type: c.typ})
	}
	if len(ps) > 0 {
		return nil, ps
	}
	return arrow.NewSchema(fields, nil), nil
}

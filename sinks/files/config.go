package files

import (
	"context"
	"path/filepath"

	"frazil/dataflow"
	"frazil/dataflow/component"
)

// Config of the sink.
type Config struct {
	// Folder of the rows, relative to the working directory. It is created; one
	// that holds other .ndjson files is refused.
	Path string `yaml:"path,required"`
	// Size at which a file is closed and the next one begun. Every commit begins
	// a new file in any case. Default 64MiB.
	FileSize component.Bytes `yaml:"file_size"`
}

const minFileSize = 4 << 10

func init() {
	component.RegisterSink(component.Sink[Config]{
		Name:    "files",
		Summary: "Writes rows as JSON lines to files in a folder, exactly once.",
		Doc: `Delivery: exactly once. Rows are published on checkpoint, together with the source positions they belong to, in
one commit record under PATH/_frazil; whoever reads PATH/*.ndjson sees each committed row once and no other. Of two
processes on copies of one state directory one is fenced. Several pipelines may write to one folder.

Order: files are named by commit, rows stand in the order of arrival.

Times are RFC 3339 with microseconds, decimals and uuids are texts, binary is hexadecimal.

Memory: 256 KiB and one open file. The file system must have hard links.`,
		Changes: component.ChangesAsRows,
		Default: func() Config { return Config{FileSize: 64 << 20} },
		Plan:    plan,
		NewWriter: func(_ context.Context, env *dataflow.Env, in component.SinkIn, cfg Config) (dataflow.Writer, error) {
			return newWriter(env, in.Input.Schema, cfg)
		},
		NewCommitter: func(_ context.Context, env *dataflow.Env, in component.SinkIn, cfg Config) (dataflow.Committer, error) {
			return newCommitter(env, in.Input.Schema, cfg), nil
		},
	})
}

func plan(_ component.SinkIn, cfg Config) (component.SinkPlan, error) {
	var p component.Problems
	if cfg.Path == "" {
		p = append(p, component.Problem{Path: "path", Msg: "expected a folder, as ./frazil-data/out"})
	}
	if cfg.FileSize < minFileSize {
		p = append(p, component.Problem{Path: "file_size", Msg: "expected at least 4KiB, got " + cfg.FileSize.String()})
	}
	if len(p) > 0 {
		return component.SinkPlan{}, p
	}
	return component.SinkPlan{Target: string(target(cfg)), Tasks: 1}, nil
}

func target(cfg Config) dataflow.Target {
	return dataflow.Target("files:" + filepath.Clean(cfg.Path))
}

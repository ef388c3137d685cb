package postgres

import (
	"fmt"
	"slices"
	"strings"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/jackc/pgx/v5"
)

// Config is what a user writes under "postgres".
type Config struct {
	// URL of the database: postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=...
	URL component.Secret `yaml:"url,required"`
	// Table to write to, as TABLE or SCHEMA.TABLE. Without a schema it is looked for as
	// the role's search_path says.
	Table string `yaml:"table,required"`
	// Mode is append (each row is one more row of the table) or upsert (a row takes the
	// place of the one with its key). Default: append; for a changelog upsert, its
	// deletes included. A changelog that is appended has the column op in front.
	Mode string `yaml:"mode" oneof:"append,upsert"`
	// Key names the columns of the key, for upsert. The table needs a unique index of
	// exactly these. Default: of a changelog its key.
	Key []string `yaml:"key"`
	// CreateTable makes the table when it is not there. Default: false.
	CreateTable bool `yaml:"create_table"`
	// PositionsTable holds the positions of all pipelines that write to the database.
	// Default: frazil_positions.
	PositionsTable string `yaml:"positions_table"`
	// RefusedTable takes rows that the table refuses, with the reason. Default:
	// frazil_refused.
	RefusedTable string `yaml:"refused_table"`
	// CreatePositions makes those two tables when they are not there. Default: true.
	CreatePositions bool `yaml:"create_positions"`
}

// Values of Mode.
const (
	modeAppend = "append"
	modeUpsert = "upsert"
)

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{PositionsTable: "frazil_positions", RefusedTable: "frazil_refused", CreatePositions: true}
}

func init() {
	component.RegisterSink(component.Sink[Config]{
		Name:    "postgres",
		Summary: "Writes rows to a table of PostgreSQL, appended or put by their key, exactly once.",
		Doc: `Delivery: exactly once. Rows wait in files of the spool folder until their checkpoint is durable and are then
written in one transaction with the positions they belong to. A database that is away, a transaction that it gave up and
an answer that was lost lose and double nothing. Of two processes on copies of one state directory one is fenced.

Order: of one key, as they arrive: within a commit the last row of a key counts.

Bad rows: a row with a value that its column cannot hold leaves by the port "bad". One that only the table itself
refuses (a constraint, a trigger) is put into the table refused_table, in the transaction of the others.

Memory: none beside the spool's buffers.`,
		Changes:      component.ChangesApplied,
		Default:      DefaultConfig,
		Plan:         plan,
		NewWriter:    newWriter,
		NewCommitter: newCommitter,
	})
}

func plan(in component.SinkIn, cfg Config) (component.SinkPlan, error) {
	problems := check(cfg)
	if _, more := newShape(in.Input, cfg); len(more) > 0 {
		problems = append(problems, more...)
	}
	if len(problems) > 0 {
		return component.SinkPlan{}, problems
	}
	return component.SinkPlan{Target: string(target(in.Step, cfg)), Tasks: 1, Spools: true}, nil
}

// target names the step too: several sinks may append to one table, each with positions
// of its own.
func target(step string, cfg Config) dataflow.Target {
	return dataflow.Target(fmt.Sprintf("postgres:%s (%s)", cfg.Table, step))
}

// check finds what is wrong with a config by itself.
func check(cfg Config) component.Problems {
	var out component.Problems
	bad := func(path, format string, args ...any) {
		out = append(out, component.Problem{Path: path, Msg: fmt.Sprintf(format, args...)})
	}
	if _, err := pgx.ParseConfig(cfg.URL.Reveal()); err != nil {
		bad("url", "expected postgres://USER:PASSWORD@HOST:PORT/DATABASE, and this cannot be read") // err has the password in it.
	}
	for _, x := range [][2]string{{"table", cfg.Table}, {"positions_table", cfg.PositionsTable}, {"refused_table", cfg.RefusedTable}} {
		schema, table, two := strings.Cut(x[1], ".")
		if schema == "" || two && (table == "" || strings.Contains(table, ".")) {
			bad(x[0], "table %q: expected TABLE or SCHEMA.TABLE", x[1])
		}
	}
	return out
}

// shape is what rows of an input are written as.
type shape struct {
	in     dataflow.Stream // what the writer gets, its op column included
	upsert bool
	key    []string
	// deletes: rows may take others away.
	deletes bool
	// shown: the input is a changelog that is appended, and in shows its changes.
	shown bool
}

func newShape(in dataflow.Stream, cfg Config) (shape, component.Problems) {
	s := shape{in: in, key: cfg.Key}
	s.upsert = cfg.Mode == modeUpsert || cfg.Mode == "" && in.Changelog
	var out component.Problems
	bad := func(path, format string, args ...any) {
		out = append(out, component.Problem{Path: path, Msg: fmt.Sprintf(format, args...)})
	}
	switch {
	case !s.upsert && len(cfg.Key) > 0:
		bad("key", "only with mode: upsert")
	case s.upsert && in.Changelog:
		s.deletes = true
		if len(s.key) == 0 {
			s.key = in.Key
		}
		if !slices.Equal(slices.Sorted(slices.Values(s.key)), slices.Sorted(slices.Values(in.Key))) {
			bad("key", "the input is a changelog with the key %v: leave key out, or write the same", in.Key)
		}
	case s.upsert && len(cfg.Key) == 0:
		bad("key", "mode upsert needs the columns that make a row the same one: write key: [COLUMN]")
	}
	for i, k := range s.key {
		switch {
		case dataflow.IsSystem(k) || dataflow.Column(in.Schema, k) < 0:
			bad(fmt.Sprintf("key[%d]", i), "unknown column %q", k)
		case slices.Contains(s.key[:i], k):
			bad(fmt.Sprintf("key[%d]", i), "column %q stands here twice", k)
		}
	}
	if in.Changelog && !s.upsert {
		s.in, s.shown = dataflow.ShownChanges(in), true
	}
	return s, out
}

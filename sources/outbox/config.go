package outbox

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
)

// Config is what a user writes under "outbox".
type Config struct {
	// Postgres is the database of the outbox. Either this or mysql.
	Postgres *PostgresConfig `yaml:"postgres"`
	// MySQL is the database of the outbox, MariaDB among them. Either this or postgres.
	MySQL *MySQLConfig `yaml:"mysql"`
	// Columns names the columns of the outbox table.
	Columns Columns `yaml:"columns"`
	// Payload says what the payload is without a decode block beside outbox: json, text
	// or bytes. Default: json.
	Payload string `yaml:"payload" oneof:"json,text,bytes"`
	// Start says where the very first run begins: snapshot (the rows that are there, then
	// all that come) or latest (only those that come). Default: snapshot.
	Start string `yaml:"start" oneof:"snapshot,latest"`
	// Cleanup removes or marks rows that are committed in every target. Default: they
	// stay.
	Cleanup *Cleanup `yaml:"cleanup"`
	// Metadata adds columns behind the others. Each entry names the column to make.
	// Default: none.
	Metadata Metadata `yaml:"metadata"`
}

// PostgresConfig says which table is read, and how.
type PostgresConfig struct {
	// URL of the database: postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=... The
	// role needs SELECT on the table, and for capture: log REPLICATION.
	URL component.Secret `yaml:"url,required"`
	// Capture says how changes are found: log reads the database's log by logical
	// replication; poll asks for rows again and again, and needs nothing but SELECT.
	// Default: log.
	Capture string `yaml:"capture" oneof:"log,poll"`
	// Table is the outbox, as SCHEMA.TABLE. Not together with messages.
	Table string `yaml:"table"`
	// PollEvery is the pause between two questions of capture: poll, at least 1ms; it is
	// longer if they cost the server much. Default: 100ms.
	PollEvery component.Duration `yaml:"poll_every"`
	// Messages is the prefix of messages that the application writes by
	// pg_logical_emit_message(true, PREFIX, TEXT): an outbox without a table. TEXT is a
	// JSON object with the columns of a row. Not together with table, nor with capture:
	// poll.
	Messages string `yaml:"messages"`
	// Slot is the replication slot of capture: log, of this source alone. Default:
	// frazil_PIPELINE_STEP.
	Slot string `yaml:"slot"`
	// Publication that the table is in. Default: the slot's name.
	Publication string `yaml:"publication"`
	// RetainedAlert is how many bytes of the log the server may keep for the slot before
	// health says so; 0: any number. Default: 1GiB.
	RetainedAlert component.Bytes `yaml:"retained_alert"`
	// Create makes slot and publication when they are not there. Default: true.
	Create bool `yaml:"create"`
}

// SetDefaults implements component.Defaulter.
func (c *PostgresConfig) SetDefaults() {
	*c = PostgresConfig{Capture: captureLog, PollEvery: defaultPollEvery, RetainedAlert: 1 << 30, Create: true}
}

// The values of capture.
const (
	captureLog  = "log"
	capturePoll = "poll"
)

const defaultPollEvery = component.Duration(100 * time.Millisecond)

// MySQLConfig says which table of MySQL or MariaDB is read. It is polled.
type MySQLConfig struct {
	// URL of the database: mysql://USER:PASSWORD@HOST:PORT/DATABASE. The user needs SELECT
	// on the table, and PROCESS.
	URL component.Secret `yaml:"url,required"`
	// TLS encrypts the connection. Default: none.
	TLS *component.ClientTLS `yaml:"tls"`
	// Table is the outbox, in the database of url. It is of InnoDB.
	Table string `yaml:"table,required"`
	// PollEvery is the pause between two questions, at least 1ms; it is longer if they
	// cost the server much. Default: 100ms.
	PollEvery component.Duration `yaml:"poll_every"`
}

// SetDefaults implements component.Defaulter.
func (c *MySQLConfig) SetDefaults() { *c = MySQLConfig{PollEvery: defaultPollEvery} }

// Columns are the names of the table's columns. The defaults are the conventional ones,
// those of Debezium's outbox router.
type Columns struct {
	// ID of the event, of any type. Default: id.
	ID string `yaml:"id"`
	// AggregateType is the kind of thing that the event is about, by which events are
	// routed. Default: aggregatetype.
	AggregateType string `yaml:"aggregate_type"`
	// AggregateID is the thing; its events keep their order. Default: aggregateid.
	AggregateID string `yaml:"aggregate_id"`
	// Type of the event. Default: type.
	Type string `yaml:"type"`
	// Payload of the event: json, jsonb, text or bytea. Default: payload.
	Payload string `yaml:"payload"`
	// Headers is a column with a JSON object, for tracing among others. Default: none.
	Headers string `yaml:"headers"`
	// CreatedAt is a column of type timestamptz or timestamp. Default: none.
	CreatedAt string `yaml:"created_at"`
	// Additional are more columns of the table, which are given as texts under their own
	// names. Default: none.
	Additional []string `yaml:"additional"`
	// Sequence is a column whose numbers ascend in the order in which rows are inserted:
	// what is polled at once is given in its order. MySQL and MariaDB: the column with
	// AUTO_INCREMENT. Default: the id.
	Sequence string `yaml:"sequence"`
	// Transaction is a column of PostgreSQL of type xid8 or bigint, with the default
	// pg_current_xact_id(), for capture: poll: with an index on it a poll need not read
	// the whole table, and rows may be updated. Default: the system column xmin.
	Transaction string `yaml:"transaction"`
}

// Metadata names the columns that hold what the database knows beside the row.
type Metadata struct {
	// LSN: int64, of the commit; null for rows that were there at the first start.
	LSN string `yaml:"lsn"`
	// Transaction: int64, the number of the transaction; null as above.
	Transaction string `yaml:"transaction"`
	// CommitTime: timestamptz; null as above.
	CommitTime string `yaml:"commit_time"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Payload: "json", Start: "snapshot",
		Columns: Columns{ID: "id", AggregateType: "aggregatetype", AggregateID: "aggregateid", Type: "type", Payload: "payload"},
	}
}

func init() {
	component.RegisterSource(component.Source[Config]{
		Name:    "outbox",
		Summary: "Reads a transactional outbox of PostgreSQL, MySQL or MariaDB, each committed row once.",
		Doc: `Delivery: each committed row once, none of a transaction that was rolled back. A replication slot is confirmed only up
to what is committed in every target. A table that is polled loses no row that is committed later than others whose ids are
greater, and a long transaction holds up no other.

Ordering: by replication, by commit, and within a transaction as written. By polling, the events of an aggregate whose
writers lock it come in the order of commits; others that are found by one poll come in the order of their ids. An outbox
is one split.

Columns: id, aggregate_type, aggregate_id, type (string), payload (by payload: json, string or binary; with a decode
block the columns of that instead), headers (json) and created_at (timestamptz) where the table has them, and
additional ones (string).

Bad records: a row whose id is null, or whose payload cannot be decoded, leaves by the port "bad".

Replay: a slot gives nothing again that was confirmed, and a table that is polled gives rows in another order.

Memory: the rows of the log that wait to be read, 8 MiB. By polling, two numbers for each transaction that is open
(PostgreSQL), or for each id that none has (MySQL) until it is known that none will.`,
		Default: DefaultConfig,
		Plan:    plan,
		New:     newSource,
	})
}

var (
	slotName  = regexp.MustCompile(`^[a-z0-9_]{1,63}$`)
	tableName = regexp.MustCompile(`^[^.]+\.[^.]+$`)
)

func plan(in component.SourceIn, cfg Config) (component.SourcePlan, error) {
	cfg = cfg.named(in.Pipeline, in.Step)
	if problems := check(cfg); len(problems) > 0 {
		return component.SourcePlan{}, problems
	}
	s, err := newShape(cfg, in.Decoded)
	if err != nil {
		return component.SourcePlan{}, component.AsProblems(err)
	}
	out := component.SourcePlan{Schema: s.schema(), Tasks: 1, Arrived: true}
	switch {
	case cfg.MySQL != nil:
		out.NotReplayable, out.Target = notAgain, "table "+cfg.MySQL.Table
	case cfg.Postgres.Capture == capturePoll:
		out.NotReplayable, out.Target = notAgain, "table "+cfg.Postgres.Table
	default:
		out.NotReplayable, out.Target = "a replication slot gives nothing again that was confirmed", "slot "+cfg.Postgres.Slot
	}
	return out, nil
}

const notAgain = "a table that is polled gives rows in another order when it is read again"

// newSource makes the source that the config asks for.
func newSource(_ context.Context, env *dataflow.Env, cfg Config) (dataflow.Source, error) {
	cfg = cfg.named(env.Pipeline, env.Step)
	if problems := check(cfg); len(problems) > 0 {
		return nil, problems
	}
	var dec dataflow.Decoder
	var decoded *arrow.Schema
	var err error
	if env.NewDecoder != nil {
		if dec, err = env.NewDecoder(); err != nil {
			return nil, fmt.Errorf("make the decoder of %q: %w", env.Step, err)
		}
		decoded = dec.Schema()
	}
	s, err := newShape(cfg, decoded)
	if err != nil {
		return nil, err
	}
	r := newRows(env, s, dec)
	switch {
	case cfg.MySQL != nil:
		return newMySource(env, cfg, s, r), nil
	case cfg.Postgres.Capture == capturePoll:
		return newPgPoller(env, cfg, s, r), nil
	}
	return newPgSource(env, cfg, s, r), nil
}

// sequence is the column by which rows are ordered.
func (c Config) sequence() string {
	if c.Columns.Sequence != "" {
		return c.Columns.Sequence
	}
	return c.Columns.ID
}

// named fills the names that are made of the pipeline's.
func (c Config) named(pipeline, step string) Config {
	if c.Postgres == nil {
		return c
	}
	pg := *c.Postgres
	if pg.Slot == "" {
		pg.Slot = plainName("frazil_" + pipeline + "_" + step)
	}
	if pg.Publication == "" {
		pg.Publication = pg.Slot
	}
	c.Postgres = &pg
	return c
}

// plainName makes a slot's name of text.
func plainName(text string) string {
	out := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(text))
	return out[:min(len(out), 63)]
}

// check finds what is wrong with a config by itself.
func check(cfg Config) component.Problems {
	var out component.Problems
	bad := func(path, format string, args ...any) {
		out = append(out, component.Problem{Path: path, Msg: fmt.Sprintf(format, args...)})
	}
	switch {
	case (cfg.Postgres == nil) == (cfg.MySQL == nil):
		bad("", "which database: write postgres: {url: ..., table: SCHEMA.TABLE} or mysql: {url: ..., table: TABLE}, one of them")
		return out
	case cfg.MySQL != nil:
		out = append(out, checkMySQL(cfg)...)
	default:
		out = append(out, checkPostgres(cfg)...)
	}
	if cfg.Columns.ID == "" || cfg.Columns.Payload == "" {
		bad("columns", "id and payload are needed")
	}
	if cfg.Cleanup != nil {
		out = append(out, cfg.Cleanup.check(cfg.Postgres != nil && cfg.Postgres.Messages != "")...)
	}
	return out
}

func checkPostgres(cfg Config) component.Problems {
	var out component.Problems
	bad := func(path, format string, args ...any) {
		out = append(out, component.Problem{Path: path, Msg: fmt.Sprintf(format, args...)})
	}
	pg, polled := cfg.Postgres, cfg.Postgres.Capture == capturePoll
	switch {
	case pg.Table == "" && pg.Messages == "":
		bad("postgres", "what is read: write table: SCHEMA.TABLE, or messages: PREFIX")
	case pg.Table != "" && pg.Messages != "":
		bad("postgres.messages", "not together with table: a source reads one outbox")
	case pg.Messages != "" && polled:
		bad("postgres.messages", "messages are in the database's log alone: capture: poll needs a table")
	case pg.Table != "" && !tableName.MatchString(pg.Table):
		bad("postgres.table", "table %q: expected SCHEMA.TABLE, as public.outbox", pg.Table)
	}
	if !slotName.MatchString(pg.Slot) {
		bad("postgres.slot", "slot %q: expected 1 to 63 of the characters a-z 0-9 _", pg.Slot)
	}
	if polled {
		if pg.PollEvery.D() < time.Millisecond {
			bad("postgres.poll_every", "%s: expected at least 1ms", pg.PollEvery.D())
		}
		return append(out, notPolled(cfg)...)
	}
	for path, value := range map[string]string{"columns.sequence": cfg.Columns.Sequence, "columns.transaction": cfg.Columns.Transaction} {
		if value != "" {
			bad(path, "only with capture: poll: the log has the order of commits")
		}
	}
	return out
}

// notPolled are what only the log knows.
func notPolled(cfg Config) (out component.Problems) {
	for path, value := range map[string]string{"metadata.lsn": cfg.Metadata.LSN, "metadata.transaction": cfg.Metadata.Transaction, "metadata.commit_time": cfg.Metadata.CommitTime} {
		if value != "" {
			out = append(out, component.Problem{Path: path, Msg: "only the database's log tells it, and a table that is polled does not: remove it"})
		}
	}
	return out
}

func checkMySQL(cfg Config) component.Problems {
	var out component.Problems
	my := cfg.MySQL
	if my.PollEvery.D() < time.Millisecond {
		out = append(out, component.Problem{Path: "mysql.poll_every", Msg: fmt.Sprintf("%s: expected at least 1ms", my.PollEvery.D())})
	}
	if my.Table == "" || strings.ContainsAny(my.Table, ".`") {
		out = append(out, component.Problem{Path: "mysql.table", Msg: fmt.Sprintf("table %q: expected the name of a table in the database of url", my.Table)})
	}
	if cfg.Columns.Transaction != "" {
		out = append(out, component.Problem{Path: "columns.transaction", Msg: "only with postgres: MySQL has no such number that a column could hold"})
	}
	if my.TLS != nil {
		out = append(out, my.TLS.Check("mysql.tls")...)
	}
	return append(out, notPolled(cfg)...)
}

// shape is what rows look like.
type shape struct {
	cfg     Config
	decoded *arrow.Schema
	// fields of the table, in the order of the columns that are made; meta behind them.
	fields []tableField
	meta   []metaField
}

// tableField is a column of the table and what becomes of it.
type tableField struct {
	column string // of the table
	field  arrow.Field
}

type metaField struct {
	kind  string
	field arrow.Field
}

func newShape(cfg Config, decoded *arrow.Schema) (*shape, error) {
	s := &shape{cfg: cfg, decoded: decoded}
	c := cfg.Columns
	add := func(column, name string, t arrow.DataType, nullable bool) {
		if column != "" {
			s.fields = append(s.fields, tableField{column, arrow.Field{Name: name, Type: t, Nullable: nullable}})
		}
	}
	add(c.ID, "id", dataflow.TypeString, false)
	add(c.AggregateType, "aggregate_type", dataflow.TypeString, true)
	add(c.AggregateID, "aggregate_id", dataflow.TypeString, true)
	add(c.Type, "type", dataflow.TypeString, true)
	payload := map[string]arrow.DataType{"json": dataflow.TypeJSON, "text": dataflow.TypeString, "bytes": dataflow.TypeBinary}[cfg.Payload]
	add(c.Payload, "payload", payload, true)
	add(c.Headers, "headers", dataflow.TypeJSON, true)
	add(c.CreatedAt, "created_at", dataflow.TypeTimestampTZ, true)
	for _, name := range c.Additional {
		add(name, name, dataflow.TypeString, true)
	}
	meta := func(kind, name string, t arrow.DataType) {
		if name != "" {
			s.meta = append(s.meta, metaField{kind, arrow.Field{Name: name, Type: t, Nullable: true}})
		}
	}
	meta("lsn", cfg.Metadata.LSN, dataflow.TypeInt64)
	meta("transaction", cfg.Metadata.Transaction, dataflow.TypeInt64)
	meta("commit_time", cfg.Metadata.CommitTime, dataflow.TypeTimestampTZ)
	return s, s.unique()
}

// unique fails if two columns have one name.
func (s *shape) unique() error {
	seen := map[string]bool{}
	for _, f := range s.schema().Fields() {
		if seen[f.Name] {
			return component.Badf("", "two columns are named %q: choose another name for the one of decode or metadata", f.Name)
		}
		if dataflow.IsSystem(f.Name) {
			return component.Badf("", "column %q: names that begin with %q are reserved", f.Name, dataflow.SysPrefix)
		}
		seen[f.Name] = true
	}
	return nil
}

// schema of the rows: the user's columns.
func (s *shape) schema() *arrow.Schema {
	var out []arrow.Field
	for _, f := range s.fields {
		if f.field.Name == "payload" && s.decoded != nil {
			out = append(out, s.decoded.Fields()...)
			continue
		}
		out = append(out, f.field)
	}
	for _, m := range s.meta {
		out = append(out, m.field)
	}
	return arrow.NewSchema(out, nil)
}

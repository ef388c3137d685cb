package pipelines

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"time"

	"frazil/dataflow/component"
	"frazil/dataflow/engine"
	"frazil/dataflow/registry"
)

// Problems are the mistakes in a file, each with its place, in the file's order.
type Problems = component.Problems

// Options say what a file cannot. The zero value is right for the command.
type Options struct {
	// Lookup gives the value of a variable. Default: the environment.
	Lookup func(name string) (string, bool)
	// Parallelism where the file does not set it. Default: the number of cores.
	Parallelism int
	// Unset: see component.Values. What a connection or a sink then says of such a
	// value is no problem. Default: a variable that is not set is one.
	Unset func(path, name string) (string, bool)
	// Secret: see component.Values. Default: secrets are read.
	Secret func(kind, name string) (string, error)
}

// Pipeline is a file without mistakes, planned.
type Pipeline struct {
	Name string
	// File is the path as it was given.
	File  string
	Graph *engine.Graph
	// CheckpointEvery is the time between two checkpoints.
	CheckpointEvery time.Duration
	// CheckpointRows and CheckpointBytes ask for one before its time; 0: they do not.
	CheckpointRows, CheckpointBytes int64
	// StateDir is the directory of the state store, relative to the working
	// directory.
	StateDir string
	// WALDir is the directory of the write-ahead logs of push sources.
	WALDir string
	// SpoolDir is the directory of what sinks have staged on this machine.
	SpoolDir string
	// StateMemory bounds the memory of keyed state in bytes; Memory that of
	// queues, state and writers together.
	StateMemory, Memory int64
	// Quarantine bounds the rows of ports that nobody reads.
	Quarantine engine.QuarantineLimits
	// HTTP is the address of metrics, health and API; "" is off.
	HTTP string
	// Tests of the file, checked against the plan.
	Tests []Test

	// notReplayable says of operators why their rows cannot be made again, changes
	// of sinks that read a changelog.
	notReplayable map[string]string
	changes       map[string]bool
	// units of columns whose times are numbers in the payload, by source.
	units map[string]map[string]string
}

// Load reads, checks and plans the file at path. It returns either a pipeline
// or at least one problem. It reads files of the pipeline's own folder and
// connects to nothing.
func Load(path string, o Options) (*Pipeline, Problems) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, Problems{{File: path, Line: 1, Col: 1, Msg: err.Error()}}
	}
	return Parse(path, text, o)
}

// Parse is Load of a text; path is its name, and its folder is where relative
// paths in the text start.
func Parse(path string, text []byte, o Options) (*Pipeline, Problems) {
	if o.Lookup == nil {
		o.Lookup = os.LookupEnv
	}
	if o.Parallelism == 0 {
		o.Parallelism = runtime.GOMAXPROCS(0)
	}
	var placeholders []string
	vals := component.Values{Lookup: o.Lookup, Secret: o.Secret}
	if o.Unset != nil {
		vals.Unset = func(at, name string) (string, bool) {
			v, ok := o.Unset(at, name)
			if ok {
				placeholders = append(placeholders, at)
			}
			return v, ok
		}
	}
	root, problems := component.ParseWith(path, text, vals)
	if root == nil {
		return nil, problems
	}
	l := &loader{root: root, problems: problems, syntax: slices.Clone(problems), steps: map[string]*step{}, placeholders: placeholders}
	p := l.load(path, o)
	if len(l.problems) > 0 {
		return nil, ordered(l.problems)
	}
	return p, nil
}

// ordered sorts by place and drops what is said twice.
func ordered(ps Problems) Problems {
	sort.SliceStable(ps, func(i, j int) bool {
		if ps[i].Line != ps[j].Line {
			return ps[i].Line < ps[j].Line
		}
		return ps[i].Col < ps[j].Col
	})
	seen := map[string]bool{}
	out := ps[:0]
	for _, p := range ps {
		if s := p.String(); !seen[s] {
			seen[s] = true
			out = append(out, p)
		}
	}
	return out
}

// fileConfig is the top of a pipeline file.
type fileConfig struct {
	// Name of the pipeline: lower case letters, digits and "-". It identifies the
	// pipeline in its state and in its targets: another name is another pipeline.
	Name string `yaml:"name,required"`
	// Connections that several steps use, by name.
	Connections section `yaml:"connections"`
	// Sources by name.
	Sources section `yaml:"sources,required"`
	// Operators by name.
	Operators section `yaml:"operators"`
	// Sinks by name.
	Sinks section `yaml:"sinks,required"`
	// Checkpoint: when epochs end.
	Checkpoint checkpointConfig `yaml:"checkpoint"`
	// State: where keyed state is kept.
	State stateConfig `yaml:"state"`
	// Parallelism is the number of tasks of a keyed step, 1 to 256. It may change
	// between runs. Default: the number of cores.
	Parallelism int `yaml:"parallelism"`
	// Memory is the ceiling of queues, state and writers together. Default: 512MiB.
	Memory component.Bytes `yaml:"memory"`
	// HTTP is the address of metrics, health and API, or off. The next free port
	// is taken if it is in use. Default: 127.0.0.1:4180.
	HTTP string `yaml:"http"`
	// Tests of the pipeline, which frazil test runs: see the block test. Default: none.
	Tests section `yaml:"tests"`
}

type checkpointConfig struct {
	// Every is the time between two checkpoints, which is also how often tables
	// are committed. Default: 10s.
	Every component.Duration `yaml:"every"`
	// Rows asks for a checkpoint as soon as so many were read since the last one; 0:
	// time alone decides. Default: 0.
	Rows int64 `yaml:"rows"`
	// Bytes asks for one as soon as so much was read, counted as rows in memory; 0:
	// time alone decides. Default: 0.
	Bytes component.Bytes `yaml:"bytes"`
}

type stateConfig struct {
	// Dir is the directory of the state, relative to the working directory.
	// Default: ./frazil-data/state/NAME.
	Dir string `yaml:"dir"`
	// Memory bounds what keyed state takes of the memory: half of it is for what
	// steps keep, half for changes that are not yet written. Default: 256MiB, at
	// most half of the memory.
	Memory component.Bytes `yaml:"memory"`
	// WAL is the directory of the write-ahead logs of sources that are pushed to
	// (http, mqtt), relative to the working directory. It holds what producers were
	// told is safe: do not remove it with the state. Default:
	// ./frazil-data/wal/NAME, or with dir DIR.wal.
	WAL string `yaml:"wal"`
	// Spool is the directory of rows that sinks have staged and not yet committed,
	// where the target cannot take them unseen: kafka. What it holds cannot be read
	// again: keep it with the state. Default: the state's, with ".spool" behind it,
	// or ./frazil-data/spool/NAME.
	Spool string `yaml:"spool"`
	// Quarantine: bounds of the rows of late and bad ports that nobody reads.
	Quarantine quarantineConfig `yaml:"quarantine"`
}

type quarantineConfig struct {
	// Bytes that the quarantined rows take at most. Default: 1GiB.
	Bytes component.Bytes `yaml:"bytes"`
	// What happens when it is full: stop (the pipeline stops reading until rows are
	// fixed or discarded) or drop_oldest (the oldest rows are dropped, and counted as
	// such). Default: stop.
	WhenFull string `yaml:"when_full" oneof:"stop,drop_oldest"`
	// Age at which a row is dropped, and counted as such; off: never. Looked at when
	// a checkpoint is written. Default: off.
	Age component.Duration `yaml:"age"`
	// AlertRows is the number of quarantined rows from which on /health is red; 0:
	// never, as long as it is not full. Default: 0.
	AlertRows int64 `yaml:"alert_rows"`
}

// Values of quarantineConfig.WhenFull.
const (
	whenFullStop = "stop"
	whenFullDrop = "drop_oldest"
)

func defaultFile() fileConfig {
	return fileConfig{
		Checkpoint: checkpointConfig{Every: component.Duration(10 * time.Second)},
		State:      stateConfig{Memory: 256 << 20, Quarantine: quarantineConfig{Bytes: 1 << 30, WhenFull: whenFullStop}},
		Memory:     512 << 20,
		HTTP:       "127.0.0.1:4180",
	}
}

// section keeps a part of the file for later.
type section struct{ node *component.Node }

// UnmarshalNode keeps n.
func (s *section) UnmarshalNode(n *component.Node) error {
	s.node = n
	return nil
}

var (
	pipelineName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
	stepName     = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
)

// loader holds what is known while one file is loaded.
type loader struct {
	root     *component.Node
	file     fileConfig
	dir      string
	problems Problems
	// syntax holds those that reading the YAML found.
	syntax      Problems
	connections []*connection
	steps       map[string]*step
	sources     []*step
	operators   []*step
	sinks       []*step
	// placeholders are the paths of values that Options.Unset has given.
	placeholders []string
	// misnamed: what a step reads is not known, so neither is who is not read.
	misnamed   bool
	endpoints  endpoints
	registries map[string]*registry.Registry
}

// add reports a problem about n.
func (l *loader) add(n *component.Node, path, format string, args ...any) {
	l.problems = append(l.problems, n.Locate(component.Problem{Path: path, Msg: fmt.Sprintf(format, args...)}))
}

// addAt reports a problem about a key.
func (l *loader) addAt(n *component.Node, e component.Entry, format string, args ...any) {
	l.problems = append(l.problems, component.Problem{File: n.File, Line: e.Line, Col: e.Col,
		Path: component.Join(n.Path, e.Key), Msg: fmt.Sprintf(format, args...)})
}

func (l *loader) load(path string, o Options) *Pipeline {
	l.dir = filepath.Dir(path)
	l.file = defaultFile()
	l.file.Parallelism = o.Parallelism
	l.problems = append(l.problems, component.DecodeAmong(l.root, &l.file, l.topElsewhere())...)
	if l.root.Kind != component.Map {
		return nil
	}
	l.checkFile()
	l.readConnections()
	l.readSteps()
	l.resolve()
	order := l.order()
	l.unread()
	g := l.plan(order)
	tests := l.readTests(g, len(l.problems) == 0)
	if len(l.problems) > 0 {
		return nil
	}
	p := &Pipeline{
		Name: l.file.Name, File: path, Graph: g, CheckpointEvery: l.file.Checkpoint.Every.D(),
		CheckpointRows: l.file.Checkpoint.Rows, CheckpointBytes: int64(l.file.Checkpoint.Bytes),
		StateDir: l.file.State.Dir, StateMemory: int64(l.file.State.Memory), Memory: int64(l.file.Memory), HTTP: l.file.HTTP,
		Quarantine: engine.QuarantineLimits{
			Bytes: int64(l.file.State.Quarantine.Bytes), Age: l.file.State.Quarantine.Age.D(),
			DropOldest: l.file.State.Quarantine.WhenFull == whenFullDrop, AlertRows: l.file.State.Quarantine.AlertRows,
		},
		notReplayable: map[string]string{}, changes: map[string]bool{}, Tests: tests,
	}
	p.WALDir = p.folder(l.file.State.WAL, "wal")
	p.SpoolDir = p.folder(l.file.State.Spool, "spool")
	if p.StateDir == "" {
		p.StateDir = "./frazil-data/state/" + p.Name
	}
	if l.root.Get("state").Get("memory") == nil {
		p.StateMemory = min(p.StateMemory, p.Memory/2)
	}
	if p.HTTP == "off" {
		p.HTTP = ""
	}
	p.units = map[string]map[string]string{}
	for _, s := range l.sources {
		p.units[s.name] = unitsOf(s)
	}
	for _, s := range l.operators {
		p.notReplayable[s.name] = s.planned.notReplayableAt(s.name)
	}
	for _, s := range l.sinks {
		p.changes[s.name] = s.from[0].step.planned.ports[s.from[0].index].Stream.Changelog
	}
	return p
}

// topElsewhere says of keys that stand in steps where they belong.
func (l *loader) topElsewhere() map[string]string {
	out := map[string]string{"from": "a step", "decode": "a source", "event_time": "a source"}
	for _, c := range component.All() {
		if c.Kind != "connection" {
			out[c.Name] = "a step under " + c.Kind + "s"
		}
	}
	return out
}

func (l *loader) checkFile() {
	f := l.file
	if n := l.root.Get("name"); n != nil && f.Name != "" && !pipelineName.MatchString(f.Name) {
		l.add(n, "", "pipeline name %q: expected a lower case letter, then lower case letters, digits and \"-\", as %q", f.Name, asName(f.Name, '-'))
	}
	if f.Parallelism < 1 || f.Parallelism > 256 {
		l.add(l.root, "parallelism", "expected 1 to 256, got %d", f.Parallelism)
	}
	if f.Checkpoint.Every.D() < 10*time.Millisecond {
		l.add(l.root, "checkpoint.every", "expected 10ms or more, got %s: without checkpoints nothing is ever committed", f.Checkpoint.Every)
	}
	if f.Checkpoint.Rows < 0 {
		l.add(l.root, "checkpoint.rows", "expected 0 (time alone decides) or more, got %d", f.Checkpoint.Rows)
	}
	if f.Memory < 64<<20 {
		l.add(l.root, "memory", "expected 64MiB or more, got %s", f.Memory)
	}
	if f.State.Memory < 1<<20 || f.State.Memory > f.Memory && l.root.Get("state").Get("memory") != nil {
		l.add(l.root, "state.memory", "expected 1MiB up to the memory of the pipeline, %s; got %s", f.Memory, f.State.Memory)
	}
	if f.State.Quarantine.Bytes < 1<<10 {
		l.add(l.root, "state.quarantine.bytes", "expected 1KiB or more, got %s: a quarantine without room stops the pipeline at the first bad row; to drop such rows, read the port with the sink drop", f.State.Quarantine.Bytes)
	}
	if f.State.Quarantine.AlertRows < 0 {
		l.add(l.root, "state.quarantine.alert_rows", "expected 0 (never) or a number of rows, got %d", f.State.Quarantine.AlertRows)
	}
	if f.HTTP != "off" {
		host, port, err := net.SplitHostPort(f.HTTP)
		if n, perr := strconv.Atoi(port); err != nil || perr != nil || n < 0 || n > 65535 || host == "" {
			l.add(l.root, "http", "expected HOST:PORT, as 127.0.0.1:4180, or off; got %q", f.HTTP)
		}
	}
}

// asName makes a valid name of one that is not.
func asName(s string, join rune) string {
	out := []rune{}
	for _, r := range s {
		switch {
		case r >= 'A' && r <= 'Z':
			r += 'a' - 'A'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9' && len(out) > 0:
		case len(out) == 0 || out[len(out)-1] == join:
			continue
		default:
			r = join
		}
		out = append(out, r)
	}
	if len(out) == 0 {
		return "my" + string(join) + "name"
	}
	return string(out)
}

// folder is where something of the pipeline is kept: where the file says, else beside the
// state, else under the working directory.
func (p *Pipeline) folder(written, what string) string {
	switch {
	case written != "":
		return written
	case p.StateDir != "":
		return filepath.Clean(p.StateDir) + "." + what
	}
	return "./frazil-data/" + what + "/" + p.Name
}

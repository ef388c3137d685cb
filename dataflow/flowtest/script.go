package flowtest

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/pipelines"
)

// scriptEpoch is T, in scripts and in the cases they stand for.
var scriptEpoch = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)

// script is a parsed file.
type script struct {
	path             string
	pipeline, input  string // the first two parts as written
	want             string
	steps            []step
	records          map[lane][]record
	ordered          bool
	shuffles         bool // other interleavings must give the same
	replays          bool // a lost state can be made again
	idleAfter        map[string]time.Duration
	lanes            []lane
	sinks, operators []string
	// tables holds the key of every sink that gets changes: what is expected of it
	// is the table that they make, since how many changes lead there is free (I8).
	tables map[string][]string
	// readers of changes, and makers of them: no count of changes is compared.
	changeReaders, changeMakers map[string]bool
}

// lane is a split of a source step.
type lane struct {
	source string
	split  dataflow.Split
}

type record struct {
	payload []byte
	arrived dataflow.Time // MinTime: not known
}

type stepKind int

const (
	stepRead stepKind = iota
	stepIdle
	stepClock
	stepSync
	stepBarrier
	stepShow
	stepRestart
	stepDrain
)

// step is one line of a script, or several records of one lane in a row.
type step struct {
	kind stepKind
	lane lane
	n    int // records
	d    time.Duration
}

// fence says whether rows before and after s must not be swapped.
func (s step) fence() bool { return s.kind != stepRead && s.kind != stepBarrier }

// separator divides the parts.
const separator = "----\n"

func parseScript(path string) (*script, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	parts := strings.SplitN(string(text), separator, 3)
	if len(parts) < 2 {
		return nil, fmt.Errorf("%s: expected a pipeline, a line ----, steps, a line ----, what is expected", path)
	}
	s := &script{path: path, pipeline: parts[0], input: parts[1], records: map[lane][]record{}, idleAfter: map[string]time.Duration{}}
	if len(parts) == 3 {
		s.want = parts[2]
	}
	if err := s.look(); err != nil {
		return nil, err
	}
	for i, line := range strings.Split(s.input, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if err := s.parseStep(line); err != nil {
			return nil, fmt.Errorf("%s: step line %d: %w", path, i+1, err)
		}
	}
	if n := len(s.steps); n == 0 || s.steps[n-1].kind != stepDrain {
		s.steps = append(s.steps, step{kind: stepDrain})
	}
	return s, nil
}

// look learns from the loaded pipeline what the variants may do.
func (s *script) look() error {
	p, problems := s.load("script", 1)
	if problems != nil {
		return fmt.Errorf("%s: %w", s.path, problems)
	}
	s.shuffles, s.replays = true, len(p.Graph.Sources) == 1
	for _, src := range p.Graph.Sources {
		if src.Tasks == 1 {
			s.shuffles, s.replays = false, false
		}
		if src.EventTime != nil {
			s.idleAfter[src.Name] = src.EventTime.IdleAfter
		}
	}
	s.tables, s.changeReaders, s.changeMakers = map[string][]string{}, map[string]bool{}, map[string]bool{}
	for _, op := range p.Graph.Operators {
		s.operators = append(s.operators, op.Name)
		for _, in := range op.Inputs {
			s.changeReaders[op.Name] = s.changeReaders[op.Name] || streamOf(p.Graph, in).Changelog
		}
		for _, port := range op.Plan.Ports {
			s.changeMakers[op.Name] = s.changeMakers[op.Name] || port.Stream.Changelog
		}
	}
	for _, k := range p.Graph.Sinks {
		s.sinks = append(s.sinks, k.Name)
		if in := streamOf(p.Graph, k.Input); in.Changelog {
			s.tables[k.Name], s.changeReaders[k.Name] = in.Key, true
		}
		if k.NotReplayable != "" {
			s.shuffles, s.replays = false, false
		}
	}
	root, _ := component.Parse(s.path, []byte(s.pipeline), os.LookupEnv)
	for _, e := range root.Get("sources").Entries {
		for _, sp := range e.Value.Get("script").Get("splits").Items {
			s.lanes = append(s.lanes, lane{e.Key, dataflow.Split(sp.Text)})
		}
	}
	return nil
}

// load loads the pipeline under a name.
func (s *script) load(name string, parallelism int) (*pipelines.Pipeline, error) {
	text := s.pipeline + "\nname: " + name + "\n"
	p, problems := pipelines.Parse(s.path, []byte(text), pipelines.Options{Parallelism: parallelism})
	if len(problems) > 0 {
		return nil, problems
	}
	return p, nil
}

func (s *script) parseStep(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch word {
	case "ordered":
		s.ordered = true
	case "sync":
		s.steps = append(s.steps, step{kind: stepSync})
	case "barrier":
		s.steps = append(s.steps, step{kind: stepBarrier})
	case "show":
		s.steps = append(s.steps, step{kind: stepShow})
	case "restart":
		s.steps = append(s.steps, step{kind: stepRestart})
	case "drain":
		s.steps = append(s.steps, step{kind: stepDrain})
	case "clock":
		d, err := component.ParseDuration(rest)
		if err != nil {
			return err
		}
		s.steps = append(s.steps, step{kind: stepClock, d: d.D()})
	case "idle":
		l, err := s.laneOf(rest)
		if err != nil {
			return err
		}
		s.steps = append(s.steps, step{kind: stepIdle, lane: l, d: s.idleAfter[l.source]})
	default:
		return s.parseRecord(word, rest)
	}
	return nil
}

func (s *script) laneOf(name string) (lane, error) {
	source, split, _ := strings.Cut(name, "/")
	for _, l := range s.lanes {
		if l == (lane{source, dataflow.Split(split)}) {
			return l, nil
		}
	}
	return lane{}, fmt.Errorf("%q is neither a step nor SOURCE/SPLIT of the pipeline", name)
}

func (s *script) parseRecord(word, rest string) error {
	l, err := s.laneOf(word)
	if err != nil {
		return err
	}
	r := record{arrived: dataflow.MinTime}
	if at, payload, ok := strings.Cut(rest, " "); ok && rest[0] == '@' {
		t, err := scriptTime(at[1:])
		if err != nil {
			return err
		}
		r.arrived, rest = dataflow.TimeOf(t), strings.TrimSpace(payload)
	}
	r.payload = relativeTimes.ReplaceAllFunc([]byte(rest), func(m []byte) []byte {
		t, err := scriptTime(string(bytes.Trim(m, `"`)))
		if err != nil {
			return m
		}
		return []byte(t.Format(`"2006-01-02T15:04:05.000000Z"`))
	})
	s.records[l] = append(s.records[l], r)
	if n := len(s.steps); n > 0 && s.steps[n-1].kind == stepRead && s.steps[n-1].lane == l {
		s.steps[n-1].n++
		return nil
	}
	s.steps = append(s.steps, step{kind: stepRead, lane: l, n: 1})
	return nil
}

var relativeTimes = regexp.MustCompile(`"T[+-][0-9.]+"`)

// scriptTime reads T+65 and T-0.5: seconds from T.
func scriptTime(text string) (time.Time, error) {
	sec, err := strconv.ParseFloat(strings.TrimPrefix(text, "T"), 64)
	if err != nil || !strings.HasPrefix(text, "T") {
		return time.Time{}, fmt.Errorf("time %q: expected T+SECONDS", text)
	}
	return scriptEpoch.Add(time.Duration(sec * float64(time.Second)).Round(time.Microsecond)), nil
}

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
	"frazil/dataflow/engine"
	"frazil/pipelines"
	"frazil/pipelines/rehearsal"
)

// scriptEpoch is T, in scripts and in the cases they stand for.
var scriptEpoch = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)

// script is a parsed file.
type script struct {
	path            string
	pipeline, input string // the first two parts as written
	want            string
	piece           *rehearsal.Piece
	ordered         bool
	idleAfter       map[string]time.Duration
}

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
	s := &script{path: path, pipeline: parts[0], input: parts[1], idleAfter: map[string]time.Duration{}}
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
	if n := len(s.piece.Steps); n == 0 || s.piece.Steps[n-1].Kind != rehearsal.Drain {
		s.step(rehearsal.Drain)
	}
	return s, nil
}

// look learns from the pipeline what is there.
func (s *script) look() error {
	p, problems := s.load(1)
	if problems != nil {
		return fmt.Errorf("%s: %w", s.path, problems)
	}
	for _, src := range p.Sources {
		if src.EventTime != nil {
			s.idleAfter[src.Name] = src.EventTime.IdleAfter
		}
	}
	var err error
	if s.piece, err = rehearsal.New(s.load); err != nil {
		return err
	}
	s.piece.Start = scriptEpoch
	root, _ := component.Parse(s.path, []byte(s.pipeline), os.LookupEnv)
	for _, e := range root.Get("sources").Entries {
		for _, sp := range e.Value.Get("script").Get("splits").Items {
			s.piece.Lanes = append(s.piece.Lanes, rehearsal.Lane{Source: e.Key, Split: dataflow.Split(sp.Text)})
		}
	}
	return nil
}

// load plans the pipeline.
func (s *script) load(parallelism int) (*engine.Graph, error) {
	text := s.pipeline + "\nname: script\n"
	p, problems := pipelines.Parse(s.path, []byte(text), pipelines.Options{Parallelism: parallelism})
	if len(problems) > 0 {
		return nil, problems
	}
	return p.Graph, nil
}

func (s *script) step(k rehearsal.Kind) {
	s.piece.Steps = append(s.piece.Steps, rehearsal.Step{Kind: k})
}

func (s *script) parseStep(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch word {
	case "ordered":
		s.ordered = true
	case "sync":
		s.step(rehearsal.Sync)
	case "barrier":
		s.step(rehearsal.Checkpoint)
	case "show":
		s.step(rehearsal.Show)
	case "restart":
		s.step(rehearsal.Restart)
	case "drain":
		s.step(rehearsal.Drain)
	case "clock":
		d, err := component.ParseDuration(rest)
		if err != nil {
			return err
		}
		s.piece.Steps = append(s.piece.Steps, rehearsal.Step{Kind: rehearsal.Clock, D: d.D()})
	case "idle":
		l, err := s.laneOf(rest)
		if err != nil {
			return err
		}
		s.piece.Steps = append(s.piece.Steps, rehearsal.Step{Kind: rehearsal.Idle, Lane: l, D: s.idleAfter[l.Source]})
	default:
		return s.parseRecord(word, rest)
	}
	return nil
}

func (s *script) laneOf(name string) (rehearsal.Lane, error) {
	source, split, _ := strings.Cut(name, "/")
	for _, l := range s.piece.Lanes {
		if l == (rehearsal.Lane{Source: source, Split: dataflow.Split(split)}) {
			return l, nil
		}
	}
	return rehearsal.Lane{}, fmt.Errorf("%q is neither a step nor SOURCE/SPLIT of the pipeline", name)
}

func (s *script) parseRecord(word, rest string) error {
	l, err := s.laneOf(word)
	if err != nil {
		return err
	}
	r := rehearsal.Record{Arrived: dataflow.MinTime}
	if at, payload, ok := strings.Cut(rest, " "); ok && rest[0] == '@' {
		t, err := scriptTime(at[1:])
		if err != nil {
			return err
		}
		r.Arrived, rest = dataflow.TimeOf(t), strings.TrimSpace(payload)
	}
	r.Payload = relativeTimes.ReplaceAllFunc([]byte(rest), func(m []byte) []byte {
		t, err := scriptTime(string(bytes.Trim(m, `"`)))
		if err != nil {
			return m
		}
		return []byte(t.Format(`"2006-01-02T15:04:05.000000Z"`))
	})
	s.piece.Add(l, r)
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

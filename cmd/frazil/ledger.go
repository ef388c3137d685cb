package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"frazil/dataflow/checkpoint"
	"frazil/dataflow/engine"
	"frazil/pipelines"
	"frazil/state"
)

func init() {
	register(command{"ledger", "--file FILE", "show the fate of every row, as of the last epoch", (*cli).ledger})
	register(command{"quarantine", "list|show ID --file FILE", "show the rows of late and bad ports that nobody reads", (*cli).quarantine})
}

// pipelineFlag parses the arguments of a command that works on one pipeline.
func (c *cli) pipelineFlag(name string, args []string, out *string, formats ...string) (p *pipelines.Pipeline, rest []string, code int) {
	var file string
	rest, code, ok := c.flags(name, args, func(fs *flag.FlagSet) {
		fs.StringVar(&file, "file", "", "the pipeline file")
		format(fs, out, formats...)
	})
	if !ok {
		return nil, nil, code
	}
	if file == "" {
		return nil, nil, c.wrong("%s needs --file FILE", name)
	}
	if p = c.load(file); p == nil {
		return nil, nil, exitWrong
	}
	return p, rest, exitOK
}

// withStore opens the state of a pipeline that is not running.
func withStore(p *pipelines.Pipeline, f func(*state.Store) error) error {
	if _, err := os.Stat(filepath.Join(p.StateDir, "CURRENT")); errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat(p.StateDir); errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("pipeline %s has not run yet: there is no state in %s", p.Name, p.StateDir)
		}
	}
	s, err := state.Open(p.StateDir, state.Options{})
	if err != nil {
		return err
	}
	return errors.Join(f(s), s.Close())
}

// readManifest gets the last manifest from the running process or the store.
func readManifest(p *pipelines.Pipeline) (*checkpoint.Manifest, error) {
	resp, ok, err := askRunning(p, "/api/manifest")
	if err != nil {
		return nil, err
	}
	if ok {
		defer resp.Body.Close()
		var m *checkpoint.Manifest
		return m, json.NewDecoder(resp.Body).Decode(&m)
	}
	var m *checkpoint.Manifest
	err = withStore(p, func(s *state.Store) error {
		raw, err := s.Manifest()
		if err != nil {
			return err
		}
		m, err = checkpoint.Decode(raw)
		return err
	})
	return m, err
}

func (c *cli) ledger(args []string) int {
	var out string
	p, rest, code := c.pipelineFlag("ledger", args, &out, "table", "ndjson")
	if p == nil {
		return code
	}
	if len(rest) > 0 {
		return c.wrong("ledger takes no argument %q", rest[0])
	}
	m, err := readManifest(p)
	if err != nil {
		return c.failed(err)
	}
	if m == nil {
		return c.failed(fmt.Errorf("pipeline %s has no epoch yet", p.Name))
	}
	if out == "table" {
		fmt.Fprintf(c.out, "%s, epoch %d\n\n", p.Name, m.Epoch)
		writeLedger(c.out, p.Graph, m)
		return exitOK
	}
	enc := json.NewEncoder(c.out)
	for _, step := range stepOrder(p.Graph) {
		if err := enc.Encode(map[string]any{"step": step, "epoch": m.Epoch, "fates": m.Ledger.Steps[step]}); err != nil {
			return c.failed(err)
		}
	}
	return exitOK
}

// eachQuarantined visits the quarantine of the running process or the store.
func eachQuarantined(p *pipelines.Pipeline, visit func(engine.Quarantined) error) error {
	resp, ok, err := askRunning(p, "/api/quarantine")
	if err != nil {
		return err
	}
	if !ok {
		return withStore(p, func(s *state.Store) error { return engine.ReadQuarantine(s, visit) })
	}
	defer resp.Body.Close()
	for dec := json.NewDecoder(resp.Body); dec.More(); {
		var q engine.Quarantined
		if err := dec.Decode(&q); err != nil {
			return err
		}
		if err := visit(q); err != nil {
			return err
		}
	}
	return nil
}

func (c *cli) quarantine(args []string) int {
	var out string
	p, rest, code := c.pipelineFlag("quarantine", args, &out, "table", "ndjson")
	if p == nil {
		return code
	}
	switch {
	case len(rest) == 1 && rest[0] == "list":
		return c.quarantineList(p, out)
	case len(rest) == 2 && rest[0] == "show":
		return c.quarantineShow(p, rest[1])
	}
	return c.wrong("quarantine needs list, or show ID")
}

func (c *cli) quarantineList(p *pipelines.Pipeline, out string) int {
	enc := json.NewEncoder(c.out)
	n := 0
	err := eachQuarantined(p, func(q engine.Quarantined) error {
		n++
		if out == "ndjson" {
			return enc.Encode(q)
		}
		_, err := fmt.Fprintf(c.out, "%s  %s  %s\n", q.ID, q.Reason, q.Detail)
		return err
	})
	if err != nil {
		return c.failed(err)
	}
	if out == "table" {
		fmt.Fprintf(c.out, "%d rows\n", n)
	}
	return exitOK
}

func (c *cli) quarantineShow(p *pipelines.Pipeline, id string) int {
	found := false
	err := eachQuarantined(p, func(q engine.Quarantined) error {
		if q.ID != id {
			return nil
		}
		found = true
		fmt.Fprintf(c.out, "id        %s\nstep      %s\nport      %s\nreason    %s\ndetail    %s\n", q.ID, q.Step, q.Port, q.Reason, q.Detail)
		if q.Raw != nil {
			fmt.Fprintf(c.out, "raw       %q\n", q.Raw)
		}
		if q.Row != nil {
			fmt.Fprintf(c.out, "row       %s\n", q.Row)
		}
		return nil
	})
	if err != nil {
		return c.failed(err)
	}
	if !found {
		return c.failed(fmt.Errorf("there is no quarantined row %q; frazil quarantine list shows the ids", id))
	}
	return exitOK
}

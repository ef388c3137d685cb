package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"frazil/dataflow/checkpoint"
	"frazil/pipelines"
	"frazil/state"
)

func init() {
	register(command{"ledger", "--file FILE", "show the fate of every row, as of the last epoch", (*cli).ledger})
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
		if q := m.Quarantine; q != nil {
			fmt.Fprintf(c.out, "\nquarantine: %d kept = %d there + %d sent again + %d discarded + %d dropped by a limit\n", q.Kept, q.Rows, q.SentAgain, q.Discarded, q.Dropped)
		}
		return exitOK
	}
	enc := json.NewEncoder(c.out)
	for _, step := range stepOrder(p.Graph) {
		if err := enc.Encode(map[string]any{"step": step, "epoch": m.Epoch, "fates": m.Ledger.Steps[step]}); err != nil {
			return c.failed(err)
		}
	}
	if m.Quarantine != nil {
		if err := enc.Encode(map[string]any{"epoch": m.Epoch, "quarantine": m.Quarantine}); err != nil {
			return c.failed(err)
		}
	}
	return exitOK
}

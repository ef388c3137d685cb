package spool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"frazil/dataflow"
	"frazil/state"
)

// ledger keeps the positions of a sink whose target can hold none in a file beside the
// staged rows.
type ledger struct {
	fs   state.FS
	dir  string
	path string
}

// ledgerFile is its content.
type ledgerFile struct {
	Record
	// Clock holds the last clock decisions, Lost says that there were more.
	Clock []dataflow.ClockDecision `json:"clock,omitempty"`
	Lost  bool                     `json:"clock_lost,omitempty"`
}

// keepClock bounds the decisions that are kept, since all of them are written with each
// commit.
const keepClock = 1000

const ledgerName = "positions.json"

func newLedger(env *dataflow.Env) *ledger {
	l := &ledger{fs: env.SpoolFS(), dir: Dir(env)}
	l.path = l.fs.PathJoin(l.dir, ledgerName)
	return l
}

// read reads the file; an empty one if there is none.
func (l *ledger) read() (f ledgerFile, err error) {
	b, err := readFile(l.fs, l.path)
	if errors.Is(err, os.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, fmt.Errorf("read the positions: %w", err)
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return f, dataflow.Permanentf("the positions in %s cannot be read: %w. Put the file back from a copy, or remove it together with the state to start afresh", l.path, err)
	}
	return f, f.Readable(l.path)
}

// committed is what the file says.
func (f ledgerFile) committed() dataflow.Committed {
	out := f.Committed()
	out.Clock, out.ClockComplete = f.Clock, !f.Lost
	return out
}

// after is the file behind c.
func (f ledgerFile) after(c dataflow.Commit, env *dataflow.Env) ledgerFile {
	out := ledgerFile{Record: f.After(c, env.Now()), Clock: append(f.Clock[:len(f.Clock):len(f.Clock)], c.Clock...), Lost: f.Lost}
	if n := len(out.Clock); n > keepClock {
		out.Clock, out.Lost = out.Clock[n-keepClock:], true
	}
	return out
}

// write puts the file in the place of the one before, durably.
func (l *ledger) write(f ledgerFile) error {
	if f.ID == "" {
		f.ID = randomName()
	}
	b, err := json.Marshal(f)
	if err != nil {
		return dataflow.Permanent(err)
	}
	if err := state.MakeDir(l.fs, l.dir); err != nil {
		return classify(fmt.Errorf("make the folder of staged rows: %w", err))
	}
	if err := replace(l.fs, l.path, b, true); err != nil {
		return classify(fmt.Errorf("write the positions: %w", err))
	}
	return nil
}

// replace puts b in the place of a file, all or nothing.
func replace(fs state.FS, path string, b []byte, durable bool) error {
	temp := path + ".new"
	f, err := fs.Create(temp, category)
	if err != nil {
		return err
	}
	_, err = f.Write(bytes.Clone(b)) // Write may change what it is given.
	if err == nil && durable {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fs.Rename(temp, path); err != nil || !durable {
		return err
	}
	return state.SyncDir(fs, fs.PathDir(path))
}

func readFile(fs state.FS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(f)
	return b, errors.Join(err, f.Close())
}

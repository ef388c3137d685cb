package spool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"frazil/dataflow"
	"frazil/state"
)

// Refusal is a row, or a batch of them, that a target will never take: a line of a file
// in RefusedDir.
type Refusal struct {
	// Row is its number in its delivery, of a batch that of the first row; Rows counts
	// them, 0 is one.
	Row  int64 `json:"row"`
	Rows int   `json:"rows,omitempty"`
	// Reason is a stable code; Detail says what the target has answered.
	Reason string `json:"reason"`
	Detail string `json:"detail"`
	// To is where it was to go.
	To string `json:"to"`
	// Payload is what was sent; as base64 in PayloadBytes where it is no text.
	Payload      string `json:"payload,omitempty"`
	PayloadBytes []byte `json:"payload_base64,omitempty"`

	Time     string         `json:"time"`
	Pipeline string         `json:"pipeline"`
	Sink     string         `json:"sink"`
	Epoch    dataflow.Epoch `json:"epoch"`
	Delivery string         `json:"delivery"`
}

// SetPayload sets Payload or PayloadBytes; b is copied.
func (r *Refusal) SetPayload(b []byte) {
	if utf8.Valid(b) {
		r.Payload = string(b)
		return
	}
	r.PayloadBytes = bytes.Clone(b)
}

// RefusedDir is the folder of the files of refused rows, one for each commit that has
// any. Nothing of ours removes them.
func RefusedDir(env *dataflow.Env) string {
	return env.SpoolFS().PathJoin(Dir(env), "refused")
}

// refusals writes the file of one delivery. It is safe for concurrent use.
type refusals struct {
	env      *dataflow.Env
	name     string
	delivery string
	epoch    dataflow.Epoch

	mu   sync.Mutex
	f    state.File
	size int64
	seen map[int64]bool
	n    int64 // rows in the file
}

func (r *refusals) add(x Refusal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.f == nil {
		if err := r.open(); err != nil {
			return classify(fmt.Errorf("open the file of refused rows: %w", err))
		}
	}
	if r.seen[x.Row] {
		return nil // By a process that was killed before it could say so.
	}
	x.Time, x.Pipeline, x.Sink, x.Epoch, x.Delivery = r.env.Now().UTC().Format(time.RFC3339Nano), r.env.Pipeline, r.env.Step, r.epoch, r.delivery
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(x); err != nil {
		return dataflow.Permanent(err)
	}
	if _, err := r.f.WriteAt(line.Bytes(), r.size); err != nil {
		return classify(fmt.Errorf("write a refused row: %w", err))
	}
	if err := r.f.Sync(); err != nil {
		return classify(fmt.Errorf("write a refused row: %w", err))
	}
	r.size += int64(line.Len())
	r.seen[x.Row] = true
	r.n += int64(max(x.Rows, 1))
	return nil
}

// open opens the file and reads what an earlier try has noted; a line that was cut
// short is left out.
func (r *refusals) open() error {
	fs, dir := r.env.SpoolFS(), RefusedDir(r.env)
	if err := state.MakeDir(fs, dir); err != nil {
		return err
	}
	path := fs.PathJoin(dir, r.name)
	old, err := readFile(fs, path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	whole := old[:bytes.LastIndexByte(old, '\n')+1]
	if err != nil || len(whole) < len(old) {
		if err := replace(fs, path, whole, true); err != nil {
			return err
		}
	}
	r.seen, r.n = map[int64]bool{}, 0
	for line := range bytes.Lines(whole) {
		var x Refusal
		if err := json.Unmarshal(line, &x); err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		r.seen[x.Row] = true
		r.n += int64(max(x.Rows, 1))
	}
	f, err := fs.OpenReadWrite(path, category)
	if err != nil {
		return err
	}
	r.f, r.size = f, int64(len(whole))
	return nil
}

// close returns how many rows of the delivery are noted, also by processes before this
// one.
func (r *refusals) close() (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.f == nil {
		// None now; a process that was killed may have noted some.
		fs := r.env.SpoolFS()
		if _, err := fs.Stat(fs.PathJoin(RefusedDir(r.env), r.name)); errors.Is(err, os.ErrNotExist) {
			return 0, nil
		}
		if err := r.open(); err != nil {
			return 0, classify(fmt.Errorf("read the file of refused rows: %w", err))
		}
	}
	err := r.f.Close()
	r.f = nil
	return r.n, err
}

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"frazil/dataflow/engine"
	"frazil/pipelines"
	"frazil/state"
)

// What changes something takes the token of run.json, which only the user who runs
// the pipeline can read: a page in a browser, which can post to the address as
// well, does not know it.

// newToken makes the secret of a run.
func newToken() (string, error) {
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	return hex.EncodeToString(b[:]), nil
}

// guarded lets only those pass who know the token.
func (a *api) guarded(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || a.token == "" || subtle.ConstantTimeCompare([]byte(token), []byte(a.token)) != 1 {
			reply(w, http.StatusForbidden, problem{"this changes the quarantine: send the token of run.json as Authorization: Bearer TOKEN, or use frazil quarantine"})
			return
		}
		h(w, r)
	}
}

// maxChange bounds the body of a change.
const maxChange = 256 << 20

// change is the body of a request that changes the quarantine.
type change struct {
	Resend  []engine.Resend `json:"resend,omitempty"`
	Discard []string        `json:"discard,omitempty"`
}

// changed is the answer.
type changed struct {
	Resent    []engine.Resent `json:"resent,omitempty"`
	Discarded int             `json:"discarded"`
	Error     string          `json:"error,omitempty"`
}

func (a *api) quarantine(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	enc := json.NewEncoder(w)
	err := engine.ReadQuarantine(a.store, func(q engine.Quarantined) error {
		q.SentAgain = a.job.SentAgain(q.ID)
		return enc.Encode(q)
	})
	if err != nil {
		slog.Warn("read the quarantine", "error", err)
	}
}

func (a *api) changeQuarantine(w http.ResponseWriter, r *http.Request) {
	var c change
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxChange))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		reply(w, http.StatusBadRequest, problem{"read the request: " + err.Error()})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), changePatience)
	defer cancel()
	var out changed
	var err error
	if len(c.Resend) > 0 {
		out.Resent, err = a.job.Resend(ctx, c.Resend)
	}
	if len(c.Discard) > 0 && err == nil {
		out.Discarded, err = a.job.Discard(ctx, c.Discard)
	}
	code := http.StatusOK
	if err != nil {
		code, out.Error = http.StatusServiceUnavailable, err.Error()
	}
	reply(w, code, out)
}

// changePatience bounds the wait for the checkpoint that makes a change durable.
const changePatience = 60 * time.Second

// desk is the quarantine of a pipeline, running or not.
type desk interface {
	Rows(visit func(engine.Quarantined) error) error
	Resend([]engine.Resend) ([]engine.Resent, error)
	Discard(ids []string) (int, error)
	// running says whether a process runs the pipeline now.
	running() bool
}

// atDesk opens the quarantine of p for f.
func atDesk(p *pipelines.Pipeline, f func(desk) error) error {
	info, err := readRunInfo(p)
	if err != nil {
		return err
	}
	if info != nil {
		d := &runningDesk{info: *info, pipeline: p.Name}
		if d.alive() {
			return f(d)
		}
	}
	return withStore(p, func(s *state.Store) error {
		q, err := engine.OpenQuarantine(p.Graph, s, p.WALDir)
		if err != nil {
			return err
		}
		return errors.Join(f(stoppedDesk{q}), q.Close())
	})
}

type stoppedDesk struct{ *engine.StoppedQuarantine }

func (stoppedDesk) running() bool { return false }

// readRunInfo reads run.json; nil: there is none, or without an address.
func readRunInfo(p *pipelines.Pipeline) (*runInfo, error) {
	raw, err := os.ReadFile(filepath.Join(p.StateDir, runFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	info := &runInfo{}
	if err := json.Unmarshal(raw, info); err != nil {
		return nil, fmt.Errorf("read %s: %w", runFile, err)
	}
	if info.HTTP == "" {
		return nil, nil
	}
	return info, nil
}

// runningDesk asks the process that runs the pipeline.
type runningDesk struct {
	info     runInfo
	pipeline string
}

func (*runningDesk) running() bool { return true }

func (d *runningDesk) client() *http.Client { return &http.Client{Timeout: 2 * changePatience} }

func (d *runningDesk) url(path string) string { return "http://" + d.info.HTTP + path }

// alive says whether the process is there: one that was killed leaves its file,
// and another may have its address now.
func (d *runningDesk) alive() bool {
	resp, err := (&http.Client{Timeout: 10 * time.Second}).Get(d.url("/api/status"))
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var s struct{ Pipeline string }
	return json.NewDecoder(resp.Body).Decode(&s) == nil && s.Pipeline == d.pipeline
}

func (d *runningDesk) Rows(visit func(engine.Quarantined) error) error {
	resp, err := (&http.Client{}).Get(d.url("/api/quarantine"))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("process %d answered %s", d.info.PID, resp.Status)
	}
	for dec := json.NewDecoder(resp.Body); ; {
		var q engine.Quarantined
		if err := dec.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := visit(q); err != nil {
			return err
		}
	}
}

func (d *runningDesk) Resend(list []engine.Resend) ([]engine.Resent, error) {
	out, err := d.post(change{Resend: list})
	return out.Resent, err
}

func (d *runningDesk) Discard(ids []string) (int, error) {
	out, err := d.post(change{Discard: ids})
	return out.Discarded, err
}

func (d *runningDesk) post(c change) (changed, error) {
	var out changed
	body, err := json.Marshal(c)
	if err != nil {
		return out, err
	}
	req, err := http.NewRequest(http.MethodPost, d.url("/api/quarantine"), bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	req.Header.Set("Authorization", "Bearer "+d.info.Token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := d.client().Do(req)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		return out, fmt.Errorf("process %d answered %s", d.info.PID, resp.Status)
	}
	if out.Error != "" {
		return out, errors.New(out.Error)
	}
	return out, nil
}

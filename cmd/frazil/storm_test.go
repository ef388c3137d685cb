package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"frazil/dataflow/checkpoint"
	"frazil/dataflow/engine"
	"frazil/dataflow/flowtest/full"
	"frazil/dataflow/flowtest/leak"
	"frazil/state"
)

// TestStorms starts a pipeline and ends it in every way there is, again and again in
// one process: after each, no goroutine and no open file is left, and
// at the end every row is in its table once.
func TestStorms(t *testing.T) {
	// A signal that comes when the pipeline has ended already must not end the test.
	sig := make(chan os.Signal, 10)
	signal.Notify(sig, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(sig)
	full.Suite{Name: "storms", Total: 50, Short: 1}.Run(t, func(t *testing.T, portion int) full.Figures {
		s := newStorm(t, portion)
		for i := range 20 {
			kind := stormKinds[s.rng.IntN(len(stormKinds))]
			w := leak.Begin(leak.WithoutArrow("the Parquet library leaves pooled buffers"))
			kind.run(s)
			if err := w.End(); err != nil {
				t.Fatalf("start %d, %s: %v", i, kind.name, err)
			}
			s.figures["starts"]++
			s.figures[strings.ReplaceAll(kind.name, " ", "_")]++
		}
		s.finish()
		return s.figures
	})
}

// stormKinds are the ways to end.
var stormKinds = []struct {
	name string
	run  func(s *storm)
}{
	{"stop", func(s *storm) { s.job(func(j *engine.Job, _ context.CancelFunc) { j.Stop() }) }},
	{"cancel", func(s *storm) { s.job(func(_ *engine.Job, cancel context.CancelFunc) { cancel() }) }},
	{"SIGTERM", func(s *storm) {
		r := s.start(s.file)
		s.push(r)
		r.end(syscall.SIGTERM)
	}},
	{"SIGTERM at the start", func(s *storm) {
		r := s.start(s.file)
		r.end(syscall.SIGTERM)
	}},
	{"SIGINT twice", func(s *storm) {
		r := s.start(s.file)
		s.push(r)
		r.signal(syscall.SIGINT)
		select {
		case <-r.ended: // Both are right: it may have been quick.
		case <-time.After(sameSignal + 50*time.Millisecond):
			r.signal(syscall.SIGINT)
			<-r.ended
		}
	}},
	{"port in use", func(s *storm) {
		ln, err := net.Listen("tcp", s.listen)
		if err != nil {
			s.t.Fatal(err)
		}
		defer ln.Close()
		s.fails(s.file, "address already in use")
	}},
	{"state locked by another pipeline", func(s *storm) {
		r := s.start(s.file)
		s.fails(s.other, "is in use by process")
		s.push(r)
		r.end(syscall.SIGTERM)
	}},
	{"state of another pipeline", func(s *storm) {
		// A run that writes a manifest, so that there is a state.
		for code := exitFailed; code != exitOK; {
			r := s.start(s.file)
			s.push(r)
			r.end(syscall.SIGTERM)
			code = r.code
		}
		s.fails(s.other, "belongs to the pipeline \"stormy\"")
	}},
	{"no state directory", func(s *storm) { s.fails(s.stateless, "not a directory") }},
}

// storm is one pipeline that is started and ended.
type storm struct {
	t   *testing.T
	rng *rand.Rand
	dir string
	// The pipelines: the one under test; one of another name with the same state; one
	// whose state is below a file.
	file, other, stateless string
	// listen is the address of the source that is pushed to.
	listen  string
	ids     int
	pushed  []int
	read    []int
	figures full.Figures
}

const stormPipeline = `name: NAME
http: off
state: {dir: DIR/STATE, wal: DIR/wal-NAME}
connections:
  lake: {iceberg_catalog: {type: sql, uri: "DIR/catalog.db", warehouse: "DIR/warehouse"}}
sources:
  files:
    files: {paths: ["DIR/in/*.ndjson"], mode: follow, poll: 20ms}
    decode: {json: {schema: {id: int64, et: timestamptz(ms)}}}
    event_time: {column: et, out_of_orderness: 1h}
  pushed:
    http: {listen: "LISTEN"}
    decode: {json: {schema: {id: int64}}}
operators:
  once: {from: files, dedup: {key: [id], within: 1m}}
  sums: {from: once, window: {tumbling: 10s, aggregate: {n: count(*), s: sum(id)}}}
sinks:
  t_read: {from: once, iceberg: {catalog: lake, table: storm.read}}
  t_sums: {from: sums, iceberg: {catalog: lake, table: storm.sums}}
  t_pushed: {from: pushed, iceberg: {catalog: lake, table: storm.pushed}}
checkpoint: {every: 100ms}
`

func newStorm(t *testing.T, portion int) *storm {
	t.Helper()
	s := &storm{t: t, rng: rand.New(rand.NewPCG(uint64(portion), 0)), dir: t.TempDir(), figures: full.Figures{}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.listen = ln.Addr().String()
	ln.Close()
	if err := os.Mkdir(filepath.Join(s.dir, "in"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.file = s.pipeline("stormy", "state")
	s.other = s.pipeline("calm", "state")
	s.stateless = s.pipeline("stateless", "file/state")
	return s
}

func (s *storm) pipeline(name, state string) string {
	s.t.Helper()
	file := filepath.Join(s.dir, name+".yaml")
	text := strings.NewReplacer("NAME", name, "DIR", s.dir, "STATE", state, "LISTEN", s.listen).Replace(stormPipeline)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return file
}

// feed writes a file of new rows.
func (s *storm) feed() {
	s.t.Helper()
	var b bytes.Buffer
	for range 1 + s.rng.IntN(50) {
		s.ids++
		s.read = append(s.read, s.ids)
		fmt.Fprintf(&b, "{\"id\":%d,\"et\":%d}\n", s.ids, 1_772_359_200_000+s.ids*500)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "in", fmt.Sprintf("%09d.ndjson", s.ids)), b.Bytes(), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// job runs the pipeline without the command, and ends it at some moment.
func (s *storm) job(end func(*engine.Job, context.CancelFunc)) {
	s.t.Helper()
	s.feed()
	p := s.cli(&output{}).load(s.file)
	log := slog.New(slog.DiscardHandler)
	store, err := state.Open(p.StateDir, state.Options{Logger: log, CacheBytes: p.StateMemory / 8})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// Before it runs, at once, or after some manifests.
	left := s.rng.IntN(6) - 2
	var j *engine.Job
	j = engine.NewJob(p.Graph, engine.Options{
		Store: store, Every: p.CheckpointEvery, Memory: p.Memory, StateMemory: p.StateMemory, WALDir: p.WALDir, SpoolDir: p.SpoolDir, Quarantine: p.Quarantine, Log: log,
		OnManifest: func(*checkpoint.Manifest) {
			if left--; left == 0 {
				end(j, cancel)
			}
		},
	})
	switch left {
	case -2:
		end(j, cancel)
	case -1, 0:
		go end(j, cancel)
	default:
		// A job whose rows are all read writes no more manifests.
		quit := time.AfterFunc(2*time.Second, func() { end(j, cancel) })
		defer quit.Stop()
	}
	// One that is ended before its tables are connected says so.
	if _, err := j.Run(ctx); err != nil && !errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), "stopped before everything was connected") {
		s.t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		s.t.Fatal(err)
	}
}

// output collects what a command writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (s *storm) cli(o *output) *cli {
	return &cli{out: o, err: o, lookup: os.LookupEnv, parallelism: 2}
}

// running is a command under way in this process.
type running struct {
	t     *testing.T
	out   output
	code  int
	ended chan struct{}
}

// start runs a pipeline, and returns when it says that it runs.
func (s *storm) start(file string) *running {
	s.t.Helper()
	s.feed()
	r := s.command(file)
	r.await("msg=running")
	return r
}

func (s *storm) command(file string, args ...string) *running {
	r := &running{t: s.t, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.code = s.cli(&r.out).main(append([]string{"run", file}, args...))
	}()
	return r
}

func (r *running) await(text string) {
	r.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !strings.Contains(r.out.String(), text); {
		select {
		case <-tick.C:
		case <-r.ended:
			r.t.Fatalf("it ended with %d instead of saying %q:\n%s", r.code, text, r.out.String())
		}
		if time.Now().After(end) {
			r.t.Fatalf("it never said %q:\n%s", text, r.out.String())
		}
	}
}

func (r *running) signal(s syscall.Signal) {
	r.t.Helper()
	if err := syscall.Kill(os.Getpid(), s); err != nil {
		r.t.Fatal(err)
	}
}

// end ends it with a signal.
func (r *running) end(s syscall.Signal) {
	r.t.Helper()
	r.signal(s)
	select {
	case <-r.ended:
	case <-time.After(time.Minute):
		r.t.Fatalf("it goes on:\n%s", r.out.String())
	}
	// One that is stopped before its tables are connected says so, and fails.
	if r.code != exitOK && !strings.Contains(r.out.String(), "stopped before everything was connected") {
		r.t.Fatalf("exit code %d:\n%s", r.code, r.out.String())
	}
}

// push posts some rows, until they are taken.
func (s *storm) push(r *running) {
	s.t.Helper()
	var b bytes.Buffer
	var ids []int
	for range 1 + s.rng.IntN(20) {
		s.ids++
		ids = append(ids, s.ids)
		fmt.Fprintf(&b, "{\"id\":%d}\n", s.ids)
	}
	// It says that it runs before it listens.
	var resp *http.Response
	err := error(syscall.ECONNREFUSED)
	for end := time.Now().Add(time.Minute); errors.Is(err, syscall.ECONNREFUSED) && time.Now().Before(end); {
		resp, err = http.Post("http://"+s.listen+"/pushed", "application/x-ndjson", bytes.NewReader(b.Bytes()))
	}
	if err != nil {
		s.t.Fatalf("%v\n%s", err, r.out.String())
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		s.t.Fatalf("status %d", resp.StatusCode)
	}
	s.pushed = append(s.pushed, ids...)
}

// fails runs a pipeline that cannot start and says why.
func (s *storm) fails(file, why string) {
	s.t.Helper()
	r := s.command(file)
	select {
	case <-r.ended:
	case <-time.After(time.Minute):
		r.end(syscall.SIGTERM)
	}
	if r.code == exitOK || !strings.Contains(r.out.String(), why) {
		s.t.Fatalf("exit code %d, and it says\n%s\nwant %q", r.code, r.out.String(), why)
	}
}

// toTheEnd runs the pipeline until all that there is has been read.
func (s *storm) toTheEnd() {
	s.t.Helper()
	r := s.command(s.file, "--until", "end")
	select {
	case <-r.ended:
	case <-time.After(time.Minute):
		s.t.Fatalf("it does not end:\n%s", r.out.String())
	}
	if r.code != exitOK {
		s.t.Fatalf("exit code %d\n%s", r.code, r.out.String())
	}
}

// finish reads everything to the end and compares the tables.
func (s *storm) finish() {
	s.t.Helper()
	s.toTheEnd()
	type row struct {
		ID, N int
		S     json.Number // A decimal, in quotes.
	}
	var sum, n int
	for _, r := range stormRows[row](s, "storm.sums") {
		part, err := r.S.Int64()
		if err != nil {
			s.t.Fatal(err)
		}
		sum, n = sum+int(part), n+r.N
	}
	var want int
	for _, id := range s.read {
		want += id
	}
	if n != len(s.read) || sum != want {
		s.t.Errorf("the windows have %d rows of sum %d, want %d of %d", n, sum, len(s.read), want)
	}
	for table, want := range map[string][]int{"storm.read": s.read, "storm.pushed": s.pushed} {
		var got []int
		for _, r := range stormRows[row](s, table) {
			got = append(got, r.ID)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			s.t.Errorf("table %s holds %d rows, want %d: %v\nwant %v", table, len(got), len(want), got, want)
		}
	}
	s.figures["rows"] += int64(len(s.read) + len(s.pushed))
}

func stormRows[T any](s *storm, table string) []T {
	s.t.Helper()
	var out, errs output
	c := s.cli(&out)
	c.err = &errs
	if code := c.main([]string{"table", "rows", table, "--file", s.file, "--format", "ndjson"}); code != exitOK {
		s.t.Fatalf("table rows %s: exit code %d: %s", table, code, errs.String())
	}
	var rows []T
	for line := range strings.Lines(out.String()) {
		var r T
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			s.t.Fatal(err)
		}
		rows = append(rows, r)
	}
	return rows
}

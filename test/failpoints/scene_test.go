//go:build failpoints

package failpoints

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// scene is a folder with two pipelines, what they read and what they write. All that
// it knows stands there, so that another process can go on with it.
type scene struct {
	dir     string
	address string
	mu      sync.Mutex
}

const pushText = `
name: push
state: {dir: push}
connections: {lake: {iceberg_catalog: {type: sql, uri: "%[1]s/push-lake/catalog.db", warehouse: "%[1]s/push-lake/files"}}}
sources:
  events:
    http: {listen: "%[2]s"}
    decode: {json: {schema: {id: int64, ts: timestamptz(ms)}, required: [id, ts]}}
    event_time: {column: ts, out_of_orderness: 1s}
operators:
  once: {from: events, dedup: {key: [id], within: 24h}}
sinks:
  table: {from: once, iceberg: {catalog: lake, table: t.events}}
  copy: {from: events, files: {path: "%[1]s/copy"}}
`

const linesText = `
name: lines
state: {dir: lines}
connections: {lake: {iceberg_catalog: {type: sql, uri: "%[1]s/lines-lake/catalog.db", warehouse: "%[1]s/lines-lake/files"}}}
sources:
  lines:
    files: {paths: ["in/*"], mode: follow, poll: 10ms}
    decode: {json: {schema: {n: int64, k: string, ts: timestamptz(ms)}, required: [n, k, ts]}}
    event_time: {column: ts, out_of_orderness: 1s}
operators:
  counts: {from: lines, window: {tumbling: 1m, by: [k], aggregate: {c: count(*)}}}
sinks:
  minutes: {from: counts, iceberg: {catalog: lake, table: t.minutes, partition_by: [k]}}
  raw: {from: lines, files: {path: "%[1]s/raw"}}
`

// newScene makes a scene in dir, or goes on with the one that is there.
func newScene(dir string) (*scene, error) {
	s := &scene{dir: dir}
	raw, err := os.ReadFile(s.path("address"))
	if err == nil {
		s.address = string(raw)
		return s, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.address = l.Addr().String()
	if err := l.Close(); err != nil {
		return nil, err
	}
	if err := os.Mkdir(s.path("in"), 0o755); err != nil {
		return nil, err
	}
	for name, text := range map[string]string{"push.yaml": fmt.Sprintf(pushText, dir, s.address), "lines.yaml": fmt.Sprintf(linesText, dir), "address": s.address} {
		if err := os.WriteFile(s.path(name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *scene) path(name string) string { return filepath.Join(s.dir, name) }

var base = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// perRequest are the records of a request, perPhase the requests of a phase; those
// behind them are probes.
const (
	perRequest = 6
	perPhase   = 6
	phaseStep  = 100
)

// ids of the records of request n. The last one of most is a copy of a record before.
func ids(n int) []int {
	var out []int
	for i := range perRequest {
		out = append(out, n*perRequest+i)
	}
	if i := n % phaseStep; i > 0 && i < perPhase {
		out = append(out, (n-1)*perRequest)
	}
	return out
}

func requestBody(n int) []byte {
	var b bytes.Buffer
	for _, id := range ids(n) {
		fmt.Fprintf(&b, `{"id":%d,"ts":%d}`+"\n", id, base.Add(time.Duration(id)*time.Second).UnixMilli())
	}
	return b.Bytes()
}

// acked notes a request that was answered; all of them are listed by answered.
func (s *scene) acked(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := os.OpenFile(s.path("acked"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintln(f, n)
	return err
}

func (s *scene) answered() map[int]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	raw, _ := os.ReadFile(s.path("acked"))
	out := map[int]bool{}
	for _, f := range strings.Fields(string(raw)) {
		if n, err := strconv.Atoi(f); err == nil {
			out[n] = true
		}
	}
	return out
}

// Files of phase k begin with number k*filesStep; the first one has bad lines.
const filesStep = 10

// line is one of an input file.
type line struct {
	text string
	bad  bool
	n    int
	k    string
	at   time.Time
}

// goodLines are the lines of every file that are rows.
const goodLines = 30

// badsOf are how many bad lines file j has behind them, and how large they are.
func badsOf(j int) (n, size int) {
	switch {
	case j%filesStep != 0:
		return 0, 0
	case j <= filesStep:
		return 30, 128 << 10
	}
	return 3, 10
}

// linesOf makes the lines of file j. Those of the first two phases have bad ones that
// are so large that the state is written as tables.
func linesOf(j int) []line {
	var out []line
	for i := range goodLines {
		l := line{n: j*1000 + i, k: fmt.Sprintf("k%d", i%3), at: base.Add(time.Duration(j)*time.Minute + time.Duration(i)*2*time.Second)}
		l.text = fmt.Sprintf(`{"n":%d,"k":%q,"ts":%d}`, l.n, l.k, l.at.UnixMilli())
		out = append(out, l)
	}
	bads, size := badsOf(j)
	for i := range bads {
		out = append(out, line{bad: true, text: fmt.Sprintf(`{"n":"%d of %d","k":%q}`, i, j, strings.Repeat("x", size))})
	}
	return out
}

// fixedID is the id of the bad line of file j that is fixed, fixed the line in its place.
func fixedID(j int) string { return fmt.Sprintf("lines/0/in/%03d.ndjson:%d/lines", j, goodLines+1) }

func fixed(j int) line {
	l := line{n: j*1000 + 999, k: "fixed", at: base.Add(10_000*time.Hour + time.Duration(j)*time.Minute)}
	l.text = fmt.Sprintf(`{"n":%d,"k":%q,"ts":%d}`, l.n, l.k, l.at.UnixMilli())
	return l
}

// addFile makes file j visible at once.
func (s *scene) addFile(j int) error {
	name := s.path(fmt.Sprintf("in/%03d.ndjson", j))
	if _, err := os.Stat(name); err == nil {
		return nil
	}
	var b strings.Builder
	for _, l := range linesOf(j) {
		b.WriteString(l.text + "\n")
	}
	if err := os.WriteFile(s.path("next"), []byte(b.String()), 0o644); err != nil {
		return err
	}
	return os.Rename(s.path("next"), name)
}

// files lists the numbers of the files that are there.
func (s *scene) files() []int {
	entries, _ := os.ReadDir(s.path("in"))
	var out []int
	for _, e := range entries {
		if j, err := strconv.Atoi(strings.TrimSuffix(e.Name(), ".ndjson")); err == nil {
			out = append(out, j)
		}
	}
	return out
}

// rows are the rows of an output, as text, sorted.
type rows []string

// want is what the outputs must hold: the sinks by name, and the quarantine.
func (s *scene) want() map[string]rows {
	out := map[string]rows{}
	seen := map[int]bool{}
	for n := range s.answered() {
		for _, id := range ids(n) {
			row := fmt.Sprintf("id=%d ts=%s", id, base.Add(time.Duration(id)*time.Second).Format(time.RFC3339))
			out["copy"] = append(out["copy"], row)
			if !seen[id] {
				seen[id] = true
				out["table"] = append(out["table"], row)
			}
		}
	}
	counts := map[string]int{}
	for _, j := range s.files() {
		list := linesOf(j)
		for i, l := range list {
			if l.bad && i == goodLines {
				l = fixed(j)
			}
			if l.bad {
				out["quarantine"] = append(out["quarantine"], fmt.Sprintf("lines/0/in/%03d.ndjson:%d/lines", j, i+1))
				continue
			}
			out["raw"] = append(out["raw"], fmt.Sprintf("k=%s n=%d ts=%s", l.k, l.n, l.at.Format(time.RFC3339)))
			counts[fmt.Sprintf("k=%s window_start=%s", l.k, l.at.Truncate(time.Minute).Format(time.RFC3339))]++
		}
	}
	for w, n := range counts {
		out["minutes"] = append(out["minutes"], fmt.Sprintf("c=%d %s", n, w))
	}
	for _, r := range out {
		sort.Strings(r)
	}
	return out
}

// text writes a row as want does: some columns, by name.
func text(t *testing.T, row []byte, columns ...string) string {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(row))
	dec.UseNumber()
	var m map[string]any
	if err := dec.Decode(&m); err != nil {
		t.Fatalf("%s: %v", row, err)
	}
	var out []string
	for _, c := range columns {
		v := fmt.Sprint(m[c])
		if at, err := time.Parse(time.RFC3339Nano, strings.Replace(v, " ", "T", 1)); err == nil {
			v = at.UTC().Format(time.RFC3339)
		}
		out = append(out, c+"="+v)
	}
	return strings.Join(out, " ")
}

// compare says how an output differs from what it must hold.
func compare(name string, got, want rows) []string {
	count := map[string]int{}
	for _, r := range want {
		count[r]--
	}
	for _, r := range got {
		count[r]++
	}
	var out []string
	for r, n := range count {
		switch {
		case n > 0:
			out = append(out, fmt.Sprintf("%s: %d too many: %s", name, n, r))
		case n < 0:
			out = append(out, fmt.Sprintf("%s: %d lost: %s", name, -n, r))
		}
	}
	sort.Strings(out)
	return out
}

package push_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"frazil/dataflow/flowtest/program"
)

// quarantinePlace reads lines of a folder into a table; every third line is bad in
// one of three ways. It returns the row that each line stands for.
func quarantinePlace(t *testing.T, lines int) (*place, []string) {
	t.Helper()
	p := newPlace(t, "lines", `
checkpoint: {every: 100ms}
sources:
  lines:
    files: {paths: ["in/*"], mode: follow, poll: 100ms}
    decode: {json: {schema: {n: int64, dev: string}, required: [n]}}
sinks:
  table: {from: lines, files: {path: table}}
`)
	var text strings.Builder
	want := make([]string, lines)
	for i := range lines {
		want[i] = fmt.Sprintf(`{"n":%d,"dev":"d%d"}`, i, i%7)
		line := want[i]
		if i%3 == 2 {
			switch i / 3 % 3 {
			case 0:
				line = fmt.Sprintf(`{"n":"%d","dev":"d%d"}`, i, i%7)
			case 1:
				line = strings.TrimSuffix(line, "}") + ",}"
			case 2:
				line = fmt.Sprintf(`{"dev":"d%d"}`, i%7)
			}
		}
		text.WriteString(line + "\n")
	}
	if err := os.Mkdir(p.Path("in"), 0o755); err != nil {
		t.Fatal(err)
	}
	p.Write("in/a.ndjson", text.String())
	return p, want
}

func lineID(i int) string { return fmt.Sprintf("lines/0/in/a.ndjson:%d/lines", i+1) }

// quarantined lists the rows of the quarantine by id; nil while nobody answers.
func (p *place) quarantined() map[string]map[string]any {
	r := p.Start(nil, "quarantine", "list", "--file", p.File, "--format", "ndjson")
	if r.Wait() != 0 {
		return nil
	}
	out := map[string]map[string]any{}
	for line := range strings.Lines(r.Stdout.String()) {
		var q map[string]any
		if err := json.Unmarshal([]byte(line), &q); err != nil {
			p.t.Fatal(err)
		}
		out[q["id"].(string)] = q
	}
	return out
}

// tableRows are the rows of the table, sorted.
func (p *place) tableRows() []string {
	p.t.Helper()
	var out []string
	for line := range strings.Lines(p.Run("table", "rows", "table", "--file", p.File, "--format", "ndjson")) {
		out = append(out, strings.TrimSpace(line))
	}
	sort.Strings(out)
	return out
}

func sameRows(t *testing.T, got, want []string) {
	t.Helper()
	count := map[string]int{}
	for _, r := range want {
		count[r]--
	}
	for _, r := range got {
		count[r]++
	}
	for r, n := range count {
		if n != 0 {
			t.Errorf("%+d of %s", n, r)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d rows, want %d", len(got), len(want))
	}
}

// I6: a fix is killed at each of its steps, and repeated: its row comes once.
func TestAFixedRowComesOnceWhereverItIsKilled(t *testing.T) {
	program.Long(t)
	points := []string{"fixed_stamped", "fixed_appended", "barrier", "aligned", "before_manifest", "after_manifest", "before_commit", "after_commit"}
	p, want := quarantinePlace(t, 9*len(points))
	r := p.Start(nil, "run", p.File)
	r.Until("everything is read", func() bool { return len(p.quarantined()) == 3*len(points) })
	r.Signal(syscall.SIGTERM)
	if code := r.Wait(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, program.Tail(r.Stderr.String(), 3000))
	}
	fixed := map[int]bool{}
	for k, point := range points {
		i := 9*k + 2
		fix := []string{"quarantine", "fix", lineID(i), "--payload", want[i], "--file", p.File}
		r := p.Start([]string{"FRAZIL_FAILPOINT=" + point}, "run", p.File)
		r.Until("it answers", func() bool { return p.Metric("frazil_healthy") == "1" })
		p.Start(nil, fix...).Wait()
		<-r.Ended
		if r.Cmd.ProcessState.ExitCode() != -1 {
			t.Fatalf("%s: it was not killed: %v", point, r.Cmd.ProcessState)
		}
		// Nobody knows what became of it, so it is done again: half of the times while
		// the pipeline is stopped.
		if k%2 == 0 {
			p.Start(nil, fix...).Wait()
		}
		r = p.Start(nil, "run", p.File)
		r.Until("it answers", func() bool { return p.Metric("frazil_healthy") == "1" })
		p.Start(nil, fix...).Wait()
		r.Until(point+": the row has left", func() bool {
			q := p.quarantined()
			return q != nil && q[lineID(i)] == nil
		})
		r.Signal(syscall.SIGTERM)
		if code := r.Wait(); code != 0 {
			t.Fatalf("%s: exit code %d\n%s", point, code, program.Tail(r.Stderr.String(), 3000))
		}
		fixed[i] = true
	}
	var rows []string
	for i, w := range want {
		if i%3 != 2 || fixed[i] {
			rows = append(rows, w)
		}
	}
	sort.Strings(rows)
	sameRows(t, p.tableRows(), rows)
	counts := p.quarantineCounts()
	if n := int64(len(points)); counts["kept"] != 3*n || counts["sent_again"] != n || counts["rows"] != 2*n {
		t.Errorf("quarantine %v", counts)
	}
}

// quarantineCounts are those of the ledger.
func (p *place) quarantineCounts() map[string]int64 {
	p.t.Helper()
	for line := range strings.Lines(p.Run("ledger", "--file", p.File, "--format", "ndjson")) {
		var l struct{ Quarantine map[string]int64 }
		if err := json.Unmarshal([]byte(line), &l); err == nil && l.Quarantine != nil {
			return l.Quarantine
		}
	}
	return nil
}

// Many rows are fixed, by expressions, sent again under a new schema, and
// discarded, while the pipeline is killed again and again.
func TestManyRowsAreFixedAcrossKills(t *testing.T) {
	program.Long(t)
	rng := program.Random(t)
	const lines = 1800
	p, want := quarantinePlace(t, lines)
	kills := 6
	if full() {
		kills = 30
	}
	// Whoever fixes does not know of the kills: it does it again until it is told
	// that no row is left.
	stop := make(chan struct{})
	var hands sync.WaitGroup
	// Nobody starts a program on a state that a command has open at that moment.
	var starting sync.RWMutex
	work := func(args ...string) {
		hands.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				starting.RLock()
				r := p.Start(nil, append([]string{"quarantine"}, append(args, "--file", p.File)...)...)
				r.Wait()
				starting.RUnlock()
			}
		})
	}
	started := false
	open := func() *proc {
		starting.Lock()
		defer starting.Unlock()
		r := p.Start(nil, "run", p.File)
		r.Until("it answers", func() bool { return p.Metric("frazil_healthy") != "" })
		return r
	}
	for range kills {
		r := open()
		if !started {
			started = true
			r.Until("everything is kept", func() bool { return len(p.quarantined()) == lines/3 })
			work("fix", "--reason", "mistyped", "--set", "n = cast(n as int8)")
			work("fix", "--reason", "invalid_json", "--with", "replace(raw, ',}', '}')")
			work("discard", "--reason", "missing_required", "--yes")
		}
		select {
		case <-r.Ended:
			t.Fatalf("it ended\n%s", program.Tail(r.Stderr.String(), 3000))
		case <-time.After(time.Duration(50+rng.Intn(400)) * time.Millisecond):
		}
		r.Kill()
	}
	r := open()
	r.Until("the quarantine is empty", func() bool {
		q := p.quarantined()
		return q != nil && len(q) == 0
	})
	close(stop)
	hands.Wait()
	r.Signal(syscall.SIGTERM)
	if code := r.Wait(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, program.Tail(r.Stderr.String(), 3000))
	}
	var rows []string
	for i, w := range want {
		if i%3 != 2 || i/3%3 != 2 {
			rows = append(rows, w)
		}
	}
	sort.Strings(rows)
	sameRows(t, p.tableRows(), rows)
	if c := p.quarantineCounts(); c["kept"] != lines/3 || c["sent_again"] != lines/3/3*2 || c["discarded"] != lines/3/3 || c["rows"] != 0 {
		t.Errorf("quarantine %v", c)
	}
}

// What was bad by the file's schema is good by a new one, and comes when it is
// sent again; what stays bad is not sent; only who knows the token changes
// anything; an export that was edited is taken back.
func TestRowsAreSentAgainUnderANewSchema(t *testing.T) {
	program.Long(t)
	p, want := quarantinePlace(t, 90)
	r := p.Start(nil, "run", p.File)
	r.Until("everything is read", func() bool { return len(p.quarantined()) == 30 })
	info, err := os.Stat(p.Path("state", "run.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("run.json has the mode %v, %v", info.Mode(), err)
	}
	raw, _ := os.ReadFile(p.Path("state", "run.json"))
	var run struct{ HTTP, Token string }
	if err := json.Unmarshal(raw, &run); err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{"", "Bearer ", "Bearer x" + run.Token} {
		req, _ := http.NewRequest("POST", "http://"+run.HTTP+"/api/quarantine", strings.NewReader(`{"discard":["`+lineID(2)+`"]}`))
		if token != "" {
			req.Header.Set("Authorization", token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("with the token %q it answers %s", token, resp.Status)
		}
	}
	p.Fail(1, []string{"missing_required", "mistyped"}, "quarantine", "retry", "--all", "--file", p.File)
	r.Signal(syscall.SIGTERM)
	r.Wait()
	text, err := os.ReadFile(p.Path(p.File))
	if err != nil {
		t.Fatal(err)
	}
	p.Write(p.File, strings.Replace(string(text), ", required: [n]", "", 1))
	// Without required the lines without n are rows.
	r = p.Start(nil, "run", p.File)
	r.Until("it answers", func() bool { return p.Metric("frazil_healthy") == "1" })
	out := p.Run("quarantine", "retry", "--reason", "missing_required", "--file", p.File)
	if !strings.HasPrefix(out, "10 rows sent again") {
		t.Errorf("retry says %q", out)
	}
	r.Until("they have left", func() bool { return len(p.quarantined()) == 20 })
	var edited strings.Builder
	for line := range strings.Lines(p.Run("quarantine", "export", "--reason", "mistyped", "--file", p.File)) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(strings.TrimPrefix(e["position"].(string), "in/a.ndjson:"))
		if err != nil {
			t.Fatal(err)
		}
		e["payload"] = want[n-1]
		text, _ := json.Marshal(e)
		edited.Write(append(text, '\n'))
	}
	p.Write("edited.ndjson", edited.String())
	p.Run("quarantine", "fix", "--from", "edited.ndjson", "--file", p.File)
	p.Run("quarantine", "discard", "--step", "lines", "--reason", "invalid_json", "--yes", "--file", p.File)
	r.Until("the quarantine is empty", func() bool { return len(p.quarantined()) == 0 })
	r.Signal(syscall.SIGTERM)
	r.Wait()
	var rows []string
	for i, w := range want {
		switch {
		case i%3 != 2, i/3%3 == 0:
			rows = append(rows, w)
		case i/3%3 == 2:
			rows = append(rows, fmt.Sprintf(`{"n":null,"dev":"d%d"}`, i%7))
		}
	}
	sort.Strings(rows)
	sameRows(t, p.tableRows(), rows)
}

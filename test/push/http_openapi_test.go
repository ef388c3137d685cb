package push_test

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"frazil/dataflow/flowtest/program"
)

// python is a program of the rig's Python, "" where there is none.
func python(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("FRAZIL_RIG")
	if dir == "" {
		dir = "../../.rig"
	}
	path, err := filepath.Abs(filepath.Join(dir, "python", "bin", name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is not there, and CI leaves no test out", path)
		}
		t.Skipf("%s is not there: left out (test/install puts it there)", path)
	}
	return path
}

// answering says whether the streams of an address take records.
func answering(addr string) func() bool {
	return func() bool {
		resp, err := http.Get("http://" + addr + "/healthz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == 200
	}
}

// TestOpenAPI holds the address to its description: schemathesis makes requests of
// it, right and wrong ones, and all its checks must pass.
func TestOpenAPI(t *testing.T) {
	program.Long(t)
	st := python(t, "schemathesis")
	addr := freePort(t)
	p := newPlace(t, "described", fmt.Sprintf(`
sources:
  all:
    http: {listen: "%[1]s", path: /all, on_bad: all}
    decode:
      json:
        schema: {id: int64, name: string, yes: bool, f32: float32, f64: float64, ms: timestamptz(ms), at: timestamptz, local: timestamp, day: date, clock: time, bytes: binary, uuid: uuid, list: "list<int32>", any: json, nested: "struct{x: int32, y: list<string>}"}
        required: [id]
  strict:
    http: {listen: "%[1]s", path: /strict, on_bad: all}
    decode: {json: {schema: {id: int64, name: string}, required: [id], extra: bad}}
  some:
    http: {listen: "%[1]s", path: /some}
    decode: {json: {schema: {id: int64}, required: [id]}}
  private:
    http: {listen: "%[1]s", path: /private, on_bad: all, auth: {tokens: [{name: a, token: 0123456789abcdef}]}}
    decode: {json: {schema: {id: int64}, required: [id]}}
sinks:
  a: {from: all, drop: {}}
  b: {from: strict, drop: {}}
  c: {from: some, drop: {}}
  d: {from: private, drop: {}}
checkpoint: {every: 500ms}
`, addr))
	run := p.Start(nil, "run", p.File)
	run.Until("the address to answer", answering(addr))
	hooks, err := filepath.Abs("http_openapi_hooks.py")
	if err != nil {
		t.Fatal(err)
	}
	// Of several records some may be wrong: the answer is then 207.
	p.Write("schemathesis.toml", "[checks.negative_data_rejection]\nexpected-statuses = [207, 400, 401, 403, 404, 405, 406, 413, 415, 422, 429]\n")
	examples := "40"
	if full() {
		examples = "1000"
	}
	cmd := exec.Command(st, "run", "http://"+addr+"/openapi.json", "--header", "Authorization: Bearer 0123456789abcdef",
		"--checks", "all", "--max-examples", examples, "--no-color", "--generation-database", "none")
	cmd.Dir = p.Dir
	cmd.Env = append(os.Environ(), "SCHEMATHESIS_HOOKS="+hooks)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, program.Tail(string(out), 8000))
	}
	if !strings.Contains(string(out), "Tested: 5") {
		t.Errorf("not all operations were tested:\n%s", program.Tail(string(out), 3000))
	}
}

// TestHTTPClients: what requests, pyarrow and the CloudEvents SDK send is read.
func TestHTTPClients(t *testing.T) {
	program.Long(t)
	py := python(t, "python")
	addr := freePort(t)
	p := newPlace(t, "clients", fmt.Sprintf(`
sources:
  all:
    http: {listen: "%s", metadata: {ce_id: event, ce_subject: subject}}
    decode: {json: {schema: {id: int64, name: string, at: timestamptz, tags: "list<string>", price: "decimal(10,2)"}, required: [id]}}
sinks:
  rows: {from: all, iceberg: {catalog: local, table: t.rows}}
checkpoint: {every: 500ms}
`, addr))
	run := p.Start(nil, "run", p.File)
	run.Until("the address to answer", answering(addr))
	script, err := filepath.Abs("http_clients.py")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(py, script, "http://"+addr+"/all").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var want strings.Builder
	for _, x := range []struct {
		name        string
		first, last int
	}{{"json", 1, 1}, {"array", 2, 3}, {"gzip", 4, 5}, {"chunked", 6, 7}, {"arrow", 8, 10}, {"event", 11, 11}, {"event", 12, 12}} {
		fmt.Fprintf(&want, "%s 200 {\"accepted\":%d,\"rejected\":[],\"first_sequence\":%d,\"last_sequence\":%d}\n", x.name, x.last-x.first+1, x.first, x.last)
	}
	if string(out) != want.String() {
		t.Fatalf("answers:\n%swant:\n%s", out, want.String())
	}
	rows := func() string {
		lines := strings.Split(strings.TrimSpace(p.Run("table", "rows", "t.rows", "--file", p.File, "--format", "ndjson")), "\n")
		slices.SortFunc(lines, func(a, b string) int {
			return cmp.Or(cmp.Compare(len(a[:strings.IndexByte(a, ',')]), len(b[:strings.IndexByte(b, ',')])), strings.Compare(a, b))
		})
		return strings.Join(lines, "\n")
	}
	run.Until("the rows in the table", func() bool { return len(p.rows("t.rows")) == 12 })
	run.Signal(syscall.SIGTERM)
	run.Wait()
	at := "2026-03-01T10:00:00.000000Z"
	model := []string{
		`1,"name":"größe"`, "2", "3", "4", "5", "6", "7", `8,"name":"a","at":"` + at + `","tags":["x","y"],"price":"1.00"`, `9,"at":"` + at + `","tags":[],"price":"2.00"`,
		`10,"name":"c","at":"` + at + `","price":"3.00"`, `11,"event":"e11","subject":"größe"`, `12,"event":"e12","subject":"größe"`,
	}
	var got []string
	for line := range strings.Lines(rows()) {
		got = append(got, withoutNulls(t, line))
	}
	if !slices.Equal(got, model) {
		t.Errorf("rows:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(model, "\n"))
	}
}

// withoutNulls is a row as the tests above write it: what follows {"id": with nulls
// left out.
func withoutNulls(t *testing.T, line string) string {
	t.Helper()
	line = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), `{"id":`), "}")
	for _, name := range []string{"name", "at", "tags", "price", "event", "subject"} {
		line = strings.Replace(line, `,"`+name+`":null`, "", 1)
	}
	return line
}

package crash_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"frazil/dataflow/flowtest/program"
)

// Two processes on copies of one state that producers write to: each takes records of
// its own under the same numbers. One of them is refused, as soon as the table has
// rows of the other one, and stays so: its records are in its write-ahead log, and
// nothing takes them for those that are in the table.
func TestTwoProcessesOnCopiesOfOneLog(t *testing.T) {
	program.Long(t)
	ports := []string{freePort(t), freePort(t)}
	p := newPlace(t, "log", `
sources:
  in: {http: {listen: "`+ports[0]+`", path: /in}, decode: {json: {schema: {n: int64, who: string}}}}
sinks:
  raw: {from: in, iceberg: {table: t.raw}}
checkpoint: {every: 100ms}
`)
	p.Write("twin.yaml", strings.NewReplacer("./state", "./twin", ports[0], ports[1]).Replace(p.Text()))
	r := p.Start(nil, "run", p.File)
	r.Until("a first record is accepted", func() bool { return runs(p.Path("state", "run.json")) && post(ports[0], "before", 0) })
	r.Terminate()
	p.CopyState("state", "twin")
	if err := os.CopyFS(p.Path("twin.wal"), os.DirFS(p.Path("state.wal"))); err != nil {
		t.Fatal(err)
	}

	two := []*program.Process{p.Start(nil, "run", p.File), p.Start(nil, "run", "twin.yaml")}
	for i, dir := range []string{"state", "twin"} { // Who comes later would be told at once.
		two[i].Until("it runs", func() bool { return runs(p.Path(dir, "run.json")) })
	}
	accepted := [2][]string{}
	program.Await(t, "one of them is refused", func() bool {
		for i := range two {
			n := len(accepted[i])
			if post(ports[i], fmt.Sprint("process ", i), n) {
				accepted[i] = append(accepted[i], fmt.Sprintf("process %d %d", i, n))
			}
		}
		return two[0].HasEnded() || two[1].HasEnded()
	})
	lost := 0
	if two[1].HasEnded() {
		lost = 1
	}
	files := []string{p.File, "twin.yaml"}
	if code, said := two[lost].Wait(), two[lost].Stderr.String(); code != 1 || !strings.Contains(said, "fenced: another process has taken over") {
		t.Fatalf("process %d: exit code %d\n%s", lost, code, program.Tail(said, 3000))
	}
	two[1-lost].Terminate()
	want := append([]string{"before 0"}, accepted[1-lost]...)
	check := func() {
		t.Helper()
		var got []string
		for _, row := range p.Rows("t.raw") {
			got = append(got, fmt.Sprint(row["who"], " ", row["n"]))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("the table has %q, want %q", got, want)
		}
	}
	check()
	for range 2 {
		p.Fail(1, []string{"on a copy of the state", "go on with that one", "frazil wal show"}, "run", files[lost], "--until", "idle=1s")
	}
	check()
	shown := p.Run("wal", "show", "in", "--file", files[lost])
	for _, one := range accepted[lost] {
		who, n, _ := strings.Cut(one[len("process "):], " ")
		if !strings.Contains(shown, fmt.Sprintf(`"n":%s,"who":"process %s"`, n, who)) {
			t.Errorf("%q is not in the log of process %d:\n%s", one, lost, program.Tail(shown, 2000))
		}
	}
}

// post sends one record and says whether it was accepted.
func post(addr, who string, n int) bool {
	resp, err := http.Post("http://"+addr+"/in", "application/json", strings.NewReader(fmt.Sprintf(`{"n":%d,"who":%q}`, n, who)))
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode/100 == 2
}

// runs asks a process whether it has looked at its targets.
func runs(file string) bool {
	raw, err := os.ReadFile(file)
	var at struct{ HTTP string }
	if err != nil || json.Unmarshal(raw, &at) != nil {
		return false
	}
	resp, err := http.Get("http://" + at.HTTP + "/api/status")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var status struct{ Connected bool }
	return json.NewDecoder(resp.Body).Decode(&status) == nil && status.Connected
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

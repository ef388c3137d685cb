// Package http holds the example of the HTTP source and its test: the real program
// runs it, its script posts with curl, and the rows are in the table.
package http

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestExample(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts the program: left out with -short")
	}
	dir := t.TempDir()
	bin := filepath.Join(dir, "frazil")
	build := exec.Command("go", "build", "-o", bin, "../../cmd/frazil")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file, err := filepath.Abs("pipeline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("send")
	if err != nil {
		t.Fatal(err)
	}
	addr := free(t)
	env := append(os.Environ(), "LISTEN="+addr)
	run := exec.Command(bin, "run", file)
	var log bytes.Buffer
	run.Dir, run.Env, run.Stderr = dir, env, &log
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- run.Wait() }()
	defer run.Process.Kill()

	await(t, "the address to answer", func() bool {
		resp, err := http.Get("http://" + addr + "/healthz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == 200
	})
	send := func(args ...string) string {
		cmd := exec.Command(script, args...)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	if got, want := send(), `{"accepted":3,"rejected":[],"first_sequence":1,"last_sequence":3}`+"\n"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	first, second := send("key"), send("key")
	if first != second || !strings.Contains(first, `"first_sequence":4`) {
		t.Errorf("%s, then %s", first, second)
	}
	rows := func() map[float64]int {
		cmd := exec.Command(bin, "table", "rows", "plant.readings", "--file", file, "--format", "ndjson")
		cmd.Dir, cmd.Env = dir, env
		out, err := cmd.Output()
		if err != nil {
			return nil // the table is not there yet
		}
		temps := map[float64]int{}
		for line := range strings.Lines(string(out)) {
			var row struct{ Temp float64 }
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				t.Fatal(err)
			}
			temps[row.Temp]++
		}
		return temps
	}
	await(t, "six rows in the table", func() bool {
		got := rows()
		return len(got) == 3 && got[20.5] == 2 && got[21.5] == 2 && got[22.5] == 2
	})
	if err := run.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("%v\n%s", err, log.String())
	}
	if got := rows(); got[20.5]+got[21.5]+got[22.5] != 6 {
		t.Errorf("%v", got)
	}
}

func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// await looks again and again whether ok holds.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(2 * time.Minute); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/codec"
	"frazil/dataflow/component"
	"frazil/dataflow/ingest"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

const walPipeline = `
name: pushed
state: {dir: DIR/state, wal: DIR/wal}
sources:
  in:
    http: {listen: "127.0.0.1:0"}
    decode: {json: {schema: {n: int64}}}
sinks:
  out: {from: in, drop: {}}
`

// walDir writes the file of a pipeline and a log of 300 records of its stream.
func walDir(t *testing.T) (file, dir string, stream *ingest.Stream) {
	t.Helper()
	dir = t.TempDir()
	file = filepath.Join(dir, "p.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(walPipeline, "DIR", dir)), 0o644); err != nil {
		t.Fatal(err)
	}
	env := &dataflow.Env{Step: "in", WALDir: filepath.Join(dir, "wal"), NewDecoder: func() (dataflow.Decoder, error) {
		return codec.NewJSON(codec.JSONConfig{Schema: component.NamedTypes{{Name: "n", Type: "int64"}}}, memory.DefaultAllocator)
	}}
	dec, err := env.NewDecoder()
	if err != nil {
		t.Fatal(err)
	}
	if stream, err = ingest.Open(env, ingest.DefaultConfig(), ingest.Spec{Decoded: dec.Schema()}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		var records [][]byte
		for n := range 99 {
			records = append(records, fmt.Appendf(nil, `{"n": %d}`, i*100+n))
		}
		records = append(records, []byte("bad"))
		done := make(chan error, 1)
		err := stream.Submit(&ingest.Request{Records: records, KeepBad: true, Key: fmt.Sprint(i), Done: func(_ ingest.Result, err error) { done <- err }})
		if err == nil {
			err = <-done
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return file, filepath.Join(dir, "wal", "in"), stream
}

func runWAL(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	var b bytes.Buffer
	c := &cli{out: &b, err: &b, lookup: os.LookupEnv, parallelism: 1}
	code = c.main(append([]string{"wal"}, args...))
	return code, b.String()
}

func wantWAL(t *testing.T, code int, has string, args ...string) string {
	t.Helper()
	got, out := runWAL(t, args...)
	if got != code || !strings.Contains(out, has) {
		t.Fatalf("frazil wal %s: exit code %d, want %d with %q:\n%s", strings.Join(args, " "), got, code, has, out)
	}
	return out
}

func TestWALIsShownWhileItIsOpenAndAfterwards(t *testing.T) {
	file, _, stream := walDir(t)
	for _, when := range []string{"open", "closed"} {
		out := wantWAL(t, exitOK, "ok", "--file", file)
		line := strings.Join(strings.Fields(strings.Split(out, "\n")[1]), " ")
		if !strings.HasPrefix(line, "in 1 ") || !strings.Contains(line, " 1 300 0 300 ") {
			t.Fatalf("%s: list:\n%s", when, out)
		}
		wantWAL(t, exitOK, "in: 300 records and 0 idempotency keys read, all well", "check", "--file", file)
		out = wantWAL(t, exitOK, "", "show", "in", "--file", file, "--from", "199", "--limit", "3")
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if len(lines) != 3 || !strings.HasPrefix(lines[0], `{"sequence":199,`) || !strings.HasSuffix(lines[0], `"row":{"n":198}}`) ||
			!strings.Contains(lines[1], `"reason":"invalid_json"`) || !strings.HasSuffix(lines[2], `"row":{"n":200}}`) {
			t.Fatalf("%s: show:\n%s", when, out)
		}
		wantWAL(t, exitOK, `"next":301`, "list", "--file", file, "--format", "json")
		if when == "open" {
			wantWAL(t, exitOK, "nothing is damaged", "repair", "in", "--file", file, "--accept-loss")
			if err := stream.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestADamagedWALIsRepairedOnlyWhenAskedTo(t *testing.T) {
	file, dir, stream := walDir(t)
	if err := stream.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, fmt.Sprintf("%020d.wal", 1))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 4
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	wantWAL(t, exitFailed, "in: the records 101 to 200 cannot be read", "check", "--file", file)
	wantWAL(t, exitFailed, "nothing was changed", "repair", "in", "--file", file)
	wantWAL(t, exitFailed, "1 of 1 logs are damaged", "check", "--file", file)
	wantWAL(t, exitOK, "the records 101 to 200 were given up", "repair", "in", "--file", file, "--accept-loss")
	wantWAL(t, exitOK, "in: 200 records", "check", "--file", file)
	out := wantWAL(t, exitOK, `"given_up_to":200`, "show", "in", "--file", file, "--from", "100", "--to", "201")
	if n := strings.Count(out, "\n"); n != 3 {
		t.Fatalf("%d lines:\n%s", n, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "damaged", filepath.Base(path))); err != nil {
		t.Fatal(err)
	}
}

func TestWALCommandLine(t *testing.T) {
	file, _, stream := walDir(t)
	defer stream.Close()
	wantWAL(t, exitWrong, "--file", "list")
	wantWAL(t, exitWrong, "takes 1 arguments", "show", "--file", file)
	wantWAL(t, exitWrong, "does not know", "cut", "--file", file)
}

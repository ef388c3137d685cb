package push_test

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"frazil/dataflow/flowtest/program"
)

// canary is what must show up nowhere but in the variables of the program and the
// file that holds one of its secrets.
const canary = "canary-7f3a91c2d5e8b604"

// J2: a secret is in no log, error, metric, answer or file that the program writes,
// whatever is asked for and whatever goes wrong.
func TestNoSecretIsPrintedOrKept(t *testing.T) {
	program.Long(t)
	address := freePort(t)
	p := newPlace(t, "secrets", fmt.Sprintf(`checkpoint: {every: 200ms}
sources:
  hooks:
    http:
      listen: %[1]s
      on_bad: keep
      metadata: {headers: headers}
      auth:
        tokens: [{name: device, token: "${env:TOKEN}"}]
        signatures: [{name: shop, scheme: github, secrets: ["${file:signing.key}"]}]
    decode: {json: {schema: {n: int64}}}
  fleet:
    mqtt: {broker: "mqtt://127.0.0.1:1", topics: [a/b], client_id: c, user: u, password: "${env:TOKEN}"}
    decode: {json: {schema: {n: int64}}}
sinks:
  out: {from: hooks, files: {path: out}}
  other: {from: fleet, drop: {}}
`, address))
	p.Write("signing.key", canary+"-signing\n")
	env := []string{"TOKEN=" + canary + "-token"}
	var seen []string
	say := func(what, text string) {
		if i := strings.Index(text, canary); i >= 0 {
			seen = append(seen, fmt.Sprintf("%s: ...%s...", what, text[max(0, i-80):min(len(text), i+60)]))
		}
	}
	for _, args := range [][]string{{"lint", p.File}, {"plan", p.File}, {"plan", "--format", "json", p.File}, {"schema"}} {
		r := p.Start(env, args...)
		r.Wait()
		say(r.What, r.Stdout.String()+r.Stderr.String())
	}
	r := p.Start(env, "run", "--log-level", "debug", p.File)
	url := "http://" + address + "/hooks"
	r.Until("it listens", listening(address))
	post := func(token, body string) int {
		req, err := http.NewRequest("POST", url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-ndjson")
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
			req.Header.Set("X-Hub-Signature-256", "sha256="+token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var text bytes.Buffer
		if _, err := io.Copy(&text, resp.Body); err != nil {
			t.Fatal(err)
		}
		say("answer of POST", text.String()+fmt.Sprint(resp.Header))
		return resp.StatusCode
	}
	if code := post(canary+"-token", `{"n":1}`+"\n"+`{"n":"x"}`); code != 200 && code != 207 {
		t.Fatalf("the right token was answered %d", code)
	}
	for _, wrong := range []string{"", canary + "-tokeX", canary + "-token-and-more"} {
		if code := post(wrong, `{"n":2}`); code != 401 && code != 403 {
			t.Fatalf("a wrong token was answered %d", code)
		}
	}
	r.Until("the row is committed", func() bool { return p.files("out") != "" })
	base := p.api()
	for _, path := range []string{"/metrics", "/health", "/api/status", "/api/manifest", "/api/splits", "/api/streams", "/api/quarantine", "/debug/pprof/cmdline", "/debug/pprof/", "/nothing"} {
		resp, err := http.Get(base + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		say("GET "+path, string(text))
	}
	resp, err := http.Get("http://" + address + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	say("openapi.json", string(text))
	r.Signal(syscall.SIGINT)
	r.Wait()
	say("what the program wrote", r.Stdout.String()+r.Stderr.String())
	err = filepath.WalkDir(p.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "signing.key" {
			return err
		}
		raw, err := os.ReadFile(path)
		say("file "+path, string(raw))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if p.files("out") == "" {
		t.Error("nothing was written: the test has looked at nothing")
	}
	for _, s := range seen {
		t.Error(s)
	}
}

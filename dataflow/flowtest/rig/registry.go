package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// Registry returns the URL of a schema registry that speaks Confluent's API and
// refuses incompatible schemas where it is told to: its level is NONE at first. It
// may serve other tests too: name subjects so that they are yours alone, and set the
// level of a subject, not the one of all. Starting one takes up to a minute, for which
// Registry waits.
func Registry(t testing.TB) string {
	t.Helper()
	url := os.Getenv("FRAZIL_TEST_REGISTRY")
	if url == "" {
		return NewRegistry(t).URL
	}
	// ./test/all starts it beside the tests.
	ready := answers(url + "/subjects")
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for limit := time.Now().Add(readyWithin); !ready(); <-tick.C {
		if time.Now().After(limit) {
			t.Fatalf("the schema registry at %s is not ready after %v", url, readyWithin)
		}
	}
	return url
}

// SchemaRegistry is a schema registry of one test's own. Its methods are called from
// one goroutine.
type SchemaRegistry struct {
	// URL is that of its API, the same after each Start.
	URL string

	port, home, dir string
	starts          int
	process         *process
}

// NewRegistry starts a registry without schemas with its data in a folder of the test;
// it ends with the test.
func NewRegistry(t testing.TB) *SchemaRegistry {
	t.Helper()
	if _, err := registryHome(); err != nil {
		missing(t, "schema registry", "run ./test/install, or set FRAZIL_TEST_REGISTRY to the URL of its API where one will do")
	}
	r, err := newRegistry(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Kill)
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	return r
}

func registryHome() (string, error) { return installed("registry") }

func newRegistry(dir string) (*SchemaRegistry, error) {
	home, err := registryHome()
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	return &SchemaRegistry{URL: "http://" + addr(ports[0]) + "/apis/ccompat/v7", port: strconv.Itoa(ports[0]), home: home, dir: dir}, nil
}

// Start starts the registry again with the schemas it has, and returns when it serves.
func (r *SchemaRegistry) Start() error {
	if err := r.launch(); err != nil {
		return err
	}
	if err := r.process.wait(answers(r.URL + "/subjects")); err != nil {
		r.Kill()
		return err
	}
	return nil
}

// launch is Start without waiting.
func (r *SchemaRegistry) launch() error {
	if r.process != nil {
		return fmt.Errorf("the schema registry at %s runs already", r.URL)
	}
	r.starts++
	p, err := launch("the schema registry", r.dir, filepath.Join(r.dir, "log."+strconv.Itoa(r.starts)), "java",
		"-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dquarkus.http.host=127.0.0.1", "-Dquarkus.http.port="+r.port,
		"-Dquarkus.datasource.jdbc.url=jdbc:h2:file:"+filepath.Join(r.dir, "schemas"), "-jar", filepath.Join(r.home, "registry.jar"))
	if err != nil {
		return err
	}
	r.process = p
	return nil
}

// Stop ends the registry in good order (SIGTERM). Its schemas stay.
func (r *SchemaRegistry) Stop() {
	if r.process != nil {
		r.process.stop()
		r.process = nil
	}
}

// Kill ends the registry at once (SIGKILL). Its schemas stay, but for those of its last
// half second.
func (r *SchemaRegistry) Kill() {
	if r.process != nil {
		r.process.kill()
		r.process = nil
	}
}

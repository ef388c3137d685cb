package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"frazil/dataflow/flowtest/leak"
	"frazil/dataflow/flowtest/rig"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// TestTheExample runs the README's commands: topic and table hold what the shop has
// committed.
func TestTheExample(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs the program: left out with -short")
	}
	database, broker := rig.Postgres(t), rig.Kafka(t)
	topic := fmt.Sprintf("example-%08x", rand.Uint32())
	s, err := open(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer s.db.Close(context.Background())
	const orders = 300
	if err := s.trade(t.Context(), orders); err != nil {
		t.Fatal(err)
	}
	want := s.outbox(t)
	if len(want) != 2*orders || s.events != 2*orders {
		t.Fatalf("the outbox holds %d events, and %d are committed, want %d", len(want), s.events, 2*orders)
	}

	bin, dir := filepath.Join(t.TempDir(), "frazil"), t.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin, "../../../cmd/frazil").CombinedOutput(); err != nil {
		t.Fatalf("build the command: %v\n%s", err, out)
	}
	file, err := filepath.Abs("../pipeline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(bin, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "DATABASE="+database, "KAFKA="+broker, "TOPIC="+topic)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("frazil %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
		}
		return string(out)
	}
	run("run", file, "--until", "end")
	if got := readTopic(t, broker, topic+".order"); !maps.Equal(got, want) {
		t.Errorf("the topic holds %d events, want %d", len(got), len(want))
	}
	rows := 0
	for lines := bufio.NewScanner(strings.NewReader(run("table", "rows", "shop.orders", "--file", file, "--format", "ndjson"))); lines.Scan(); rows++ {
		var r struct{ ID, Type string }
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(want[r.ID], r.Type) || r.Type != "OrderPlaced" {
			t.Errorf("the table holds %s, which is %q", lines.Text(), want[r.ID])
		}
	}
	if rows != orders {
		t.Errorf("the table holds %d rows, want %d", rows, orders)
	}
}

// outbox is what the outbox holds, by id: aggregate and type.
func (s *shop) outbox(t *testing.T) map[string]string {
	t.Helper()
	rows, err := s.db.Query(t.Context(), "SELECT id::text, aggregateid || ' ' || type FROM outbox")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	out := map[string]string{}
	for rows.Next() {
		var id, event string
		if err := rows.Scan(&id, &event); err != nil {
			t.Fatal(err)
		}
		out[id] = event
	}
	return out
}

// readTopic is what a reader of committed records sees, by id.
func readTopic(t *testing.T, broker, topic string) map[string]string {
	t.Helper()
	out, twice := map[string]string{}, 0
	for _, r := range rig.Committed(t, broker, topic) {
		h := map[string]string{}
		for _, x := range r.Headers {
			h[x.Key] = string(x.Value)
		}
		if out[h["id"]] != "" {
			twice++
		}
		out[h["id"]] = string(r.Key) + " " + h["type"]
	}
	if twice > 0 {
		t.Errorf("%d events are in the topic twice", twice)
	}
	return out
}

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"frazil/dataflow/flowtest/rig"
)

// expect works out the tables: rows by table, as text.
func expect(all []message) map[string]map[string]int {
	out := map[string]map[string]int{"orders": {}, "minutes": {}, "bad": {}}
	type group struct{ orders, cents, largest int64 }
	type key struct {
		shop  string
		start time.Time
	}
	seen, groups := map[string]bool{}, map[key]group{}
	for _, m := range all {
		if m.broken {
			out["bad"]["invalid_json"]++
			continue
		}
		if seen[m.order.id] {
			continue
		}
		seen[m.order.id] = true
		if m.order.cents <= 0 {
			continue
		}
		out["orders"][m.order.id]++
		k := key{m.order.shop, m.order.at.Truncate(time.Minute)}
		g := groups[k]
		groups[k] = group{g.orders + 1, g.cents + m.order.cents, max(g.largest, m.order.cents)}
	}
	for k, g := range groups {
		out["minutes"][fmt.Sprintf("%s %s %d %d %d", k.shop, k.start.Format("2006-01-02T15:04:05.000000Z"), g.orders, g.cents, g.largest)]++
	}
	return out
}

func TestTheExampleOnARealBroker(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and runs the program: left out with -short")
	}
	broker := rig.Kafka(t)
	topic := fmt.Sprintf("example-%08x", rand.Uint32())
	all := messages(20_000, 1)
	if err := fill(t.Context(), broker, topic, all); err != nil {
		t.Fatal(err)
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
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "KAFKA="+broker, "TOPIC="+topic)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("frazil %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
		}
		return string(out)
	}
	run("run", file, "--until", "end")
	for table, want := range expect(all) {
		got := map[string]int{}
		lines := bufio.NewScanner(strings.NewReader(run("table", "rows", "shop."+table, "--file", file, "--format", "ndjson")))
		for lines.Scan() {
			var r map[string]any
			dec := json.NewDecoder(strings.NewReader(lines.Text()))
			dec.UseNumber()
			if err := dec.Decode(&r); err != nil {
				t.Fatal(err)
			}
			switch table {
			case "orders":
				got[fmt.Sprint(r["order"])]++
			case "minutes":
				got[fmt.Sprint(r["shop"], " ", r["window_start"], " ", r["orders"], " ", r["cents"], " ", r["largest"])]++
			default:
				got[fmt.Sprint(r["reason"])]++
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("shop.%s: %d different rows, want %d", table, len(got), len(want))
		}
	}
	if out := run("run", file, "--until", "end"); !strings.Contains(out, "nothing more to do") {
		t.Errorf("a second run says:\n%s", out)
	}
}

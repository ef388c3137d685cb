package oracle

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/engine"
	"frazil/pipelines"
	_ "frazil/pipelines/std"
	"frazil/state"

	"github.com/apache/arrow-go/v18/arrow"
)

// run loads the pipeline text, runs it to its end and returns the rows of every
// files sink by step, as decoded JSON objects. %OUT% in the text becomes a new
// folder.
func run(t *testing.T, parallelism int, text string) map[string][]map[string]any {
	t.Helper()
	dir := t.TempDir()
	text = strings.ReplaceAll(text, "%OUT%", dir)
	p, problems := pipelines.Parse(filepath.Join(dir, "pipeline.yaml"), []byte(text), pipelines.Options{Parallelism: parallelism})
	if p == nil {
		t.Fatalf("the pipeline is wrong: %v", problems)
	}
	s, err := state.Open(filepath.Join(dir, "state"), state.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if _, err := engine.NewJob(p.Graph, engine.Options{Store: s, Every: 50 * time.Millisecond}).Run(ctx); err != nil {
		t.Fatal(err)
	}
	return written(t, p)
}

// written returns the rows of every files sink of a pipeline, by step.
func written(t *testing.T, p *pipelines.Pipeline) map[string][]map[string]any {
	t.Helper()
	ctx := context.Background()
	out := map[string][]map[string]any{}
	for _, sink := range p.Graph.Sinks {
		k, err := sink.NewCommitter(ctx, engine.OutsideEnv(p.Graph, sink.Name))
		if err != nil {
			t.Fatal(err)
		}
		rows := []map[string]any{}
		err = k.(dataflow.TableReader).Rows(ctx, func(b arrow.RecordBatch) error {
			for i := range int(b.NumRows()) {
				rows = append(rows, decode(t, dataflow.RowJSON(b, i)))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		out[sink.Name] = rows
		k.Close()
	}
	return out
}

func decode(t *testing.T, line []byte) map[string]any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	var row map[string]any
	if err := dec.Decode(&row); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return row
}

// golden reads NDJSON rows, gzipped or not.
func golden(t *testing.T, path string) []map[string]any {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]any
	for _, line := range bytes.Split(bytes.TrimSpace(raw), []byte("\n")) {
		rows = append(rows, decode(t, line))
	}
	if len(rows) == 0 {
		t.Fatalf("%s is empty", path)
	}
	return rows
}

// millis turns our RFC 3339 text into the goldens' epoch milliseconds.
func millis(t *testing.T, v any) any {
	t.Helper()
	if v == nil {
		return nil
	}
	at, err := time.Parse(time.RFC3339Nano, v.(string))
	if err != nil {
		t.Fatal(err)
	}
	return json.Number(fmt.Sprint(at.UnixMilli()))
}

// asText is the JSON of a value as decode gives it.
func asText(v any) string {
	switch v := v.(type) {
	case string:
		return strconv.Quote(v)
	case json.Number:
		return v.String()
	}
	b, _ := json.Marshal(v)
	return string(b)
}

// same compares two sets of rows on the named columns, as multisets.
func same(t *testing.T, what string, got, want []map[string]any, columns ...string) {
	t.Helper()
	count := map[string]int{}
	key := func(r map[string]any) string {
		parts := make([]string, len(columns))
		for i, c := range columns {
			if _, ok := r[c]; !ok {
				t.Fatalf("%s: a row has no column %q: %v", what, c, r)
			}
			parts[i] = c + "=" + asText(r[c])
		}
		return strings.Join(parts, " ")
	}
	for _, r := range want {
		count[key(r)]--
	}
	for _, r := range got {
		count[key(r)]++
	}
	var diff []string
	for k, n := range count {
		if n != 0 {
			diff = append(diff, fmt.Sprintf("%+d %s", n, k))
		}
	}
	if len(diff) > 0 {
		sort.Strings(diff)
		t.Fatalf("%s: %d rows, want %d; %d differ (+ too many, - missing):\n%s", what, len(got), len(want), len(diff), strings.Join(diff[:min(10, len(diff))], "\n"))
	}
}

// sameValues compares rows on the columns of the wanted ones; numbers and times by
// their value.
func sameValues(t *testing.T, what string, got, want []map[string]any) {
	t.Helper()
	if len(want) == 0 {
		if len(got) > 0 {
			t.Fatalf("%s: %d rows, want none: %v", what, len(got), got)
		}
		return
	}
	var columns []string
	for c := range want[0] {
		columns = append(columns, c)
	}
	for _, rows := range [][]map[string]any{got, want} {
		for _, r := range rows {
			for c, v := range r {
				r[c] = valueOf(v)
			}
		}
	}
	same(t, what, got, want, columns...)
}

func valueOf(v any) any {
	switch v := v.(type) {
	case json.Number:
		if r, ok := new(big.Rat).SetString(v.String()); ok {
			return r.RatString()
		}
	case string:
		if at, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return at.UTC().Format(time.RFC3339Nano)
		}
		if r, ok := new(big.Rat).SetString(v); ok {
			return r.RatString()
		}
	case []any:
		for i := range v {
			v[i] = valueOf(v[i])
		}
	}
	return v
}

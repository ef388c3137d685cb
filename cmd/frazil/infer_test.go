package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"frazil/pipelines"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// inferred proposes a pipeline for lines and returns its text and how many of
// the lines the proposal refuses.
func inferred(t *testing.T, lines []string) (text string, refused int) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("sample.ndjson", []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	code, text, stderr := frazil("infer", "sample.ndjson")
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d\n%s\n%s", code, stderr, strings.Join(lines, "\n"))
	}
	if err := os.WriteFile("p.yaml", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	p, problems := pipelines.Load("p.yaml", pipelines.Options{})
	if len(problems) > 0 {
		t.Fatalf("%v\n%s", problems, text)
	}
	d, err := p.Graph.Sources[0].NewDecoder()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		if strings.TrimSpace(l) == "" {
			continue
		}
		if bad := d.Append([]byte(l)); bad != nil {
			refused++
			if json.Valid([]byte(l)) {
				t.Errorf("%s\nis bad: %v\n%s", l, bad, text)
			}
		}
	}
	for _, a := range d.Flush() {
		a.Release()
	}
	return text, refused
}

func TestInferProposes(t *testing.T) {
	for _, c := range []struct{ name, lines, want string }{
		{"types", `
{"s":"x","i":1,"f":1.5,"b":true,"at":"2026-01-01T00:00:00Z","l":"2026-01-01T00:00:00","d":"2026-01-01","c":"10:00:00","u":"8d3a1f6c-0c26-4e2b-9a39-111111111111","big":18446744073709551616}
{"s":"","i":-2,"f":2,"b":false,"at":"2026-01-01T00:00:01.5+01:00","l":"2026-01-02T00:00:00","d":"2026-01-02","c":"10:00:00.5","u":"8d3a1f6c-0c26-4e2b-9a39-111111111112","big":1}`,
			`s: string|i: int64|f: float64|b: bool|at: timestamptz|l: timestamp  # times without a zone|d: date|c: time|u: uuid|big: decimal(38,0)  # too large for int64`},
		{"units", `{"ts":1767225600,"created_at":1767225600000,"updatedAt":1767225600000000,"event_time":1767225600000000000,"x":1767225600000,"id":1767225600,"now":0.5}`,
			`ts: timestamptz(s)|created_at: timestamptz(ms)|updatedAt: timestamptz(us)|event_time: timestamptz(ns)|x: timestamptz(ms)  # a number, taken for a time by its size|id: int64  # timestamptz(s) if it is a time`},
		{"fraction of seconds", `{"time":1767225600.25}`, "time: timestamptz(s)"},
		{"numbers as text", "{\"p\":\"12.50\",\"q\":3,\"id\":\"0012\"}\n{\"p\":\"1.5\",\"q\":\"3.25\",\"id\":\"7\"}",
			"p: decimal(18,2)  # numbers as text|q: decimal(18,2)  # a number in 1, text in 1; a decimal takes both|id: string"},
		{"fixed places", "{\"p\":12.50}\n{\"p\":1.25}", "p: decimal(18,2)  # always with the same number of places"},
		{"nested", `{"a":[1,2],"e":[],"o":{"x":1,"y":["t"]},"m":{"a b":1},"ll":[[1.5]]}`,
			`a: list<int64>|e: list<json>|o: 'struct{x: int64, y: list<string>}'|m: json  # an object with a field "a b"|ll: list<list<float64>>`},
		{"conflicts", "{\"v\":1,\"w\":[1]}\n{\"v\":\"a\",\"w\":{}}\n{\"v\":null}", "v: json  # a number in 1, text in 1; null or missing in 1|w: json  # an array in 1, an object in 1; null or missing in 1"},
		{"nulls", "{\"a\":1,\"b\":null}\n{\"a\":2}", "b: json  # no value in the sample; json takes any; null or missing in 2|required: [a]"},
		{"all of them ints but one", "{\"a\":9223372036854775807}\n{\"a\":1e3}\n{\"a\":1.0}", "a: float64"},
		{"no objects", "[1,2]\n[\"a\",3]", "# 2 records are no objects: column \"document\" keeps every document as it is.|whole: document"},
		{"some are no objects", "{\"document\":1}\n7", "document: int64|whole: document2"},
		{"broken ones", "{\"a\":1}\n{\"a\":", "from 2 records; 1 of them would be bad.|# 1 records cannot be read, the first is record 2: invalid_json|required: [a]"},
		{"names", `{"_x":1,"":2,"null":3,"a b":4,"it's":5,"q\"":6,"\u0000":7,"<<":8,"ä":9}`,
			`# left out, since no column can have such a name: "_x", "", |'null': int64|'a b': int64|"it's": int64|'q"': int64|'<<': int64|'ä': int64`},
		{"deep", strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70), "json|depth: 70"},
		{"long", `{"a":"` + strings.Repeat("x", 1<<20) + `"}`, "max_record: 2MiB"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			text, _ := inferred(t, strings.Split(strings.TrimSpace(c.lines), "\n"))
			for _, w := range strings.Split(c.want, "|") {
				if !strings.Contains(text, w) {
					t.Errorf("no %q in\n%s", w, text)
				}
			}
		})
	}
}

// A few stragglers and a clock that is a day ahead do not decide the bound.
func TestInferProposesTheEventTime(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var lines []string
	for i := range 1000 {
		at := start.Add(time.Duration(i) * time.Second)
		switch {
		case i == 500:
			at = at.Add(24 * time.Hour)
		case i == 600:
			at = at.Add(-9 * time.Minute)
		case i%7 == 3:
			at = at.Add(-8 * time.Second)
		}
		lines = append(lines, fmt.Sprintf(`{"stored_at":%q,"ts":%d}`, start.Format(time.RFC3339), at.UnixMilli()))
	}
	text, _ := inferred(t, lines)
	for _, w := range []string{"event_time: {column: ts, out_of_orderness: 10s}", "1 records are from the future", "the others up to 8m59s"} {
		if !strings.Contains(text, w) {
			t.Errorf("no %q in\n%s", w, text)
		}
	}
}

func TestInferReadsCompressedFilesAndSeveral(t *testing.T) {
	t.Chdir(t.TempDir())
	line := []byte("{\"a\":1,\"ts\":1767225600000}\r\n\r\n{\"a\":2,\"ts\":1767225601000}\r\n")
	var gz bytes.Buffer
	z := gzip.NewWriter(&gz)
	_, _ = z.Write(line)
	_ = z.Close()
	e, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"a.ndjson": line, "b [1].gz": gz.Bytes(), "c.zst": e.EncodeAll(line, nil)} {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	code, stdout, stderr := frazil("infer", "a.ndjson", "b [1].gz", "c.zst")
	if code != exitOK || !strings.Contains(stdout, "from 6 records; 0 of") || !strings.Contains(stdout, "in order within each file") {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	if err := os.WriteFile("p.yaml", []byte(stdout), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := frazil("run", "p.yaml", "--until", "end"); code != exitOK || !strings.Contains(stderr, "6 rows read") || strings.Contains(stderr, "bad") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	if code, stdout, _ := frazil("infer", "--rows", "1", "--block", "a.ndjson"); code != exitOK || !strings.HasPrefix(stdout, "# Proposed by frazil infer from 1 records") ||
		!strings.Contains(stdout, "\ndecode:\n  json:\n    schema:\n      a: int64\n") {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
	for name, text := range map[string]string{"empty": "", "pretty.json": "{\n\"a\": [\n"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if code, _, stderr := frazil("infer", name); code != exitFailed || !strings.Contains(stderr, "one JSON document a line") {
			t.Errorf("%s: exit code %d\n%s", name, code, stderr)
		}
	}
}

// documents makes up values of all kinds.
type documents struct {
	*rand.Rand
	names []string
	// kinds of each field, so that most fields are of one.
	kinds map[string]int
}

func (d *documents) value(name string, depth int) any {
	kind, ok := d.kinds[name]
	if !ok {
		kind = d.IntN(14)
		d.kinds[name] = kind
	}
	if d.IntN(40) == 0 {
		kind = d.IntN(14)
	}
	at := time.Unix(1_700_000_000+d.Int64N(1e7), d.Int64N(1e9)).UTC()
	switch kind {
	case 0:
		return d.IntN(2) == 0
	case 1:
		return d.Int64() >> d.IntN(64)
	case 2:
		return json.Number(fmt.Sprintf("%d.%02d", d.IntN(1000), d.IntN(100)))
	case 3:
		return d.NormFloat64() * 1e6
	case 4:
		return json.Number(fmt.Sprintf("%d%d%d", 1+d.IntN(9), d.Uint64(), d.Uint64N(1<<d.IntN(60))))
	case 5:
		return at.Format(time.RFC3339Nano)
	case 6:
		return at.UnixMilli()
	case 7:
		return at.Format(time.DateOnly)
	case 8:
		return fmt.Sprintf("%d.%d", d.IntN(100), d.IntN(100))
	case 9:
		return nil
	case 10:
		return []string{"", "x", "\u0000", "12", "${HOME}", "'", "# no", "\U0001f600", "2026-13-01"}[d.IntN(9)]
	case 11:
		return json.Number([]string{"1e3", "1.0", "-0", "1e400", "0.1e-5", "123456789012345678901234567890123456789.5"}[d.IntN(6)])
	case 12:
		if depth > 3 {
			return 1
		}
		list := make([]any, d.IntN(4))
		for i := range list {
			list[i] = d.value(name+"[]", depth+1)
		}
		return list
	}
	if depth > 3 {
		return "deep"
	}
	return d.object(name+".", depth+1)
}

func (d *documents) object(path string, depth int) map[string]any {
	out := map[string]any{}
	for range d.IntN(7) {
		n := d.names[d.IntN(len(d.names))]
		out[n] = d.value(path+n, depth)
	}
	return out
}

// Whatever the documents are, lint takes the proposal and none of them is bad.
func TestInferTakesRandomDocuments(t *testing.T) {
	for range 150 {
		seed := rand.Uint64()
		d := &documents{Rand: rand.New(rand.NewPCG(seed, 0)), kinds: map[string]int{},
			names: []string{"a", "b", "ts", "created_at", "Time", "y", "on", "null", "a.b", "a b", "x:y", "[0]", "it's", "\"", "\\", "#", "-", "ü", "_x", "", "*", "&a", "%", "@timestamp", "1", "true"}}
		var lines []string
		for range 1 + d.IntN(60) {
			b, err := json.Marshal(d.object("", 0))
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, string(b))
		}
		if inferred(t, lines); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// The oracles' own data: hundreds of files of many shapes.
func TestInferTakesTheOraclesData(t *testing.T) {
	root := os.Getenv("FRAZIL_SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared")
	}
	root, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	_ = filepath.WalkDir(filepath.Join(root, "data"), func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".ndjson") && !strings.HasSuffix(path, ".jsonl") || n >= 200 {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || len(bytes.TrimSpace(text)) == 0 {
			return err
		}
		n++
		if _, refused := inferred(t, strings.Split(string(text[:min(len(text), 1<<20)]), "\n")); refused > 1 {
			t.Errorf("%s: %d refused", path, refused)
		}
		return nil
	})
	if n == 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("FRAZIL_SHARED has no data")
		}
		t.Skip("FRAZIL_SHARED has no data")
	}
	t.Logf("%d files", n)
}

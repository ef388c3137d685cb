package component

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

type sub struct {
	Schema NamedTypes `yaml:"schema,required"`
	Depth  int        `yaml:"depth"`
}

type pair struct {
	Left  int `yaml:"left"`
	Right int `yaml:"right"`
}

type shared struct {
	OnGap string `yaml:"on_gap" oneof:"fail,continue"`
}

type config struct {
	Brokers  []string       `yaml:"brokers"`
	Every    Duration       `yaml:"every"`
	Memory   Bytes          `yaml:"memory"`
	Count    int64          `yaml:"count"`
	Ratio    float64        `yaml:"ratio"`
	On       bool           `yaml:"on"`
	Password Secret         `yaml:"password"`
	Mode     string         `yaml:"mode" oneof:"end,follow"`
	Compute  NamedExprs     `yaml:"compute"`
	Ports    map[string]int `yaml:"ports"`
	JSON     *sub           `yaml:"json"`
	Pair     pair           `yaml:"pair"`
	Pairs    []pair         `yaml:"pairs"`
	Hook     hooked         `yaml:"hook"`
	Shared   shared         `yaml:",inline"`
}

type hooked struct{ words []string }

func (h *hooked) UnmarshalNode(n *Node) error {
	if n.Kind != Text {
		return Badf("", "expected words")
	}
	h.words = strings.Fields(n.Text)
	return nil
}

func env(vars map[string]string) func(string) (string, bool) {
	return func(k string) (string, bool) { v, ok := vars[k]; return v, ok }
}

var vars = env(map[string]string{"TWO": "a: b\nc", "N": "7", "EMPTY": "", "BOOL": "true", "DUR": "9s", "PASS": "hunter2"})

func decode(t *testing.T, text string) (config, Problems) {
	t.Helper()
	c := config{Mode: "end", Count: 1, Pair: pair{Left: 5}}
	n, ps := Parse("f.yaml", []byte(text), vars)
	if n != nil {
		ps = append(ps, Decode(n, &c)...)
	}
	return c, ps
}

func TestEveryTypeIsDecodedOverItsDefault(t *testing.T) {
	c, ps := decode(t, `
brokers: [a:1, "b:2"]   # ${NOPE} in a comment means nothing
every: 1m30s
memory: 64KiB
count: 1_000
ratio: 1e3
on: true
password: ${env:PASS}
compute: {x: a + 1, y: 1, z: true}
ports:
  web: 80
json:
  schema: {b: int64, a: "decimal(10,2)"}
pair: {right: 2}
pairs: [{left: 1}, {right: 2}]
hook: one two
on_gap: continue
`)
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	want := config{
		Brokers: []string{"a:1", "b:2"}, Every: Duration(90 * time.Second), Memory: 64 << 10, Count: 1000, Ratio: 1000, On: true,
		Password: "hunter2", Mode: "end", Compute: NamedExprs{{"x", "a + 1"}, {"y", "1"}, {"z", "true"}},
		Ports: map[string]int{"web": 80}, JSON: &sub{Schema: NamedTypes{{"b", "int64"}, {"a", "decimal(10,2)"}}},
		Pair: pair{5, 2}, Pairs: []pair{{Left: 1}, {Right: 2}}, Hook: hooked{[]string{"one", "two"}}, Shared: shared{OnGap: "continue"},
	}
	if !reflect.DeepEqual(c, want) {
		t.Fatalf("got  %#v\nwant %#v", c, want)
	}
}

func TestVariablesNeverChangeTheStructure(t *testing.T) {
	c, ps := decode(t, "brokers: [\"${TWO}\"]\ncount: ${N}\non: ${BOOL}\nevery: ${DUR}\ncompute:\n  x: ${EMPTY:-d}\n  y: $${N} ${N}\nhook: ${UNSET:-p q}\n")
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	if c.Brokers[0] != "a: b\nc" || c.Count != 7 || !c.On || c.Every.D() != 9*time.Second ||
		c.Compute[0].Expr != "d" || c.Compute[1].Expr != "${N} 7" || len(c.Hook.words) != 2 {
		t.Fatalf("%#v", c)
	}
}

func TestSecretsAreNeverPrinted(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "pw"), []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n, ps := Parse(filepath.Join(dir, "p.yaml"), []byte("password: x${file:pw}y\nbrokers: [\"${env:PASS}\"]\ncount: hunter2x\n"), vars)
	var c config
	ps = append(ps, Decode(n, &c)...)
	if c.Password.Reveal() != "xhunter2y" {
		t.Fatalf("got %q", c.Password.Reveal())
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "c", c.Password)
	js, _ := json.Marshal(c.Password)
	for _, text := range []string{fmt.Sprint(c.Password), fmt.Sprintf("%v %+v %#v %s %q", c, c, c, c.Password, c.Password), string(js), log.String(), ps[0].Error()} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("printed: %s", text)
		}
	}
	if len(ps) != 2 || !strings.Contains(ps.Error(), "a secret is not allowed here") {
		t.Errorf("got %v", ps)
	}
}

// Error makes a Problem comparable in tests.
func (p Problem) Error() string { return p.String() }

func TestEachMistakeIsNamedWithItsPlace(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"evry: 10s", `f.yaml:1:1: evry: unknown key "evry"; did you mean "every"? known: brokers, compute, count, every, hook, json, memory, mode, on, on_gap, pair, pairs, password, ports, ratio`},
		{"every: 10", `f.yaml:1:8: every: duration "10" has no unit: write "10s"`},
		{"every: soon", `f.yaml:1:8: every: duration "soon": expected a number with a unit, as 10s, 500ms, 5m, 1h or 7d`},
		{"memory: 64", `f.yaml:1:9: memory: size "64" has no unit: write "64MiB"`},
		{"count: ten", `f.yaml:1:8: count: expected a whole number, got the text "ten"`},
		{"count: 1e3", `f.yaml:1:8: count: expected a whole number, got the number 1e3: write 1000`},
		{"count: 1.5", `f.yaml:1:8: count: expected a whole number, got the number 1.5`},
		{`count: "3"`, `f.yaml:1:8: count: expected a whole number, got the text "3": leave out the quotes`},
		{"on: yes", `f.yaml:1:5: on: expected true or false, got the text "yes"`},
		{"brokers: a", `f.yaml:1:10: brokers: expected list of text, got the text "a": write [a]`},
		{"brokers: [1]", `f.yaml:1:11: brokers[0]: expected text, got the number 1: write it in quotes, "1"`},
		{"brokers:", `f.yaml:1:1: brokers: expected list of text, got nothing`},
		{"mode: folow", `f.yaml:1:7: mode: expected one of end, follow, got "folow"; did you mean "follow"?`},
		{"json: {depth: 1}", `f.yaml:1:8: json.schema: required key "schema" is missing`},
		{"json: {schema: {p: decimal(10,2)}}", "f.yaml:1:20: json.schema.p: the text \"decimal(10\" stops in the middle: inside { } a comma ends it, so write it in quotes\n" +
			`f.yaml:1:31: json.schema.2): the text "2)" is the rest of the value before it: inside { } a comma ends a value, so write that one in quotes`},
		{"depth: 3", `f.yaml:1:1: depth: unknown key "depth" here: it belongs to json; known here: brokers, compute, count, every, hook, json, memory, mode, on, on_gap, pair, pairs, password, ports, ratio`},
		{"group.id: x", `f.yaml:1:1: group.id: unknown key "group.id": it is an option of Kafka clients; positions are kept by Frazil, write "group" for the mirrored group; known here: brokers, compute, count, every, hook, json, memory, mode, on, on_gap, pair, pairs, password, ports, ratio`},
		{"count: 1\non: true\ncount: 2", `f.yaml:3:1: count: key "count" stands on line 1 and again on line 3: keep one`},
		{"pair: 3", `f.yaml:1:7: pair: expected a block of keys, got the number 3; known keys: left, right`},
		{"pairs: [{lft: 1}]", `f.yaml:1:10: pairs[0].lft: unknown key "lft"; did you mean "left"? known: left, right`},
		{"hook: [a]", `f.yaml:1:7: hook: expected words`},
		{"compute: {x: [1]}", `f.yaml:1:14: compute.x: expected an expression as text, got a list: write it in quotes`},
		{"brokers: [\"${NOPE}\"]", `f.yaml:1:11: brokers[0]: variable NOPE is not set: set it, or write ${NOPE:-default}`},
		{"hook: ${a b}", `f.yaml:1:7: hook: ${a b}: expected ${NAME} or ${NAME:-default}, or $${ for the characters themselves`},
		{"hook: ${a", `f.yaml:1:7: hook: "${a" is not closed: write ${NAME}, or $${ for the characters themselves`},
		{"password: ${env:GONE}", `f.yaml:1:11: password: variable GONE of the secret ${env:GONE} is not set`},
		{"hook: !!str x", `f.yaml:1:7: hook: tag !!str: tags are not used here; leave it out`},
		{"hook: *x", `f.yaml:1:1: hook: alias *x: no anchor &x stands before it`},
		{"", `f.yaml:1:1: the file is empty`},
		{"# only this", `f.yaml:1:1: the file is empty`},
		{"on: true\n---\non: true", `f.yaml:3:1: a second YAML document: one file holds one pipeline`},
		{"brokers: [${N}]", `f.yaml:1:12: YAML: ',' or ']' must be specified; inside { } and [ ], or with ": " in it, write "${NAME}" in quotes`},
		{"- a", `f.yaml:1:1: expected a block of keys, got a list; known keys: brokers, compute, count, every, hook, json, memory, mode, on, on_gap, pair, pairs, password, ports, ratio`},
	} {
		_, ps := decode(t, c.text)
		if got := ps.Error(); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.text, got, c.want)
		}
	}
}

func TestOffsetsPointIntoTheFile(t *testing.T) {
	n, ps := Parse("f.yaml", []byte("a: tmp > 1\nb: 'tmp > 1'\nc: |\n  x and\n  tmp > 1\nd: ${N} > 1\n"), vars)
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	for _, c := range []struct {
		path      string
		offset    int
		line, col int
		excerpt   string
	}{
		{"a", 6, 1, 10, "tmp > 1\n      ^"},
		{"b", 6, 2, 11, "tmp > 1\n      ^"},
		{"c", 8, 5, 5, "tmp > 1\n  ^"},
		{"d", 4, 6, 4, "7 > 1\n    ^"},
	} {
		p := n.Locate(Problem{Path: c.path, Offset: c.offset})
		if p.Line != c.line || p.Col != c.col || p.Excerpt != c.excerpt {
			t.Errorf("%s: got %d:%d %q", c.path, p.Line, p.Col, p.Excerpt)
		}
	}
}

func FuzzParseAndDecodeNeverPanic(f *testing.F) {
	f.Add("a: ${X:-1}\nb: &x [1, *x]\n<<: *x\n")
	f.Add("brokers: [a]\njson: {schema: {a: int64}}\npairs: [{left: 1}]\n")
	f.Fuzz(func(t *testing.T, text string) {
		n, ps := Parse("f.yaml", []byte(text), vars)
		if n == nil && len(ps) == 0 {
			t.Fatal("no node and no problem")
		}
		if n != nil {
			var c config
			_ = Decode(n, &c).Error()
		}
	})
}

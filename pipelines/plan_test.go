package pipelines

import (
	"context"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
)

// The components of these tests only plan.
type sourceConfig struct {
	// Tasks of the source.
	Tasks int `yaml:"tasks"`
	// Why it cannot be read again.
	Why string `yaml:"why"`
	// Password of nothing.
	Password component.Secret `yaml:"password"`
	// Wants a decode block.
	Wants bool `yaml:"wants"`
}

type opConfig struct {
	// Keep changes the state.
	Keep string `yaml:"keep"`
}

var columns = arrow.NewSchema([]arrow.Field{{Name: "k", Type: dataflow.TypeString}, {Name: "at", Type: dataflow.TypeTimestampTZ}}, nil)

func init() {
	component.RegisterSource(component.Source[sourceConfig]{
		Name: "src", Summary: "Source.", Default: func() sourceConfig { return sourceConfig{Tasks: 1} },
		Plan: func(in component.SourceIn, c sourceConfig) (component.SourcePlan, error) {
			if c.Wants && in.Decoded == nil {
				return component.SourcePlan{}, component.Badf("", "needs decode")
			}
			if !c.Wants && in.Decoded != nil {
				return component.SourcePlan{}, component.Badf("decode", "takes no decode")
			}
			return component.SourcePlan{Schema: columns, Tasks: c.Tasks, NotReplayable: c.Why}, nil
		},
		New: func(context.Context, *dataflow.Env, sourceConfig) (dataflow.Source, error) { return nil, nil },
	})
	op := func(name string, multi bool, plan component.OperatorPlan) {
		component.RegisterOperator(component.Operator[opConfig]{
			Name: name, Summary: "Operator.", Default: func() opConfig { return opConfig{Keep: "x"} }, MultiInput: multi,
			Plan: func(in component.OperatorIn, c opConfig) (component.OperatorPlan, error) {
				p := plan
				out := in.Inputs[0]
				if name == "changes" {
					out.Changelog, out.Key = true, []string{"k"}
				}
				if name == "sources" {
					return p, component.Badf("keep", "rows of %s", strings.Join(in.Sources, "+"))
				}
				p.Ports = []dataflow.Port{{Stream: out}, dataflow.BadPort()}
				return p, nil
			},
			New: func(context.Context, *dataflow.Env, component.OperatorIn, opConfig) (dataflow.Operator, error) {
				return nil, nil
			},
			NewBefore: func(context.Context, *dataflow.Env, component.OperatorIn, opConfig) (dataflow.Operator, error) {
				return nil, nil
			},
		})
	}
	op("same", false, component.OperatorPlan{})
	op("join", true, component.OperatorPlan{})
	op("keyed", false, component.OperatorPlan{Keyed: true, Exchange: columns, RouteBy: "k", State: "some"})
	op("arrival", false, component.OperatorPlan{NotReplayable: "by arrival", ByOrder: true})
	op("random", false, component.OperatorPlan{NotReplayable: "dice"})
	op("changes", false, component.OperatorPlan{})
	op("sources", true, component.OperatorPlan{})
	component.RegisterSink(component.Sink[opConfig]{
		Name: "out", Summary: "Sink.", Default: func() opConfig { return opConfig{} },
		Plan: func(in component.SinkIn, c opConfig) (component.SinkPlan, error) { return component.SinkPlan{}, nil },
		NewWriter: func(context.Context, *dataflow.Env, component.SinkIn, opConfig) (dataflow.Writer, error) {
			return nil, nil
		},
	})
}

// load plans a file of steps; s is the source, its options are given.
func load(t *testing.T, source, steps string) (*Pipeline, Problems) {
	t.Helper()
	text := "name: p\nsources:\n  s: {src: {" + source + "}}\n" + steps
	return Parse("p.yaml", []byte(text), Options{Parallelism: 2, Lookup: func(string) (string, bool) { return "", false }})
}

func TestEverySinkSaysWhyItIsNotReplayable(t *testing.T) {
	for _, c := range []struct{ name, source, steps, want string }{
		{"plain", "", "sinks: {o: {from: s, out: {}}}", ""},
		{"source", "why: gone", "sinks: {o: {from: s, out: {}}}", `step "s": gone`},
		{"one split in order", "tasks: 1", "operators: {a: {from: s, same: {}}, b: {from: a, arrival: {}}}\nsinks: {o: {from: b, out: {}}}", ""},
		{"several splits", "tasks: 2", "operators: {b: {from: s, arrival: {}}}\nsinks: {o: {from: b, out: {}}}", `step "b": by arrival`},
		{"any number of splits", "tasks: 0", "operators: {b: {from: s, arrival: {}}}\nsinks: {o: {from: b, out: {}}}", `step "b": by arrival`},
		{"behind an exchange", "tasks: 1", "operators: {a: {from: s, keyed: {}}, b: {from: a, arrival: {}}}\nsinks: {o: {from: b, out: {}}}", `step "b": by arrival`},
		{"two ways", "tasks: 1", "operators: {a: {from: s, same: {}}, j: {from: [s, a], join: {}}, b: {from: j, arrival: {}}}\nsinks: {o: {from: b, out: {}}}", `step "b": by arrival`},
		{"each reason once", "why: gone", "operators: {a: {from: s, random: {}}, b: {from: s, same: {}}, j: {from: [a, b], join: {}}}\nsinks: {o: {from: j, out: {}}}", `step "s": gone; step "a": dice`},
	} {
		p, ps := load(t, c.source, c.steps)
		if len(ps) > 0 {
			t.Fatal(c.name, ps)
		}
		if got := p.Graph.Sinks[0].NotReplayable; got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestInputsComeBeforeTheirReaders(t *testing.T) {
	p, ps := load(t, "", "operators: {c: {from: b, same: {}}, b: {from: a, same: {}}, a: {from: s, same: {}}}\nsinks: {o: {from: c, out: {}}, bad: {from: a.bad, out: {}}}")
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	var names []string
	for _, o := range p.Graph.Operators {
		names = append(names, o.Name)
	}
	if strings.Join(names, "") != "abc" || p.Graph.Sinks[1].Input.Port != 1 || p.Graph.Sinks[1].Input.Step != "a" {
		t.Errorf("got %v, %+v", names, p.Graph.Sinks[1].Input)
	}
}

func TestMistakesThatOnlyPlanningFinds(t *testing.T) {
	for _, c := range []struct{ name, source, steps, want string }{
		{"changes into a sink", "", "operators: {c: {from: s, changes: {}}}\nsinks: {o: {from: c, out: {}}}",
			`p.yaml:5:19: sinks.o.from: "c" gives changes (inserts, updates and deletes by k), and out takes rows that only come in addition: ask step "c" for final results only (a window's emit: final), or write the changes to a sink that takes them (files, console)`},
		{"decode missing", "wants: true", "sinks: {o: {from: s, out: {}}}", `p.yaml:3:13: sources.s.src: needs decode`},
		{"sources of the inputs", "", "  r: {src: {}}\noperators: {a: {from: r, same: {}}, x: {from: [s, a], sources: {}}}\nsinks: {o: {from: x, out: {}}}",
			`p.yaml:5:55: operators.x.sources.keep: rows of r+s`},
	} {
		_, ps := load(t, c.source, c.steps)
		if got := ps.Error(); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestProblemsOfTheStepsOwnKeysStandThere(t *testing.T) {
	text := "name: p\nsources:\n  s:\n    src: {}\n    decode: {json: {schema: {a: string}}}\nsinks: {o: {from: s, out: {}}}\n"
	_, ps := Parse("p.yaml", []byte(text), Options{})
	if got := ps.Error(); got != "p.yaml:5:14: sources.s.decode: takes no decode" {
		t.Errorf("got %s", got)
	}
}

func TestFingerprintsFollowWhatTheRowsDependOn(t *testing.T) {
	print := func(source, steps string) string {
		p, ps := load(t, source, steps)
		if len(ps) > 0 {
			t.Fatal(ps)
		}
		return p.Graph.Sinks[0].Fingerprint
	}
	base := print("", "operators: {a: {from: s, same: {}}}\nsinks: {o: {from: a, out: {}}}")
	for name, other := range map[string]string{
		"a default written out": print("tasks: 1", "operators: {a: {from: s, same: {keep: x}}}\nsinks: {o: {from: a, out: {}}}"),
		"names and places":      print("", "operators: {b: {from: s, same: {}}}\nparallelism: 7\nsinks: {p: {from: b, out: {keep: y}}}"),
	} {
		if other != base {
			t.Errorf("%s changed the fingerprint", name)
		}
	}
	if a, b := print("password: a", "sinks: {o: {from: s, out: {}}}"), print("password: b", "sinks: {o: {from: s, out: {}}}"); a != b {
		t.Error("another password changed the fingerprint")
	}
	for name, other := range map[string]string{
		"an option":         print("", "operators: {a: {from: s, same: {keep: y}}}\nsinks: {o: {from: a, out: {}}}"),
		"another component": print("", "operators: {a: {from: s, keyed: {}}}\nsinks: {o: {from: a, out: {}}}"),
		"a source's option": print("tasks: 2", "operators: {a: {from: s, same: {}}}\nsinks: {o: {from: a, out: {}}}"),
		"another port":      print("", "operators: {a: {from: s, same: {}}}\nsinks: {o: {from: a.bad, out: {}}, q: {from: a, out: {}}}"),
		"another step":      print("", "sinks: {o: {from: s, out: {}}}"),
	} {
		if other == base {
			t.Errorf("%s did not change the fingerprint", name)
		}
	}
	// A format: it stands in targets. A change here orphans what users have.
	if want := "ef1178fcb55550e426bffeaaed85fedc477be9065d94b2ff7055cb674f5ea4af"; base != want {
		t.Errorf("fingerprint %s, want %s", base, want)
	}
}

func TestTheTopOfTheFileHasDefaults(t *testing.T) {
	p, ps := load(t, "", "sinks: {o: {from: s, out: {}}}")
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	if p.CheckpointEvery != 10*time.Second || p.StateDir != "./frazil-data/state/p" || p.StateMemory != 256<<20 || p.Memory != 512<<20 ||
		p.HTTP != "127.0.0.1:4180" || p.Graph.Parallelism != 2 || p.Graph.Sources[0].DiscoverEvery != 30*time.Second {
		t.Errorf("got %+v", p)
	}
	p, ps = load(t, "", "sinks: {o: {from: s, out: {}}}\nmemory: 128MiB\nhttp: off\nstate: {dir: /x}\ncheckpoint: {every: 1s}\nparallelism: 5")
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	if p.CheckpointEvery != time.Second || p.StateDir != "/x" || p.StateMemory != 64<<20 || p.Memory != 128<<20 || p.HTTP != "" || p.Graph.Parallelism != 5 {
		t.Errorf("got %+v", p)
	}
}

func TestAMissingFileIsAProblem(t *testing.T) {
	if _, ps := Load("no-such.yaml", Options{}); ps.Error() != "no-such.yaml:1:1: open no-such.yaml: no such file or directory" {
		t.Errorf("got %v", ps)
	}
}

func FuzzParseNeverPanics(f *testing.F) {
	f.Add("name: p\nsources:\n  s: {src: {}}\noperators: {a: {from: s, same: {}}}\nsinks: {o: {from: [a], out: {}}}\n")
	f.Add("name: p\nsources: [a]\noperators: 3\nsinks:\n  o: {from: o.bad.x, out: }\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, ps := Parse("p.yaml", []byte(text), Options{Lookup: func(string) (string, bool) { return "", false }})
		if (p == nil) != (len(ps) > 0) {
			t.Fatalf("pipeline %v and problems %v", p, ps)
		}
		if p != nil {
			_ = p.Describe().WriteText(&strings.Builder{})
		}
	})
}

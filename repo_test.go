// Package frazil_test holds the tests of the repository as a whole: which
// package may import which, that each says what it is, and that what is
// generated is fresh.
package frazil_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"

	"frazil/dataflow/component"
	"frazil/pipelines"
	_ "frazil/pipelines/std"
)

var rewrite = flag.Bool("rewrite", false, "write generated files anew instead of comparing them")

// layers says who may not import whom. A pattern ends in "/..." for a folder and
// all below it; the packages in except may.
var layers = []struct {
	pkg, forbid string
	except      []string
	reason      string
}{
	{"state/...", "frazil/...", []string{"frazil/state/..."}, "state is the lowest layer"},
	{"dataflow", "frazil/...", []string{"frazil/state"}, "contracts know no implementation"},
	{"dataflow/component", "frazil/...", []string{"frazil/dataflow", "frazil/state"}, "the registry knows contracts, not components"},
	{"dataflow/codec/...", "frazil/...", []string{"frazil/dataflow", "frazil/dataflow/component", "frazil/dataflow/codec/..."}, "codecs turn bytes into columns and know nothing else"},
	{"dataflow/ingest/...", "frazil/...", []string{"frazil/dataflow", "frazil/dataflow/component", "frazil/state/wal", "frazil/dataflow/ingest/..."}, "what push sources share knows contracts and the log"},
	{"dataflow/brokers/...", "frazil/...", []string{"frazil/dataflow", "frazil/dataflow/component"}, "what both Kafka components share knows contracts"},
	{"dataflow/registry/...", "frazil/...", []string{"frazil/dataflow", "frazil/dataflow/component"}, "the client of schema registries knows contracts"},
	{"dataflow/webhooks/...", "frazil/...", nil, "signatures know no contracts"},
	{"dataflow/spool/...", "frazil/...", []string{"frazil/dataflow", "frazil/state"}, "what sinks stage on this machine knows contracts"},
	{"dataflow/checkpoint/...", "frazil/...", []string{"frazil/dataflow", "frazil/state", "frazil/dataflow/checkpoint/..."}, "the protocol is pure"},
	{"dataflow/engine/...", "frazil/...", []string{"frazil/dataflow", "frazil/dataflow/component", "frazil/dataflow/checkpoint/...", "frazil/dataflow/engine/...", "frazil/state/..."}, "the engine runs graphs and knows no component"},
	{"operators/expr/...", "frazil/...", []string{"frazil/dataflow", "frazil/dataflow/component", "frazil/operators/expr/..."}, "expressions stand alone"},
	{"operators", "frazil/...", contracts, "components meet only in pipelines/std"},
	{"sources/...", "frazil/...", contracts, "components meet only in pipelines/std"},
	{"sinks/...", "frazil/...", contracts, "components meet only in pipelines/std"},
	{"pipelines", "frazil/...", []string{"frazil/dataflow", "frazil/dataflow/component", "frazil/dataflow/codec", "frazil/dataflow/registry", "frazil/dataflow/engine", "frazil/dataflow/checkpoint", "frazil/pipelines/rehearsal", "frazil/state"}, "pipelines finds components by name"},
	{"pipelines/rehearsal", "frazil/...", []string{"frazil/dataflow", "frazil/dataflow/component", "frazil/dataflow/codec", "frazil/dataflow/engine", "frazil/dataflow/checkpoint", "frazil/state"}, "a rehearsal plays graphs and knows no component"},
	{"pipelines/filetest", "frazil/...", []string{"frazil/dataflow", "frazil/dataflow/component", "frazil/dataflow/engine", "frazil/pipelines", "frazil/pipelines/rehearsal"}, "tests of files are played by a rehearsal"},
	{"pipelines/std", "frazil/dataflow/...", nil, "the list of components is a list and nothing else"},
	{"cmd/...", "frazil/operators/...", []string{"frazil/operators/expr"}, "the command finds components by name"}, // expr: the language, for the commands expr and functions
	{"cmd/...", "frazil/sources/...", nil, "the command finds components by name"},
	{"cmd/...", "frazil/sinks/...", nil, "the command finds components by name"},
	{"...", "frazil/dataflow/flowtest/...", []string{"frazil/dataflow/flowtest/..."}, "test helpers are no part of the product"},
	{"...", "testing", nil, "the product does not link the test framework"},
	{"...", "C", nil, "the product is pure Go"},
	{"...", "github.com/cockroachdb/pebble/...", nil, "Pebble only in state"},
	{"...", "github.com/twmb/franz-go/...", nil, "the Kafka client only in its source and sink"},
	{"...", "github.com/eclipse/...", nil, "MQTT clients only in their source and sink"},
	{"...", "github.com/apache/iceberg-go/...", nil, "the Iceberg library only in its sink"},
	{"...", "modernc.org/sqlite/...", nil, "SQLite only behind the Iceberg catalog"},
	{"...", "github.com/jackc/pgx/...", nil, "the PostgreSQL client only in its source and sink"},
	{"...", "github.com/go-sql-driver/...", nil, "the MySQL client only in its source"},
	{"...", "github.com/goccy/go-yaml/...", nil, "YAML is read in one place"},
}

var contracts = []string{"frazil/dataflow", "frazil/dataflow/component", "frazil/dataflow/codec", "frazil/dataflow/ingest", "frazil/dataflow/spool", "frazil/dataflow/brokers", "frazil/dataflow/webhooks", "frazil/operators/expr/...", "frazil/state"}

// everywhere may be imported by all: it is nothing in a release, and imports nothing.
const everywhere = "frazil/dataflow/failpoint"

// homes are the packages that may import a library all others may not.
var homes = map[string][]string{
	"testing":                           {"dataflow/flowtest/...", "test/..."},
	"frazil/dataflow/flowtest/...":      {"dataflow/flowtest/...", "test/..."},
	"github.com/cockroachdb/pebble/...": {"state/...", "test/..."},
	"github.com/twmb/franz-go/...":      {"dataflow/brokers", "dataflow/registry", "sources/kafka/...", "sinks/kafka/...", "examples/kafka/...", "dataflow/flowtest/rig/...", "test/..."},
	"github.com/eclipse/...":            {"sources/mqtt/...", "sinks/mqtt/...", "examples/mqtt/..."},
	"github.com/apache/iceberg-go/...":  {"sinks/iceberg/...", "sources/iceberg/..."},
	"modernc.org/sqlite/...":            {"sinks/iceberg/..."},
	"github.com/jackc/pgx/...":          {"sources/cdc/...", "examples/outbox/...", "sources/outbox/...", "sinks/postgres/...", "dataflow/flowtest/rig/...", "test/..."},
	"github.com/go-sql-driver/...":      {"sources/outbox/...", "dataflow/flowtest/rig/...", "test/..."},
	"github.com/goccy/go-yaml/...":      {"dataflow/component"},
}

func matches(pattern, name string) bool {
	if pattern == "..." {
		return true
	}
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == base || strings.HasPrefix(name, base+"/")
	}
	return name == pattern
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

// file is one Go file of the repository that is no test.
type file struct {
	dir  string // from the root, with slashes
	path string
	ast  *ast.File
}

// skipped leaves out folders that hold no packages of ours: those whose name begins
// with "." or "_", testdata, and tools with a go.mod of their own.
func skipped(p, name string) error {
	if p == "." {
		return nil
	}
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "frazil-data" {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}

// productFiles parses all of them.
func productFiles(t *testing.T, mode parser.Mode) []file {
	t.Helper()
	var out []file
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			return skipped(p, name)
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || p == "keepdeps.go" {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, mode)
		if err != nil {
			return err
		}
		out = append(out, file{dir: filepath.ToSlash(filepath.Dir(p)), path: filepath.ToSlash(p), ast: f})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestImportsPointOneWay(t *testing.T) {
	for _, f := range productFiles(t, parser.ImportsOnly) {
		for _, imp := range f.ast.Imports {
			name := strings.Trim(imp.Path.Value, `"`)
			for _, l := range layers {
				if name != everywhere && matches(l.pkg, f.dir) && matches(l.forbid, name) && !matchesAny(l.except, name) && !matchesAny(homes[l.forbid], f.dir) {
					t.Errorf("%s imports %s: %s", f.path, name, l.reason)
				}
			}
		}
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	docs, files := map[string]string{}, map[string]string{}
	for _, f := range productFiles(t, parser.ParseComments|parser.PackageClauseOnly) {
		files[f.dir] = f.path
		if f.ast.Doc != nil && len(f.ast.Doc.Text()) > len(docs[f.dir]) {
			docs[f.dir] = f.ast.Doc.Text()
		}
		name := f.ast.Name.Name
		if slices.Contains([]string{"util", "utils", "common", "helpers", "misc", "types"}, name) {
			t.Errorf("%s: package %s: name it by what it is about", f.path, name)
		}
	}
	for dir, f := range files {
		if len(docs[dir]) < 40 {
			t.Errorf("package in %s (%s) has no doc comment that says what it is", dir, f)
		}
	}
}

// fieldComments collects the comments of fields with a yaml tag, by
// "import path.Type.Field".
func fieldComments(t *testing.T) map[string]string {
	out := map[string]string{}
	for _, f := range productFiles(t, parser.ParseComments) {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			ts, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			st, ok := ts.Type.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range st.Fields.List {
				if field.Tag == nil || !strings.Contains(field.Tag.Value, `yaml:"`) || strings.Contains(field.Tag.Value, `yaml:",inline"`) {
					continue
				}
				doc := field.Doc.Text()
				if doc == "" {
					doc = field.Comment.Text()
				}
				for _, name := range field.Names {
					key := path.Join("frazil", f.dir) + "." + ts.Name.Name + "." + name.Name
					out[key] = strings.Join(strings.Fields(doc), " ")
					if doc == "" {
						t.Errorf("%s: option %s has no comment with its unit, default and effect", f.path, key)
					}
				}
			}
			return true
		})
	}
	return out
}

const referenceTable = "dataflow/component/zz_reference.go"

func TestReferenceIsFresh(t *testing.T) {
	docs := fieldComments(t)
	keys := make([]string, 0, len(docs))
	for k := range docs {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	var b bytes.Buffer
	b.WriteString("// Code generated from the comments of config structs. DO NOT EDIT.\n// Renew with: go test . -run Reference -rewrite\n\npackage component\n\nvar fieldDocs = map[string]string{\n")
	for _, k := range keys {
		fmt.Fprintf(&b, "%q: %q,\n", k, docs[k])
	}
	b.WriteString("}\n")
	text, err := format.Source(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	fresh(t, referenceTable, text)
}

// TestReferencePagesAreFresh needs the table of TestReferenceIsFresh linked in:
// after a change, rewrite twice.
func TestReferencePagesAreFresh(t *testing.T) {
	want := map[string]bool{}
	for _, i := range append(component.All(), pipelines.Blocks()...) {
		name := fmt.Sprintf("docs/reference/%s-%s.md", i.Kind, i.Name)
		want[filepath.Base(name)] = true
		fresh(t, name, []byte(component.Reference(i)))
	}
	have, _ := filepath.Glob("docs/reference/*-*.md")
	for _, f := range have {
		if !want[filepath.Base(f)] {
			if *rewrite {
				_ = os.Remove(f)
				continue
			}
			t.Errorf("%s describes a component that does not exist", f)
		}
	}
}

// fresh compares a generated file with text, or writes it.
func fresh(t *testing.T, name string, text []byte) {
	t.Helper()
	old, _ := os.ReadFile(name)
	if bytes.Equal(old, text) {
		return
	}
	if !*rewrite {
		t.Errorf("%s is stale: go test . -run Reference -rewrite (twice, if an option's comment changed)", name)
		return
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

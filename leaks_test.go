package frazil_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"frazil/dataflow/flowtest/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// TestEveryPackageLooksForLeaks: the tests of each package end with a look at what
// they left; program.Main has it too. There are no exceptions of packages: those of a
// test are options of leak.Main, with their reasons.
func TestEveryPackageLooksForLeaks(t *testing.T) {
	looks := map[string]bool{}
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipped(p, d.Name())
		}
		if !strings.HasSuffix(p, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(p))
		looks[dir] = looks[dir] || looksForLeaks(f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir, ok := range looks {
		if !ok {
			t.Errorf("%s has tests and no TestMain with leak.Main of dataflow/flowtest/leak: they would leave goroutines, files and memory unseen", dir)
		}
	}
	if len(looks) < 40 {
		t.Errorf("only %d packages with tests were found", len(looks))
	}
}

// looksForLeaks says whether f has a TestMain that calls Main of leak or program.
func looksForLeaks(f *ast.File) (found bool) {
	for _, d := range f.Decls {
		main, ok := d.(*ast.FuncDecl)
		if !ok || main.Name.Name != "TestMain" {
			continue
		}
		ast.Inspect(main, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			switch fun := call.Fun.(type) {
			case *ast.SelectorExpr:
				of, ok := fun.X.(*ast.Ident)
				found = found || ok && fun.Sel.Name == "Main" && slices.Contains([]string{"leak", "program"}, of.Name)
			case *ast.Ident:
				found = found || fun.Name == "Main" && f.Name.Name == "leak"
			}
			return true
		})
	}
	return found
}

package frazil_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"frazil/dataflow/component"
	"frazil/pipelines"
)

// page is one Markdown file of the repository.
type page struct {
	path   string // from the root, with slashes
	blocks []block
	prose  string // without the fenced blocks
}

// block is one fenced block.
type block struct {
	lang, text string
	line       int
}

// pages reads all Markdown files but those of testdata and hidden folders.
func pages(t *testing.T) []page {
	t.Helper()
	var out []page
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "frazil-data") {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(p) != ".md" {
			return nil
		}
		text, err := os.ReadFile(p)
		if err == nil {
			out = append(out, parsePage(filepath.ToSlash(p), string(text)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func parsePage(path, text string) page {
	p := page{path: path}
	var prose strings.Builder
	var b *block
	for i, line := range strings.Split(text, "\n") {
		switch lang, fence := strings.CutPrefix(line, "```"); {
		case fence && b == nil:
			b = &block{lang: lang, line: i + 1}
		case fence:
			p.blocks = append(p.blocks, *b)
			b = nil
		case b != nil:
			b.text += line + "\n"
		default:
			prose.WriteString(line + "\n")
		}
	}
	p.prose = prose.String()
	return p
}

// TestPipelinesInDocumentsLint: what is shown as YAML is a whole pipeline and
// passes lint. What is no pipeline, or wrong on purpose, is shown as text.
func TestPipelinesInDocumentsLint(t *testing.T) {
	n := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.lang != "yaml" {
				continue
			}
			n++
			name := fmt.Sprintf("%s block at line %d", p.path, b.line)
			_, problems := pipelines.Parse(filepath.Join(filepath.Dir(p.path), "snippet.yaml"), []byte(b.text), pipelines.Options{
				Parallelism: 2,
				// Secrets are set; everything else has a default.
				Lookup: func(name string) (string, bool) {
					return "a secret that is long enough", strings.HasSuffix(name, "_CREDENTIAL")
				},
			})
			for _, x := range problems {
				t.Errorf("%s: %s", name, x)
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d pipelines were found: are the blocks still marked as yaml?", n)
	}
}

var (
	linkRule   = regexp.MustCompile(`\[[^\]\n]*\]\(([^)\s]+)\)`)
	headRule   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	anchorRule = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	codeRule   = regexp.MustCompile("`[^`\n]*`")
)

// anchors are the names under which a page's headings can be linked to.
func anchors(p page) []string {
	var out []string
	for _, m := range headRule.FindAllStringSubmatch(p.prose, -1) {
		a := anchorRule.ReplaceAllString(strings.ToLower(m[1]), "")
		out = append(out, strings.ReplaceAll(a, " ", "-"))
	}
	return out
}

func TestLinksInDocumentsLeadSomewhere(t *testing.T) {
	all := map[string]page{}
	for _, p := range pages(t) {
		all[p.path] = p
	}
	for _, p := range all {
		for _, m := range linkRule.FindAllStringSubmatch(codeRule.ReplaceAllString(p.prose, ""), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			to := p.path
			if target != "" {
				to = filepath.ToSlash(filepath.Join(filepath.Dir(p.path), target))
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s, which is not there", p.path, m[1])
			} else if anchor != "" && !slices.Contains(anchors(all[to]), anchor) {
				t.Errorf("%s links to %s; its headings are %v", p.path, m[1], anchors(all[to]))
			}
		}
	}
}

// TestEveryComponentHasAGuide: a page with an example that uses it, and a link
// from the list of documents.
func TestEveryComponentHasAGuide(t *testing.T) {
	all := map[string]page{}
	for _, p := range pages(t) {
		all[p.path] = p
	}
	want := map[string]bool{}
	for _, i := range component.All() {
		name := fmt.Sprintf("%s-%s.md", i.Kind, i.Name)
		if i.Kind == "connection" {
			continue // Told in the guide of its sink.
		}
		want[name] = true
		p, ok := all["docs/guides/"+name]
		if !ok {
			t.Errorf("%s %s has no guide: write docs/guides/%s", i.Kind, i.Name, name)
			continue
		}
		if !slices.ContainsFunc(p.blocks, func(b block) bool { return b.lang == "yaml" && strings.Contains(b.text, i.Name+":") }) {
			t.Errorf("%s has no example that uses %s", p.path, i.Name)
		}
		for _, index := range []string{"docs/README.md", "README.md"} {
			if !strings.Contains(all[index].prose, "guides/"+name) {
				t.Errorf("%s does not link to %s", index, p.path)
			}
		}
	}
	for path := range all {
		if dir, name := filepath.Split(path); dir == "docs/guides/" && !want[name] && strings.Contains(name, "-") {
			t.Errorf("%s is about a component that does not exist", path)
		}
	}
}

// TestDocumentsAreListed: every page of docs can be found from its README.
func TestDocumentsAreListed(t *testing.T) {
	all := pages(t)
	i := slices.IndexFunc(all, func(p page) bool { return p.path == "docs/README.md" })
	if i < 0 {
		t.Fatal("docs/README.md is missing")
	}
	for _, p := range all {
		if dir, name := filepath.Split(p.path); dir == "docs/" && name != "README.md" && !strings.Contains(all[i].prose, "("+name) {
			t.Errorf("docs/README.md does not link to %s", name)
		}
	}
}

// TestEveryDependencyHasAReason: each module that go.mod requires directly has a
// row in docs/dependencies.md, and the other way round.
func TestEveryDependencyHasAReason(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	direct := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(string(mod), -1) {
		direct[m[1]] = true
		if !strings.Contains(string(text), "| `"+m[1]+"` |") {
			t.Errorf("docs/dependencies.md does not say why %s is needed", m[1])
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\S+)` \\|").FindAllStringSubmatch(string(text), -1) {
		if !direct[m[1]] {
			t.Errorf("docs/dependencies.md tells of %s, which go.mod does not require directly", m[1])
		}
	}
}

// TestTheOperatorInContributingIsTheOneThatIsTested: the walk through a new
// operator shows the file that docs/tutorial compiles and runs.
func TestTheOperatorInContributingIsTheOneThatIsTested(t *testing.T) {
	for _, p := range pages(t) {
		if p.path != "CONTRIBUTING.md" {
			continue
		}
		for lang, file := range map[string]string{"go": "docs/tutorial/sample_test.go", "script": "docs/tutorial/testdata/sample/every_third"} {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, body, _ := strings.Cut(string(text), "// tutorial:begin\n")
			body, _, _ = strings.Cut(body, "// tutorial:end\n")
			if lang == "script" {
				body = string(text)
			}
			if !slices.ContainsFunc(p.blocks, func(b block) bool {
				return b.lang == lang && strings.TrimSpace(b.text) == strings.TrimSpace(body)
			}) {
				t.Errorf("CONTRIBUTING.md shows another text than %s:\n%s", file, body)
			}
		}
		return
	}
	t.Fatal("CONTRIBUTING.md is missing")
}

package full

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// run works through s below a name of its own and returns the portions that ran.
func run(t *testing.T, s Suite) []int {
	var ran []int
	t.Run("run", func(t *testing.T) {
		s.Run(t, func(_ *testing.T, n int) Figures {
			ran = append(ran, n)
			return Figures{"kills": 2, "max_ms": int64(n)}
		})
	})
	return ran
}

func TestTheFullTierGoesOnWhereItStopped(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("FRAZIL_FULL", dir)
	t.Setenv("FRAZIL_PORTION", "")
	t.Setenv("FRAZIL_FULL_FOR", "-1s")
	s := Suite{Name: "a", Total: 3, Short: 1}
	if ran := run(t, s); len(ran) != 0 {
		t.Fatalf("out of time, and %v ran", ran)
	}
	t.Setenv("FRAZIL_FULL_FOR", "")
	if ran := run(t, s); !slices.Equal(ran, []int{0, 1, 2}) {
		t.Fatalf("ran %v", ran)
	}
	s.Total = 5
	if ran := run(t, s); !slices.Equal(ran, []int{3, 4}) {
		t.Fatalf("ran %v", ran)
	}
	p, err := Read(filepath.Join(dir, "a.json"))
	if err != nil || p.Done != 5 || p.Next != 5 || len(p.Failed) != 0 || p.Figures["kills"] != 10 || p.Figures["max_ms"] != 4 {
		t.Fatalf("got %+v, %v", p, err)
	}
}

func TestAFailedPortionIsRunAgainFirst(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("FRAZIL_FULL", dir)
	t.Setenv("FRAZIL_PORTION", "")
	t.Setenv("FRAZIL_FULL_FOR", "")
	file := filepath.Join(dir, "a.json")
	write(t, file, &Progress{Suite: "a", Total: 4, Next: 3, Done: 2, Failed: []int{1}, Figures: Figures{}})
	if ran := run(t, Suite{Name: "a", Total: 4, Short: 1}); !slices.Equal(ran, []int{1, 3}) {
		t.Fatalf("ran %v", ran)
	}
	p, err := Read(file)
	if err != nil || p.Done != 4 || len(p.Failed) != 0 {
		t.Fatalf("got %+v, %v", p, err)
	}
}

func TestTheShortTierRunsAFew(t *testing.T) {
	t.Setenv("FRAZIL_FULL", "")
	t.Setenv("FRAZIL_PORTION", "")
	t.Setenv("FRAZIL_SEED", "9")
	if ran := run(t, Suite{Name: "a", Total: 10, Short: 3}); !slices.Equal(ran, []int{9, 0, 1}) {
		t.Fatalf("ran %v", ran)
	}
	t.Setenv("FRAZIL_PORTION", "7")
	if ran := run(t, Suite{Name: "a", Total: 10, Short: 3}); !slices.Equal(ran, []int{7}) {
		t.Fatalf("ran %v", ran)
	}
}

// A suite that test/full does not know never runs in the full tier.
func TestTheScriptKnowsEverySuite(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	script, err := os.ReadFile(filepath.Join(root, "test", "full"))
	if err != nil {
		t.Fatal(err)
	}
	made := regexp.MustCompile(`full\.Suite\{\s*Name:\s*"([a-z0-9-]+)"`)
	found := 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range made.FindAllStringSubmatch(string(text), -1) {
			found++
			if !regexp.MustCompile(`(?m)^` + m[1] + `\s+\./`).Match(script) {
				t.Errorf("%s has the suite %s, and test/full does not", path, m[1])
			}
		}
		return nil
	})
	if err != nil || found == 0 {
		t.Errorf("found %d suites, %v", found, err)
	}
}

//go:build !failpoints

package failpoints

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"frazil/dataflow/failpoint"
)

// elsewhere are words that are names of sites and of something else in the program:
// of metrics, and of a field in Iceberg's manifests.
var elsewhere = []failpoint.Site{failpoint.WALWritten, failpoint.QuarantineKept, failpoint.DataFile}

// A program without the tag has nothing of them: no name of a site, no variable, no
// function that is called.
func TestReleaseBuildsHoldNoFailpoints(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the program: left out with -short")
	}
	bin := filepath.Join(t.TempDir(), "frazil")
	for tags, want := range map[string]bool{"": false, "failpoints": true} {
		build := exec.Command("go", "build", "-tags", tags, "-o", bin, "frazil/cmd/frazil")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		raw, err := os.ReadFile(bin)
		if err != nil {
			t.Fatal(err)
		}
		names := []string{"FRAZIL_FAILPOINT"}
		for _, s := range failpoint.Sites() {
			if strings.Contains(string(s), "_") && !slices.Contains(elsewhere, s) {
				names = append(names, string(s))
			}
		}
		for _, name := range names {
			if bytes.Contains(raw, []byte(name)) != want {
				t.Errorf("tags %q: the program holds %q: %v, want %v", tags, name, !want, want)
			}
		}
		symbols, err := exec.Command("go", "tool", "nm", bin).Output()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(symbols, []byte("frazil/dataflow/failpoint.Hit")) != want {
			t.Errorf("tags %q: a function of failpoints is called: %v, want %v", tags, !want, want)
		}
	}
}

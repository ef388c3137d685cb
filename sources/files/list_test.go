package files

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A folder is read while files are added to it in the order of their names: no
// listing may show a file without all that were added before it.
func TestAListingHasNoHolesWhileFilesAreAdded(t *testing.T) {
	dir := t.TempDir()
	const files = 2000
	name := func(i int) string { return fmt.Sprintf("%06d.%s", i, []string{"ndjson", "ndjson.gz"}[i*7%3%2]) }
	added := make(chan error, 1)
	go func() {
		for i := range files {
			if err := os.WriteFile(filepath.Join(dir, name(i)), nil, 0o600); err != nil {
				added <- err
				return
			}
		}
		added <- nil
	}()
	for last := false; ; {
		got, err := list(dir, []string{"*.ndjson", "*.ndjson.gz"}, 1)
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range got[0] {
			if f.name != name(i) {
				t.Fatalf("file %d of %d listed is %s, want %s", i, len(got[0]), f.name, name(i))
			}
		}
		if last {
			if len(got[0]) != files {
				t.Fatalf("%d files at last, want %d", len(got[0]), files)
			}
			return
		}
		select {
		case err := <-added:
			if err != nil {
				t.Fatal(err)
			}
			last = true
		default:
		}
	}
}

package mqtt

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func readBirths(t *testing.T, dir string) (*births, []string) {
	t.Helper()
	var got []string
	b, err := openBirths(dir, func(topic string, payload []byte) { got = append(got, topic+"="+string(payload)) })
	if err != nil {
		t.Fatal(err)
	}
	return b, got
}

// What comes last for a topic counts, in the order in which it came; a torn tail is
// left out, wherever it is torn.
func TestBirthsOutlastARestart(t *testing.T) {
	dir := t.TempDir()
	b, _ := readBirths(t, dir)
	for _, e := range [][2]string{{"n1", "a"}, {"d1", "b"}, {"n1", "c"}, {"n2", ""}} {
		if err := b.add(e[0], []byte(e[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, birthsFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"d1=b", "n1=c", "n2="}
	b, got := readBirths(t, dir)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := b.close(); err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		b, got := readBirths(t, dir)
		if len(got) > 3 || n < len(whole) && slices.Contains(got, "n2=") {
			t.Fatalf("of %d bytes: %q", n, got)
		}
		if err := b.close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBirthsAreCompacted(t *testing.T) {
	dir := t.TempDir()
	b, _ := readBirths(t, dir)
	payload := make([]byte, 1<<20)
	for i := range 20 {
		if err := b.add(fmt.Sprint("n", i%2), payload); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.close(); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(filepath.Join(dir, birthsFile)); err != nil || st.Size() > 13<<20 {
		t.Errorf("%v, %v: want at most four times 2 MiB and 4 MiB", st.Size(), err)
	}
}

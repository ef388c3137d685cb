//go:build failpoints

package failpoints

import (
	"fmt"
	"os"
	"testing"

	"frazil/dataflow/failpoint"
	"frazil/dataflow/flowtest/leak"
)

// childDir names the scene that this process plays as a child, until it is killed.
const childDir = "FRAZIL_FAILPOINTS_SCENE"

func TestMain(m *testing.M) {
	dir := os.Getenv(childDir)
	if dir == "" {
		os.Exit(leak.Main(m, leak.WithoutArrow("the Parquet library leaves pooled buffers")))
	}
	s, err := newScene(dir)
	if err == nil {
		err = s.play(newWatch())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// playScene plays a new scene with steps armed, of which the first acts the nth time.
func playScene(t *testing.T, steps ...failpoint.Step) (*scene, *watch) {
	t.Helper()
	failpoint.Reset()
	t.Cleanup(failpoint.Reset)
	if len(steps) > 0 {
		failpoint.ArmChain(1, steps[0], steps[1:]...)
	}
	w := newWatch(steps...)
	s := playOn(t, t.TempDir(), w)
	for _, err := range w.close() {
		t.Error(err)
	}
	return s, w
}

// playOn plays the scene in dir to its end.
func playOn(t *testing.T, dir string, w *watch) *scene {
	t.Helper()
	s, err := newScene(dir)
	if err == nil {
		err = s.play(w)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, s.tail())
	}
	return s
}

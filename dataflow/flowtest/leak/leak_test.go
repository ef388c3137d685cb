package leak

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// tests are tests that end with a code.
type tests int

func (n tests) Run() int { return int(n) }

func left(t *testing.T, f func()) string {
	t.Helper()
	w := Begin()
	f()
	err := w.End()
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestWhatStaysIsSeen(t *testing.T) {
	quit := make(chan struct{})
	var file *os.File
	var b *array.Int64Builder
	for what, c := range map[string]struct {
		leave, clean func()
	}{
		"found unexpected goroutines": {func() { go func() { <-quit }() }, func() { close(quit) }},
		"open files were left": {func() {
			var err error
			if file, err = os.Create(filepath.Join(t.TempDir(), "f")); err != nil {
				t.Fatal(err)
			}
		}, func() { file.Close() }},
		"bytes of Arrow memory": {func() {
			b = array.NewInt64Builder(memory.DefaultAllocator)
			b.Append(1)
		}, func() { b.Release() }},
	} {
		if got := left(t, c.leave); !strings.Contains(got, what) {
			t.Errorf("said %q, want %q", got, what)
		}
		c.clean()
	}
}

func TestAFailureOfTheTestsComesFirst(t *testing.T) {
	if got := Main(tests(0)); got != 0 {
		t.Errorf("nothing was left, and the exit code is %d", got)
	}
	if got := Main(tests(2)); got != 2 {
		t.Errorf("the tests ended with 2, and the exit code is %d", got)
	}
}

func TestArrowMemoryMayBeLeftOut(t *testing.T) {
	w := Begin(WithoutArrow("the test leaves it"))
	b := array.NewInt64Builder(memory.DefaultAllocator)
	defer b.Release()
	b.Append(1)
	if err := w.End(); err != nil {
		t.Error(err)
	}
}

func TestGoroutinesMayBeLeftOut(t *testing.T) {
	w := Begin(WithoutGoroutines("the test leaves one"))
	quit := make(chan struct{})
	defer close(quit)
	go func() { <-quit }()
	if err := w.End(); err != nil {
		t.Error(err)
	}
}

func TestNothingIsNoLeak(t *testing.T) {
	if got := left(t, func() {
		b := array.NewStringBuilder(memory.DefaultAllocator)
		defer b.Release()
		for range 1000 {
			b.Append("some text that makes the buffers grow")
		}
		a := b.NewArray()
		a.Release()
	}); got != "" {
		t.Error(got)
	}
}

func TestStacksTellWhoAsked(t *testing.T) {
	c := NewCounter(memory.NewGoAllocator(), true)
	b := array.NewInt64Builder(c)
	b.Append(1)
	if err := c.Left(); err == nil || !strings.Contains(err.Error(), "TestStacksTellWhoAsked") {
		t.Errorf("said %v", err)
	}
	b.Release()
	if err := c.Left(); err != nil {
		t.Error(err)
	}
}

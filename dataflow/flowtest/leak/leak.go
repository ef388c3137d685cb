// Package leak ends the tests of a package with a look at what they left: goroutines,
// Arrow memory, open files and sockets. It is no part of the product.
//
//	func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }
package leak

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"go.uber.org/goleak"
)

// Option is an exception.
type Option func(*Watch)

// Goroutines lets some stay. Say why beside it.
func Goroutines(except ...goleak.Option) Option {
	return func(w *Watch) { w.except = append(w.except, except...) }
}

// WithoutGoroutines leaves all goroutines out, for the reason given: where tests let
// parts of the program stand still for ever.
func WithoutGoroutines(reason string) Option {
	return func(w *Watch) { w.withoutGoroutines = reason }
}

// WithoutArrow leaves Arrow memory out, for the reason given: where tests give what
// they made to the garbage collector, so that the count would tell nothing of the
// code under test, and allocators of single tests count instead.
func WithoutArrow(reason string) Option {
	return func(w *Watch) { w.withoutArrow = reason }
}

// WithoutSockets leaves open sockets out, for the reason given.
func WithoutSockets(reason string) Option {
	return func(w *Watch) { w.withoutSockets = reason }
}

// Main runs the tests and returns the exit code: that of the tests, or 1 if they
// passed and left something. FRAZIL_LEAK_STACKS=1 tells where the Arrow memory came
// from, and makes the tests slow.
func Main(m interface{ Run() int }, except ...Option) int {
	watch := Begin(except...)
	code := m.Run()
	if code != 0 {
		return code
	}
	if err := watch.End(); err != nil {
		fmt.Fprintln(os.Stderr, "leak:", err)
		return 1
	}
	return code
}

// Watch compares what there is with what there was. It replaces Arrow's default
// allocator until End: one at a time.
type Watch struct {
	files  map[string]string
	except []goleak.Option
	// Why these are not looked at; "": they are.
	withoutGoroutines, withoutArrow, withoutSockets string

	mem *Counter
	old memory.Allocator
}

// Begin notes what there is.
func Begin(except ...Option) *Watch {
	w := &Watch{files: files(), except: []goleak.Option{goleak.IgnoreCurrent()}, old: memory.DefaultAllocator}
	for _, o := range except {
		o(w)
	}
	w.mem = NewCounter(w.old, os.Getenv("FRAZIL_LEAK_STACKS") != "")
	memory.DefaultAllocator = w.mem
	return w
}

// End says what has come since Begin and stayed. What is about to end is waited for.
func (w *Watch) End() error {
	memory.DefaultAllocator = w.old
	// Connections that the default client keeps for the next request are no leak.
	http.DefaultClient.CloseIdleConnections()
	var errs []error
	if w.withoutGoroutines == "" {
		errs = append(errs, goleak.Find(w.except...))
	}
	if w.withoutArrow == "" {
		errs = append(errs, w.mem.Left())
	}
	var left []string
	for range 50 {
		left = left[:0]
		for fd, name := range files() {
			if w.files[fd] != name && counts(name) && (w.withoutSockets == "" || !strings.HasPrefix(name, "socket:")) {
				left = append(left, fd+" "+name)
			}
		}
		if len(left) == 0 {
			break
		}
		// The kernel, or another thread, may be closing it at this moment.
		time.Sleep(20 * time.Millisecond)
	}
	if len(left) > 0 {
		sort.Strings(left)
		errs = append(errs, fmt.Errorf("%d open files were left: %s", len(left), strings.Join(left, ", ")))
	}
	return errors.Join(errs...)
}

// files are the open files by descriptor.
func files() map[string]string {
	out := map[string]string{}
	entries, _ := os.ReadDir("/proc/self/fd") // Elsewhere than on Linux there are none.
	for _, e := range entries {
		if name, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name())); err == nil {
			out[e.Name()] = name
		}
	}
	return out
}

// Ports begins the name of the folder whose locked files are ports that a test holds until
// its process ends.
const Ports = "frazil-test-ports-"

// counts says whether an open file is one of the tests: the runtime has its own, to
// wait for others and to know processes by, and servers of tests hold their ports.
func counts(name string) bool {
	return !strings.Contains(name, Ports) && !strings.HasPrefix(name, "anon_inode:") && !strings.HasPrefix(name, "/proc/") && !strings.HasPrefix(name, "/sys/")
}

// Counter is an allocator that counts what it gave and did not get back. It is safe
// for concurrent use.
type Counter struct {
	mem    memory.Allocator
	bytes  atomic.Int64
	blocks atomic.Int64

	mu sync.Mutex
	// stacks by first byte; nil: not asked for.
	stacks map[*byte]string
}

// NewCounter counts what mem gives. With stacks it remembers who asked.
func NewCounter(mem memory.Allocator, stacks bool) *Counter {
	c := &Counter{mem: mem}
	if stacks {
		c.stacks = map[*byte]string{}
	}
	return c
}

// Allocate implements memory.Allocator.
func (c *Counter) Allocate(n int) []byte {
	b := c.mem.Allocate(n)
	c.came(b)
	return b
}

// Reallocate implements memory.Allocator.
func (c *Counter) Reallocate(n int, b []byte) []byte {
	c.went(b)
	b = c.mem.Reallocate(n, b)
	c.came(b)
	return b
}

// Free implements memory.Allocator.
func (c *Counter) Free(b []byte) {
	c.went(b)
	c.mem.Free(b)
}

func (c *Counter) came(b []byte) {
	if len(b) == 0 {
		return
	}
	c.bytes.Add(int64(len(b)))
	c.blocks.Add(1)
	if c.stacks != nil {
		s := stack()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stacks[&b[0]] = s
	}
}

func (c *Counter) went(b []byte) {
	if len(b) == 0 {
		return
	}
	c.bytes.Add(-int64(len(b)))
	c.blocks.Add(-1)
	if c.stacks != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.stacks, &b[0])
	}
}

// Bytes that were given and did not come back.
func (c *Counter) Bytes() int64 { return c.bytes.Load() }

// Left is an error if anything did not come back.
func (c *Counter) Left() error {
	if c.bytes.Load() == 0 && c.blocks.Load() == 0 {
		return nil
	}
	err := fmt.Errorf("%d bytes of Arrow memory in %d blocks were left (FRAZIL_LEAK_STACKS=1 tells whose)", c.bytes.Load(), c.blocks.Load())
	if c.stacks == nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := map[string]int{}
	for _, s := range c.stacks {
		n[s]++
	}
	text := err.Error()
	for s, k := range n {
		text += fmt.Sprintf("\n\n%d blocks by\n%s", k, s)
	}
	return errors.New(text)
}

func stack() string {
	pcs := make([]uintptr, 24)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(4, pcs)])
	var out strings.Builder
	for {
		f, more := frames.Next()
		if f.Function != "" && !strings.HasPrefix(f.Function, "github.com/apache/arrow-go/v18/arrow/memory.") {
			fmt.Fprintf(&out, "    %s %s:%d\n", f.Function, filepath.Base(f.File), f.Line)
		}
		if !more {
			return out.String()
		}
	}
}

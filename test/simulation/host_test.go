package simulation

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"frazil/test/simulation/world"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"
)

const pebble = "github.com/cockroachdb/pebble/v2"

// host runs guests.
type host struct {
	runtime wazero.Runtime
	guest   wazero.CompiledModule
	jumps   map[string]*clock // by the name of the instance
	mu      sync.Mutex
	n       int
}

// theHost is built once.
var theHost = sync.OnceValues(func() (*host, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	dir = filepath.Join(dir, "frazil-simulation")
	wasm := os.Getenv("FRAZIL_SIM_GUEST")
	if wasm == "" {
		if wasm, err = build(dir); err != nil {
			return nil, err
		}
	}
	return newHost(dir, wasm)
})

// build compiles the guest against a copy of Pebble that compiles for WASI.
func build(dir string) (string, error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return "", err
	}
	lib, err := mendPebble(dir)
	if err != nil {
		return "", err
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return "", err
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		return "", err
	}
	mod = append(mod, fmt.Sprintf("\nreplace %s => %s\n", pebble, lib)...)
	if err := errors.Join(replace(filepath.Join(dir, "go.mod"), mod), replace(filepath.Join(dir, "go.sum"), sums)); err != nil {
		return "", err
	}
	out := filepath.Join(dir, "guest.wasm")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-modfile", filepath.Join(dir, "go.mod"), "-o", out, "./test/simulation/guest")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=", "GOWORK=off")
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the guest: %w\n%s", err, said)
	}
	return out, nil
}

// replace writes a file unless it holds the same already.
func replace(file string, data []byte) error {
	if have, err := os.ReadFile(file); err == nil && bytes.Equal(have, data) {
		return nil
	}
	tmp := fmt.Sprintf("%s.%d", file, os.Getpid())
	if err := os.WriteFile(tmp, data, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, file)
}

// overlay are the files that Pebble lacks for WASI.
var overlay = map[string]string{
	"testdata/overlay/rawalloc_wasip1.go.txt": "internal/rawalloc/rawalloc_wasip1.go",
	"testdata/overlay/vfs_wasip1.go.txt":      "vfs/vfs_wasip1.go",
}

// mendPebble copies the module and adds what it lacks.
func mendPebble(dir string) (string, error) {
	said, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", pebble).Output()
	if err != nil {
		return "", fmt.Errorf("find pebble: %w", err)
	}
	from := strings.TrimSpace(string(said))
	to := filepath.Join(dir, filepath.Base(filepath.Dir(from))+"-"+filepath.Base(from))
	if _, err := os.Stat(filepath.Join(to, "go.mod")); err != nil {
		tmp := fmt.Sprintf("%s.%d", to, os.Getpid())
		if err := copyGo(from, tmp); err != nil {
			return "", fmt.Errorf("copy pebble: %w", err)
		}
		if err := os.Rename(tmp, to); err != nil {
			return "", fmt.Errorf("copy pebble: %w", err)
		}
	}
	for text, name := range overlay {
		data, err := os.ReadFile(text)
		if err == nil {
			err = replace(filepath.Join(to, name), data)
		}
		if err != nil {
			return "", err
		}
	}
	return to, nil
}

func copyGo(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == "testdata" {
				return filepath.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		if strings.HasSuffix(path, "_test.go") || !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".s") && d.Name() != "go.mod" {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o644)
	})
}

func newHost(dir, wasm string) (*host, error) {
	code, err := os.ReadFile(wasm)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	compiled := filepath.Join(dir, fmt.Sprintf("compiled-%x", sha256.Sum256(code)))
	if old, err := filepath.Glob(filepath.Join(dir, "compiled-*")); err == nil && os.Getenv("FRAZIL_SIM_GUEST") == "" {
		for _, o := range old {
			if o != compiled {
				_ = os.RemoveAll(o)
			}
		}
	}
	cache, err := wazero.NewCompilationCacheWithDir(compiled)
	if err != nil {
		return nil, err
	}
	h := &host{runtime: wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().WithCompilationCache(cache)), jumps: map[string]*clock{}}
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, h.runtime); err != nil {
		return nil, err
	}
	_, err = h.runtime.NewHostModuleBuilder("sim").NewFunctionBuilder().WithFunc(h.jump).Export("jump").Instantiate(ctx)
	if err != nil {
		return nil, err
	}
	if h.guest, err = h.runtime.CompileModule(ctx, code); err != nil {
		return nil, fmt.Errorf("compile the guest: %w", err)
	}
	return h, nil
}

// clock is the time of one guest: it goes on by a little whenever it is looked at, and
// by as much as is slept. jumped is how far the wall clock is off.
type clock struct{ nanos, jumped int64 }

const (
	begin = 1_700_000_000 * int64(time.Second)
	look  = 100 // nanoseconds
)

func (c *clock) now() int64 {
	c.nanos += look
	return c.nanos
}

func (c *clock) wall() (int64, int32) {
	t := begin + c.now() + c.jumped
	return t / int64(time.Second), int32(t % int64(time.Second))
}

type clockKey struct{}

// jump is what a guest calls to move its wall clock.
func (h *host) jump(ctx context.Context, by int64) { ctx.Value(clockKey{}).(*clock).jumped += by }

// run lets a world pass.
func (h *host) run(t testing.TB, args ...string) world.Result {
	t.Helper()
	c := &clock{}
	var seed [32]byte
	copy(seed[:], fmt.Sprint(args))
	var out, errs bytes.Buffer
	stderr := &tail{buf: &errs}
	cfg := wazero.NewModuleConfig().WithName("").WithArgs(append([]string{"guest"}, args...)...).
		WithRandSource(rand.NewChaCha8(seed)).WithStdout(&out).WithStderr(stderr).
		WithNanotime(c.now, sys.ClockResolution(1)).WithWalltime(c.wall, sys.ClockResolution(1)).
		WithNanosleep(func(n int64) { c.nanos += max(n, 0) }).WithOsyield(func() { c.nanos += 1000 })
	if os.Getenv("FRAZIL_SIM_TRACE") != "" {
		cfg = cfg.WithStderr(os.Stderr)
	}
	ctx := context.WithValue(context.Background(), clockKey{}, c)
	m, err := h.runtime.InstantiateModule(ctx, h.guest, cfg)
	if m != nil {
		defer m.Close(ctx)
	}
	var exit *sys.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 0 {
		err = nil
	}
	var r world.Result
	if jsonErr := json.Unmarshal(out.Bytes(), &r); jsonErr != nil {
		r.Failures = append(r.Failures, fmt.Sprintf("the guest said nothing that can be read: %v", jsonErr))
	}
	if err != nil {
		r.Failures = append(r.Failures, fmt.Sprintf("the guest ended: %v\n%s", err, stderr))
	}
	return r
}

// tail keeps the beginning of what a guest says when it fails.
type tail struct{ buf *bytes.Buffer }

func (t *tail) Write(p []byte) (int, error) {
	if t.buf.Len() < 16<<10 {
		t.buf.Write(p)
	}
	return len(p), nil
}

func (t *tail) String() string { return t.buf.String() }

package push_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"frazil/dataflow/flowtest/program"
)

// smallDisk mounts a disk of 64 MiB at a folder of p.
func (p *place) smallDisk(name string) string {
	p.t.Helper()
	dir := p.Path(name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"); err != nil {
		p.t.Skipf("left out: a small disk cannot be mounted here (%v); it needs the right to mount", err)
	}
	p.t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			p.t.Error(err)
		}
	})
	return dir
}

// fill writes a file until the disk has no byte left.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}

// B1: a full disk refuses producers (429) and stops nothing else; with room again
// everything goes on by itself, and what was accepted is in the table, once. State,
// write-ahead log and table stand on one disk of 64 MiB, which is full 5 times, with
// FRAZIL_LONG 100 times.
func TestAFullDiskRefusesAndRecovers(t *testing.T) {
	program.Long(t)
	address := freePort(t)
	p := newPlace(t, "small", "")
	disk := p.smallDisk("disk")
	p.Write(p.File, fmt.Sprintf(`name: small
http: 127.0.0.1:0
state: {dir: ./disk/state}
checkpoint: {every: 200ms}
sources:
  in:
    http: {listen: %s, buffer: {age: 1h}}
    decode: {json: {schema: {n: int64, text: string}}}
sinks:
  out: {from: in, iceberg: {table: t.rows}}
`, address))
	// The table is on the same disk: the embedded catalog is below the working
	// directory.
	if err := os.Mkdir(disk+"/frazil-data", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("disk/frazil-data", p.Path("frazil-data")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("disk/state", p.Path("state")); err != nil {
		t.Fatal(err)
	}
	r := p.Start(nil, "run", p.File)
	r.Until("it listens", listening(address))
	in := newPoster(t, "http://"+address+"/in", 20*time.Millisecond)
	cycles := 5
	if full() {
		cycles = 100
	}
	for cycle := range cycles {
		before := in.accepted.Load()
		r.Until("rows are accepted", func() bool { return in.accepted.Load() >= before+5*batchRows })
		refused := in.refused.Load()
		fill(t, disk+"/filler")
		r.Until("producers are refused", func() bool { return in.refused.Load() > refused+5 })
		if err := os.Remove(disk + "/filler"); err != nil {
			t.Fatal(err)
		}
		at := in.accepted.Load()
		r.Until(fmt.Sprintf("it goes on after cycle %d", cycle), func() bool { return in.accepted.Load() > at+2*batchRows })
	}
	want := in.end(t)
	r.Until("everything accepted is committed", func() bool {
		return p.Metric(`frazil_stream_backlog_rows{pipeline="small",step="in"}`) == "0"
	})
	r.Signal(syscall.SIGTERM)
	if code := r.Wait(); code != 0 {
		t.Fatalf("exit code %d\n%s", code, program.Tail(r.Stderr.String(), 5000))
	}
	t.Logf("%d rows accepted, %d requests refused", want, in.refused.Load())
	everyNumberOnce(t, "the table", p.Run("table", "rows", "t.rows", "--file", p.File, "--format", "ndjson"), want)
}

package ingest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// On a disk of 64 MB that fills up, by the log itself or by something else, records
// are refused and nothing is lost; it goes on by itself when there is room.
func TestADiskThatIsFullAgainAndAgain(t *testing.T) {
	cycles := 5
	if os.Getenv("FRAZIL_LONG") != "" {
		cycles = 100
	}
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=64m"); err != nil {
		t.Skipf("a tmpfs of 64 MB cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Errorf("unmount %s: %v", disk, err)
		}
	})
	r := newRig(t)
	r.dir = filepath.Join(disk, "wal")
	r.cfg.Buffer.Bytes, r.cfg.Buffer.Age = 1<<30, 0
	r.open()
	x := r.reader(position(1))
	var got, want []string
	n, answered := 0, 0
	for cycle := range cycles {
		if cycle%2 == 1 { // Something else takes the room.
			fillDisk(t, filepath.Join(disk, "ballast"))
		}
		refused := 0
		for refused < 3 {
			rs := records(n, n+1000)
			rs[0] = fmt.Appendf(nil, `{"n": %d, "s": "%0*d"}`, n, 1<<20, 0)
			req := func() *Request { return &Request{Records: rs, Key: fmt.Sprint("request ", n)} }
			res, err := r.send(req())
			if isBusy(err, "disk_full") {
				refused++
				continue
			}
			if err != nil {
				t.Fatalf("cycle %d, after %d requests: %v", cycle, answered, err)
			}
			answered++
			for i := range res.Accepted {
				want = append(want, fmt.Sprintf("%d %d", res.First+uint64(i), n+i))
			}
			if again := r.accept(req()); !again.Replayed || again.First != res.First {
				t.Fatalf("cycle %d: a retry: %+v, the first answer was %+v", cycle, again, res)
			}
			n += 1000
		}
		if cycle%3 == 2 { // A restart on the full disk, but for what a start needs.
			freeDisk(t, filepath.Join(disk, "ballast"))
			x.close()
			r.reopen()
			x = r.reader(x.next)
		}
		got = append(got, x.rows()...)
		freeDisk(t, filepath.Join(disk, "ballast"))
		x.ack()
	}
	if answered < cycles {
		t.Fatalf("%d requests were answered in %d cycles", answered, cycles)
	}
	if s := r.s.StreamStats(); s.Refused["disk_full"] == 0 && cycles%3 != 0 {
		t.Fatalf("stats %+v", s)
	}
	x.close()
	r.close()
	if !slices.Equal(got, want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
}

func fillDisk(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	for size := 1 << 20; size >= 4096; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}

func freeDisk(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
}

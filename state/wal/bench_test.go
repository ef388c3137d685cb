package wal

import (
	"encoding/binary"
	"fmt"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
)

// BenchmarkAppend compares the log with a Pebble instance that is used as one: the
// same bodies, synced, and removed 16 MiB later. It reports CPU time and what was
// written to the disk per byte of the bodies.
func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct{ frames, body int }{{1, 4 << 10}, {4, 64 << 10}} {
		name := fmt.Sprintf("%dx%dKiB", c.frames, c.body>>10)
		body := make([]byte, c.body)
		for i := range body {
			body[i] = byte(i * i >> 3)
		}
		b.Run("log/"+name, func(b *testing.B) {
			l, err := Open(b.TempDir(), Options{SegmentBytes: 8 << 20})
			if err != nil {
				b.Fatal(err)
			}
			behind := uint64(16<<20/c.body) * 10
			fs := make([]Frame, c.frames)
			defer cpu(b, func() int64 { n, _ := l.Written(); return n })()
			for range b.N {
				for i := range fs {
					fs[i] = Frame{Records: 10, Kind: 1, Body: body}
				}
				first, err := l.Append(fs)
				if err == nil && first > behind {
					err = l.Truncate(first - behind)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
		})
		b.Run("pebble/"+name, func(b *testing.B) {
			db, err := pebble.Open(b.TempDir(), &pebble.Options{FormatMajorVersion: pebble.FormatWALSyncChunks})
			if err != nil {
				b.Fatal(err)
			}
			behind := uint64(16 << 20 / c.body)
			key := func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
			n, removed := uint64(0), uint64(0)
			stop := cpu(b, func() int64 {
				m := db.Metrics()
				out := int64(m.WAL.BytesWritten)
				for _, l := range m.Levels {
					out += int64(l.TableBytesFlushed + l.TableBytesCompacted)
				}
				return out
			})
			for range b.N {
				batch := db.NewBatch()
				for range c.frames {
					n++
					if err := batch.Set(key(n), body, nil); err != nil {
						b.Fatal(err)
					}
				}
				if n > removed+2*behind {
					if err := batch.DeleteRange(key(removed), key(n-behind), nil); err != nil {
						b.Fatal(err)
					}
					removed = n - behind
				}
				if err := batch.Commit(pebble.Sync); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			if err := db.Flush(); err != nil {
				b.Fatal(err)
			}
			stop()
			if err := db.Close(); err != nil {
				b.Fatal(err)
			}
		})
		b.SetBytes(int64(c.frames * c.body))
	}
}

// cpu reports the CPU time of the process per operation and what was written.
func cpu(b *testing.B, written func() int64) func() {
	time := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	start := time()
	b.ResetTimer()
	return func() {
		b.ReportMetric(float64(time()-start)/float64(b.N)/1000, "cpu_us/op")
		b.ReportMetric(float64(written())/float64(b.N), "written_B/op")
	}
}

package state

import "github.com/cockroachdb/pebble/v2/vfs"

// DiskFree returns the bytes that are free for this process, and all bytes, of the
// disk that dir is on.
func DiskFree(dir string) (free, total uint64, err error) {
	u, err := vfs.Default.GetDiskUsage(dir)
	return u.AvailBytes, u.TotalBytes, err
}

// DiskReserve is how much of a disk of so many bytes is left free: a write-ahead log
// takes nothing more when less is, so that what it holds can still be committed and
// removed, and below half of it no epoch is begun, since a store that cannot write
// must end the process. It is a 64th, at least 2 and at most 64 MiB.
func DiskReserve(total uint64) uint64 { return min(max(total/64, 2<<20), 64<<20) }

package state

import "github.com/cockroachdb/pebble/v2/vfs"

// DiskFree returns the bytes that are free for this process, and all bytes, of the
// disk that dir is on.
func DiskFree(dir string) (free, total uint64, err error) {
	u, err := vfs.Default.GetDiskUsage(dir)
	return u.AvailBytes, u.TotalBytes, err
}

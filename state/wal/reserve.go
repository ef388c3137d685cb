package wal

import (
	"fmt"

	"frazil/state"
)

// atReserve returns ErrFull when the disk has only its reserve left. A file system
// that does not tell has none.
func (l *Log) atReserve() error {
	u, err := l.fs.GetDiskUsage(l.dir)
	if err != nil || u.AvailBytes >= state.DiskReserve(u.TotalBytes) {
		return nil
	}
	return fmt.Errorf("%w: %d KiB are free, and %d KiB are kept so that what is here can be committed", ErrFull, u.AvailBytes>>10, state.DiskReserve(u.TotalBytes)>>10)
}

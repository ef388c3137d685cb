package state

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// LockedError says that another process, or another Store of this one, holds
// the directory. PID is 0 if it could not be read.
type LockedError struct {
	Dir string
	PID int
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("state directory %s is in use by another process", e.Dir)
	}
	return fmt.Sprintf("state directory %s is in use by process %d", e.Dir, e.PID)
}

// pidFile holds the decimal number of the process that has the lock. It is
// information only: the lock is the operating system's and ends with the
// process.
const pidFile = "PID"

// lockDir takes the directory and writes the number of this process beside it.
func lockDir(fs vfs.FS, dir string) (*pebble.Lock, error) {
	lock, err := pebble.LockDirectory(dir, fs)
	if err != nil {
		var path *iofs.PathError
		if errors.As(err, &path) {
			return nil, fmt.Errorf("lock state directory: %w", err)
		}
		return nil, &LockedError{Dir: dir, PID: readPID(fs, dir)}
	}
	if err := writePID(fs, dir); err != nil {
		return nil, errors.Join(fmt.Errorf("write pid of state directory: %w", err), lock.Close())
	}
	return lock, nil
}

func writePID(fs vfs.FS, dir string) error {
	f, err := fs.Create(fs.PathJoin(dir, pidFile), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(strconv.Itoa(os.Getpid()) + "\n"))
	return errors.Join(err, f.Close())
}

func readPID(fs vfs.FS, dir string) int {
	f, err := fs.Open(fs.PathJoin(dir, pidFile))
	if err != nil {
		return 0
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 32))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 0
	}
	return pid
}

package state

import (
	"errors"
	"os"
)

// MakeDir makes dir and what is missing above it, so that it outlives a power loss.
func MakeDir(fs FS, dir string) error {
	above := []string{fs.PathDir(dir)}
	for {
		p := above[len(above)-1]
		if _, err := fs.Stat(p); !errors.Is(err, os.ErrNotExist) || fs.PathDir(p) == p {
			break
		}
		above = append(above, fs.PathDir(p))
	}
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, p := range above {
		if err := SyncDir(fs, p); err != nil {
			return err
		}
	}
	return nil
}

// SyncDir makes the names in dir durable.
func SyncDir(fs FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

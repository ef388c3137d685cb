package iceberg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	icebergio "github.com/apache/iceberg-go/io"
)

// syncedFS is the library's local file system, except that what is written is
// on the disk when the call returns: the catalog must never name a file that a
// power failure can take back.
type syncedFS struct{ icebergio.LocalFS }

func init() {
	for _, scheme := range []string{"file", ""} {
		icebergio.Unregister(scheme)
		icebergio.Register(scheme, func(context.Context, *url.URL, map[string]string) (icebergio.IO, error) { return syncedFS{}, nil })
	}
}

// Create returns a writer whose Close syncs the file and its folder.
func (s syncedFS) Create(name string) (icebergio.FileWriter, error) {
	w, err := s.LocalFS.Create(name)
	if err != nil {
		return nil, err
	}
	f, ok := w.(*os.File)
	if !ok {
		return nil, fmt.Errorf("create %s: not a local file but %T", name, w)
	}
	return &syncedFile{f}, nil
}

// WriteFile writes all of content and syncs it.
func (s syncedFS) WriteFile(name string, content []byte) error {
	w, err := s.Create(name)
	if err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		_ = w.Close()
		return err
	}
	return w.Close()
}

// Remove removes a file; one that is gone already is no error, as in object
// stores: a commit and an expiry may clear away the same metadata file.
func (s syncedFS) Remove(name string) error {
	if err := s.LocalFS.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

type syncedFile struct{ *os.File }

// Close syncs, closes, and syncs the folder that names the file.
func (f *syncedFile) Close() error {
	if err := f.Sync(); err != nil {
		_ = f.File.Close()
		return err
	}
	if err := f.File.Close(); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(f.Name()))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

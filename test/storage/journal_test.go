package storage

import "github.com/cockroachdb/pebble/v2/vfs"

// journalFS makes the names in a folder durable with each file of it that is synced.
type journalFS struct{ vfs.FS }

type journalFile struct {
	vfs.File
	fs  vfs.FS
	dir string
}

func (j journalFS) wrap(path string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &journalFile{f, j.FS, j.PathDir(path)}, nil
}

func (j journalFS) Create(path string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := j.FS.Create(path, c)
	return j.wrap(path, f, err)
}

func (j journalFS) OpenReadWrite(path string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := j.FS.OpenReadWrite(path, c, o...)
	return j.wrap(path, f, err)
}

func (j journalFS) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := j.FS.ReuseForWrite(from, to, c)
	return j.wrap(to, f, err)
}

func (f *journalFile) names(err error) error {
	if err != nil {
		return err
	}
	d, err := f.fs.OpenDir(f.dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func (f *journalFile) Sync() error     { return f.names(f.File.Sync()) }
func (f *journalFile) SyncData() error { return f.names(f.File.SyncData()) }

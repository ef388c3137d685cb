package world

import (
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// disk is the file system of one process, in memory, whose syncs take time.
type disk struct {
	vfs.FS
	p *process
}

func (d disk) file(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return file{f, d.p}, nil
}

func (d disk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return d.file(d.FS.Create(name, c))
}

func (d disk) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return d.file(d.FS.OpenReadWrite(name, c, o...))
}

func (d disk) OpenDir(name string) (vfs.File, error) { return d.file(d.FS.OpenDir(name)) }

func (d disk) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return d.file(d.FS.ReuseForWrite(from, to, c))
}

func (d disk) Unwrap() vfs.FS { return d.FS }

type file struct {
	vfs.File
	p *process
}

func (f file) wait() {
	f.p.w.yield()
	if f.p.w.o.Threads {
		return
	}
	if t := f.p.w.lag(3 * time.Millisecond); t > 0 {
		time.Sleep(t)
	}
}

func (f file) Sync() error {
	f.wait()
	return f.File.Sync()
}

func (f file) SyncData() error {
	f.wait()
	return f.File.SyncData()
}

package wal

import (
	"errors"
	"fmt"
	"os"

	"frazil/state"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Repair gives up what is damaged in the log in dir, which nobody may have open:
// the records that Inspect lists as Lost, and the keys of LostKeys. Their numbers
// stay taken, by frames of KindLost. The damaged files are kept in the folder
// "damaged" beside the others. It returns what was given up.
func Repair(dir string) (*Info, error) { return repair(vfs.Default, dir) }

func repair(fs vfs.FS, dir string) (_ *Info, err error) {
	lock, err := fs.Lock(fs.PathJoin(dir, "LOCK"))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrLocked, dir, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	info, err := inspect(fs, dir)
	if err != nil {
		return nil, err
	}
	s, err := salvage(fs, dir)
	if err != nil {
		return nil, err
	}
	aside := fs.PathJoin(dir, "damaged")
	if err := fs.MkdirAll(aside, 0o755); err != nil {
		return nil, err
	}
	keep := func(name string) error {
		err := fs.Link(fs.PathJoin(dir, name), fs.PathJoin(aside, name))
		if err == nil || isNotExist(err) || errors.Is(err, os.ErrExist) {
			return nil
		}
		return fmt.Errorf("keep the damaged %s: %w", name, err)
	}
	for _, seg := range s.segments {
		if !seg.damaged {
			continue
		}
		name := segmentName(seg.first)
		if err := keep(name); err != nil {
			return nil, err
		}
		nonce := seg.first*0x9e3779b97f4a7c15 + uint64(seg.bytes)
		data := segmentStart(seg.first, nonce)
		for _, f := range seg.frames {
			data, _ = appendFrames(data, []Frame{f}, nonce, f.First)
		}
		if err := putNamed(fs, dir, name, data); err != nil {
			return nil, err
		}
	}
	if err := repairKeys(fs, dir, keep); err != nil {
		return nil, err
	}
	f, err := openMarker(fs, dir, mark{s.next, min(s.acked, s.next)})
	if err != nil {
		return nil, err
	}
	return info, errors.Join(f.Close(), state.SyncDir(fs, aside), state.SyncDir(fs, dir))
}

// repairKeys puts empty runs where damaged or missing ones stood.
func repairKeys(fs vfs.FS, dir string, keep func(string) error) error {
	names, err := listKeyRuns(fs, dir)
	if err != nil {
		return err
	}
	saved := uint64(0)
	for _, n := range names {
		if n.upTo <= saved {
			continue
		}
		if saved > 0 && n.from > saved {
			gap := keyRunName{saved, n.from}
			if err := putNamed(fs, dir, gap.name(), encodeKeyRun(gap, nil)); err != nil {
				return err
			}
		}
		saved = n.upTo
		if _, err := readKeyRun(fs, n.path(fs, dir), n); !errors.Is(err, ErrCorrupt) {
			continue
		}
		if err := keep(n.name()); err != nil {
			return err
		}
		if err := putNamed(fs, dir, n.name(), encodeKeyRun(n, nil)); err != nil {
			return err
		}
	}
	return nil
}

func putNamed(fs vfs.FS, dir, name string, data []byte) error {
	f, err := writeNamed(fs, dir, name, data)
	if err != nil {
		return err
	}
	return f.Close()
}

package storage

import (
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lyingFS says of some files that they are synced, and does not sync them.
type lyingFS struct {
	vfs.FS
	about string // in their names
}

type lyingFile struct{ vfs.File }

func (lyingFile) Sync() error     { return nil }
func (lyingFile) SyncData() error { return nil }

func (l lyingFS) Create(path string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := l.FS.Create(path, c)
	if err == nil && strings.Contains(path, l.about) {
		return lyingFile{f}, nil
	}
	return f, err
}

// What these tests are for must not get past them.
func TestPlantedFaultsAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		plant plant
		lie   string
		want  string
	}{
		"a commit twice":           {plant: doubleCommit, want: "twice|rows, want|staged for .* which has"},
		"a commit lost":            {plant: dropCommit, want: "is not there|rows, want|staged for .* which has"},
		"retries under other keys": {plant: forgetKeys, want: "twice"},
		"a log that is not synced": {lie: ".wal", want: "was acknowledged and is not there|is damaged"},
		"a state without syncs":    {lie: ".log", want: "ahead of the state|open the state: |the ledger says|state that they made is needed"},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			for seed := uint64(0); err == nil && seed < 60; seed++ {
				_, err = clonesOf(seed, 25, c.plant, c.lie)
			}
			if err == nil {
				t.Fatal("not found")
			}
			if !regexp.MustCompile(c.want).MatchString(err.Error()) {
				t.Fatalf("found as something else: %v", err)
			}
			t.Log(err)
		})
	}
}

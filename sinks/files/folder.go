package files

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"

	"frazil/dataflow"
)

// folder is a target on disk. It keeps nothing in memory.
type folder struct{ path string }

func (f folder) stage(name string) string { return filepath.Join(f.path, ".frazil", name) }
func (f folder) log(name string) string   { return filepath.Join(f.path, "_frazil", name) }
func (f folder) shown(name string) string { return filepath.Join(f.path, name) }

const (
	tableFile = "table.json"
	version   = 1
)

// identity is the content of table.json.
type identity struct {
	V  int    `json:"v"`
	ID string `json:"id"`
}

// record is a commit. Its bytes are a format: new fields may be added, and V
// changes when an older program must not go on.
type record struct {
	V        int    `json:"v"`
	Seq      int64  `json:"seq"`
	Pipeline string `json:"pipeline"`
	Sink     string `json:"sink"`
	// Epoch and Time are information only.
	Epoch dataflow.Epoch `json:"epoch"`
	Time  string         `json:"time"`
	// Positions are all that this pipeline and sink ever published, not only
	// this commit's.
	Positions dataflow.Positions `json:"positions"`
	// Start is where the splits were read from at the pipeline's first start.
	Start      dataflow.Positions       `json:"start,omitempty"`
	Plan       string                   `json:"plan"`
	Watermarks map[string]dataflow.Time `json:"watermarks,omitempty"`
	Watermark  dataflow.Time            `json:"watermark"`
	Late       int64                    `json:"late"`
	Clock      []dataflow.ClockDecision `json:"clock,omitempty"`
	// ClockBefore is the number of the newest commit before, of the same
	// pipeline and sink, that has clock decisions; 0: none.
	ClockBefore int64 `json:"clock_before,omitempty"`
	// Claim is the process that may commit, where a pipeline has several targets.
	Claim *dataflow.Claim `json:"claim,omitempty"`
	// Commits are the IDs of the last commits that have one.
	Commits []string `json:"commits,omitempty"`
	Rows    int64    `json:"rows"`
	Files   []file   `json:"files,omitempty"`
}

func (r *record) claim() dataflow.Claim {
	if r == nil || r.Claim == nil {
		return dataflow.Claim{}
	}
	return *r.Claim
}

// file is one file of rows.
type file struct {
	// Name is the published name, empty in a part.
	Name   string `json:"name,omitempty"`
	Staged string `json:"staged"`
	Rows   int64  `json:"rows"`
	Bytes  int64  `json:"bytes"`
}

func recordName(seq int64) string { return fmt.Sprintf("%020d.json", seq) }

// create makes the folder if it is not there and returns its identity.
func (f folder) create() (string, error) {
	id, err := f.identity()
	if !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	foreign, err := filepath.Glob(filepath.Join(f.path, "*.ndjson"))
	if err == nil && len(foreign) > 0 {
		return "", dataflow.Permanentf("create %s: it holds %s, which no commit there names: choose another path or move the files away",
			f.path, filepath.Base(foreign[0]))
	}
	for _, dir := range []string{f.path, f.stage(""), f.log("")} {
		if err := makeDir(dir); err != nil {
			return "", classify(fmt.Errorf("create %s: %w", dir, err))
		}
	}
	text, _ := json.Marshal(identity{V: version, ID: randomName()})
	if err := f.publish(text, f.log(tableFile)); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", classify(fmt.Errorf("create %s: %w", f.path, err))
	}
	return f.identity()
}

// identity reads table.json; fs.ErrNotExist if there is none.
func (f folder) identity() (string, error) {
	text, err := os.ReadFile(f.log(tableFile))
	if err != nil {
		return "", classify(fmt.Errorf("read the identity of %s: %w", f.path, err))
	}
	var id identity
	if err := json.Unmarshal(text, &id); err != nil || id.ID == "" {
		return "", dataflow.Permanentf("read the identity of %s: %s is damaged", f.path, tableFile)
	}
	if id.V != version {
		return "", dataflow.Permanentf("folder %s has format %d, this program knows %d", f.path, id.V, version)
	}
	return id.ID, nil
}

// publish writes text durably and gives it the name to if that is free, in one
// step; else fs.ErrExist. After any other error the name may be taken or not.
func (f folder) publish(text []byte, to string) error {
	tmp := f.stage("record-" + randomName())
	defer os.Remove(tmp)
	if err := writeSynced(tmp, text); err != nil {
		return err
	}
	if err := os.Link(tmp, to); err != nil {
		if errors.Is(err, syscall.EPERM) || errors.Is(err, errors.ErrUnsupported) {
			return dataflow.Permanentf("%w: the file system must have hard links", err)
		}
		return err
	}
	return syncDir(filepath.Dir(to))
}

// read returns commit seq; fs.ErrNotExist if there is none.
func (f folder) read(seq int64) (*record, error) {
	text, err := os.ReadFile(f.log(recordName(seq)))
	if err != nil {
		return nil, classify(fmt.Errorf("read commit %d of %s: %w", seq, f.path, err))
	}
	r := &record{}
	if err := json.Unmarshal(text, r); err != nil || r.Seq != seq {
		return nil, dataflow.Permanentf("read commit %d of %s: its record is damaged", seq, f.path)
	}
	if r.V != version {
		return nil, dataflow.Permanentf("commit %d of %s has format %d, this program knows %d", seq, f.path, r.V, version)
	}
	return r, nil
}

// commits lists the numbers of all commits, oldest first.
func (f folder) commits() ([]int64, error) {
	entries, err := os.ReadDir(f.log(""))
	if err != nil {
		return nil, classify(fmt.Errorf("list the commits of %s: %w", f.path, err))
	}
	var out []int64
	for _, e := range entries {
		var seq int64
		if n, _ := fmt.Sscanf(e.Name(), "%020d.json", &seq); n == 1 && e.Name() == recordName(seq) {
			out = append(out, seq)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i] < out[j] })
	return out, nil
}

// show gives the files of a commit their published names. A staged file that is
// gone was renamed before, by us or by somebody else who read the commit.
func (f folder) show(r *record) error {
	for _, x := range r.Files {
		err := os.Rename(f.stage(x.Staged), f.shown(x.Name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return classify(fmt.Errorf("show the rows of commit %d: %w", r.Seq, err))
		}
	}
	for _, dir := range []string{f.path, f.stage("")} {
		if err := syncDir(dir); err != nil {
			return classify(fmt.Errorf("show the rows of commit %d: %w", r.Seq, err))
		}
	}
	return nil
}

// classify marks errors that no retry heals.
func classify(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EROFS) {
		return dataflow.Permanent(err)
	}
	return err
}

func randomName() string {
	var b [12]byte
	rand.Read(b[:]) // It never fails.
	return hex.EncodeToString(b[:])
}

func writeSynced(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// makeDir makes a directory and its parents durably.
func makeDir(path string) error {
	if st, err := os.Stat(path); err == nil {
		if !st.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: path, Err: syscall.ENOTDIR}
		}
		return nil
	}
	parent := filepath.Dir(strings.TrimSuffix(path, string(filepath.Separator)))
	if parent != path {
		if err := makeDir(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

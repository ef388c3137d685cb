package files

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"

	"frazil/dataflow"

	"github.com/cespare/xxhash/v2"
)

// position is the place of the next line of a lane. Its text is JSON whose first
// field is the line's number in the lane, with a fixed width, so that texts
// compare in the order of the lane. The rest follows from that number and the
// files; it is there to find the place quickly and to notice changes. Two
// positions of one number are the same place.
type position struct {
	// Row counts the lines of the lane before the place.
	Row int64
	// File is the last file of which a line was read, "" before the first.
	File string
	// Line and Offset count its lines and bytes (unpacked) before the place.
	Line, Offset int64
	// Sum is over the last bytes before Offset.
	Sum uint64
	// Done are the files before File.
	Done finished
	// Lanes is the number of lanes.
	Lanes int
}

// finished stands for a set of finished files.
type finished struct {
	Files int64
	// Sum adds up the prints of the files, in any order.
	Sum uint64
	// Newest is the latest time of change, in nanoseconds since 1970.
	Newest int64
}

// text is the stored form of a position.
type text struct {
	Row    string `json:"row"`
	File   string `json:"file,omitempty"`
	Line   int64  `json:"line,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	Sum    string `json:"sum,omitempty"`
	Done   *done  `json:"done,omitempty"`
	Lanes  int    `json:"lanes"`
}

type done struct {
	Files  int64  `json:"files"`
	Sum    string `json:"sum"`
	Newest int64  `json:"newest"`
}

func (p position) encode() dataflow.Position {
	t := text{Row: fmt.Sprintf("%020d", p.Row), Lanes: p.Lanes}
	if p.File != "" {
		t.File, t.Line, t.Offset, t.Sum = p.File, p.Line, p.Offset, strconv.FormatUint(p.Sum, 16)
	}
	if p.Done.Files > 0 {
		t.Done = &done{p.Done.Files, strconv.FormatUint(p.Done.Sum, 16), p.Done.Newest}
	}
	b, err := json.Marshal(t)
	if err != nil {
		panic(err) // Nothing in it can fail.
	}
	return b
}

func decodePosition(b dataflow.Position) (p position, err error) {
	var t text
	if err := json.Unmarshal(b, &t); err != nil {
		return p, fmt.Errorf("read position %q: %w", b, err)
	}
	p = position{File: t.File, Line: t.Line, Offset: t.Offset, Lanes: t.Lanes}
	if p.Row, err = strconv.ParseInt(t.Row, 10, 64); err != nil {
		return p, fmt.Errorf("read position %q: %w", b, err)
	}
	if t.Sum != "" {
		if p.Sum, err = strconv.ParseUint(t.Sum, 16, 64); err != nil {
			return p, fmt.Errorf("read position %q: %w", b, err)
		}
	}
	if t.Done != nil {
		p.Done.Files, p.Done.Newest = t.Done.Files, t.Done.Newest
		if p.Done.Sum, err = strconv.ParseUint(t.Done.Sum, 16, 64); err != nil {
			return p, fmt.Errorf("read position %q: %w", b, err)
		}
	}
	return p, nil
}

// stamp is what tells that a file has not changed.
type stamp struct {
	size, changed int64
}

// add puts a file into the set.
func (f *finished) add(name string, s stamp) {
	f.Files++
	f.Sum += print(name, s)
	f.Newest = max(f.Newest, s.changed)
}

// remove takes a file out of the set, leaving Newest.
func (f *finished) remove(name string, s stamp) {
	f.Files--
	f.Sum -= print(name, s)
}

func print(name string, s stamp) uint64 {
	b := binary.LittleEndian.AppendUint64([]byte(name), uint64(s.size))
	return xxhash.Sum64(binary.LittleEndian.AppendUint64(b, uint64(s.changed)))
}

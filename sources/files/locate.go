package files

import (
	"fmt"
	"sort"
	"strconv"
	"sync"

	"frazil/dataflow"
)

// places knows in which file a line of a lane stands.
type places struct {
	sync.Mutex
	segs map[dataflow.Split][]segment
	// earlier are the files that an earlier process has finished, in their order: a row
	// that waited in a step through a restart may stand in one of them.
	earlier map[dataflow.Split][]string
}

// segment says that from line row of a lane on stands the file name.
type segment struct {
	row  int64
	name string
}

// Locate writes a line of a lane as "events.ndjson:12".
func (s *Source) Locate(split dataflow.Split, pos int64) string {
	s.where.Lock()
	defer s.where.Unlock()
	for {
		segs := s.where.segs[split]
		i := sort.Search(len(segs), func(i int) bool { return segs[i].row > pos }) - 1
		if i >= 0 {
			return segs[i].name + ":" + strconv.FormatInt(pos-segs[i].row+1, 10)
		}
		if !s.lookBack(split) {
			return fmt.Sprintf("lane %s, line %d", split, pos+1)
		}
	}
}

// segment notes that a file begins at a line of the lane.
func (s *Source) segment(l *lane, row int64, name string) {
	s.where.Lock()
	defer s.where.Unlock()
	segs := s.where.segs[l.split]
	for len(segs) > 0 && segs[len(segs)-1].row >= row {
		segs = segs[:len(segs)-1]
	}
	s.where.segs[l.split] = append(segs, segment{row, name})
}

// noteEarlier notes the finished files of a lane that goes on where an earlier process
// stood.
func (s *Source) noteEarlier(split dataflow.Split, names []string) {
	s.where.Lock()
	defer s.where.Unlock()
	s.where.earlier[split] = names
}

// lookBack finds out where the file before the first known one begins, by its lines.
// It is false where that cannot be told: the file is gone.
func (s *Source) lookBack(split dataflow.Split) bool {
	segs, earlier := s.where.segs[split], s.where.earlier[split]
	if len(segs) == 0 || len(earlier) == 0 {
		return false
	}
	name := earlier[len(earlier)-1]
	n, err := s.countLines(name)
	if err != nil || n > segs[0].row {
		s.where.earlier[split] = nil
		return false
	}
	s.where.earlier[split] = earlier[:len(earlier)-1]
	if n > 0 {
		s.where.segs[split] = append([]segment{{segs[0].row - n, name}}, segs...)
	}
	return true
}

// countLines counts the lines that reading a whole file gives.
func (s *Source) countLines(name string) (n int64, err error) {
	r, err := open(inDir(s.env.Dir, name), s.maxLine, nil)
	if err != nil {
		return 0, err
	}
	defer r.close()
	for {
		_, _, err := r.next()
		if err == nil {
			n++
			continue
		}
		if _, _, ok := r.rest(); ok {
			n++
		}
		return n, nil
	}
}

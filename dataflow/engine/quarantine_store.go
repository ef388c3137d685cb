package engine

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"frazil/dataflow/checkpoint"
	"frazil/state"

	"github.com/cespare/xxhash/v2"
)

// Keys of the quarantine in the state; see docs/state-format.md. Ids begin with
// the name of a step, a letter.
const (
	prefixAge    = 0x01 // in group 0: when a row was kept (8) and its id
	prefixGone   = 0x02 // the id of a row that was read again before it came
	prefixSum    = 0x03 // in group 0: quarantineSummary
	firstRowKey  = 0x20
	ageKeyHeader = 9
)

// QuarantineGroup is what the quarantine holds of one reason.
type QuarantineGroup struct {
	Step   string `json:"step"`
	Port   string `json:"port"`
	Reason string `json:"reason"`
	Rows   int64  `json:"rows"`
	Bytes  int64  `json:"bytes"`
	// Kept counts all that ever came.
	Kept int64 `json:"kept"`
}

type groupKey struct{ step, port, reason string }

// quarantineSummary is kept beside the rows, so that they need not be read to know
// how many there are.
type quarantineSummary struct {
	checkpoint.QuarantineCounts
	Groups []QuarantineGroup `json:"groups"`
}

// quarantineStore is the quarantine in the state. One goroutine uses it.
type quarantineStore struct {
	kv      *state.TaskKV
	sum     quarantineSummary
	groups  map[groupKey]*QuarantineGroup
	changed bool
}

// why says how a row leaves.
type why int

const (
	byResending why = iota
	byDiscarding
	byLimit
)

func loadQuarantine(kv *state.TaskKV) (*quarantineStore, error) {
	s := &quarantineStore{kv: kv, groups: map[groupKey]*QuarantineGroup{}}
	raw, err := kv.Get(0, []byte{prefixSum})
	if errors.Is(err, state.ErrNotFound) {
		return s, s.adopt()
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &s.sum); err != nil {
		return nil, fmt.Errorf("decode the summary: %w", err)
	}
	for _, g := range s.sum.Groups {
		s.groups[groupKey{g.Step, g.Port, g.Reason}] = &g
	}
	s.sum.Groups = nil
	return s, nil
}

// adopt counts the rows that a version without a summary has left, and notes
// them as the oldest.
func (s *quarantineStore) adopt() error {
	type old struct {
		id   string
		size int64
		g    groupKey
	}
	for g := range state.NumGroups {
		var rows []old
		err := s.kv.Scan(g, []byte{firstRowKey}, nil, func(k, v []byte) error {
			row, err := decodeQuarantined(v)
			if err != nil {
				return err
			}
			rows = append(rows, old{string(k), int64(len(k) + len(v)), groupKey{row.Step, row.Port, row.Reason}})
			return nil
		})
		if err != nil {
			return err
		}
		for _, r := range rows {
			if err := s.kv.Set(0, ageKey(time.Time{}, r.id), nil); err != nil {
				return err
			}
			s.add(r.g, r.size)
		}
	}
	return nil
}

func (s *quarantineStore) group(k groupKey) *QuarantineGroup {
	g := s.groups[k]
	if g == nil {
		g = &QuarantineGroup{Step: k.step, Port: k.port, Reason: k.reason}
		s.groups[k] = g
	}
	return g
}

func (s *quarantineStore) add(k groupKey, size int64) {
	g := s.group(k)
	g.Rows, g.Bytes, g.Kept = g.Rows+1, g.Bytes+size, g.Kept+1
	s.sum.Kept++
	s.sum.Rows++
	s.sum.Bytes += size
	s.changed = true
}

// list returns the groups, sorted.
func (s *quarantineStore) list() []QuarantineGroup {
	out := make([]QuarantineGroup, 0, len(s.groups))
	for _, g := range s.groups {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b QuarantineGroup) int {
		return slices.Compare([]string{a.Step, a.Port, a.Reason}, []string{b.Step, b.Port, b.Reason})
	})
	return out
}

func groupOfID(id string) int { return state.GroupOf(xxhash.Sum64String(id)) }

func ageKey(at time.Time, id string) []byte {
	var micros int64
	if !at.IsZero() {
		micros = at.UnixMicro()
	}
	return append(binary.BigEndian.AppendUint64([]byte{prefixAge}, uint64(micros)), id...)
}

func goneKey(id string) []byte { return append([]byte{prefixGone}, id...) }

func decodeQuarantined(val []byte) (*Quarantined, error) {
	row := &Quarantined{}
	if err := json.Unmarshal(val, row); err != nil {
		return nil, fmt.Errorf("decode a quarantined row: %w", err)
	}
	return row, nil
}

// get returns a row and what it counts; nil: it is not there.
func (s *quarantineStore) get(id string) (*Quarantined, int64, error) {
	val, err := s.kv.Get(groupOfID(id), []byte(id))
	if errors.Is(err, state.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	row, err := decodeQuarantined(val)
	return row, int64(len(id) + len(val)), err
}

// put keeps a row, under another id if its own is taken: a step may get a row of
// a source by two ways, and nothing is to be lost. A row that is expected to be
// gone is not kept.
func (s *quarantineStore) put(row Quarantined) error {
	g := groupOfID(row.ID)
	switch _, err := s.kv.Get(g, goneKey(row.ID)); {
	case err == nil:
		s.changed = true
		s.sum.Kept++
		s.sum.SentAgain++
		s.group(groupKey{row.Step, row.Port, row.Reason}).Kept++
		return s.kv.Delete(g, goneKey(row.ID))
	case !errors.Is(err, state.ErrNotFound):
		return err
	}
	base := row.ID
	for n := 2; ; n++ {
		_, err := s.kv.Get(groupOfID(row.ID), []byte(row.ID))
		if errors.Is(err, state.ErrNotFound) {
			break
		}
		if err != nil {
			return err
		}
		row.ID = base + "#" + strconv.Itoa(n)
	}
	val, err := json.Marshal(row)
	if err != nil {
		return err
	}
	if err := s.kv.Set(groupOfID(row.ID), []byte(row.ID), val); err != nil {
		return err
	}
	if err := s.kv.Set(0, ageKey(row.At, row.ID), nil); err != nil {
		return err
	}
	s.add(groupKey{row.Step, row.Port, row.Reason}, int64(len(row.ID)+len(val)))
	return nil
}

// expect notes that a row that has not come is gone.
func (s *quarantineStore) expect(id string) error {
	s.changed = true
	return s.kv.Set(groupOfID(id), goneKey(id), nil)
}

// take removes a row and counts why; found is false if it is not there.
func (s *quarantineStore) take(id string, because why) (found bool, err error) {
	row, size, err := s.get(id)
	if err != nil || row == nil {
		return false, err
	}
	if err := errors.Join(s.kv.Delete(groupOfID(id), []byte(id)), s.kv.Delete(0, ageKey(row.At, id))); err != nil {
		return false, err
	}
	g := s.group(groupKey{row.Step, row.Port, row.Reason})
	g.Rows, g.Bytes = g.Rows-1, g.Bytes-size
	s.sum.Rows--
	s.sum.Bytes -= size
	switch because {
	case byResending:
		s.sum.SentAgain++
	case byDiscarding:
		s.sum.Discarded++
	case byLimit:
		s.sum.Dropped++
	}
	s.changed = true
	return true, nil
}

// aged is an entry of the index by age.
type aged struct {
	at time.Time
	id string
}

// oldest lists some rows from a key on, and the key to go on from; nil: no more.
func (s *quarantineStore) oldest(from []byte, most int) (out []aged, next []byte, err error) {
	if from == nil {
		from = []byte{prefixAge}
	}
	enough := errors.New("enough")
	err = s.kv.Scan(0, from, []byte{prefixAge + 1}, func(k, _ []byte) error {
		if len(out) == most {
			next = slices.Clone(k)
			return enough
		}
		a := aged{id: string(k[ageKeyHeader:])}
		if us := int64(binary.BigEndian.Uint64(k[1:])); us != 0 {
			a.at = time.UnixMicro(us)
		}
		out = append(out, a)
		return nil
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return out, next, err
}

// save writes the summary, if it has changed, and checks that it adds up.
func (s *quarantineStore) save() error {
	if !s.changed {
		return nil
	}
	if left := s.sum.Balance(); left != 0 {
		return fmt.Errorf("the quarantine does not balance (I10): %d rows have no fate: %+v", left, s.sum.QuarantineCounts)
	}
	sum := s.sum
	sum.Groups = s.list()
	val, err := json.Marshal(sum)
	if err != nil {
		return err
	}
	s.changed = false
	return s.kv.Set(0, []byte{prefixSum}, val)
}

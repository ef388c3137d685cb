package operators

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// TestTopRowTable compares the first rows of groups with all rows sorted, while many
// rows come and go: tables are made anew, bytes moved, heads cut and filled again.
func TestTopRowTable(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if v := os.Getenv("FRAZIL_SEED"); v != "" {
		seed, _ = strconv.ParseUint(v, 10, 64)
	}
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 12))
	for range 20 {
		playRowTable(t, rng)
	}
}

type rowTableModel struct {
	table topRowTable
	// rows by group and id: the place.
	rows  map[string]map[string][]byte
	dirty map[string]bool
}

func (m *rowTableModel) key(group, id string) (uint64, []byte) {
	key := []byte(group + "/" + id)
	return keyHash(key), key
}

func (m *rowTableModel) take(group, id string) {
	if m.rows[group][id] == nil {
		return
	}
	e, _ := m.table.rows.Upsert(m.key(group, id))
	m.table.take(e)
	delete(m.rows[group], id)
	m.dirty[group] = true
}

func (m *rowTableModel) put(group, id string, prefix uint64, row []byte) {
	e, fresh := m.table.rows.Upsert(m.key(group, id))
	g := m.table.group(keyHash([]byte(group)), []byte(group))
	if m.rows[group][id] != nil {
		m.table.take(e)
	}
	place := append(fmt.Appendf(nil, "%c", 'a'+prefix), id...)
	m.table.put(g, e, fresh, &topWire{prefix, 1, place, row})
	if m.rows[group] == nil {
		m.rows[group] = map[string][]byte{}
	}
	m.rows[group][id] = place
	m.dirty[group] = true
}

func (m *rowTableModel) check(t *testing.T) {
	t.Helper()
	for group := range m.dirty {
		g := m.table.group(keyHash([]byte(group)), []byte(group))
		m.table.refill(g)
		m.table.dropEmpty(g)
	}
	clear(m.dirty)
	m.table.settle()
	for group, rows := range m.rows {
		if len(rows) == 0 {
			delete(m.rows, group)
			continue
		}
		var want [][]byte
		for _, place := range rows {
			want = append(want, place)
		}
		slices.SortFunc(want, bytes.Compare)
		want = want[:min(len(want), m.table.limit)]
		items := m.table.first(nil, &m.table.groups[m.table.group(keyHash([]byte(group)), []byte(group))])
		for i := range max(len(items), len(want)) {
			if i >= len(items) || i >= len(want) || !bytes.Equal(m.table.lists.placeOf(&items[i]), want[i]) || !bytes.HasPrefix(m.table.lists.rowOf(&items[i]), want[i][1:]) {
				t.Fatalf("group %s, %d rows: %d first rows, expected %q", group, len(rows), len(items), want)
			}
		}
	}
}

func playRowTable(t *testing.T, rng *rand.Rand) {
	m := rowTableModel{rows: map[string]map[string][]byte{}, dirty: map[string]bool{}}
	m.table.init(1 + rng.IntN(40))
	groups, ids, size := 1+rng.IntN(3)*rng.IntN(100), 50+rng.IntN(400), 1+rng.IntN(4000)
	row := make([]byte, size)
	for range 12 {
		shrink := rng.IntN(2) == 0
		for range 1 + rng.IntN(600) {
			group, id := fmt.Sprint("g", rng.IntN(groups)), fmt.Sprint("r", rng.IntN(ids))
			if shrink && rng.IntN(8) > 0 { // The first ones, so that others come up.
				best := ""
				for x, place := range m.rows[group] {
					if best == "" || bytes.Compare(place, m.rows[group][best]) < 0 {
						best = x
					}
				}
				m.take(group, best)
				continue
			}
			m.put(group, id, uint64(rng.IntN(20)), append([]byte(id), row...))
		}
		m.check(t)
	}
	for i := range m.table.rows.Len() {
		e := m.table.rows.At(i)
		if row := m.table.rows.Row(e); row[topRowMarks]&topRowThere == 0 && row[topRowMarks] != 0 {
			t.Fatalf("a row that is gone has the marks %x", row[topRowMarks])
		}
	}
}

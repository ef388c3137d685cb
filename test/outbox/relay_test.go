package outbox

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"frazil/dataflow/flowtest/full"
	"frazil/dataflow/flowtest/program"
	"frazil/dataflow/flowtest/rig"

	"github.com/twmb/franz-go/pkg/kgo"
)

const pipeline = `
sources:
  events:
    outbox: {%s, cleanup: {mode: delete, every: 100ms}}
sinks:
  relay:
    from: events
    kafka:
      brokers: [%q]
      topic: "shop.{aggregate_type}"
      key: aggregate_id
      value: payload
      headers: {id: id, type: type}
      create_topics: {partitions: 3, replication_factor: 1}
  table: {from: events, iceberg: {catalog: local, table: shop.events}}
checkpoint: {every: 200ms}
`

// mode is a way to read an outbox.
type mode struct {
	name string
	// kills of each of engine, broker and database in one portion.
	kills int
	// open starts the database and returns its shop, and what the source is told.
	open func(t *testing.T, portion int) (server, *shop, string)
}

type server interface {
	Kill()
	Start() error
}

// modes have ten kills of each kind together.
var modes = []mode{
	{"log", 3, func(t *testing.T, _ int) (server, *shop, string) {
		db := rig.NewPostgres(t)
		return db, openShop(t, postgres, db.URL("postgres")), fmt.Sprintf("postgres: {url: %q, table: public.outbox}", db.URL("postgres"))
	}},
	{"poll", 4, func(t *testing.T, portion int) (server, *shop, string) {
		db := rig.NewPostgres(t)
		source := fmt.Sprintf("postgres: {url: %q, table: public.outbox, capture: poll, poll_every: 20ms}", db.URL("postgres"))
		if portion%2 == 0 {
			source += ", columns: {transaction: tx}"
		}
		return db, openShop(t, postgres, db.URL("postgres")), source
	}},
	{"mariadb", 3, func(t *testing.T, _ int) (server, *shop, string) {
		db := rig.NewMariaDB(t)
		conn, err := sql.Open("mysql", db.DSN(""))
		must(t, err)
		defer conn.Close()
		_, err = conn.ExecContext(t.Context(), "CREATE DATABASE shop")
		must(t, err)
		return db, openShop(t, mariadb, db.DSN("shop")), fmt.Sprintf(`mysql: {url: "mysql://root@%s/shop", table: outbox, poll_every: 20ms}`, db.Addr)
	}},
}

// TestRelay: whatever is killed, topic and table hold each committed event once, in the
// order of its aggregate, and none that was rolled back; the outbox is empty behind it.
// The modes run at the same time, each with servers of its own.
func TestRelay(t *testing.T) {
	program.Long(t)
	full.Suite{Name: "relay", Total: 20, Short: 1}.Run(t, func(t *testing.T, portion int) full.Figures {
		out := full.Figures{}
		var mu sync.Mutex
		t.Run("modes", func(t *testing.T) {
			for n, m := range modes {
				t.Run(m.name, func(t *testing.T) {
					t.Parallel()
					figures := m.relay(t, portion, rand.New(rand.NewPCG(uint64(portion), uint64(n))))
					mu.Lock()
					defer mu.Unlock()
					out.Add(figures)
				})
			}
		})
		return out
	})
}

func (m mode) relay(t *testing.T, portion int, rng *rand.Rand) full.Figures {
	db, s, source := m.open(t, portion)
	broker := rig.NewBroker(t)
	p := program.New(t, fmt.Sprint("relay-", m.name, portion), fmt.Sprintf(pipeline, source, broker.Addr))
	s.work(rng.Uint64(), 6)
	engine := p.Start(nil, "run", p.File)
	engine.Until("the first rows", func() bool { return p.Count("shop.events") > 0 })
	left := map[string]int{"engine": m.kills, "broker": m.kills, "database": m.kills}
	for len(left) > 0 {
		var names []string
		for name := range left {
			names = append(names, name)
		}
		slices.Sort(names)
		name := names[rng.IntN(len(names))]
		if left[name]--; left[name] == 0 {
			delete(left, name)
		}
		before := p.Count("shop.events")
		switch name {
		case "engine":
			engine.Kill()
			engine = p.Start(nil, "run", p.File)
		case "broker":
			broker.Kill()
			must(t, broker.Start())
		case "database":
			db.Kill()
			must(t, db.Start())
		}
		if rng.IntN(3) > 0 { // Else the next one while it recovers.
			engine.Until("rows behind the kill of the "+name, func() bool { return p.Count("shop.events") > before })
		}
	}
	s.close()
	want := s.events()
	if len(want) == 0 {
		t.Fatal("nothing was committed")
	}
	engine.Until("the last rows", func() bool { return p.Count("shop.events") >= int64(len(want)) })
	// What was killed last may still be waited for, although all is relayed.
	s.last()
	want = s.events()
	engine.Until("the very last row", func() bool { return p.Count("shop.events") >= int64(len(want)) })
	engine.Until("the outbox to be empty", func() bool { return s.left() == 0 })
	engine.Terminate()
	for what, got := range map[string][]event{"the topic": readTopic(t, broker.Addr, "shop.order"), "the table": readTable(t, p)} {
		if wrong := compare(got, want); wrong != "" {
			t.Errorf("%s: %s", what, wrong)
		}
	}
	return full.Figures{"kills_engine": int64(m.kills), "kills_broker": int64(m.kills), "kills_database": int64(m.kills), "events": int64(len(want)), "events_" + m.name: int64(len(want))}
}

// compare says what is wrong unless got holds each event once, each order's in their
// order; want is sorted by order and sequence.
func compare(got, want []event) string {
	sorted := slices.Clone(got)
	slices.SortStableFunc(sorted, func(a, b event) int { return strings.Compare(a.order, b.order) })
	for i := range max(len(sorted), len(want)) {
		switch {
		case i >= len(want):
			return fmt.Sprintf("%d events, want %d: %v is too much", len(got), len(want), sorted[i])
		case i >= len(sorted) || sorted[i] != want[i]:
			return fmt.Sprintf("%d events, want %d: event %d of those by order is %v, want %v", len(got), len(want), i, sorted[min(i, len(sorted)-1)], want[i])
		}
	}
	return ""
}

// What TestRelay is for must not get past it.
func TestLossesDoublesAndDisorderAreSeen(t *testing.T) {
	want := []event{{1, "a", 1}, {4, "a", 2}, {2, "b", 1}}
	if wrong := compare([]event{want[2], want[0], want[1]}, want); wrong != "" {
		t.Errorf("orders that are mixed: %s", wrong)
	}
	for name, got := range map[string][]event{
		"lost": {want[0], want[2]}, "lost at the end": {want[0], want[1]}, "doubled": {want[0], want[1], want[2], want[2]},
		"disordered": {want[1], want[0], want[2]}, "rolled back": {want[0], want[1], {3, "a", 3}, want[2]},
	} {
		if compare(got, want) == "" {
			t.Errorf("%s: not seen", name)
		}
	}
}

// readTopic reads all that a reader with isolation read_committed sees.
func readTopic(t *testing.T, broker, topic string) (out []event) {
	t.Helper()
	for _, r := range rig.Committed(t, broker, topic) {
		out = append(out, eventOf(t, r))
	}
	return out
}

func eventOf(t *testing.T, r *kgo.Record) event {
	t.Helper()
	var body struct {
		Order string
		Seq   int
	}
	must(t, json.Unmarshal(r.Value, &body))
	e := event{order: body.Order, seq: body.Seq}
	if string(r.Key) != body.Order {
		t.Errorf("the key of %s is %q", r.Value, r.Key)
	}
	for _, h := range r.Headers {
		if h.Key == "id" {
			var err error
			e.id, err = strconv.ParseInt(string(h.Value), 10, 64)
			must(t, err)
		}
	}
	return e
}

// readTable reads the table; its rows are in the order of their commits.
func readTable(t *testing.T, p *program.Place) (out []event) {
	t.Helper()
	for _, row := range p.Rows("shop.events") {
		var body struct {
			Order string
			Seq   int
		}
		text, ok := row["payload"].(string)
		if !ok {
			b, err := json.Marshal(row["payload"])
			must(t, err)
			text = string(b)
		}
		must(t, json.Unmarshal([]byte(text), &body))
		id, err := strconv.ParseInt(fmt.Sprint(row["id"]), 10, 64)
		must(t, err)
		out = append(out, event{id, body.Order, body.Seq})
	}
	// The table has no order: that each is there once is what counts.
	slices.SortFunc(out, func(a, b event) int { return cmp.Or(strings.Compare(a.order, b.order), a.seq-b.seq) })
	return out
}

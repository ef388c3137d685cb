package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"frazil/dataflow/flowtest/program"
	"frazil/dataflow/flowtest/rig"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// capture is a record that Debezium's outbox router made.
type capture struct {
	Topic   string
	Headers []struct {
		Key   string
		Value *string
	}
	Key   json.RawMessage
	Value json.RawMessage
}

// captures are those of events, without what the connector says of schemas.
func captures(t *testing.T, server string) (out []capture) {
	t.Helper()
	b, err := os.ReadFile(rig.Shared(t, "data", "debezium", server, "outbox.ndjson"))
	must(t, err)
	for line := range strings.Lines(string(b)) {
		var c capture
		must(t, json.Unmarshal([]byte(line), &c))
		if strings.Contains(c.Topic, "outbox.event.") {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		t.Fatal("no captures")
	}
	return out
}

// statements are those of a captured file that a pattern finds.
func statements(t *testing.T, pattern string, file ...string) []string {
	t.Helper()
	b, err := os.ReadFile(rig.Shared(t, append([]string{"data", "debezium"}, file...)...))
	must(t, err)
	found := regexp.MustCompile(pattern).FindAllString(string(b), -1)
	if len(found) == 0 {
		t.Fatalf("no statement like %s in %v", pattern, file)
	}
	return found
}

const routed = `
sources:
  events: {outbox: {%s}}
sinks:
  relay:
    from: events
    kafka:
      brokers: [%q]
      topic: "%s.outbox.event.{aggregate_type}"
      key: aggregate_id
      value: %s
      headers: {id: id, tenant: tenant}
      create_topics: {partitions: 1, replication_factor: 1}
checkpoint: {every: 100ms}
`

// TestTheRecordsOfDebeziumsRouter: the same rows make the same records, field by field, in
// the same order, but for what docs/differences.md says: members that are null stay, numbers
// keep their digits, times are written otherwise.
func TestTheRecordsOfDebeziumsRouter(t *testing.T) {
	program.Long(t)
	db := rig.Postgres(t)
	conn, err := pgx.Connect(t.Context(), db)
	must(t, err)
	defer conn.Close(context.Background())
	do := func(texts ...string) {
		t.Helper()
		for _, text := range texts {
			_, err := conn.Exec(t.Context(), text)
			must(t, err)
		}
	}
	do("CREATE SCHEMA shop")
	do(statements(t, `(?s)create table shop\.outbox \(.*?\);`, "pg", "before.sql")...)
	topics := fmt.Sprintf("t%d", time.Now().UnixNano())
	// The pipeline has a name of its own: the broker is shared, and so are its positions.
	p := program.New(t, topics, fmt.Sprintf(routed,
		fmt.Sprintf("start: latest, postgres: {url: %q, table: shop.outbox}, columns: {created_at: created_at, additional: [tenant]}", db),
		rig.Kafka(t), topics, `"jsonb_build_object('payload', payload, 'createdAt', created_at)"`))
	p.Run("outbox", "setup", p.File)
	do(statements(t, `(?m)^.+$`, "pg", "outbox.sql")...) // rows that come and go before the relay runs
	r := p.Start(nil, "run", p.File)
	want := captures(t, "pg")
	got := relayed(t, r, topics, want, nil)
	r.Terminate()
	agree(t, want, got)
}

// TestTheRecordsOfDebeziumsRouterOfMariaDB: as of PostgreSQL; an outbox that is polled has a
// column of numbers, and a row that its transaction has deleted again was never there.
func TestTheRecordsOfDebeziumsRouterOfMariaDB(t *testing.T) {
	program.Long(t)
	db := rig.NewMariaDB(t)
	conn, err := sql.Open("mysql", db.DSN(""))
	must(t, err)
	defer conn.Close()
	conn.SetMaxOpenConns(1)
	do := func(texts ...string) {
		t.Helper()
		for _, text := range texts {
			for _, one := range strings.SplitAfter(text, "; ") {
				_, err := conn.ExecContext(t.Context(), strings.TrimRight(one, "; "))
				must(t, err)
			}
		}
	}
	do("CREATE DATABASE shop", "USE shop", "SET time_zone = '+00:00'")
	do(statements(t, `create table outbox \(.*?\);`, "mariadb", "before.sql")...)
	do("ALTER TABLE outbox ADD COLUMN seq bigint NOT NULL AUTO_INCREMENT UNIQUE")
	topics := fmt.Sprintf("t%d", time.Now().UnixNano())
	// The pipeline has a name of its own: the broker is shared, and so are its positions.
	p := program.New(t, topics, fmt.Sprintf(routed,
		fmt.Sprintf(`mysql: {url: "mysql://root@%s/shop", table: outbox, poll_every: 20ms}, columns: {sequence: seq, created_at: created_at, additional: [tenant]}`, db.Addr),
		rig.Kafka(t), topics, "payload"))
	r := p.Start(nil, "run", p.File)
	all := statements(t, `(?m)^.*\boutbox\b.*$`, "mariadb", "stream.sql")
	do(all[:len(all)-1]...)
	want := captures(t, "mariadb")
	const gone = "11111111-1111-4111-8111-111111111111"
	got := relayed(t, r, topics, want, map[string]bool{gone: true})
	do(all[len(all)-1])
	r.Terminate()
	var seen []capture
	for _, c := range want {
		if header(c, "id") != gone {
			seen = append(seen, c)
		}
	}
	agree(t, seen, got)
}

func header(c capture, key string) string {
	for _, h := range c.Headers {
		if h.Key == key && h.Value != nil {
			return *h.Value
		}
	}
	return ""
}

// relayed waits until the topics of want hold as many records, but those that are gone.
func relayed(t *testing.T, r *program.Process, prefix string, want []capture, gone map[string]bool) map[string][]*kgo.Record {
	t.Helper()
	count, broker := map[string]int{}, rig.Kafka(t)
	for _, c := range want {
		if !gone[header(c, "id")] {
			count[topicOf(c)]++
		}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker))
	must(t, err)
	defer cl.Close()
	admin := kadm.NewClient(cl)
	out := map[string][]*kgo.Record{}
	r.Until("the records", func() bool {
		there, err := admin.ListTopics(t.Context())
		must(t, err)
		done := true
		for topic, n := range count {
			if !there.Has(prefix + "." + topic) {
				return false
			}
			out[topic] = rig.Committed(t, broker, prefix+"."+topic)
			done = done && len(out[topic]) >= n
		}
		return done
	})
	return out
}

// topicOf is the topic's name behind the prefix of the connector.
func topicOf(c capture) string { return c.Topic[strings.Index(c.Topic, "outbox.event."):] }

func agree(t *testing.T, want []capture, got map[string][]*kgo.Record) {
	t.Helper()
	for _, c := range want {
		records := got[topicOf(c)]
		if len(records) == 0 {
			t.Errorf("%s: no record for %s", topicOf(c), header(c, "id"))
			continue
		}
		r := records[0]
		got[topicOf(c)] = records[1:]
		if key := fmt.Sprintf("%q", r.Key); key != string(c.Key) {
			t.Errorf("key %s, Debezium's %s", key, c.Key)
		}
		for _, name := range []string{"id", "tenant"} {
			value := ""
			for _, h := range r.Headers {
				if h.Key == name {
					value = string(h.Value)
				}
			}
			if value != header(c, name) {
				t.Errorf("%s: header %s is %q, Debezium's %q", r.Key, name, value, header(c, name))
			}
		}
		ours := r.Value
		if ours == nil {
			ours = []byte("null")
		}
		if why := sameJSON(decoded(t, c.Value), decoded(t, ours)); why != "" {
			t.Errorf("%s: %s\n ours %s\n Debezium's %s", header(c, "id"), why, ours, c.Value)
		}
	}
	for topic, rest := range got {
		for _, r := range rest {
			t.Errorf("%s: a record that Debezium has not: %s %s", topic, r.Key, r.Value)
		}
	}
}

func decoded(t *testing.T, b []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber()
	must(t, d.Decode(&v))
	return v
}

// sameJSON says what of theirs is not in ours: ours may have members more that are null, and
// more digits.
func sameJSON(theirs, ours any) string {
	switch a := theirs.(type) {
	case map[string]any:
		b, ok := ours.(map[string]any)
		if !ok {
			return fmt.Sprintf("%v for %v", ours, theirs)
		}
		for k, v := range b {
			if _, ok := a[k]; !ok && v != nil {
				return fmt.Sprintf("member %s more", k)
			}
		}
		for k, v := range a {
			if _, ok := b[k]; !ok {
				return fmt.Sprintf("no member %s", k)
			}
			if why := sameJSON(v, b[k]); why != "" {
				return k + ": " + why
			}
		}
		return ""
	case []any:
		b, ok := ours.([]any)
		if !ok || len(a) != len(b) {
			return fmt.Sprintf("%v for %v", ours, theirs)
		}
		for i := range a {
			if why := sameJSON(a[i], b[i]); why != "" {
				return why
			}
		}
		return ""
	case json.Number:
		if b, ok := ours.(json.Number); ok {
			x, _ := new(big.Rat).SetString(string(a))
			y, _ := new(big.Rat).SetString(string(b))
			if x.Cmp(y) == 0 {
				return ""
			}
		}
	case string:
		b, ok := ours.(string)
		x, err1 := time.Parse(time.RFC3339Nano, a)
		y, err2 := time.Parse(time.RFC3339Nano, b)
		if ok && (a == b || err1 == nil && err2 == nil && x.Equal(y)) {
			return ""
		}
	default:
		if theirs == ours {
			return ""
		}
	}
	return fmt.Sprintf("%v for %v", ours, theirs)
}

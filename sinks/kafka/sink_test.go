package kafka

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/flowtest"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// orders is an input with a column of each form that a record is made of.
var orders = arrow.NewSchema([]arrow.Field{
	{Name: "id", Type: dataflow.TypeInt64}, {Name: "region", Type: dataflow.TypeString, Nullable: true},
	{Name: "body", Type: dataflow.TypeBinary, Nullable: true}, {Name: "at", Type: dataflow.TypeTimestampTZ, Nullable: true},
}, nil)

func batch(t *testing.T, schema *arrow.Schema, rows string) arrow.RecordBatch {
	t.Helper()
	b, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(rows))
	must(t, err)
	t.Cleanup(b.Release)
	return b
}

func (p *place) writer(in dataflow.Stream) dataflow.Writer {
	p.t.Helper()
	w, err := newWriter(p.t.Context(), p.env, component.SinkIn{Input: in}, p.cfg)
	must(p.t, err)
	p.t.Cleanup(func() { w.Close() })
	return w
}

func (p *place) committer() *committer {
	p.t.Helper()
	k, err := newCommitter(p.t.Context(), p.env, component.SinkIn{}, p.cfg)
	must(p.t, err)
	p.t.Cleanup(func() { k.Close() })
	return k.(*committer)
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestEachPartOfARecordComesFromItsExpression(t *testing.T) {
	p := newPlace(t)
	base := p.cfg.Topic
	p.create(base+".eu", 2)
	p.cfg.Topic = base + ".{lower(region)}"
	p.cfg.Key, p.cfg.Value, p.cfg.Partition, p.cfg.Timestamp = "region", "body", "id % 2", "at"
	p.cfg.Headers = component.NamedExprs{{Name: "id", Expr: "id"}, {Name: "none", Expr: "nullif(region, 'EU')"}}
	for _, delivery := range []string{atLeastOnce, exactlyOnce} {
		p.cfg.Delivery = delivery
		w := p.writer(dataflow.Stream{Schema: orders})
		bad, err := w.Write(t.Context(), batch(t, orders, `[
			{"id": 1, "region": "EU", "body": "b25l", "at": "2026-03-01T10:00:00.123456Z"},
			{"id": 2, "region": "EU", "body": null, "at": null},
			{"id": 3, "region": null, "body": "b25l", "at": null},
			{"id": 4, "region": "b/d", "body": "b25l", "at": null},
			{"id": 5, "region": "US", "body": "b25l", "at": null},
			{"id": -7, "region": "EU", "body": "", "at": null}]`))
		must(t, err)
		same(t, "bad rows", flowtest.Refused(bad), []string{
			"invalid_topic: lower(region) is null, and the topic is made of it",
			fmt.Sprintf("invalid_topic: topic %q: expected 1 to 249 of the characters a-z A-Z 0-9 . _ -", base+".b/d"),
			fmt.Sprintf("unknown_topic: topic %q is not there: make it, or set create_topics", base+".us"),
			"invalid_partition: partition -1: expected 0 or more",
		})
		c := flowtest.Stage(t, w, 1, 0, 6)
		if delivery == exactlyOnce {
			must(t, p.committer().Commit(t.Context(), c))
		}
	}
	var got []string
	for _, r := range p.records(base + ".eu") {
		stamp := r.Timestamp.UTC().Format(time.RFC3339Nano)
		if r.Timestamp.Year() != 2026 || text(r.Value) == "null" {
			stamp = "sent"
		}
		got = append(got, fmt.Sprintf("%d %s=%s %v %s", r.Partition, text(r.Key), text(r.Value), headerTexts(r), stamp))
	}
	sort.Strings(got)
	one, two := "1 EU=one [id=1] 2026-03-01T10:00:00.123Z", "0 EU=null [id=2] sent"
	same(t, "records of both deliveries", got, []string{two, two, one, one})
}

func headerTexts(r *kgo.Record) (out []string) {
	for _, h := range r.Headers {
		out = append(out, h.Key+"="+text(h.Value))
	}
	return out
}

func TestAChangelogIsWrittenAsUpserts(t *testing.T) {
	fields := append(slices.Clone(orders.Fields()[:2]), dataflow.OpField())
	in := dataflow.Stream{Schema: arrow.NewSchema(fields, nil), Changelog: true, Key: []string{"id"}}
	rows := `[
		{"id": 1, "region": "a", "_op": 1}, {"id": 2, "region": "b", "_op": 1},
		{"id": 1, "region": "a", "_op": 2}, {"id": 1, "region": "c", "_op": 3},
		{"id": 2, "region": "b", "_op": 4}]`
	for _, c := range []struct {
		key  []string
		want []string
	}{
		{[]string{"id"}, []string{`1={"id":1,"region":"a"}`, `1={"id":1,"region":"c"}`, `2=null`, `2={"id":2,"region":"b"}`}},
		{[]string{"id", "region"}, []string{`{"id":1,"region":"a"}={"id":1,"region":"a"}`, `{"id":1,"region":"c"}={"id":1,"region":"c"}`, `{"id":2,"region":"b"}=null`, `{"id":2,"region":"b"}={"id":2,"region":"b"}`}},
	} {
		p := newPlace(t)
		in.Key = c.key
		w := p.writer(in)
		bad, err := w.Write(t.Context(), batch(t, in.Schema, rows))
		must(t, err)
		same(t, "bad rows", flowtest.Refused(bad), nil)
		must(t, p.committer().Commit(t.Context(), flowtest.Stage(t, w, 1, 0, 5)))
		got := texts(p.records(p.cfg.Topic))
		sort.Strings(got)
		same(t, fmt.Sprint("key ", c.key), got, c.want)
	}
}

// ids is a batch of rows whose key and value tell their number.
func ids(t *testing.T, from, to int) arrow.RecordBatch {
	var rows []string
	for i := from; i < to; i++ {
		rows = append(rows, fmt.Sprintf(`{"id": %d}`, i))
	}
	return batch(t, arrow.NewSchema(orders.Fields()[:1], nil), "["+strings.Join(rows, ",")+"]")
}

func idStream() dataflow.Stream {
	return dataflow.Stream{Schema: arrow.NewSchema(orders.Fields()[:1], nil)}
}

// numbers are the ids in a topic, sorted.
func (p *place) numbers() (out []int) {
	p.t.Helper()
	for _, r := range p.records(p.cfg.Topic) {
		var row struct{ ID int }
		must(p.t, json.Unmarshal(r.Value, &row))
		out = append(out, row.ID)
	}
	slices.Sort(out)
	return out
}

func (p *place) want(what string, n int) {
	p.t.Helper()
	var want []int
	for i := range n {
		want = append(want, i)
	}
	if got := p.numbers(); !slices.Equal(got, want) {
		p.t.Errorf("%s: the topic holds %v, want 0 to %d, each once", what, got, n-1)
	}
}

// A process ends at each step of a commit; the next one, which knows its commit from
// the manifest, finishes it. The rows are there once.
func TestACommitThatWasCutShortIsFinishedOnce(t *testing.T) {
	for _, step := range []string{"begin", "end", "ended"} {
		t.Run(step, func(t *testing.T) {
			p := newPlace(t)
			w := p.writer(idStream())
			_, err := w.Write(t.Context(), ids(t, 0, 3))
			must(t, err)
			c := flowtest.Stage(t, w, 1, 0, 3)
			killed := p.committer()
			killed.at = func(s string) {
				if s == step {
					panic("killed")
				}
			}
			func() {
				defer func() {
					if recover() == nil {
						t.Fatalf("step %s did not come", step)
					}
				}()
				killed.Commit(t.Context(), c)
			}()
			next := p.committer()
			must(t, next.Commit(t.Context(), c))
			must(t, next.Commit(t.Context(), c))
			p.want("behind the kill", 3)
			held, err := next.Committed(t.Context())
			must(t, err)
			if held.Positions.String() != flowtest.Place(3).String() {
				t.Errorf("it holds %s", held.Positions)
			}
		})
	}
}

// The broker gives up a transaction whose producer is silent for too long: the rows are
// sent again, in another one.
func TestATransactionThatTheBrokerGaveUpIsSentAgain(t *testing.T) {
	p := newPlace(t)
	w := p.writer(idStream())
	_, err := w.Write(t.Context(), ids(t, 0, 3))
	must(t, err)
	k := p.committer()
	gone := false
	k.at = func(step string) {
		if step != "end" || gone {
			return
		}
		gone = true
		// What the broker does by itself after transaction_timeout: fence and abort.
		cl, err := newClient(p.env, p.cfg, kgo.TransactionalID(k.transactionalID()))
		must(t, err)
		defer cl.Close()
		_, _, err = cl.ProducerID(t.Context())
		must(t, err)
	}
	must(t, k.Commit(t.Context(), flowtest.Stage(t, w, 1, 0, 3)))
	if !gone {
		t.Fatal("nothing was given up")
	}
	p.want("behind the transaction that was given up", 3)
	k.at = func(string) {}
	_, err = w.Write(t.Context(), ids(t, 3, 5))
	must(t, err)
	must(t, k.Commit(t.Context(), flowtest.Stage(t, w, 2, 3, 5)))
	p.want("one more", 5)
}

// What is staged and damaged, or gone, ends the pipeline: nobody can read it again.
func TestStagedRowsThatAreGoneAreAnError(t *testing.T) {
	p := newPlace(t)
	w := p.writer(idStream())
	_, err := w.Write(t.Context(), ids(t, 0, 3))
	must(t, err)
	c := flowtest.Stage(t, w, 1, 0, 3)
	p.env.SpoolDir = t.TempDir()
	err = p.committer().Commit(t.Context(), c)
	if !errors.Is(err, dataflow.ErrPermanent) || !strings.Contains(err.Error(), "are gone") {
		t.Errorf("%v", err)
	}
	p.want("nothing of it", 0)
}

func TestTopicsAreMadeWhenAsked(t *testing.T) {
	p := newPlace(t)
	p.cfg.Topic += ".new.{id}"
	p.cfg.CreateTopics = &TopicConfig{Partitions: 2, ReplicationFactor: 1, Config: map[string]string{"cleanup.policy": "compact"}}
	w := p.writer(idStream())
	bad, err := w.Write(t.Context(), ids(t, 0, 2))
	must(t, err)
	same(t, "bad rows", flowtest.Refused(bad), nil)
	for i := range 2 {
		name := strings.Replace(p.cfg.Topic, "{id}", fmt.Sprint(i), 1)
		p.awaitTopic(name)
		all, err := p.admin.ListTopics(t.Context(), name)
		must(t, err)
		configs, err := p.admin.DescribeTopicConfigs(t.Context(), name)
		must(t, err)
		if len(all[name].Partitions) != 2 || !slices.ContainsFunc(configs[0].Configs, func(c kadm.Config) bool {
			return c.Key == "cleanup.policy" && c.MaybeValue() == "compact"
		}) {
			t.Errorf("%s: %v %v", name, all[name], configs[0])
		}
	}
}

func TestARecordThatIsTooLargeIsBad(t *testing.T) {
	p := newPlace(t)
	p.cfg.MaxRecord = 1 << 10
	schema := arrow.NewSchema([]arrow.Field{{Name: "v", Type: dataflow.TypeString}}, nil)
	w := p.writer(dataflow.Stream{Schema: schema})
	bad, err := w.Write(t.Context(), batch(t, schema, fmt.Sprintf(`[{"v": %q}, {"v": "fits"}]`, strings.Repeat("x", 2000))))
	must(t, err)
	if got := flowtest.Refused(bad); len(got) != 1 || !strings.HasPrefix(got[0], "too_large: the record has 20") {
		t.Errorf("%v", got)
	}
	must(t, p.committer().Commit(t.Context(), flowtest.Stage(t, w, 1, 0, 2)))
	same(t, "records", texts(p.records(p.cfg.Topic)), []string{`null={"v":"fits"}`})
}

func TestWhatIsWrongWithAConfigIsSaid(t *testing.T) {
	for text, want := range map[string]string{
		"a{region":           "topic: the expression that begins here is not closed by }: write {{ for the character",
		"a}":                 "topic: a } that closes nothing: write }} for the character",
		"a b":                `topic: topic "a b": expected 1 to 249 of the characters a-z A-Z 0-9 . _ -`,
		"{concat('}', nix)}": `topic: unknown column "nix"`,
	} {
		cfg := DefaultConfig()
		cfg.Brokers, cfg.Topic = []string{"localhost:9092"}, text
		_, err := plan(component.SinkIn{Input: dataflow.Stream{Schema: orders}}, cfg)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	cfg := DefaultConfig()
	cfg.Brokers, cfg.Topic, cfg.Partition, cfg.Timestamp = []string{"localhost:9092"}, "t", "region", "id"
	_, err := plan(component.SinkIn{Input: dataflow.Stream{Schema: orders}}, cfg)
	want := "partition: expected an integer, this expression gives string\ntimestamp: expected timestamptz or timestamp, this expression gives int64"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want\n%s", err, want)
	}
}

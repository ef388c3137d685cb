package crash_test

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"strings"
	"syscall"
	"testing"
	"time"

	"frazil/dataflow/flowtest/program"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// appending is a pipeline that copies a topic into a table: every is the time
// between checkpoints.
func appending(b *broker, topic, every string) string {
	return fmt.Sprintf(`sources:
  in:
    kafka: {brokers: [%q], topics: [%s], group: %s}
    decode: {json: {schema: {id: int64, v: string}}}
sinks:
  out: {from: in, iceberg: {table: t.r}}
checkpoint: {every: %s}
`, b.addr, topic, topic, every)
}

// ids makes values {"id":n}.
func ids(n ...int) []string {
	var out []string
	for _, i := range n {
		out = append(out, fmt.Sprintf(`{"id":%d}`, i))
	}
	return out
}

// wantIDs compares the table of appending with ids.
func (p *place) wantIDs(n ...int) {
	p.t.Helper()
	var want []row
	for _, i := range n {
		want = append(want, row{"id": i})
	}
	compareRows(p.t, "t.r", p.Rows("t.r"), want)
}

// rowCount is how many rows a table has now.
func (p *place) rowCount(table string) string {
	p.t.Helper()
	return p.List()[table].Rows.String()
}

func (p *place) wantOffsets(topic string, want map[int32]int64) {
	p.t.Helper()
	if got := p.standsAt("case", "out", "t.r", "in", topic); !maps.Equal(got, want) {
		p.t.Errorf("the table stands at %v, want %v", got, want)
	}
}

func TestC01CrashAroundTheCommit(t *testing.T) {
	program.Long(t)
	b := newBroker(t, kafka(t))
	for _, point := range []string{"before_manifest", "after_manifest", "before_commit", "after_commit", "acknowledged"} {
		t.Run(point, func(t *testing.T) {
			b := &broker{t, b.addr, b.cl, b.admin}
			topic := b.topic(2)
			var all []*kgo.Record
			for i, v := range []string{"a", "b", "c", "d", "e", "f"} {
				all = append(all, values(topic, int32(i/3), fmt.Sprintf(`{"id":%d,"v":%q}`, i+1, v))...)
			}
			b.put(all...)
			p := newPlace(t, "case", appending(b, topic, "200ms"))
			var env []string
			if point != "acknowledged" {
				env = []string{"FRAZIL_FAILPOINT=" + point}
			}
			r := p.Start(env, "run", p.File)
			if point == "acknowledged" {
				b.awaitOffsets(topic, topic, map[int32]int64{0: 3, 1: 3})
				r.Kill()
			}
			r.Wait()
			if !r.Killed() {
				t.Fatalf("was not killed at %s:\n%s", point, r.Stderr.String())
			}
			p.ToEnd()
			p.wantIDs(1, 2, 3, 4, 5, 6)
			p.wantOffsets(topic, map[int32]int64{0: 3, 1: 3})
			b.awaitOffsets(topic, topic, map[int32]int64{0: 3, 1: 3})
		})
	}
}

func TestC05PositionsDisagree(t *testing.T) {
	program.Long(t)
	b := newBroker(t, kafka(t))
	group := func(at int64) func(*broker, *place, string) {
		return func(b *broker, _ *place, topic string) {
			o := kadm.Offsets{}
			o.AddOffset(topic, 0, at, -1)
			if err := b.admin.CommitAllOffsets(context.Background(), topic, o); err != nil {
				b.t.Fatal(err)
			}
		}
	}
	for name, disturb := range map[string]func(*broker, *place, string){
		"the group is behind": group(2),
		"the group is ahead":  group(8),
		"no group": func(b *broker, _ *place, topic string) {
			if _, err := b.admin.DeleteGroup(context.Background(), topic); err != nil {
				b.t.Fatal(err)
			}
		},
		"no state":    func(_ *broker, p *place, _ string) { p.RemoveState("state") },
		"older state": func(_ *broker, p *place, _ string) { p.CopyState("old", "state") },
	} {
		t.Run(name, func(t *testing.T) {
			b := &broker{t, b.addr, b.cl, b.admin}
			topic := b.topic(1)
			p := newPlace(t, "case", appending(b, topic, "200ms"))
			b.put(values(topic, 0, ids(0, 1, 2)...)...)
			p.ToEnd()
			p.CopyState("state", "old")
			b.put(values(topic, 0, ids(3, 4)...)...)
			p.ToEnd()
			p.wantOffsets(topic, map[int32]int64{0: 5})
			b.put(values(topic, 0, ids(5, 6, 7, 8, 9)...)...)
			disturb(b, p, topic)
			p.ToEnd()
			p.wantIDs(0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
			p.wantOffsets(topic, map[int32]int64{0: 10})
			before := fmt.Sprint(p.List())
			for range 3 {
				if out := p.ToEnd(); !strings.Contains(out, "nothing more to do") {
					t.Errorf("a run with nothing new says:\n%s", out)
				}
			}
			if after := fmt.Sprint(p.List()); after != before {
				t.Errorf("runs with nothing new changed the table from %s to %s", before, after)
			}
		})
	}
}

func TestC08TransactionMarkersAndAbortedRecords(t *testing.T) {
	program.Long(t)
	b := newBroker(t, kafka(t))
	topic := b.topic(1)
	begin := func(id string, n ...int) *kgo.Client {
		t.Helper()
		cl := b.client(kgo.TransactionalID(topic + id))
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := cl.ProduceSync(t.Context(), values(topic, 0, ids(n...)...)...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		return cl
	}
	end := func(cl *kgo.Client, how kgo.TransactionEndTry) {
		t.Helper()
		if err := cl.EndTransaction(t.Context(), how); err != nil {
			t.Fatal(err)
		}
	}
	end(begin("a", 1, 2), kgo.TryCommit)
	end(begin("b", 99), kgo.TryAbort)
	p := newPlace(t, "case", appending(b, topic, "200ms"))
	check := func() {
		t.Helper()
		p.ToEnd()
		p.wantIDs(1, 2)
		p.wantOffsets(topic, map[int32]int64{0: 5})
		b.awaitOffsets(topic, topic, map[int32]int64{0: 5})
	}
	check()
	// With an open transaction behind it, in a run of its own and in a first one.
	open := begin("c", 3)
	check()
	fresh := newPlace(t, "case", appending(b, topic, "200ms"))
	fresh.ToEnd()
	fresh.wantIDs(1, 2)
	fresh.wantOffsets(topic, map[int32]int64{0: 5})
	end(open, kgo.TryCommit)
	p.ToEnd()
	p.wantIDs(1, 2, 3)
}

// timed is a pipeline with windows of a minute.
func timed(b *broker, topic, disorder, more, by string) string {
	return fmt.Sprintf(`sources:
  in:
    kafka: {brokers: [%q], topics: [%s], group: %s}
    decode: {json: {schema: {k: string, et: timestamptz(s), v: int64}}}
    event_time: {column: et, out_of_orderness: %s%s}
operators:
  windows: {from: in, window: {tumbling: 1m, by: [%s], aggregate: {n: count(*), s: sum(v)}}}
sinks:
  raw:    {from: in,           iceberg: {table: t.raw}}
  tumble: {from: windows,      iceberg: {table: t.windows}}
  late:   {from: windows.late, iceberg: {table: t.late}}
checkpoint: {every: 200ms}
`, b.addr, topic, topic, disorder, more, by)
}

// begin is T of the cases, in seconds.
const begin = dataStart / 1000

// at makes a value with an event time of T+et.
func at(et, v int) string { return fmt.Sprintf(`{"k":"a","et":%d,"v":%d}`, begin+int64(et), v) }

// minute is a result of timed; k is nil without groups.
func minute(et, n, sum int, k ...string) row {
	start := (begin + int64(et)) * 1e6
	r := row{"window_start": instant(start), "window_end": instant(start + 60e6), "n": n, "s": fmt.Sprint(sum)}
	if len(k) > 0 {
		r["k"] = k[0]
	}
	return r
}

// lateRow is a late row of timed.
func lateRow(et, v, window, stamp int) row {
	us := func(s int) int64 { return (begin + int64(s)) * 1e6 }
	return row{"k": "a", "et": instant(us(et)), "v": v, "window_start": instant(us(window)), "window_end": instant(us(window + 60)),
		"watermark": instant(us(stamp)), "lateness": us(stamp) - us(window+60)}
}

func TestC10IdlePartition(t *testing.T) {
	program.Long(t)
	b := newBroker(t, kafka(t))
	for _, empty := range []bool{false, true} {
		t.Run(map[bool]string{false: "quiet", true: "empty from the start"}[empty], func(t *testing.T) {
			b := &broker{t, b.addr, b.cl, b.admin}
			topic := b.topic(2)
			p := newPlace(t, "case", timed(b, topic, "5s", ", idle_after: 2s", ""))
			put := func(partition int32, v ...string) {
				t.Helper()
				b.put(values(topic, partition, v...)...)
			}
			if !empty {
				put(1, at(1, 1))
			}
			put(0, at(2, 10), at(30, 20), at(70, 40))
			r := p.Start(nil, "run", p.File)
			only := func(et int) {
				t.Helper()
				tick := time.NewTicker(500 * time.Millisecond)
				defer tick.Stop()
				for range 6 {
					<-tick.C
					put(0, at(et, 0))
				}
			}
			only(70)
			first := minute(0, 3, 31)
			if empty {
				first = minute(0, 2, 30)
			}
			r.Until("the first window", func() bool { return p.rowCount("t.windows") == "1" })
			compareRows(t, "t.windows", p.Rows("t.windows"), []row{first})
			if empty {
				r.Terminate()
				return
			}
			put(1, at(66, 80), at(40, 160))
			r.Until("the late row", func() bool { return p.rowCount("t.late") == "1" })
			put(0, at(200, 320))
			only(200)
			r.Until("the second window", func() bool { return p.rowCount("t.windows") == "2" })
			r.Terminate()
			compareRows(t, "t.windows", p.Rows("t.windows"), []row{first, minute(60, 8, 120)})
			compareRows(t, "t.late", p.Rows("t.late"), []row{lateRow(40, 160, 0, 65)})
		})
	}
}

func TestC13LateDataIsAccountedFor(t *testing.T) {
	program.Long(t)
	b := newBroker(t, kafka(t))
	topic := b.topic(1)
	b.put(values(topic, 0, at(5, 1), at(50, 2), at(65, 4), at(58, 8), at(71, 16), at(59, 32), at(62, 64), at(135, 128))...)
	p := newPlace(t, "case", timed(b, topic, "10s", "", "k"))
	p.ToEnd()
	compareRows(t, "t.windows", p.Rows("t.windows"), []row{minute(0, 3, 11, "a"), minute(60, 3, 84, "a"), minute(120, 1, 128, "a")})
	compareRows(t, "t.late", p.Rows("t.late"), []row{lateRow(59, 32, 0, 61)})
	f := p.Ledger()["windows"]
	if f["in"] != 8 || f["absorbed"] != 7 || f["late"] != 1 {
		t.Errorf("ledger of the window: %v", f)
	}
	program.Balanced(t, p.Ledger(), flow{"windows": "in.passed", "raw": "in.passed", "tumble": "windows.created", "late": "windows.late"})
}

func TestC14SpeedDoesNotChangeTheAnswer(t *testing.T) {
	program.Long(t)
	b := newBroker(t, kafka(t))
	input := []string{at(1, 1), at(12, 1), at(23, 1), at(34, 1), at(45, 1), at(90, 1)}
	// slowly writes records one by one, each when the one before is committed.
	slowly := func(b *broker, p *place, r *proc, topic string, from, to int) {
		for i := from; i < to; i++ {
			b.put(values(topic, 0, input[i])...)
			r.Until("the row in the table", func() bool { return p.rowCount("t.raw") == fmt.Sprint(i+1) })
		}
	}
	for name, feed := range map[string]func(*broker, *place, string){
		"at once": func(b *broker, _ *place, topic string) { b.put(values(topic, 0, input...)...) },
		"one by one": func(b *broker, p *place, topic string) {
			r := p.Start(nil, "run", p.File)
			slowly(b, p, r, topic, 0, 6)
			r.Terminate()
		},
		"stopped after the third": func(b *broker, p *place, topic string) {
			r := p.Start(nil, "run", p.File)
			slowly(b, p, r, topic, 0, 3)
			r.Terminate()
			b.put(values(topic, 0, input[3:]...)...)
		},
		"killed after the third": func(b *broker, p *place, topic string) {
			r := p.Start(nil, "run", p.File)
			slowly(b, p, r, topic, 0, 3)
			r.Kill()
			b.put(values(topic, 0, input[3:]...)...)
		},
		"batches of one": func(b *broker, _ *place, topic string) {
			for _, v := range input {
				b.put(values(topic, 0, v)...)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := &broker{t, b.addr, b.cl, b.admin}
			topic := b.topic(1)
			p := newPlace(t, "case", timed(b, topic, "5s", "", "k"))
			feed(b, p, topic)
			p.ToEnd()
			compareRows(t, "t.windows", p.Rows("t.windows"), []row{minute(0, 5, 5, "a"), minute(60, 1, 1, "a")})
			if n := p.rowCount("t.late"); n != "0" {
				t.Errorf("%s late rows", n)
			}
		})
	}
}

func TestC20StopWithALongInterval(t *testing.T) {
	program.Long(t)
	b := newBroker(t, kafka(t))
	read := func(t *testing.T) (*broker, *place, string, *proc) {
		b := &broker{t, b.addr, b.cl, b.admin}
		topic := b.topic(1)
		p := newPlace(t, "case", "http: 127.0.0.1:4180\n"+appending(b, topic, "10m"))
		b.put(values(topic, 0, ids(1, 2, 3)...)...)
		r := p.Start(nil, "run", p.File, "--max-retry", "10m")
		r.Until("three rows read", func() bool { return p.Metric("frazil_source_rows_total") == "3" })
		return b, p, topic, r
	}
	t.Run("in order", func(t *testing.T) {
		t.Parallel()
		b, p, topic, r := read(t)
		r.Terminate()
		p.wantIDs(1, 2, 3)
		b.awaitOffsets(topic, topic, map[int32]int64{0: 3})
	})
	// The catalog does not answer: its file is locked.
	hang := func(t *testing.T, p *place) (unlock func()) {
		t.Helper()
		db, err := sql.Open("sqlite", p.Path("frazil-data", "catalog.db"))
		if err != nil {
			t.Fatal(err)
		}
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.ExecContext(t.Context(), "pragma busy_timeout = 60000; begin exclusive"); err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	for name, signals := range map[string]int{"the catalog hangs": 1, "the catalog hangs and a second signal comes": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, p, topic, r := read(t)
			unlock := hang(t, p)
			r.Signal(syscall.SIGTERM)
			if signals > 1 {
				r.Until("the first signal", func() bool { return strings.Contains(r.Stderr.String(), "stopping") })
				r.Signal(syscall.SIGTERM)
			}
			if code := r.Wait(); code != 1 {
				t.Errorf("exit code %d, want 1:\n%s", code, program.Tail(r.Stderr.String(), 3000))
			}
			unlock()
			if got := b.offsets(topic, topic); len(got) > 0 {
				t.Errorf("the group stands at %v, but nothing was committed", got)
			}
			p.ToEnd()
			p.wantIDs(1, 2, 3)
			b.awaitOffsets(topic, topic, map[int32]int64{0: 3})
		})
	}
}

package outbox

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
)

// partitions are those of the table.
func (w *world) partitions() (out []string) {
	w.t.Helper()
	rows, err := w.conn.Query(w.t.Context(), "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'outbox'::regclass ORDER BY 1")
	must(w.t, err)
	defer rows.Close()
	for rows.Next() {
		var name string
		must(w.t, rows.Scan(&name))
		out = append(out, name)
	}
	must(w.t, rows.Err())
	return out
}

func (w *world) dropped() {
	w.cleanup(modePartitions, "")
	w.cfg.Cleanup.After = component.Duration(time.Hour)
}

const byTime = `CREATE TABLE outbox (id bigserial, aggregatetype text, aggregateid text, type text, payload jsonb, made timestamptz) PARTITION BY RANGE (made);
	CREATE TABLE out_old PARTITION OF outbox FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');
	CREATE TABLE out_late PARTITION OF outbox FOR VALUES FROM ('2021-01-01') TO ('2022-01-01');
	CREATE TABLE out_now PARTITION OF outbox FOR VALUES FROM ('2022-01-01') TO ('2999-01-01');
	CREATE TABLE out_other PARTITION OF outbox DEFAULT`

const insertAt = `INSERT INTO outbox (aggregatetype, aggregateid, type, payload, made) VALUES ('order', 'a', $1, '{"a": 1}', $2)`

// A partition leaves when its range is past, all of it is acknowledged, and nobody has it
// open; a row that comes meanwhile is relayed first.
func TestPartitionsAreDropped(t *testing.T) {
	for _, capture := range []string{captureLog, capturePoll} {
		t.Run(capture, func(t *testing.T) {
			w := newWorld(t, byTime)
			if capture == capturePoll {
				w.polled()
			}
			w.dropped()
			w.exec(insertAt, "1", "2020-06-01")
			w.exec(insertAt, "2", "2021-06-01")
			w.exec(insertAt, "3", "2023-06-01")
			open := begin(t, w.connect())
			_, err := open.Exec(t.Context(), insertAt, "4", "2021-07-01")
			must(t, err)
			if capture == captureLog {
				must(t, open.Commit(t.Context())) // The slot would wait for it.
				open = begin(t, w.connect())
			}
			w.open()
			w.await(map[string]int{captureLog: 4, capturePoll: 3}[capture])
			for range 30 {
				w.poll()
			}
			if got := w.partitions(); len(got) != 4 {
				t.Errorf("%v: nothing was acknowledged", got)
			}
			if capture == captureLog {
				_, err := open.Exec(t.Context(), insertAt, "5", "2021-07-01")
				must(t, err)
			}
			// What is open holds locks of the table: nothing is dropped, and others write.
			for i := range 30 {
				w.poll()
				w.acked()
				w.exec(insertAt, fmt.Sprint("more", i), "2023-06-01")
			}
			if got := w.partitions(); !slices.Contains(got, "out_late") {
				t.Errorf("%v: a transaction has it open", got)
			}
			must(t, open.Commit(t.Context()))
			w.pollUntil("the past ones are dropped", func(dataflow.Polled) bool {
				w.acked()
				return slices.Equal(w.partitions(), []string{"out_now", "out_other"})
			})
			w.await(map[string]int{captureLog: 35, capturePoll: 34}[capture])
		})
	}
}

// acked acknowledges what was read, where that is something.
func (w *world) acked() {
	w.t.Helper()
	if string(w.pos) != "0/" {
		w.ack()
	}
}

// Of a partition by numbers it is seen that they are past.
func TestPartitionsByNumbersAreDropped(t *testing.T) {
	w := newWorld(t, `CREATE TABLE outbox (id bigserial, aggregatetype text, aggregateid text, type text, payload jsonb) PARTITION BY RANGE (id);
		CREATE TABLE out_1 PARTITION OF outbox FOR VALUES FROM (1) TO (5);
		CREATE TABLE out_2 PARTITION OF outbox FOR VALUES FROM (5) TO (MAXVALUE)`)
	w.polled()
	w.dropped()
	w.cfg.Cleanup.After = 0
	for range 4 {
		w.exec(insert, "a", "1")
	}
	w.open()
	w.await(4)
	w.polls(3)
	for range 30 {
		w.poll()
		w.ack()
	}
	if got := w.partitions(); len(got) != 2 {
		t.Errorf("%v: no number is behind the first yet", got)
	}
	w.exec(insert, "a", "1")
	w.pollUntil("the first is dropped", func(dataflow.Polled) bool {
		w.ack()
		return slices.Equal(w.partitions(), []string{"out_2"})
	})
	w.await(5)
}

func (w *myWorld) partitionNames() string {
	w.t.Helper()
	var out string
	must(w.t, w.db.QueryRow("SELECT group_concat(partition_name ORDER BY partition_ordinal_position) FROM information_schema.partitions WHERE table_schema = DATABASE() AND table_name = 'outbox'").Scan(&out))
	return out
}

func TestMariaDBPartitionsAreDropped(t *testing.T) {
	for name, by := range map[string]string{
		"time":   "COLUMNS (made) (PARTITION p1 VALUES LESS THAN ('2021-01-01'), PARTITION p2 VALUES LESS THAN ('2022-01-01'), PARTITION p3 VALUES LESS THAN ('2999-01-01'))",
		"days":   "(to_days(made)) (PARTITION p1 VALUES LESS THAN (to_days('2021-01-01')), PARTITION p2 VALUES LESS THAN (to_days('2022-01-01')), PARTITION p3 VALUES LESS THAN MAXVALUE)",
		"number": "(id) (PARTITION p1 VALUES LESS THAN (2), PARTITION p2 VALUES LESS THAN (3), PARTITION p3 VALUES LESS THAN MAXVALUE)",
	} {
		t.Run(name, func(t *testing.T) {
			w := newMyWorld(t, "CREATE TABLE outbox (id bigint AUTO_INCREMENT, aggregatetype varchar(20), aggregateid varchar(20), type varchar(20), payload json, made datetime, PRIMARY KEY (id, made)) PARTITION BY RANGE "+by)
			w.dropped()
			if name == "number" {
				w.cfg.Cleanup.After = 0
			}
			const one = `INSERT INTO outbox (type, payload, made) VALUES (?, '{}', ?)`
			w.do(one, "1", "2020-06-01")
			w.do(one, "2", "2021-06-01")
			w.do(one, "3", "2023-06-01")
			w.open()
			w.await(3)
			for range 30 {
				w.poll()
			}
			if got := w.partitionNames(); got != "p1,p2,p3" {
				t.Errorf("%s: nothing was acknowledged", got)
			}
			open := w.begin()
			_, err := open.Exec(one, "4", "2021-07-01")
			must(t, err)
			for i := range 20 {
				w.poll()
				w.ack()
				w.do(one, fmt.Sprint("more", i), "2023-06-01")
			}
			if got := w.partitionNames(); !strings.Contains(got, "p2") {
				t.Errorf("%s: a transaction has it open", got)
			}
			must(t, open.Commit())
			w.pollUntil("the past ones are dropped", func(dataflow.Polled) bool {
				w.ack()
				return w.partitionNames() == "p3"
			})
			w.await(24)
		})
	}
}

package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"frazil/dataflow"

	"github.com/go-sql-driver/mysql"
)

// myPoll reads an outbox of MySQL or MariaDB by queries. The numbers of AUTO_INCREMENT are
// given before the commit, so that rows appear below others that were read; and some
// numbers never get a row. What is not read is told by these numbers: the gaps, and all
// behind the last. Each round reads the rows that are there of both, in the order of
// the numbers, in one consistent read; a gap holds up nothing.
//
// A gap is given up when it is known that no row will come. Two things can hold its
// number: a statement that was given it and has not inserted the row yet, or a transaction
// that has inserted the row and is open. So a trial takes the number that is given next,
// and then the statements that are under way on the server (of any kind; the list needs the
// right PROCESS). When all of those have ended, each number below is inserted or will never
// be; and what is inserted, READ UNCOMMITTED shows. A gap that it does not show is none any
// more. That a transaction is open for long keeps its own numbers as gaps and no others.
type myPoll struct {
	cfg      Config
	my       MySQLConfig
	dir      string
	shape    *shape
	settings *mysql.Config
	server   *myServer

	// read is for rows, with consistent reads; ask for questions, with dirty ones.
	db, askDB *sql.DB
	read, ask *sql.Conn
	// head of the query, up to the condition; tail is what follows it.
	head, tail string

	// Of the round.
	life   context.Context
	cancel context.CancelFunc // ends its query
	start  pollPosition
	rows   *sql.Rows
	raw    []sql.RawBytes
	given  []uint64
	got    spans
	dead   spans // gaps that are given up at its end
	top    uint64
	proven uint64 // numbers below it are inserted, or will never be; 0: no trial has ended
	trial  trial
	// most is maxGaps; held is what is said when there are more.
	most int
	held string
	// oldest says which transaction is, asked for at asked.
	oldest string
	asked  time.Time
}

// trial waits for statements to end.
type trial struct {
	open  bool
	below uint64
	// since is when the list of the statements had come.
	since time.Time
	// statements are the connections of those that have not ended.
	statements map[int64]bool
}

// maxGaps bounds the ranges of a position. With more of them nothing behind the last
// number is read, until transactions end that hold gaps.
const maxGaps = 20_000

// trialEvery bounds how often the server is asked for its statements.
const trialEvery = 200 * time.Millisecond

func newMySource(env *dataflow.Env, cfg Config, s *shape, r *rows) *poller {
	table := &myPoll{most: maxGaps, cfg: cfg, my: *cfg.MySQL, dir: env.Dir, shape: s}
	p := newPoller(env, cfg, s, r, table, cfg.MySQL.PollEvery.D())
	p.cleanBy(func(ctx context.Context) (cleanTable, error) { return openMyCleanTable(ctx, env.Dir, cfg, p.place) })
	return p
}

// begin implements pollTable.
func (s *myPoll) begin(ctx context.Context, p pollPosition) error {
	if err := s.connect(ctx); err != nil {
		return err
	}
	s.stop()
	s.life, s.start, s.given, s.got, s.dead, s.proven = ctx, p, s.given[:0], nil, nil, 0
	asking, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if err := s.nextNumber(asking); err != nil {
		return err
	}
	if err := s.prove(asking); err != nil {
		return err
	}
	if err := s.bound(asking); err != nil {
		return err
	}
	unread := p.unread
	if s.held != "" {
		unread = unread[:len(unread)-1]
	}
	ctx, s.cancel = context.WithCancel(ctx)
	rows, err := s.read.QueryContext(ctx, s.head+s.condition(unread)+s.tail)
	s.rows = rows
	return explainMy("read the outbox", err)
}

// nextNumber asks for the number that is given next, and fails if the numbers began anew.
func (s *myPoll) nextNumber(ctx context.Context) error {
	var top sql.NullString
	if err := s.ask.QueryRowContext(ctx, "SELECT auto_increment FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?", s.my.Table).Scan(&top); err != nil {
		return explainMy("ask for the next number of the outbox", err)
	}
	if s.top = 0; !top.Valid {
		return nil // The table is being altered.
	}
	var err error
	if s.top, err = strconv.ParseUint(top.String, 10, 63); err != nil {
		return fmt.Errorf("the next number of the outbox: %w", err)
	}
	if behind := lastOf(s.start.unread); s.top < behind {
		return dataflow.Permanentf("%w: the next number of table %s is %d, and rows up to %d were read before: its numbers began anew (TRUNCATE, a restored backup, a failover). What is written now would be taken for read: start with another state directory; rows that are still in the outbox come again", dataflow.ErrGap, s.my.Table, s.top, behind-1)
	}
	return nil
}

// lastOf is where what is not read begins to be without an end.
func lastOf(s spans) uint64 {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1].lo
}

// prove goes on with a trial, or begins one.
func (s *myPoll) prove(ctx context.Context) error {
	now := time.Now() // A time that is measured here and on the server, not a date.
	switch {
	case s.trial.open:
		ages, err := s.statements(ctx)
		if err != nil {
			return err
		}
		// A statement that is younger than the trial is another one.
		elapsed := now.Sub(s.trial.since) - 10*time.Millisecond
		for id := range s.trial.statements {
			if age, there := ages[id]; !there || age < elapsed {
				delete(s.trial.statements, id)
			}
		}
	case s.top == 0 || len(s.start.unread) < 2 && s.start.round > 0 || now.Sub(s.trial.since) < trialEvery:
		return nil
	default:
		below := s.top
		ages, err := s.statements(ctx)
		if err != nil {
			return err
		}
		s.trial = trial{open: true, below: below, since: time.Now(), statements: map[int64]bool{}}
		for id := range ages {
			s.trial.statements[id] = true
		}
	}
	if len(s.trial.statements) == 0 {
		s.proven, s.trial.open = s.trial.below, false
	}
	return nil
}

// statements are those under way, by connection, with how long they have run at most.
func (s *myPoll) statements(ctx context.Context) (map[int64]time.Duration, error) {
	age := "(time + 2) * 1000"
	if s.server.maria {
		age = "time_ms + 1"
	}
	rows, err := s.ask.QueryContext(ctx, "SELECT id, user, command, "+age+" FROM information_schema.processlist WHERE id <> CONNECTION_ID()")
	if err != nil {
		return nil, explainMy("ask which statements are under way", err)
	}
	defer rows.Close()
	out := map[int64]time.Duration{}
	for rows.Next() {
		var id int64
		var user, command string
		var millis sql.NullFloat64
		if err := rows.Scan(&id, &user, &command, &millis); err != nil {
			return nil, explainMy("ask which statements are under way", err)
		}
		switch {
		case command == "Sleep", command == "Daemon", strings.HasPrefix(command, "Binlog Dump"):
		case user == "system user":
			return nil, dataflow.Permanentf("the server of the outbox is a replica: that an id was given to a transaction that is open is known only where it runs; read the primary")
		default:
			out[id] = time.Duration(max(millis.Float64, 0) * float64(time.Millisecond))
			if !millis.Valid {
				out[id] = 1 << 62
			}
		}
	}
	return out, explainMy("ask which statements are under way", rows.Err())
}

// condition is true for rows that are not read.
func (s *myPoll) condition(unread spans) string {
	seq := quoteMy(s.cfg.sequence())
	var parts, single []string
	for _, x := range unread {
		switch {
		case x.hi == forever:
			parts = append(parts, fmt.Sprintf("%s >= %d", seq, x.lo))
		case x.hi == x.lo+1:
			single = append(single, strconv.FormatUint(x.lo, 10))
		default:
			parts = append(parts, fmt.Sprintf("%s BETWEEN %d AND %d", seq, x.lo, x.hi-1))
		}
	}
	if len(single) > 0 {
		parts = append(parts, seq+" IN ("+strings.Join(single, ",")+")")
	}
	if len(parts) == 0 {
		return "FALSE"
	}
	return "(" + strings.Join(parts, " OR ") + ")"
}

// bound looks whether there are too many gaps, and who holds them.
func (s *myPoll) bound(ctx context.Context) error {
	s.held = ""
	if len(s.start.unread) <= s.most {
		return nil
	}
	s.held = fmt.Sprintf("%d ranges of ids of table %s have no row and may get one: nothing behind the last id is read until statements or transactions end", len(s.start.unread)-1, s.my.Table)
	// The server's list is old as long as it is asked for all the time.
	if time.Since(s.asked) < time.Second {
		s.held += s.oldest
		return nil
	}
	s.asked, s.oldest = time.Now(), ""
	var id int64
	var since string
	err := s.ask.QueryRowContext(ctx, "SELECT trx_mysql_thread_id, trx_started FROM information_schema.innodb_trx ORDER BY trx_started LIMIT 1").Scan(&id, &since)
	switch {
	case err == nil:
		s.oldest = fmt.Sprintf("; the oldest transaction is that of connection %d, since %s UTC", id, since)
		s.held += s.oldest
	case !errors.Is(err, sql.ErrNoRows):
		return explainMy("look for the oldest transaction", err)
	}
	return nil
}

// trouble implements pollTable.
func (s *myPoll) trouble() string { return s.held }

// next implements pollTable.
func (s *myPoll) next(vals []value) (bool, error) {
	if s.rows == nil {
		return false, nil
	}
	if !s.rows.Next() {
		err := s.rows.Err()
		s.rows.Close()
		if s.rows = nil; err != nil {
			return false, explainMy("read the outbox", err)
		}
		return false, s.settle()
	}
	if s.raw == nil {
		s.raw = make([]sql.RawBytes, len(vals)+1)
	}
	into := make([]any, len(s.raw))
	for i := range s.raw {
		into[i] = &s.raw[i]
	}
	if err := s.rows.Scan(into...); err != nil {
		return false, explainMy("read the outbox", err)
	}
	n, err := strconv.ParseUint(string(s.raw[0]), 10, 63)
	if err != nil {
		return false, dataflow.Permanentf("column %q of the outbox: expected numbers from 0 on: %v", s.cfg.sequence(), err)
	}
	s.given = append(s.given, n)
	for i, text := range s.raw[1:] {
		vals[i] = value{text: text, valid: text != nil, json: s.server.columns[s.shape.fields[i].column] == "json" && !s.server.maria}
	}
	return true, nil
}

// settle finds the gaps that no row will come into.
func (s *myPoll) settle() error {
	if s.proven == 0 {
		return nil
	}
	gaps := s.unread().and(spans{{0, s.proven}})
	if len(gaps) == 0 {
		return nil
	}
	where := s.condition(gaps)
	if len(gaps) > 1000 {
		where = s.condition(spans{{gaps[0].lo, gaps[len(gaps)-1].hi}})
	}
	rows, err := s.ask.QueryContext(s.life, "SELECT "+quoteMy(s.cfg.sequence())+" FROM "+quoteMy(s.my.Table)+" WHERE "+where)
	if err != nil {
		return explainMy("look for rows that are not committed", err)
	}
	defer rows.Close()
	var held []uint64
	for rows.Next() {
		var n uint64
		if err := rows.Scan(&n); err != nil {
			return explainMy("look for rows that are not committed", err)
		}
		if gaps.has(n) {
			held = append(held, n)
		}
	}
	if err := rows.Err(); err != nil {
		return explainMy("look for rows that are not committed", err)
	}
	s.dead = gaps.and(spansOf(held).not())
	return nil
}

// unread is what was not before the round, less what it gave.
func (s *myPoll) unread() spans {
	s.got, s.given = s.got.or(spansOf(s.given)), s.given[:0]
	return s.start.unread.and(s.got.not())
}

// reached implements pollTable.
func (s *myPoll) reached(p pollPosition, whole bool) (pollPosition, bool) {
	p.unread = s.unread()
	if !whole {
		return p, len(p.unread) <= maxLate
	}
	p.unread = p.unread.and(s.dead.not())
	return p, true
}

// latest implements pollTable.
func (s *myPoll) latest(ctx context.Context) (pollPosition, error) {
	defer s.close()
	p := newPollPosition()
	vals := make([]value, len(s.shape.fields))
	for {
		if err := s.begin(ctx, p); err != nil {
			return p, err
		}
		for {
			ok, err := s.next(vals)
			if err != nil {
				return p, err
			}
			if !ok {
				break
			}
		}
		if p, _ = s.reached(p, true); s.proven > 0 {
			return p, nil
		}
		wait(ctx, trialEvery)
		if err := ctx.Err(); err != nil {
			return p, fmt.Errorf("find the end of the outbox: a statement runs all the time: %w", err)
		}
	}
}

// connect makes the connections if there are none.
func (s *myPoll) connect(ctx context.Context) (err error) {
	if s.read != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.settings, err = mySettings(s.my, s.dir); err != nil {
		return err
	}
	if s.db, s.read, err = myConnect(ctx, s.settings, "REPEATABLE READ"); err != nil {
		return err
	}
	if s.askDB, s.ask, err = myConnect(ctx, s.settings, "READ UNCOMMITTED"); err != nil {
		return err
	}
	if s.server, err = describeMy(ctx, s.ask, s.cfg); err != nil {
		return err
	}
	// Without the right the list has only our own statements, and nothing says so.
	var n int64
	if err := s.ask.QueryRowContext(ctx, "SELECT count(*) FROM information_schema.innodb_trx").Scan(&n); err != nil {
		return explainMy("look whether all statements can be seen", err)
	}
	names := []string{quoteMy(s.cfg.sequence())}
	for _, f := range s.shape.fields {
		if s.server.columns[f.column] == "" {
			return missingColumn(s.my.Table, f.column)
		}
		names = append(names, quoteMy(f.column))
	}
	s.head, s.tail = "SELECT "+strings.Join(names, ", ")+" FROM "+quoteMy(s.my.Table)+" WHERE ", " ORDER BY "+quoteMy(s.cfg.sequence())
	if c := s.cfg.Cleanup; c != nil && c.Mode == "mark" {
		s.head += quoteMy(c.Column) + " IS NULL AND "
	}
	return nil
}

// stop ends a query that is not at its end; by itself it would be read to there.
func (s *myPoll) stop() {
	if s.cancel != nil {
		s.cancel()
		s.cancel = nil
	}
	if s.rows != nil {
		_ = s.rows.Close()
		s.rows = nil
	}
}

// close implements pollTable.
func (s *myPoll) close() {
	s.stop()
	for _, db := range []*sql.DB{s.db, s.askDB} {
		if db != nil {
			_ = db.Close()
		}
	}
	if s.read != nil {
		_ = s.read.Close()
	}
	if s.ask != nil {
		_ = s.ask.Close()
	}
	s.db, s.askDB, s.read, s.ask, s.trial = nil, nil, nil, nil, trial{}
}

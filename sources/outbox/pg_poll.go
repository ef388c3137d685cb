package outbox

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"frazil/dataflow"

	"github.com/jackc/pgx/v5"
)

// pgPoll reads an outbox of PostgreSQL by queries. Rows become visible in another order
// than their ids were given: a query by "id > last" loses those that are committed late.
// So what was read is told by transactions. All rows of one become visible at once (those
// of a savepoint have a number of their own, greater than the transaction's): once a round
// is whole, every number of which it saw a row is read, and so is every number before the
// oldest transaction that was open (pg_snapshot_xmin), whether it saw one or not. A
// transaction that is open holds up nothing but that horizon.
//
// While one is open for long, the numbers above the horizon add up. So before a round the
// server is asked which of them are in progress (pg_xact_status): all others are over, and
// their rows, if there are any, are in the round.
type pgPoll struct {
	cfg   Config
	pg    PostgresConfig
	shape *shape

	conn *pgx.Conn
	// query reads what is not read; oids are the types of its columns.
	query string
	oids  []uint32

	// Of the round: its rows, the one that comes next, and what is known at its begin.
	rows     pgx.Rows
	now      pgRow
	more     bool
	asked    bool // the server was asked what is in progress, once
	low, top uint64
	// over are numbers of which everything is in the round, read those of its rows that
	// next gave; seen are to be added to these.
	over, read spans
	seen       []uint64
	start      pollPosition
	// last is the key of the last row that next gave; beyond: it is behind start.key.
	last   string
	keyed  bool
	beyond bool
}

// newPgPoller takes over r.
func newPgPoller(env *dataflow.Env, cfg Config, s *shape, r *rows) *poller {
	p := newPoller(env, cfg, s, r, &pgPoll{cfg: cfg, pg: *cfg.Postgres, shape: s}, cfg.Postgres.PollEvery.D())
	p.cleanBy(func(ctx context.Context) (cleanTable, error) {
		return openPgCleanTable(ctx, cfg, func(context.Context, *pgx.Conn) (uint64, error) { return p.place(), nil })
	})
	return p
}

// pgRow is a row that was read ahead.
type pgRow struct {
	raw    [][]byte
	xid    uint64
	key    string
	keyed  bool // it has a key
	beyond bool
}

// maxLate bounds the ranges of a position.
const maxLate = 4096

// begin implements pollTable.
func (s *pgPoll) begin(ctx context.Context, p pollPosition) error {
	if err := s.connect(ctx); err != nil {
		return err
	}
	s.start, s.seen, s.over, s.read, s.last, s.keyed, s.beyond = p, s.seen[:0], nil, nil, "", false, false
	if !p.part {
		s.start.late = p.unread
	}
	if len(s.start.late) > 32 || !s.asked {
		if err := s.ask(ctx); err != nil {
			return err
		}
		s.asked = true
	}
	rows, err := s.conn.Query(ctx, s.query, pgx.QueryExecModeExec, multirange(p.unread), p.part, p.key, multirange(s.start.late), strconv.FormatUint(first(p.unread), 10))
	if err != nil {
		return explain("read the outbox", err)
	}
	s.rows = rows
	if err := s.ahead(); err != nil {
		return err
	}
	return s.notBefore(ctx)
}

func first(s spans) uint64 {
	if len(s) == 0 {
		return 0
	}
	return s[0].lo
}

// multirange is s as the server reads it.
func multirange(s spans) string {
	b := []byte{'{'}
	for i, x := range s {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(strconv.AppendUint(append(b, '['), x.lo, 10), ',')
		if x.hi != forever {
			b = strconv.AppendUint(b, x.hi, 10)
		}
		b = append(b, ')')
	}
	return string(append(b, '}'))
}

// maxAsked bounds the numbers that one question is about.
const maxAsked = 1_000_000

// ask finds numbers whose transactions are over before the round begins.
func (s *pgPoll) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	late := s.start.late
	if len(late) == 0 || late[len(late)-1].hi != forever {
		return nil
	}
	var low, top int64
	var open []int64
	err := s.conn.QueryRow(ctx, `WITH s AS MATERIALIZED (SELECT pg_snapshot_xmin(s)::text::int8 AS low, pg_snapshot_xmax(s)::text::int8 AS top FROM pg_current_snapshot() s),
		t AS MATERIALIZED (SELECT low, least(top, greatest(low, $2::int8) + $3::int8) AS top FROM s)
		SELECT t.low, t.top, array(SELECT x FROM unnest($1::int8multirange * int8multirange(int8range(t.low, t.top))) r, generate_series(lower(r), upper(r) - 1) x
			WHERE pg_xact_status(x::text::xid8) = 'in progress') FROM t`,
		multirange(late), int64(late[len(late)-1].lo), int64(maxAsked)).Scan(&low, &top, &open)
	if err != nil {
		return explain("ask which transactions are in progress", err)
	}
	numbers := make([]uint64, len(open))
	for i, x := range open {
		numbers[i] = uint64(x)
	}
	if low < top {
		s.over = spans{{uint64(low), uint64(top)}}.and(spansOf(numbers).not())
	}
	return nil
}

// notBefore fails if the server is at an earlier place than what was read: what is written
// there has numbers that count as read.
func (s *pgPoll) notBefore(ctx context.Context) error {
	known := s.start.late
	if len(known) == 0 || s.top >= known[len(known)-1].lo {
		return nil
	}
	s.rows.Close()
	var replica bool
	if err := s.conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&replica); err != nil {
		return explain("ask whether the server is a replica", err)
	}
	if replica {
		return dataflow.Unavailable(fmt.Errorf("read the outbox: the replica is at transaction %d, and transactions up to %d were read before: it is waited for", s.top, known[len(known)-1].lo))
	}
	return dataflow.Permanentf("%w: the server of the outbox is at transaction %d, and transactions up to %d were read before: it was restored, or failed over to a server that had not got all. What is written now would be taken for read: start with another state directory; rows that are still in the outbox come again", dataflow.ErrGap, s.top, known[len(known)-1].lo)
}

// next implements pollTable.
func (s *pgPoll) next(vals []value) (bool, error) {
	if !s.more {
		return false, nil
	}
	for i := range vals {
		text := s.now.raw[i]
		vals[i] = value{text: text, valid: text != nil, json: s.oids[i] == oidJSON || s.oids[i] == oidJSONB, bytes: s.oids[i] == oidBytea}
	}
	if s.now.xid >= s.low {
		if n := len(s.seen); n == 0 || s.seen[n-1] != s.now.xid {
			s.seen = append(s.seen, s.now.xid)
		}
	}
	s.last, s.keyed, s.beyond = s.now.key, s.now.keyed, s.now.beyond
	return true, s.ahead()
}

// ahead reads a row ahead of next.
func (s *pgPoll) ahead() error {
	s.more = false
	if !s.rows.Next() {
		s.rows.Close()
		return explain("read the outbox", s.rows.Err())
	}
	raw := s.rows.RawValues()
	head := make([]uint64, 3)
	for i := range head {
		if raw[i] == nil {
			continue
		}
		var err error
		if head[i], err = strconv.ParseUint(string(raw[i]), 10, 63); err != nil {
			return fmt.Errorf("read the outbox: a transaction's number: %w", err)
		}
	}
	s.low, s.top = head[0], head[1]
	if raw[2] == nil {
		return s.end() // The only row, which tells low and top.
	}
	s.now.xid, s.now.beyond, s.now.keyed, s.now.key = head[2], string(raw[3]) == "true", raw[4] != nil, string(raw[4])
	if s.now.raw == nil {
		s.now.raw = make([][]byte, len(raw)-5)
	}
	for i, v := range raw[5:] {
		// The connection's buffer is used again for the next row.
		if s.now.raw[i] = nil; v != nil {
			s.now.raw[i] = append(make([]byte, 0, len(v)), v...)
		}
	}
	s.more = true
	return nil
}

// end looks that the rows end without an error.
func (s *pgPoll) end() error {
	for s.rows.Next() {
	}
	s.rows.Close()
	return explain("read the outbox", s.rows.Err())
}

// reached implements pollTable.
func (s *pgPoll) reached(p pollPosition, whole bool) (pollPosition, bool) {
	// What is not read, of rows up to the last: what was not before the round, less what
	// the round saw, and what was over.
	s.read, s.seen = s.read.or(spansOf(s.seen)), s.seen[:0]
	late := s.start.late.and(s.read.or(s.over).not()).from(s.low)
	if whole {
		return pollPosition{seq: p.seq, round: p.round, unread: late}, true
	}
	// Between two rows of one key no position tells which was given, nor where rows that
	// came late are given before the key where an earlier round stood.
	if !s.keyed || !s.beyond || s.more && s.now.key == s.last || len(late) > maxLate {
		return p, false
	}
	p.part, p.key, p.late = true, s.last, late
	return p, true
}

// trouble implements pollTable.
func (s *pgPoll) trouble() string { return "" }

// latest implements pollTable.
func (s *pgPoll) latest(ctx context.Context) (pollPosition, error) {
	defer s.close()
	p := newPollPosition()
	if err := s.begin(ctx, p); err != nil {
		return p, err
	}
	vals := make([]value, len(s.shape.fields))
	for {
		ok, err := s.next(vals)
		if err != nil {
			return p, err
		}
		if !ok {
			p, _ = s.reached(p, true)
			return p, nil
		}
	}
}

// connect makes the connection if there is none.
func (s *pgPoll) connect(ctx context.Context) error {
	if s.conn != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	conn, err := connect(ctx, s.pg)
	if err != nil {
		return err
	}
	s.conn, s.asked = conn, false
	columns, err := columnsOf(ctx, conn, s.pg.Table)
	if err != nil {
		return err
	}
	if _, ok := columns[s.cfg.sequence()]; !ok {
		return missingColumn(s.pg.Table, s.cfg.sequence())
	}
	var keyType string
	if keyType, err = typeOf(ctx, conn, s.pg.Table, s.cfg.sequence()); err != nil {
		return err
	}
	s.query, s.oids, err = pollQuery(s.cfg, s.shape, columns, keyType)
	return err
}

// close implements pollTable.
func (s *pgPoll) close() {
	if s.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialLimit)
	defer cancel()
	// First the connection: closing the rows would read them to their end.
	_ = s.conn.Close(ctx)
	if s.rows != nil {
		s.rows.Close()
	}
	s.conn, s.rows, s.more = nil, nil, false
}

// Types of columns that hold the number of a transaction.
const (
	oidInt8 = 20
	oidXID8 = 5069

	oidTimestamp   = 1114
	oidTimestampTZ = 1184
)

// pollQuery asks for the rows of transactions in $1; where $2 is true only for those behind
// the key $3, and those of $4 up to it. $5 is where $1 begins. The text of its columns does
// not depend on settings of the connection, which a pooler gives to others.
func pollQuery(cfg Config, s *shape, columns map[string]uint32, keyType string) (string, []uint32, error) {
	table := cfg.Postgres.Table
	// The 32 bits of a row's xmin become 64 by the number that is given out next.
	xid, floor := "CASE WHEN o.xmin::text::int8 < 3 THEN 0 ELSE n.top - ((n.top - o.xmin::text::int8) & 4294967295) END", ""
	if c := cfg.Columns.Transaction; c != "" {
		oid, ok := columns[c]
		if !ok {
			return "", nil, missingColumn(table, c)
		}
		kind := map[uint32]string{oidInt8: "int8", oidXID8: "xid8"}[oid]
		if kind == "" {
			return "", nil, dataflow.Permanentf("column %q of %s: expected xid8 or bigint: ALTER TABLE %s ADD %s xid8 NOT NULL DEFAULT pg_current_xact_id()", c, table, quoteTable(table), pgx.Identifier{c}.Sanitize())
		}
		name := pgx.Identifier{"o", c}.Sanitize()
		xid, floor = name+"::text::int8", name+" >= $5::text::"+kind
	} else {
		floor = "$5::text IS NOT NULL"
	}
	key := pgx.Identifier{"o", cfg.sequence()}.Sanitize()
	names, where := []string{xid + " AS xid", key + " AS key"}, []string{floor}
	var oids []uint32
	for i, f := range s.fields {
		oid, ok := columns[f.column]
		if !ok {
			return "", nil, missingColumn(table, f.column)
		}
		names = append(names, fmt.Sprintf("%s AS f%d", textOf(pgx.Identifier{"o", f.column}.Sanitize(), oid), i))
		oids = append(oids, oid)
	}
	if c := cfg.Cleanup; c != nil && c.Mode == "mark" {
		where = append(where, pgx.Identifier{"o", c.Column}.Sanitize()+" IS NULL")
	}
	out := []string{"n.low::text", "n.top::text", "r.xid::text", "(NOT $2::bool OR r.beyond)::text", "r.key::text"}
	for i := range s.fields {
		out = append(out, fmt.Sprintf("r.f%d", i))
	}
	// beyond is null for a row without a key, which comes last.
	return fmt.Sprintf(`WITH n AS MATERIALIZED (SELECT pg_snapshot_xmin(s)::text::int8 AS low, pg_snapshot_xmax(s)::text::int8 AS top FROM pg_current_snapshot() s)
		SELECT %s FROM n LEFT JOIN LATERAL (SELECT *, CASE WHEN $2::bool THEN r.key > $3::text::%s END AS beyond FROM (SELECT %s FROM %s AS o WHERE %s) r) r
		ON r.xid <@ $1::int8multirange AND (NOT $2::bool OR r.beyond IS NOT FALSE OR r.xid <@ $4::int8multirange) ORDER BY r.key`,
		strings.Join(out, ", "), keyType, strings.Join(names, ", "), quoteTable(table), strings.Join(where, " AND ")), oids, nil
}

// textOf is a column as text that no setting changes.
func textOf(column string, oid uint32) string {
	switch oid {
	case oidTimestamp, oidTimestampTZ:
		return "to_json(" + column + ") #>> '{}'"
	case oidBytea:
		return "'\\x' || encode(" + column + ", 'hex')"
	}
	return column + "::text"
}

package postgres

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/flowtest"
	"frazil/dataflow/flowtest/rig"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

var (
	decimal = &arrow.Decimal128Type{Precision: 12, Scale: 3}
	all     = stream(
		col("b", dataflow.TypeBool), col("i4", dataflow.TypeInt32), col("i8", dataflow.TypeInt64), col("f4", dataflow.TypeFloat32), col("f8", dataflow.TypeFloat64),
		col("d", decimal), col("s", dataflow.TypeString), col("x", dataflow.TypeBinary), col("day", dataflow.TypeDate), col("t", dataflow.TypeTime),
		col("ts", dataflow.TypeTimestamp), col("tz", dataflow.TypeTimestampTZ), col("u", dataflow.TypeUUID), col("j", dataflow.TypeJSON),
		col("l", arrow.ListOf(dataflow.TypeInt64)), col("ls", arrow.ListOf(dataflow.TypeString)),
	)
	allRows = `[
		{"b": true, "i4": -7, "i8": 9007199254740993, "f4": 1.5, "f8": -0.25, "d": "-12345.678", "s": "ä'\"", "x": "AAH/", "day": "1969-12-31", "t": "23:59:59.000001",
		 "ts": "1999-12-31T23:59:59.999999", "tz": "2026-03-01T10:00:00.123456Z", "u": "f47ac10b-58cc-4372-a567-0e02b2c3d479", "j": "{\"a\": [1, null]}", "l": [1, null, 3], "ls": ["a,b", ""]},
		{"b": null, "i4": null, "i8": null, "f4": null, "f8": null, "d": null, "s": null, "x": null, "day": null, "t": null, "ts": null, "tz": null, "u": null, "j": null, "l": null, "ls": null},
		{"b": false, "i4": 0, "i8": 0, "f4": 0, "f8": 0, "d": "0", "s": "", "x": "", "day": "2000-01-01", "t": "00:00:00", "ts": "2000-01-01T00:00:00", "tz": "2000-01-01T00:00:00Z",
		 "u": "00000000-0000-0000-0000-000000000000", "j": "1", "l": [], "ls": []}]`
	allWant = []string{
		`t|-7|9007199254740993|1.5|-0.25|-12345.678|ä'"|\x0001ff|1969-12-31|23:59:59.000001|1999-12-31 23:59:59.999999|2026-03-01 10:00:00.123456+00|f47ac10b-58cc-4372-a567-0e02b2c3d479|{"a": [1, null]}|{1,NULL,3}|{"a,b",""}`,
		`null|null|null|null|null|null|null|null|null|null|null|null|null|null|null|null`,
		`f|0|0|0|0|0||\x|2000-01-01|00:00:00|2000-01-01 00:00:00|2000-01-01 00:00:00+00|00000000-0000-0000-0000-000000000000|1|{}|{}`,
	}
)

const allQuery = `SELECT b, i4, i8, f4, f8, trim_scale(d) AS d, s, x, day, t, ts, tz, u, j::text AS j, l::text AS l, ls::text AS ls FROM rows ORDER BY i8 DESC NULLS LAST`

func TestEachTypeComesThrough(t *testing.T) {
	want := []string{allWant[0], allWant[2], allWant[1]}
	url := rig.Postgres(t)
	for name, table := range map[string]string{
		"made":  "",
		"wider": `CREATE TABLE rows (b bool, i4 int8, i8 numeric(30,2), f4 float8, f8 float8, d numeric, s varchar, x bytea, day date, t time(6), ts timestamp, tz timestamptz, u uuid, j json, l int8[], ls text[], more int DEFAULT 5)`,
	} {
		for _, mode := range []string{modeAppend, modeUpsert} {
			t.Run(name+" "+mode, func(t *testing.T) {
				p := schemaOf(t, url)
				p.do("SET timezone = 'UTC'")
				if table != "" {
					p.do(table)
				}
				rows := allRows
				if p.cfg.Mode = mode; mode == modeUpsert {
					if table != "" {
						p.do("CREATE UNIQUE INDEX ON rows (u)")
					}
					p.cfg.Key = []string{"u"}
					rows = strings.Replace(allRows, `"tz": null, "u": null`, `"tz": null, "u": "00000000-0000-0000-0000-000000000001"`, 1)
				}
				same(t, "bad rows", p.round(all, 1, rows), nil)
				got := p.ask(allQuery)
				for i := range got {
					got[i] = strings.Replace(got[i], "9007199254740993.00", "9007199254740993", 1)
					got[i] = strings.Replace(got[i], "|0.00|", "|0|", 1)
					got[i] = strings.Replace(got[i], "null|00000000-0000-0000-0000-000000000001|null", "null|null|null", 1)
				}
				same(t, "rows", got, want)
			})
		}
	}
}

// TestNumbersAgreeWithTheServer: decimals of all widths and scales, as the server writes
// them.
func TestNumbersAgreeWithTheServer(t *testing.T) {
	p := newPlace(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for scale := range 39 {
		dt := &arrow.Decimal128Type{Precision: 38, Scale: int32(scale)}
		in := stream(col("d", dt))
		b := array.NewRecordBuilder(memory.DefaultAllocator, in.Schema)
		defer b.Release()
		var want []string
		for range 40 {
			n := new(big.Int)
			for range rng.IntN(39) {
				n.Mul(n, big.NewInt(10)).Add(n, big.NewInt([]int64{0, 9, rng.Int64N(10)}[rng.IntN(3)]))
			}
			if rng.IntN(2) == 0 {
				n.Neg(n)
			}
			v := decimal128.FromBigInt(n)
			b.Field(0).(*array.Decimal128Builder).Append(v)
			want = append(want, v.ToString(int32(scale)))
		}
		rec := b.NewRecordBatch()
		defer rec.Release()
		p.cfg.Table = fmt.Sprint("scale", scale)
		p.env.Step = p.cfg.Table
		w := p.writer(in)
		bad, err := w.Write(t.Context(), rec)
		must(t, err)
		same(t, "bad rows", flowtest.Refused(bad), nil)
		must(t, p.committer(in).Commit(t.Context(), flowtest.Stage(t, w, 1, 0, 1)))
		same(t, fmt.Sprint("scale ", scale), p.ask("SELECT d FROM "+p.cfg.Table), want)
	}
}

func TestWhatAColumnCannotHoldIsBad(t *testing.T) {
	p := newPlace(t)
	p.do("CREATE TYPE mood AS ENUM ('good', 'bad')")
	p.do("CREATE DOMAIN short AS varchar(3)")
	p.do("CREATE TABLE rows (id int8 NOT NULL, m mood, s short, d date)")
	in := stream(col("id", dataflow.TypeInt64), col("m", dataflow.TypeString), col("s", dataflow.TypeString), col("d", dataflow.TypeDate))
	got := p.round(in, 1, `[
		{"id": 1, "m": "good", "s": "äöü", "d": null}, {"id": null, "m": "good", "s": "a", "d": null}, {"id": 3, "m": "so so", "s": "a", "d": null},
		{"id": 4, "m": "bad", "s": "abcd", "d": null}, {"id": 5, "m": "bad", "s": "a\u0000b", "d": null}]`)
	same(t, "bad rows", got, []string{
		`null_value: column "id" of the table takes no null`,
		`unknown_label: column "m": "so so" is none of the labels of the column's type: good, bad`,
		`too_long: column "s": the text has 4 characters, and the column takes 3`,
		`nul_character: column "s": byte 1 is U+0000, which text of PostgreSQL cannot hold`,
	})
	same(t, "rows", p.ask("SELECT * FROM rows ORDER BY id"), []string{"1|good|äöü|null"})
}

// The bounds are the server's: one more is refused by it.
func TestBoundsOfDates(t *testing.T) {
	p := newPlace(t)
	in := stream(col("n", dataflow.TypeInt32), col("d", dataflow.TypeDate), col("t", dataflow.TypeTimestamp))
	b := array.NewRecordBuilder(memory.DefaultAllocator, in.Schema)
	defer b.Release()
	for n, v := range []struct{ day, micros int64 }{{minDay, minMicros}, {maxDay, math.MaxInt64}, {minDay - 1, 0}, {maxDay + 1, 0}, {0, minMicros - 1}, {0, math.MinInt64}} {
		b.Field(0).(*array.Int32Builder).Append(int32(n))
		b.Field(1).(*array.Date32Builder).Append(arrow.Date32(v.day))
		b.Field(2).(*array.TimestampBuilder).Append(arrow.Timestamp(v.micros))
	}
	rec := b.NewRecordBatch()
	defer rec.Release()
	w := p.writer(in)
	bad, err := w.Write(t.Context(), rec)
	must(t, err)
	if got := flowtest.Refused(bad); len(got) != 4 || !strings.HasPrefix(got[0], "out_of_range: column \"d\"") {
		t.Errorf("bad rows %q", got)
	}
	must(t, p.committer(in).Commit(t.Context(), flowtest.Stage(t, w, 1, 0, 1)))
	same(t, "rows", p.ask("SELECT * FROM rows ORDER BY n"), []string{"0|4714-11-24 BC|4714-11-24 00:00:00 BC", "1|5874897-12-31|294247-01-10 04:00:54.775807"})
	_, err = p.conn.Exec(t.Context(), "SELECT '5874897-12-31'::date + 1")
	if code(err) != "22008" {
		t.Errorf("one day more: %v", err)
	}
}

func TestWhatDoesNotFitIsSaid(t *testing.T) {
	p := newPlace(t)
	p.cfg.Mode, p.cfg.Key = modeUpsert, []string{"id"}
	p.do(`CREATE TABLE rows (id int4, s varchar(5), n numeric(5,2), t timestamptz(3), g int GENERATED ALWAYS AS (1) STORED, must text NOT NULL, "default" text NOT NULL DEFAULT '', l int4[])`)
	in := stream(col("id", dataflow.TypeInt64), col("s", dataflow.TypeString), col("n", decimal), col("t", dataflow.TypeTimestampTZ),
		col("g", dataflow.TypeInt32), col("gone", dataflow.TypeFloat64), col("l", arrow.ListOf(dataflow.TypeString)))
	_, err := describe(t.Context(), p.env, p.cfg, shape{in: in, upsert: true, key: []string{"id"}})
	if !errors.Is(err, dataflow.ErrPermanent) {
		t.Fatalf("%v", err)
	}
	same(t, "problems", strings.Split(err.Error(), "\n"), []string{
		`the rows do not fit table rows:`,
		`- column "id" has the type int64, and the table's has integer, which is narrower: ALTER TABLE "rows" ALTER COLUMN "id" TYPE bigint; or cast it before the sink (project: {compute: ...})`,
		`- column "n" has the type decimal(12,3), and the table's has numeric(5,2), which is narrower: ALTER TABLE "rows" ALTER COLUMN "n" TYPE numeric(12,3); or cast it before the sink (project: {compute: ...})`,
		`- column "t" has the type timestamptz, and the table's has timestamp(3) with time zone, which is narrower: ALTER TABLE "rows" ALTER COLUMN "t" TYPE timestamptz; or cast it before the sink (project: {compute: ...})`,
		`- column "g" is generated by the database: drop it before the sink (project: {drop: [g]})`,
		`- column "gone" is not in the table: ALTER TABLE "rows" ADD COLUMN "gone" double precision; or drop it before the sink (project: {drop: [gone]})`,
		`- column "l" has the type list<string>, and the table's has integer[]: ALTER TABLE "rows" ALTER COLUMN "l" TYPE text[]; or cast it before the sink (project: {compute: ...})`,
		`- column "must" of the table takes no null and has no default, and the input has no such column: ALTER TABLE "rows" ALTER COLUMN "must" DROP NOT NULL, or SET DEFAULT; or make it before the sink (project: {compute: ...})`,
		`- no unique index of the table has exactly the columns of the key [id]: ALTER TABLE "rows" ADD PRIMARY KEY ("id")`,
	})
}

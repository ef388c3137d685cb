package postgres

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/flowtest"
	"frazil/dataflow/flowtest/rig"
)

func idName() dataflow.Stream {
	return stream(col("id", dataflow.TypeInt64), col("name", dataflow.TypeString))
}

func TestUpsertsPutTheLastRowOfAKey(t *testing.T) {
	p := newPlace(t)
	p.cfg.Mode, p.cfg.Key = modeUpsert, []string{"id"}
	same(t, "bad rows", p.round(idName(), 1, `[{"id": 2, "name": "a"}, {"id": 1, "name": "b"}, {"id": 2, "name": "c"}, {"id": null, "name": "x"}]`),
		[]string{`null_key: column "id" is of the key and null`})
	p.round(idName(), 2, `[{"id": 1, "name": null}, {"id": 3, "name": "d"}]`)
	same(t, "rows", p.ask("SELECT * FROM rows ORDER BY id"), []string{"1|null", "2|c", "3|d"})
}

func TestAChangelogIsKeptAsATable(t *testing.T) {
	p := newPlace(t)
	in := changes(col("id", dataflow.TypeInt64), col("name", dataflow.TypeString))
	p.round(in, 1, `[
		{"id": 1, "name": "a", "_op": 1}, {"id": 2, "name": "b", "_op": 1}, {"id": 1, "name": "a", "_op": 2}, {"id": 1, "name": "c", "_op": 3},
		{"id": 3, "name": "d", "_op": 1}, {"id": 3, "name": "d", "_op": 4}]`)
	same(t, "rows", p.ask("SELECT * FROM rows ORDER BY id"), []string{"1|c", "2|b"})
	p.round(in, 2, `[{"id": 2, "name": "b", "_op": 4}, {"id": 1, "name": "c", "_op": 4}, {"id": 1, "name": "e", "_op": 1}]`)
	same(t, "rows", p.ask("SELECT * FROM rows ORDER BY id"), []string{"1|e"})
}

// Names are written as they stand, whatever is in them.
func TestOddNames(t *testing.T) {
	p := newPlace(t)
	p.do(`CREATE SCHEMA "Odd Schema"`)
	p.cfg.Table, p.cfg.PositionsTable, p.cfg.RefusedTable = "Odd Schema.Table 'One'", "Odd Schema.Positions", "Odd Schema.Refused"
	p.cfg.Mode, p.cfg.Key = modeUpsert, []string{"Select", `a"b`}
	in := stream(col("Select", dataflow.TypeInt64), col(`a"b`, dataflow.TypeString), col("zwölf", dataflow.TypeBool))
	p.round(in, 1, `[{"Select": 1, "a\"b": "x", "zwölf": true}, {"Select": 1, "a\"b": "x", "zwölf": false}]`)
	same(t, "rows", p.ask(`SELECT * FROM "Odd Schema"."Table 'One'"`), []string{"1|x|f"})
	same(t, "positions", p.ask(`SELECT pipeline, sink, clock FROM "Odd Schema"."Positions"`), []string{p.env.Pipeline + "|out|0"})
}

func TestAChangelogIsAppendedWithItsChanges(t *testing.T) {
	p := newPlace(t)
	p.cfg.Mode = modeAppend
	p.round(changes(col("id", dataflow.TypeInt64)), 1, `[{"id": 1, "_op": 1}, {"id": 1, "_op": 4}]`)
	same(t, "rows", p.ask("SELECT * FROM rows"), []string{"insert|1", "delete|1"})
}

// What only the table refuses goes to the table of refused rows; the others come in.
func TestRowsThatTheTableRefusesDoNotStopOthers(t *testing.T) {
	p := newPlace(t)
	p.do("CREATE TABLE owners (name text PRIMARY KEY)")
	p.do("INSERT INTO owners VALUES ('o'), ('none')")
	p.do(`CREATE TABLE rows (id int8 UNIQUE, n int4 CHECK (n < 100), owner text REFERENCES owners DEFERRABLE INITIALLY DEFERRED, j jsonb)`)
	p.do(`CREATE FUNCTION seven() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.n = 7 THEN RAISE 'no sevens'; END IF; RETURN NEW; END $$`)
	p.do(`CREATE TRIGGER sevens BEFORE INSERT ON rows FOR EACH ROW EXECUTE FUNCTION seven()`)
	in := stream(col("id", dataflow.TypeInt64), col("n", dataflow.TypeInt32), col("owner", dataflow.TypeString), col("j", dataflow.TypeJSON))
	var rows, want []string
	for i := range 200 {
		n, owner, j := i%6, "o", `{}`
		switch i {
		case 10:
			n = 100
		case 20:
			n = 7
		case 30:
			owner = "nobody"
		case 40:
			j = `{"a": "\\u0000"}`
		default:
			want = append(want, fmt.Sprint(i))
		}
		rows = append(rows, fmt.Sprintf(`{"id": %d, "n": %d, "owner": %q, "j": %q}`, i, n, owner, strings.ReplaceAll(j, `\\`, `\`)))
	}
	rows = append(rows, `{"id": 5, "n": 1, "owner": "o", "j": "1"}`)
	same(t, "bad rows", p.round(in, 1, "["+strings.Join(rows, ",")+"]"), nil)
	same(t, "rows", p.ask("SELECT id FROM rows ORDER BY id"), want)
	same(t, "refused rows", p.ask(`SELECT reason, code, "row"->>'id' AS id, "row"->>'j' AS j, target, sink, epoch FROM frazil_refused ORDER BY id`), []string{
		`check_failed|23514|10|{}|rows|out|1`, `raised|P0001|20|{}|rows|out|1`, `foreign_key|23503|30|{}|rows|out|1`,
		`invalid_value|22P05|40|{"a": "\u0000"}|rows|out|1`, `not_unique|23505|5|1|rows|out|1`,
	})
	p.round(in, 2, `[{"id": 500, "n": 1, "owner": "o", "j": "1"}]`)
	same(t, "the next commit", p.ask("SELECT count(*) FROM rows"), []string{"197"})
	k := p.committer(in)
	_, err := k.Committed(t.Context())
	must(t, err)
	if n := k.Refused(); n != 5 {
		t.Errorf("the record counts %d refused rows, want 5", n)
	}
}

// A table that takes nothing at all costs some statements for each row, and no more.
func TestATableThatRefusesAll(t *testing.T) {
	p := newPlace(t)
	p.do("CREATE TABLE rows (id int8 CHECK (id < 0), name text)")
	var rows []string
	for i := range 2000 {
		rows = append(rows, fmt.Sprintf(`{"id": %d, "name": "x"}`, i))
	}
	p.round(idName(), 1, "["+strings.Join(rows, ",")+"]")
	same(t, "refused rows", p.ask(`SELECT count(DISTINCT ("row"->>'id')::int8), count(*) FROM frazil_refused`), []string{"2000|2000"})
	same(t, "rows", p.ask("SELECT count(*) FROM rows"), []string{"0"})
}

// The row before one that is refused counts, as if it had come in another commit.
func TestARefusedUpsertLeavesTheOneBefore(t *testing.T) {
	p := newPlace(t)
	p.do("CREATE TABLE rows (id int8 PRIMARY KEY, name text CHECK (name <> 'no'))")
	in := changes(col("id", dataflow.TypeInt64), col("name", dataflow.TypeString))
	p.round(in, 1, `[
		{"id": 1, "name": "a", "_op": 1}, {"id": 2, "name": "b", "_op": 1}, {"id": 3, "name": "no", "_op": 1}, {"id": 4, "name": "x", "_op": 1},
		{"id": 1, "name": "c", "_op": 3}, {"id": 1, "name": "no", "_op": 3}, {"id": 4, "name": "x", "_op": 4}]`)
	same(t, "rows", p.ask("SELECT * FROM rows ORDER BY id"), []string{"1|c", "2|b"})
	same(t, "refused rows", p.ask(`SELECT reason, "row"::text AS r FROM frazil_refused ORDER BY id`), []string{
		`check_failed|{"id":1,"name":"no"}`, `check_failed|{"id":3,"name":"no"}`,
	})
}

// A process ends at each step of a commit; the next one finishes it. The rows are there
// once.
func TestACommitThatWasCutShortIsFinishedOnce(t *testing.T) {
	for _, step := range []string{"end", "ended"} {
		p := newPlace(t)
		in := idName()
		w := p.writer(in)
		_, err := w.Write(t.Context(), batch(t, in.Schema, `[{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]`))
		must(t, err)
		c := flowtest.Stage(t, w, 1, 0, 3)
		killed := p.committer(in)
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
			_ = killed.Commit(t.Context(), c)
		}()
		killed.drop() // As the server does when the process is gone.
		next := p.committer(in)
		must(t, next.Commit(t.Context(), c))
		must(t, next.Commit(t.Context(), c))
		same(t, "rows behind a kill at "+step, p.ask("SELECT id FROM rows ORDER BY id"), []string{"1", "2"})
	}
}

// The table is altered between the checkpoint and its commit.
func TestSpooledRowsFitATableThatWasAltered(t *testing.T) {
	p := newPlace(t)
	in := stream(col("id", dataflow.TypeInt64), col("j", dataflow.TypeJSON), col("s", dataflow.TypeString))
	w := p.writer(in)
	_, err := w.Write(t.Context(), batch(t, in.Schema, `[{"id": 1, "j": "{}", "s": "fits"}, {"id": 3000000000, "j": null, "s": null}, {"id": 2, "j": null, "s": "too long"}]`))
	must(t, err)
	c := flowtest.Stage(t, w, 1, 0, 3)
	p.do("ALTER TABLE rows ALTER COLUMN id TYPE int4, ALTER COLUMN j TYPE text, ALTER COLUMN s TYPE varchar(4)")
	must(t, p.committer(in).Commit(t.Context(), c))
	same(t, "rows", p.ask("SELECT * FROM rows"), []string{"1|{}|fits"})
	same(t, "refused rows", p.ask(`SELECT reason, "row" FROM frazil_refused`), []string{`invalid_value|{"id":3000000000,"j":null,"s":null}`, `invalid_value|{"id":2,"j":null,"s":"too long"}`})
}

func TestMissingRightsAreSaidWithTheirGrant(t *testing.T) {
	server := rig.NewPostgres(t)
	p := placeAt(t, server.URL("postgres"))
	p.do("CREATE ROLE weak LOGIN")
	p.do("REVOKE CREATE ON SCHEMA public FROM public")
	p.do("CREATE TABLE rows (id int8 PRIMARY KEY, name text)")
	u, err := url.Parse(server.URL("postgres"))
	must(t, err)
	u.User = url.User("weak")
	p.cfg.URL, p.cfg.CreateTable = component.Secret(u.String()), false
	in := changes(col("id", dataflow.TypeInt64), col("name", dataflow.TypeString))
	says := func(what string, err error, words ...string) {
		t.Helper()
		if !errors.Is(err, dataflow.ErrPermanent) {
			t.Errorf("%s: %v", what, err)
			return
		}
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s says\n%v\nand not %s", what, err, word)
			}
		}
	}
	_, err = newWriter(t.Context(), p.env, component.SinkIn{Input: in}, p.cfg)
	says("writer", err, `the role weak lacks rights: GRANT INSERT, SELECT, UPDATE, DELETE ON "rows" TO "weak"`)
	p.do(`GRANT INSERT, SELECT, UPDATE, DELETE ON "rows" TO "weak"`)
	w := p.writer(in)
	_, err = w.Write(t.Context(), batch(t, in.Schema, `[{"id": 1, "name": "a", "_op": 1}]`))
	must(t, err)
	c := flowtest.Stage(t, w, 1, 0, 1)
	err = p.committer(in).Commit(t.Context(), c)
	says("committer", err, `CREATE TABLE IF NOT EXISTS "frazil_positions"`, "let an owner run it")
	for _, text := range []string{positionsTable, refusedTable} {
		name := map[bool]string{true: "frazil_positions", false: "frazil_refused"}[text == positionsTable]
		p.do(fmt.Sprintf(text, name))
	}
	err = p.committer(in).Commit(t.Context(), c)
	says("committer", err, `GRANT SELECT, INSERT, UPDATE ON "frazil_positions" TO "weak"`)
	p.do(`GRANT SELECT, INSERT, UPDATE ON "frazil_positions" TO "weak"`)
	err = p.committer(in).Commit(t.Context(), c)
	says("committer", err, `GRANT INSERT ON "frazil_refused" TO "weak"`)
	p.do(`GRANT INSERT ON "frazil_refused" TO "weak"`)
	must(t, p.committer(in).Commit(t.Context(), c))
	same(t, "rows", p.ask("SELECT * FROM rows"), []string{"1|a"})
	p.cfg.URL = "postgres://nobody@" + component.Secret(server.Addr) + "/postgres?sslmode=disable"
	_, err = newWriter(t.Context(), p.env, component.SinkIn{Input: in}, p.cfg)
	says("an unknown role", err, "pg_hba.conf")
}

// Two processes upsert the same keys in opposite orders at once.
func TestUpsertsOfTwoProcessesDoNotBlockEachOther(t *testing.T) {
	url := rig.Postgres(t)
	errs := make(chan error)
	for i := range 2 {
		p := placeAt(t, url)
		p.cfg.Mode, p.cfg.Key = modeUpsert, []string{"id"}
		w := p.writer(idName())
		k := p.committer(idName())
		go func() {
			errs <- func() error {
				for e := 1; e <= 20; e++ {
					var rows []string
					for n := range 300 {
						if i == 1 {
							n = 299 - n
						}
						rows = append(rows, fmt.Sprintf(`{"id": %d, "name": "%d of %d"}`, n, e, i))
					}
					if _, err := w.Write(t.Context(), batch(t, idName().Schema, "["+strings.Join(rows, ",")+"]")); err != nil {
						return err
					}
					if err := k.Commit(t.Context(), flowtest.Stage(t, w, dataflow.Epoch(e), e-1, e)); err != nil {
						return err
					}
				}
				return nil
			}()
		}()
	}
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// A zombie that had begun its transaction before another process committed.
func TestATransactionUnderWayIsWaitedFor(t *testing.T) {
	p := newPlace(t)
	in := idName()
	w := p.writer(in)
	_, err := w.Write(t.Context(), batch(t, in.Schema, `[{"id": 1, "name": "a"}]`))
	must(t, err)
	c := flowtest.Stage(t, w, 1, 0, 3)
	zombie, next := p.committer(in), p.committer(in)
	_, err = next.Committed(t.Context())
	must(t, err)
	second := make(chan error, 1)
	zombie.at = func(step string) {
		if step == "end" {
			go func() { second <- next.Commit(t.Context(), c) }()
			// Until it waits for the lock.
			for len(p.ask("SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()")) == 0 {
			}
		}
	}
	must(t, zombie.Commit(t.Context(), c))
	must(t, <-second)
	same(t, "rows", p.ask("SELECT id FROM rows"), []string{"1"})
}

// What is staged and gone ends the pipeline: nobody can read it again.
func TestStagedRowsThatAreGoneAreAnError(t *testing.T) {
	p := newPlace(t)
	in := idName()
	w := p.writer(in)
	_, err := w.Write(t.Context(), batch(t, in.Schema, `[{"id": 1, "name": "a"}]`))
	must(t, err)
	c := flowtest.Stage(t, w, 1, 0, 3)
	p.env.SpoolDir = t.TempDir()
	err = p.committer(in).Commit(t.Context(), c)
	if !errors.Is(err, dataflow.ErrPermanent) || !strings.Contains(err.Error(), "are gone") {
		t.Errorf("%v", err)
	}
	same(t, "rows", p.ask("SELECT id FROM rows"), nil)
}

func TestWhatIsWrongWithAConfigIsSaid(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		in     dataflow.Stream
		want   string
	}{
		{func(c *Config) { c.URL = "postgres://u:secret@h:x/db" }, idName(), "url: expected postgres://USER:PASSWORD@HOST:PORT/DATABASE, and this cannot be read"},
		{func(c *Config) { c.Table = "a.b.c" }, idName(), `table: table "a.b.c": expected TABLE or SCHEMA.TABLE`},
		{func(c *Config) { c.Mode = modeUpsert }, idName(), "key: mode upsert needs the columns that make a row the same one: write key: [COLUMN]"},
		{func(c *Config) { c.Mode, c.Key = modeUpsert, []string{"nix"} }, idName(), `key[0]: unknown column "nix"`},
		{func(c *Config) { c.Key = []string{"id"} }, idName(), "key: only with mode: upsert"},
		{func(c *Config) { c.Key = []string{"name"} }, changes(col("id", dataflow.TypeInt64), col("name", dataflow.TypeString)), "key: the input is a changelog with the key [id]: leave key out, or write the same"},
	} {
		cfg := DefaultConfig()
		cfg.URL, cfg.Table = "postgres://localhost/db", "t"
		c.change(&cfg)
		_, err := plan(component.SinkIn{Input: c.in}, cfg)
		if err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

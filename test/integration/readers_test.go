package integration

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"frazil/dataflow/flowtest/rig"
)

// awkward are partition values that paths, manifests and file names have to
// escape, each in its own way, and those that look like something else.
var awkward = []string{"", "null", "NULL", "a=b", "a/b", "a%2Fb", "a%3Db", "50%", "%", "..", ".", "a b", " ", "a+b", "a&b?c#d", "'", `"`, `\`, "ä ö", "日本", "🦀", "a:b", "x,y", "~", "\u00a0"}

// reading is one row of the tests' input, and of what must be in the table.
type reading struct {
	Site *string `json:"site"`
	N    int64   `json:"n"`
	Temp float64 `json:"temp"`
	Cost string  `json:"cost"`
	At   string  `json:"at"`
	OK   bool    `json:"ok"`
}

// readings are n rows, the same for the same n: every awkward site and a null
// one, over several days, in event time.
func readings(n int) (rows []reading, lines string) {
	var b strings.Builder
	start := time.Date(2026, 2, 27, 22, 0, 0, 0, time.UTC)
	for i := range n {
		r := reading{
			N: int64(i), Temp: float64(i%97) / 3, Cost: fmt.Sprintf("%d.%02d", i%1000, i%100),
			At: start.Add(time.Duration(i) * 36 * time.Hour / time.Duration(n)).Truncate(time.Millisecond).Format("2006-01-02T15:04:05.000Z07:00"), OK: i%3 == 0,
		}
		if s := i % (len(awkward) + 1); s < len(awkward) {
			r.Site = &awkward[s]
		}
		line, err := json.Marshal(r)
		if err != nil {
			panic(err)
		}
		b.Write(line)
		b.WriteByte('\n')
		rows = append(rows, r)
	}
	return rows, b.String()
}

// text is the reading as outside readers are asked for it, with the computed
// column.
func (r reading) text() string {
	line, err := json.Marshal(struct {
		reading
		Double int64 `json:"double"`
	}{r, r.N * 2})
	if err != nil {
		panic(err)
	}
	return string(line)
}

// readingsTo is a pipeline from the file to the table lake.readings of the
// connection; the sink's further settings are given.
func readingsTo(name, connection, table, more string) string {
	return `name: ` + name + `
connections:
  lake:
    iceberg_catalog: ` + connection + `
sources:
  in:
    files: {paths: [in.ndjson], lanes: 1}
    decode:
      json:
        schema: {site: string, n: int64, temp: float64, cost: "decimal(9, 2)", at: timestamptz, ok: bool}
    event_time: {column: at, out_of_orderness: 10s}
operators:
  more:
    from: in
    project: {compute: {double: "n * 2"}}
sinks:
  out:
    from: more
    iceberg: {catalog: lake, table: ` + table + more + `}
checkpoint: {every: 200ms}
`
}

// sqlLake is a connection to a SQLite catalog with its warehouse on the disk.
func sqlLake(dir string) (connection, catalog string) {
	db := filepath.Join(dir, "catalog.db")
	return fmt.Sprintf("{type: sql, uri: %q, warehouse: %q}", db, filepath.Join(dir, "warehouse")), "sqlite:///" + db
}

func restLake(c rig.Catalog, uri string) string {
	login := ""
	if c.Credential != "" {
		login = fmt.Sprintf("credential: %q, ", c.Credential)
	}
	return fmt.Sprintf("{type: rest, uri: %q, warehouse: %q, %ss3: {endpoint: %q, region: us-east-1, access_key: %q, secret_key: %q}}",
		uri, c.Warehouse, login, c.Store.Endpoint, c.Store.AccessKey, c.Store.SecretKey)
}

// unique is a table name that no other test or run uses.
func unique(name string) string { return fmt.Sprintf("it%d.%s", time.Now().UnixNano(), name) }

// check compares the table with the rows, as two outside readers see it: all
// rows, and the rows of each site.
func check(t *testing.T, at rig.Table, rows []reading) {
	t.Helper()
	var want []string
	counts, null := map[string]int{}, 0
	for _, r := range rows {
		want = append(want, r.text())
		if r.Site == nil {
			null++
		} else {
			counts[*r.Site]++
		}
	}
	rig.SameRows(t, at, want)
	rig.SameCounts(t, at, "site", counts, null)
}

func TestOthersReadAwkwardPartitionsOnTheDisk(t *testing.T) {
	rig.Readers(t)
	rows, lines := readings(5000)
	for name, more := range map[string]string{
		"by site and day":   ", partition_by: [site, day(at)]",
		"by site, format 3": ", partition_by: [site], format_version: 3",
		"by truncated":      `, partition_by: ["truncate(2, site)", ok]`,
		"snappy":            ", compression: snappy",
	} {
		t.Run(name, func(t *testing.T) {
			connection, catalog := sqlLake(t.TempDir())
			p := newPipeline(t, readingsTo("awkward", connection, "lake.readings", more), map[string]string{"in.ndjson": lines})
			p.run()
			check(t, rig.Table{Catalog: catalog, Name: "lake.readings"}, rows)
		})
	}
}

func TestOthersReadFromS3AndREST(t *testing.T) {
	rig.Readers(t)
	c := rig.REST(t)
	rows, lines := readings(3000)
	for name, more := range map[string]string{"by site": ", partition_by: [site]", "by day, format 3": ", partition_by: [day(at)], format_version: 3"} {
		t.Run(name, func(t *testing.T) {
			table := unique("readings")
			p := newPipeline(t, readingsTo("remote", restLake(c, c.URI), table, more), map[string]string{"in.ndjson": lines})
			p.run()
			check(t, rig.Table{Catalog: c.URI, Name: table, Store: c.Store}, rows)
		})
	}
}

// The catalog of another make, which asks for a login.
func TestACatalogWithALogin(t *testing.T) {
	c := rig.AuthREST(t)
	rows, lines := readings(1000)
	table := unique("readings")
	p := newPipeline(t, readingsTo("login", restLake(c, c.URI), table, ""), map[string]string{"in.ndjson": lines})
	p.run()
	if got := p.rows(table); len(got) != len(rows) {
		t.Errorf("%d rows, want %d", len(got), len(rows))
	}
}

package iceberg

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"frazil/dataflow"

	icebergo "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// What a newer version has left in a table or staged in the state is refused for
// good, the message says where it is and what to do, and the table stays as it is.
func TestNewerFormatsAreRefused(t *testing.T) {
	h := newHarness(t, idSchema())
	c := h.committer()
	h.must(c.Commit(h.ctx, h.next(1, 3, h.stage(1, idRows(0, 3)...))))

	refused := func(what string, err error, want string) {
		t.Helper()
		if !errors.Is(err, dataflow.ErrPermanent) || err.Error() != want {
			t.Errorf("%s: got\n%v\nwant\n%s", what, err, want)
		}
	}
	newer := func(b []byte) []byte {
		t.Helper()
		out := bytes.Replace(b, []byte(`"v":1,`), []byte(`"v":2,`), 1)
		if bytes.Equal(out, b) {
			t.Fatalf("no version in %s", b)
		}
		return out
	}

	part := h.stage(2, idRows(3, 5)...)
	part.Data = newer(part.Data)
	next := h.next(2, 5, part)
	refused("a staged part", c.Commit(h.ctx, next),
		"a part that is staged in the state has version 2, this program knows versions up to 1: a newer version of the program has staged it: use that version until it is committed")

	tbl, err := loadTable(h.ctx, c.lake, h.cfg)
	h.must(err)
	name := propPositions + c.sink
	text := string(newer([]byte(tbl.Metadata().Properties()[name])))
	h.outside(func(tx *table.Transaction) error { return tx.SetProperties(icebergo.Properties{name: text}) })
	want := "table at " + tbl.Location() + ": property " + name + ": the positions have version 2, this program knows versions up to 1: a newer version of the program has committed to the table: use that version"
	_, err = c.Committed(h.ctx)
	refused("positions, read", err, want)
	part.Data = bytes.Replace(part.Data, []byte(`"v":2,`), []byte(`"v":1,`), 1)
	next.Parts = []dataflow.Part{part}
	refused("positions, committed to", c.Commit(h.ctx, next), want)
	refused("positions, claimed", c.Claim(h.ctx, dataflow.Claim{}), want)

	h.expect(idWant(0, 3)...)
	tbl, err = loadTable(h.ctx, c.lake, h.cfg)
	h.must(err)
	if got := tbl.Metadata().Properties()[name]; got != text || strings.Contains(got, `"v":1`) {
		t.Errorf("the positions were changed to %s", got)
	}
}

package iceberg

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"frazil/dataflow"

	"github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/table"
)

// lagging is a catalog that answers now and then with a table as it was before.
type lagging struct {
	catalog.Catalog
	old  *table.Table
	lags int
}

func (l *lagging) LoadTable(ctx context.Context, ident table.Identifier) (*table.Table, error) {
	if l.lags > 0 {
		l.lags--
		return l.old, nil
	}
	return l.Catalog.LoadTable(ctx, ident)
}

// An answer of some time ago is no sign that another process has moved the table: it
// is looked at again.
func TestAnOlderAnswerOfTheCatalogDoesNotFence(t *testing.T) {
	h := newHarness(t, idSchema())
	c := h.committer()
	h.must(c.Commit(h.ctx, h.next(1, 3, h.stage(1, idRows(0, 3)...))))
	old, err := loadTable(h.ctx, c.lake, h.cfg)
	h.must(err)
	h.must(c.Commit(h.ctx, h.next(2, 5, h.stage(2, idRows(3, 5)...))))
	h.must(c.Commit(h.ctx, h.next(3, 6, h.stage(3, idRows(5, 6)...))))
	part := h.stage(4, idRows(6, 9)...)
	real := c.lake.Catalog
	c.lake.Catalog = &lagging{real, old, 3}
	h.must(c.Commit(h.ctx, h.next(4, 9, part)))
	// Longer than one commit tries: it says so, and is tried again by whoever asked.
	c.lake.Catalog = &lagging{real, old, 1000}
	next := h.next(5, 10, h.stage(5, idRows(9, 10)...))
	err = c.Commit(h.ctx, next)
	if err == nil || errors.Is(err, dataflow.ErrFenced) || errors.Is(err, dataflow.ErrPermanent) || !strings.Contains(err.Error(), "older state") {
		t.Fatalf("%v, want an error that is not final and says that the answer is old", err)
	}
	c.lake.Catalog = real
	h.must(c.Commit(h.ctx, next))
	h.expect(idWant(0, 10)...)
}

type said string

func (s said) Error() string     { return string(s) }
func (s said) ErrorCode() string { return string(s) }

// Waiting does not help where a store refuses, and the local disk is no server.
func TestWhatAStoreFailsWithIsUnavailable(t *testing.T) {
	for _, tc := range []struct {
		path string
		err  error
		want bool
	}{
		{"s3://b/x", errors.New("connection reset"), true},
		{"s3://b/x", said("SlowDown"), true},
		{"s3://b/x", fmt.Errorf("put: %w", said("AccessDenied")), false},
		{"s3://b/x", said("NoSuchBucket"), false},
		{"s3://b/x", dataflow.Permanentf("no"), false},
		{"/tmp/x", errors.New("input/output error"), false},
		{"file:///tmp/x", errors.New("input/output error"), false},
	} {
		if got := errors.Is(unavailable(tc.path, tc.err), dataflow.ErrUnavailable); got != tc.want {
			t.Errorf("%s, %v: unavailable %v, want %v", tc.path, tc.err, got, tc.want)
		}
	}
}

package iceberg

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/flowtest/rig"
)

// remote points the harness at a real store and catalog.
func (h *harness) remote(cfg *CatalogConfig) {
	h.in.Resolve = func(name string) (string, any, bool) { return "iceberg_catalog", cfg, name == "lake" }
	h.cfg.Table = fmt.Sprintf("frazil_test%d.t", time.Now().UnixNano())
}

func s3Of(s rig.Store) S3Config {
	return S3Config{Endpoint: s.Endpoint, Region: "us-east-1", AccessKey: component.Secret(s.AccessKey), SecretKey: component.Secret(s.SecretKey)}
}

// A SQL catalog on the local disk with its tables in a real S3 store.
func TestRealS3(t *testing.T) {
	store := rig.S3(t)
	h := newHarness(t, idSchema())
	h.remote(&CatalogConfig{Type: "sql", URI: h.dir + "/s3.db", Warehouse: store.Warehouse, S3: s3Of(store)})
	h.remoteWork()
}

// A real REST catalog over a real S3 store.
func TestRealREST(t *testing.T) {
	c := rig.REST(t)
	h := newHarness(t, idSchema())
	h.remote(&CatalogConfig{Type: "rest", URI: c.URI, Warehouse: c.Warehouse, S3: s3Of(c.Store)})
	h.remoteWork()
}

// A REST catalog of another make that asks for a login.
func TestRealRESTWithLogin(t *testing.T) {
	c := rig.AuthREST(t)
	h := newHarness(t, idSchema())
	cfg := &CatalogConfig{Type: "rest", URI: c.URI, Warehouse: c.Warehouse, Credential: component.Secret("nobody:wrong"), S3: s3Of(c.Store)}
	h.remote(cfg)
	if _, err := NewWriter(h.ctx, h.env, h.in, h.cfg); !errors.Is(err, dataflow.ErrPermanent) {
		t.Fatalf("wrong credential: %v", err)
	}
	cfg.Credential = component.Secret(c.Credential)
	h.remoteWork()
}

// remoteWork commits, conflicts, loses an answer, and compares rows.
func (h *harness) remoteWork() {
	h.t.Helper()
	h.cfg.PartitionBy = []string{"v"}
	c := h.committer()
	start := time.Now()
	h.must(c.Commit(h.ctx, h.next(1, 3, h.stage(1, idRows(0, 3)...))))
	h.must(c.Commit(h.ctx, h.next(2, 4, h.stage(2, idRows(3, 4)...))))
	h.t.Logf("two epochs staged and committed in %v", time.Since(start))

	outside := false
	atStep = func(_ context.Context, step string) error {
		switch {
		case step == "loaded" && !outside:
			outside = true
			h.outsideAppend(idRows(100, 101)...)
		case step == "accepted":
			atStep = nil
			return errors.New("connection reset")
		}
		return nil
	}
	cm := h.next(3, 6, h.stage(3, idRows(4, 6)...))
	h.must(c.Commit(h.ctx, cm))
	atStep = nil
	h.must(c.Commit(h.ctx, cm))
	if c.conflicts.Load() != 1 || c.unknown.Load() != 1 {
		h.t.Errorf("%d conflicts and %d unknown outcomes, want one of each", c.conflicts.Load(), c.unknown.Load())
	}
	h.expect(append(idWant(0, 6), idWant(100, 101)...)...)
	if err := c.Commit(h.ctx, dataflow.Commit{Epoch: 4, From: at0(4), At: at0(9), Parts: []dataflow.Part{h.stage(4, idRows(4, 9)...)}}); !errors.Is(err, dataflow.ErrFenced) {
		h.t.Errorf("zombie: %v", err)
	}
	h.must(c.expireNow(h.ctx))
	h.expect(append(idWant(0, 6), idWant(100, 101)...)...)
}

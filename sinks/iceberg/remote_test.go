package iceberg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
)

// remote points the harness at a real store and catalog:
//
//	FRAZIL_TEST_S3   ENDPOINT,ACCESS_KEY,SECRET_KEY,s3://BUCKET/PREFIX
//	FRAZIL_TEST_REST URI,WAREHOUSE[,CREDENTIAL]
func (h *harness) remote(cfg *CatalogConfig) {
	h.in.Resolve = func(name string) (string, any, bool) { return "iceberg_catalog", cfg, name == "lake" }
	h.cfg.Table = fmt.Sprintf("frazil_test.t%d", time.Now().UnixNano())
}

func s3FromEnv(t *testing.T) (S3Config, string) {
	t.Helper()
	parts := strings.Split(os.Getenv("FRAZIL_TEST_S3"), ",")
	if len(parts) != 4 {
		t.Skip("FRAZIL_TEST_S3 is not set to ENDPOINT,ACCESS_KEY,SECRET_KEY,s3://BUCKET/PREFIX")
	}
	return S3Config{Endpoint: parts[0], Region: "us-east-1", AccessKey: component.Secret(parts[1]), SecretKey: component.Secret(parts[2])}, parts[3]
}

// A SQL catalog on the local disk with its tables in a real S3 store.
func TestRealS3(t *testing.T) {
	h := newHarness(t, idSchema())
	s3, warehouse := s3FromEnv(t)
	h.remote(&CatalogConfig{Type: "sql", URI: h.dir + "/s3.db", Warehouse: warehouse, S3: s3})
	h.remoteWork()
}

// A real REST catalog over a real S3 store.
func TestRealREST(t *testing.T) {
	parts := strings.Split(os.Getenv("FRAZIL_TEST_REST"), ",")
	if len(parts) < 2 {
		t.Skip("FRAZIL_TEST_REST is not set to URI,WAREHOUSE[,CREDENTIAL]")
	}
	h := newHarness(t, idSchema())
	s3, _ := s3FromEnv(t)
	cfg := &CatalogConfig{Type: "rest", URI: parts[0], Warehouse: parts[1], S3: s3}
	if len(parts) > 2 {
		cfg.Credential = component.Secret(parts[2])
		bad := *cfg
		bad.Credential = component.Secret("nobody:wrong")
		h.remote(&bad)
		if _, err := NewWriter(h.ctx, h.env, h.in, h.cfg); !errors.Is(err, dataflow.ErrPermanent) {
			t.Fatalf("wrong credential: %v", err)
		}
	}
	h.remote(cfg)
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
	failpoint = func(_ context.Context, step string) error {
		switch {
		case step == "loaded" && !outside:
			outside = true
			h.outsideAppend(idRows(100, 101)...)
		case step == "accepted":
			failpoint = nil
			return errors.New("connection reset")
		}
		return nil
	}
	cm := h.next(3, 6, h.stage(3, idRows(4, 6)...))
	h.must(c.Commit(h.ctx, cm))
	failpoint = nil
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

package iceberg

import (
	"context"
	"fmt"
	"strconv"

	"frazil/dataflow"

	icebergo "github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// Claim makes the table refuse commits that carry another claim, see
// dataflow.Claimer. It is a snapshot without rows: that moves the main branch, so
// that a commit which was compared with the table before the claim conflicts and
// looks again. A changed property alone would not stop it on REST catalogs.
func (c *Committer) Claim(ctx context.Context, claim dataflow.Claim) error {
	what := "claim " + strconv.FormatUint(claim.Token, 10)
	return c.change(ctx, what, func() (*table.Table, bool, error) {
		t, err := loadTable(ctx, c.lake, c.cfg)
		if err != nil {
			return nil, false, err
		}
		if err := c.newest.check(c.Target(), t.Metadata()); err != nil {
			return nil, false, err
		}
		doc, _, err := held(t.Metadata(), c.sink)
		if err != nil {
			return nil, false, err
		}
		switch dataflow.DecideClaim(doc.claim(), claim) {
		case dataflow.Done:
			return t, true, nil
		case dataflow.Fenced:
			return nil, false, fmt.Errorf("%s of %s: %w", what, c.Target(), dataflow.ErrFenced)
		}
		return t, false, nil
	}, func(t *table.Table) error {
		doc, _, err := held(t.Metadata(), c.sink)
		if err != nil {
			return err
		}
		doc.Claim = &claim
		positions, err := encodePositions(doc)
		if err != nil {
			return err
		}
		return c.apply(ctx, t, nil, icebergo.Properties{
			sumSink: c.sink, sumDigest: digest(positions), sumClaim: strconv.FormatUint(claim.Token, 10),
		}, positions)
	})
}

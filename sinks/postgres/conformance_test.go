package postgres

import (
	"testing"

	"frazil/dataflow"
	"frazil/dataflow/component"
	"frazil/dataflow/flowtest"
	"frazil/dataflow/flowtest/rig"

	"github.com/jackc/pgx/v5"
)

func TestConformance(t *testing.T) {
	url := rig.Postgres(t)
	for _, mode := range []string{modeAppend, modeUpsert} {
		t.Run(mode, func(t *testing.T) {
			flowtest.SinkSuite(t, func(t *testing.T) flowtest.SinkUnderTest {
				p := schemaOf(t, url)
				if p.cfg.Mode = mode; mode == modeUpsert {
					p.cfg.Key = []string{"id"}
				}
				in := component.SinkIn{Input: dataflow.Stream{Schema: flowtest.SinkSchema}}
				return flowtest.SinkUnderTest{
					NewWriter: func(t *testing.T) dataflow.Writer {
						w, err := newWriter(t.Context(), p.env, in, p.cfg)
						must(t, err)
						return w
					},
					NewCommitter: func(t *testing.T) dataflow.Committer {
						k, err := newCommitter(t.Context(), p.env, in, p.cfg)
						must(t, err)
						return k
					},
					Visible: func(t *testing.T) []string {
						if there, err := look(t.Context(), p.conn, p.cfg.Table); err != nil || there == nil {
							must(t, err)
							return nil
						}
						rows, err := p.conn.Query(t.Context(), "SELECT format('{\"id\":%s,\"v\":\"%s\"}', id, v) FROM rows")
						must(t, err)
						out, err := pgx.CollectRows(rows, pgx.RowTo[string])
						must(t, err)
						return out
					},
				}
			})
		})
	}
}

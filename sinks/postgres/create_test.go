package postgres

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
)

// A table that several processes make at the same moment is made by one of them, and the
// others go on with it.
func TestATableIsMadeByManyAtOnce(t *testing.T) {
	p := newPlace(t)
	const processes, tables = 6, 40
	var conns []*pgx.Conn
	for range processes {
		conn, err := pgx.Connect(t.Context(), p.cfg.URL.Reveal())
		must(t, err)
		defer conn.Close(t.Context())
		conns = append(conns, conn)
	}
	for n := range tables {
		text := fmt.Sprintf("CREATE TABLE IF NOT EXISTS many_%d (id bigint PRIMARY KEY, body text)", n)
		begin, errs := make(chan struct{}), make(chan error)
		for _, conn := range conns {
			go func() {
				<-begin
				errs <- create(t.Context(), conn, text)
			}()
		}
		close(begin)
		for range conns {
			if err := <-errs; err != nil {
				t.Errorf("table %d: %v", n, err)
			}
		}
	}
}

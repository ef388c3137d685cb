package outbox

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"frazil/dataflow"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
)

// A connection that ends, however it does, is that of a server that comes back; what a
// program has done wrong is not.
func TestAConnectionThatEndsIsWaitedFor(t *testing.T) {
	both := []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}}
	for what, c := range map[string]struct {
		explain func(string, error) error
		more    []error
		not     error
	}{
		"PostgreSQL": {explain, []error{&pgconn.PgError{Code: "57P01"}, &pgconn.ConnectError{}}, &pgconn.PgError{Code: "22012"}},
		"MySQL":      {explainMy, []error{driver.ErrBadConn, mysql.ErrInvalidConn, sql.ErrConnDone}, &mysql.MySQLError{Number: 1365}},
	} {
		for _, err := range append(c.more, both...) {
			if got := c.explain("look", fmt.Errorf("read: %w", err)); !errors.Is(got, dataflow.ErrUnavailable) {
				t.Errorf("%s: %v is not waited for", what, got)
			}
		}
		if got := c.explain("look", c.not); errors.Is(got, dataflow.ErrUnavailable) {
			t.Errorf("%s: %v is waited for", what, got)
		}
	}
}

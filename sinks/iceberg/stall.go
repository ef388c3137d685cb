package iceberg

import (
	"context"
	"net"
	"net/http"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

// storeStalls is how long a connection to an object store may stand still. Then what is
// asked over it fails, and is asked again over another one.
const storeStalls = 2 * time.Minute

// storeClient speaks HTTP with an object store. Requests have no time of their own, since
// a file may be large and a network slow: they end when nothing moves for stalls.
func storeClient(stalls time.Duration) *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		// As many as the library itself keeps.
		t.MaxIdleConns, t.MaxIdleConnsPerHost, t.MaxConnsPerHost = 256, 256, 2048
		dial := t.DialContext
		t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &movingConn{Conn: c, stalls: stalls}, nil
		}
	})
}

// movingConn is a connection that fails when nothing moves, in either direction, for
// stalls: the side that waits is given more time by what the other one does.
type movingConn struct {
	net.Conn
	stalls time.Duration
}

func (c *movingConn) Read(b []byte) (int, error) {
	if err := c.extend(); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

// Write sends b in pieces, since each that is sent is a sign of life.
func (c *movingConn) Write(b []byte) (n int, err error) {
	for len(b) > 0 && err == nil {
		if err = c.extend(); err != nil {
			break
		}
		var sent int
		sent, err = c.Conn.Write(b[:min(len(b), 64<<10)])
		n += sent
		b = b[sent:]
	}
	return n, err
}

func (c *movingConn) extend() error { return c.SetDeadline(time.Now().Add(c.stalls)) }

package iceberg

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/iceberg-go/io/gocloud/s3"
	"github.com/apache/iceberg-go/utils"

	icebergo "github.com/apache/iceberg-go"
	icebergio "github.com/apache/iceberg-go/io"
)

// A store that takes an upload and stands still, before it has read it or before it
// answers, is asked again.
func TestAStoreThatStandsStillIsAskedAgain(t *testing.T) {
	const stalls = 250 * time.Millisecond
	for _, c := range []struct {
		name  string
		first func(r *http.Request, release <-chan struct{})
	}{
		{"it reads nothing", func(_ *http.Request, release <-chan struct{}) { <-release }},
		{"it does not answer", func(r *http.Request, release <-chan struct{}) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-release
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			release := make(chan struct{})
			var free sync.Once
			defer free.Do(func() { close(release) })
			var puts atomic.Int64
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPut {
					return
				}
				if puts.Add(1) == 1 {
					c.first(r, release)
				}
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("ETag", `"x"`)
			}))
			defer srv.Close()
			defer free.Do(func() { close(release) })
			props := icebergo.Properties{
				icebergio.S3EndpointURL: srv.URL, icebergio.S3Region: "us-east-1", icebergio.S3AccessKeyID: "k", icebergio.S3SecretAccessKey: "s",
			}
			cfg, err := s3.ParseAWSConfig(t.Context(), props)
			if err != nil {
				t.Fatal(err)
			}
			client := storeClient(stalls)
			defer client.GetTransport().CloseIdleConnections()
			cfg.HTTPClient, cfg.RetryMaxAttempts = client, 3
			ctx, cancel := context.WithTimeout(utils.WithAwsConfig(t.Context(), cfg), time.Minute)
			defer cancel()
			fs, err := icebergio.LoadFS(ctx, props, "s3://bucket/file")
			if err != nil {
				t.Fatal(err)
			}
			if err := fs.(icebergio.WriteFileIO).WriteFile("s3://bucket/file", make([]byte, 4<<20)); err != nil {
				t.Fatal(err)
			}
			if got := puts.Load(); got < 2 {
				t.Errorf("it was asked %d times, want 2 or more", got)
			}
		})
	}
}

// A connection over which something moves, however slowly and in whichever direction, is
// waited for: the upload takes longer than stalls, and so does the wait for its answer.
func TestAConnectionThatMovesIsWaitedFor(t *testing.T) {
	const stalls, pieces = time.Second, 12
	ours, theirs := net.Pipe()
	defer theirs.Close()
	c := &movingConn{Conn: ours, stalls: stalls}
	defer c.Close()
	answer := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(c, make([]byte, 2))
		answer <- err
	}()
	go func() {
		for range pieces {
			_, _ = io.CopyN(io.Discard, theirs, 64<<10)
			<-time.After(stalls / 8)
		}
		_, _ = theirs.Write([]byte("ok"))
	}()
	if n, err := c.Write(make([]byte, pieces*64<<10)); n != pieces*64<<10 || err != nil {
		t.Errorf("%d bytes are sent, %v", n, err)
	}
	if err := <-answer; err != nil {
		t.Errorf("the answer: %v", err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("when nothing moves any more: %v", err)
	}
}

package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func fromHTTP(address string) string {
	return fmt.Sprintf(`sources:
  bids:
    http: {listen: %q}
    decode: {json: {schema: %s}}
    event_time: {column: dateTime, out_of_orderness: %s}
`, address, bidSchema, disorder)
}

// server is a running pipeline that takes records over HTTP.
type server struct {
	*job
	address string
	// end stops it and returns what it has cost.
	end func() usage
}

func serve(tb testing.TB, sink string) *server {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &server{address: l.Addr().String()}
	l.Close()
	s.job = newJob(tb, fromHTTP(s.address)+into("bids", sink))
	cmd := s.command("run", "pipeline.yaml")
	var both bytes.Buffer
	cmd.Stdout, cmd.Stderr = &both, &both
	start := time.Now()
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	stop := s.profile()
	s.end = func() (u usage) {
		stop()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			tb.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			tb.Fatalf("run: %v\n%s", err, both.String())
		}
		u.wall = time.Since(start)
		r := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		u.user, u.sys, u.maxRSS = cmd.ProcessState.UserTime(), cmd.ProcessState.SystemTime(), r.Maxrss*1024
		return u
	}
	for end := time.Now().Add(time.Minute); ; {
		c, err := net.Dial("tcp", s.address)
		if err == nil {
			c.Close()
			return s
		}
		if time.Now().After(end) {
			tb.Fatalf("nobody listens on %s: %v\n%s", s.address, err, both.String())
		}
	}
}

// client posts over one connection, with as little of its own as can be.
type client struct {
	conn net.Conn
	in   *bufio.Reader
	head string
}

func (s *server) client(tb testing.TB, kind string) *client {
	tb.Helper()
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		tb.Fatal(err)
	}
	return &client{conn, bufio.NewReader(conn), "POST /bids HTTP/1.1\r\nHost: x\r\nContent-Type: " + kind + "\r\nContent-Length: "}
}

// post sends a body until it is taken; the answer must be 200.
func (c *client) post(body []byte) error {
	out := append(strconv.AppendInt([]byte(c.head), int64(len(body)), 10), "\r\n\r\n"...)
	for {
		if _, err := (&net.Buffers{out, body}).WriteTo(c.conn); err != nil {
			return err
		}
		code, length := 0, 0
		for first := true; ; first = false {
			line, err := c.in.ReadSlice('\n')
			if err != nil {
				return err
			}
			text := strings.TrimRight(string(line), "\r\n")
			switch {
			case first:
				if code, err = strconv.Atoi(text[9:12]); err != nil {
					return err
				}
			case strings.HasPrefix(text, "Content-Length: "):
				if length, err = strconv.Atoi(text[16:]); err != nil {
					return err
				}
			}
			if text == "" {
				break
			}
		}
		answer := make([]byte, length)
		if _, err := io.ReadFull(c.in, answer); err != nil {
			return err
		}
		switch code {
		case http.StatusOK:
			return nil
		case http.StatusTooManyRequests:
			time.Sleep(10 * time.Millisecond)
		default:
			return fmt.Errorf("answered %d: %s", code, answer)
		}
	}
}

// load posts n bids in bodies of each, over so many connections.
func (s *server) load(tb testing.TB, n, each int64, clients int) time.Duration {
	tb.Helper()
	kind := "application/x-ndjson"
	if each == 1 {
		kind = "application/json"
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range clients {
		c := s.client(tb, kind)
		wg.Go(func() {
			defer c.conn.Close()
			var body []byte
			for {
				from := next.Add(each) - each
				if from >= n {
					return
				}
				body = body[:0]
				for i := from; i < min(from+each, n); i++ {
					body = append(bidAt(i).appendJSON(body), '\n')
				}
				if err := c.post(body); err != nil {
					tb.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

// TestHTTPOutputs compares what comes over HTTP, row by row.
func TestHTTPOutputs(t *testing.T) {
	s := serve(t, files)
	s.load(t, smallRows, 1000, 4)
	s.end()
	compareRows(t, s.rows("out"), wantAll(smallRows))
}

// BenchmarkHTTP measures the program alone; the clients are in the process of the
// test, on the same processors.
func BenchmarkHTTP(b *testing.B) {
	for _, c := range []struct {
		name, sink string
		rows, each int64
		clients    int
	}{
		{"Lines1000Drop", drop, 20_000_000, 1000, 4},
		{"Lines1000Iceberg", iceberg, 20_000_000, 1000, 4},
		{"Single128Drop", drop, 1_000_000, 1, 128},
	} {
		b.Run(c.name, func(b *testing.B) {
			n := c.rows
			if c.each > 1 {
				n = rowsOf(b, c.rows)
			}
			var rate float64
			measure(b, n, func() usage {
				s := serve(b, c.sink)
				rate = float64(n/c.each) / s.load(b, n, c.each, c.clients).Seconds()
				return s.end()
			})
			b.ReportMetric(rate, "answers/s")
		})
	}
}

package http

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/klauspost/compress/zstd"
)

// growth measures by how much the memory that the process has ever held at a time
// grows while f runs.
func growth(f func()) int64 {
	var before, m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	stop, done := make(chan struct{}), make(chan int64)
	go func() {
		peak := uint64(0)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapInuse+m.StackInuse)
			select {
			case <-stop:
				done <- int64(peak) - int64(before.HeapInuse+before.StackInuse)
				return
			case <-tick.C:
			}
		}
	}()
	f()
	close(stop)
	return <-done
}

func zipped(t *testing.T, size int, unit string) (gz, zs string) {
	t.Helper()
	var a, b bytes.Buffer
	g, err := gzip.NewWriterLevel(&a, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	chunk := strings.Repeat(unit, 1<<20/len(unit))
	for n := 0; n < size; n += len(chunk) {
		io.WriteString(g, chunk)
		io.WriteString(z, chunk)
	}
	g.Close()
	z.Close()
	return a.String(), b.String()
}

// TestBombs: what is small and would be large is refused, with less than 64 MB more.
func TestBombs(t *testing.T) {
	r := newRig(t, nil)
	gz, zs := zipped(t, 512<<20, "{\"id\":1}\n")
	deep := `{"id":1,"more":` + strings.Repeat("[", 4<<20) + "}"
	wide := `{"id":1,"more":[` + strings.Repeat("1,", 7<<20) + "1]}"
	long := `{"id":1,"text":"` + strings.Repeat("x", 15<<20) + `"}`
	fields := `{"id":1` + strings.Repeat(`,"a":1`, 2<<20) + "}"
	small := stream(t, arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}}, nil), `[{"id":1}]`)
	lie := []byte(small)
	binary.LittleEndian.PutUint32(lie[4:], 0x7ffffff0)
	bomb := []byte(zs)
	for name, x := range map[string]struct {
		typ, body, enc string
		status         int
	}{
		"gzip": {typeNDJSON, gz, "gzip", 413}, "zstd": {typeNDJSON, zs, "zstd", 413}, "gzip as arrow": {typeArrow, gz, "gzip", 413},
		"deep": {typeNDJSON, deep, "", 422}, "deep array": {typeJSON, strings.Repeat("[", 4<<20), "", 400}, "wide": {typeNDJSON, wide, "", 422}, "long": {typeNDJSON, long, "", 422}, "fields": {typeNDJSON, fields, "", 422},
		"many records": {typeNDJSON, strings.Repeat("1\n", 7<<20), "", 413}, "many elements": {typeJSON, "[" + strings.Repeat("1,", 7<<20) + "1]", "", 413},
		"csv columns": {typeCSV, strings.Repeat("a,", 7<<20) + "\n", "", 400}, "csv records": {typeCSV, "id\n" + strings.Repeat("1\n", 7<<20), "", 413},
		"arrow length": {typeArrow, string(lie), "", 400}, "too long": {typeNDJSON, strings.Repeat("x", 17<<20), "", 413},
		"events": {typeEvents, "[" + strings.Repeat("{},", 5<<20) + "{}]", "", 413}, "zstd of zstd": {typeNDJSON, string(bomb[:len(bomb)/2]), "zstd", 413},
	} {
		req, err := nethttp.NewRequest("POST", r.url+"/events", strings.NewReader(x.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", x.typ)
		if x.enc != "" {
			req.Header.Set("Content-Encoding", x.enc)
		}
		var resp *nethttp.Response
		grown := growth(func() { resp, err = nethttp.DefaultClient.Do(req) })
		if err != nil {
			// The address closes the connection while the client still writes.
			if name != "too long" {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		raw, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != x.status {
			t.Errorf("%s: %d, want %d: %.300s", name, resp.StatusCode, x.status, raw)
		}
		if grown > 64<<20 {
			t.Errorf("%s: the memory grew by %d MiB", name, grown>>20)
		}
		t.Logf("%-14s %d, %d MiB more", name, resp.StatusCode, grown>>20)
	}
	r.post(typeJSON, `{"id":1}`).expect(t, 200, "")
}

// TestArrowLies flips bytes of a stream: whatever it says, nothing but an answer
// comes of it.
func TestArrowLies(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Limits.Decompressed = 1 << 20 })
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
		{Name: "tags", Type: arrow.ListOf(arrow.BinaryTypes.String), Nullable: true}, {Name: "ok", Type: arrow.FixedWidthTypes.Boolean, Nullable: true},
	}, nil)
	whole := stream(t, schema, `[{"id":1,"text":"abc","tags":["x","y"],"ok":true},{"id":2,"text":null,"tags":null,"ok":null}]`)
	for i := range len(whole) {
		for _, v := range []byte{0, 1, 0x7f, 0x80, 0xff} {
			b := []byte(whole)
			b[i] = v
			rows, _, _ := r.ep.arrow.Rows(b, 1000, 1<<20)
			if rows != nil {
				rows.Release()
			}
		}
	}
}

func TestSlowAndManyClients(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.Limits.Connections, c.Limits.HeaderTimeout, c.Limits.BodyTimeout = 2, component.Duration(50*time.Millisecond), component.Duration(50*time.Millisecond)
	})
	addr := strings.TrimPrefix(r.url, "http://")
	dial := func(text string) (net.Conn, *bufio.Reader) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(c, text)
		return c, bufio.NewReader(c)
	}
	// One that never ends its headers is cut off, one that never ends its body is
	// told so.
	c, in := dial("POST /events HTTP/1.1\r\nHost: x\r\n")
	if raw, err := io.ReadAll(in); err != nil && len(raw) == 0 {
		t.Log("headers:", err)
	}
	c.Close()
	c, in = dial("POST /events HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	if resp, err := nethttp.ReadResponse(in, nil); err != nil || resp.StatusCode != 408 {
		t.Errorf("%v %v", resp, err)
	}
	c.Close()
	// Idle connections make room.
	for range 5 {
		c, in := dial("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		defer c.Close()
		if resp, err := nethttp.ReadResponse(in, nil); err != nil || resp.StatusCode != 200 {
			t.Fatalf("%v %v", resp, err)
		} else {
			io.Copy(io.Discard, resp.Body)
		}
	}
	if n := func() int {
		r.ep.listener.ln.mu.Lock()
		defer r.ep.listener.ln.mu.Unlock()
		return len(r.ep.listener.ln.open)
	}(); n > 2 {
		t.Errorf("%d connections are open", n)
	}
	big, _ := dial("POST /events HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n")
	defer big.Close()
	if resp, err := nethttp.ReadResponse(bufio.NewReader(big), nil); err == nil && resp.StatusCode != 431 {
		t.Errorf("%v", resp.Status)
	}
}

// TestOverTheMemory: requests whose bodies do not fit at a time are refused for now;
// one alone always fits.
func TestOverTheMemory(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Limits.Memory = 1 << 20 })
	r.post(typeNDJSON, strings.Repeat("{\"id\":1}\n", 200_000/2)).expect(t, 200, "")
	r.ep.used.Add(1 << 20)
	a := r.post(typeNDJSON, `{"id":1}`)
	a.expect(t, 429, "busy_memory")
	if a.Header.Get("Retry-After") != "1" {
		t.Error(a.Header)
	}
	r.ep.used.Add(-1 << 20)
	r.post(typeNDJSON, `{"id":1}`).expect(t, 200, "")
	if n := r.ep.used.Load(); n != 0 {
		t.Errorf("%d bytes are held, and no request is under way", n)
	}
}

// TestManyAtOnce: many clients with single records, all answered, each record once.
func TestManyAtOnce(t *testing.T) {
	r := newRig(t, nil)
	const clients, each = 16, 50
	var wg sync.WaitGroup
	var accepted atomic.Int64
	for c := range clients {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range each {
				req, _ := nethttp.NewRequest("POST", r.url+"/events", strings.NewReader(fmt.Sprintf(`{"id":%d}`, c*each+i)))
				req.Header.Set("Content-Type", typeJSON)
				resp, err := nethttp.DefaultClient.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode == 200 {
					accepted.Add(1)
				}
			}
		}()
	}
	wg.Wait()
	if accepted.Load() != clients*each {
		t.Fatalf("%d were accepted", accepted.Load())
	}
	seen := map[string]bool{}
	for _, row := range r.rows(clients * each) {
		seen[row] = true
	}
	if len(seen) != clients*each {
		t.Errorf("%d different rows", len(seen))
	}
}

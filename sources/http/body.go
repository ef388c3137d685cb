package http

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	nethttp "net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// buffers are what requests use again and again.
type buffers struct {
	body, plain, out []byte
	records          [][]byte
}

var pool = sync.Pool{New: func() any { return &buffers{} }}

// keptBuffer is the size up to which buffers are kept.
const keptBuffer = 1 << 20

func (b *buffers) giveBack() {
	if cap(b.body) > keptBuffer {
		b.body = nil
	}
	if cap(b.plain) > keptBuffer {
		b.plain = nil
	}
	if cap(b.out) > keptBuffer {
		b.out = nil
	}
	clear(b.records)
	if b.records = b.records[:0]; cap(b.records) > keptBuffer/24 {
		b.records = nil
	}
	pool.Put(b)
}

// encoding is how a body is compressed.
type encoding uint8

const (
	plain encoding = iota
	gzipped
	zstandard
)

func encodingOf(h nethttp.Header) (encoding, *problem) {
	v := h.Values("Content-Encoding")
	if len(v) == 0 {
		return plain, nil
	}
	switch text := strings.ToLower(strings.TrimSpace(strings.Join(v, ","))); text {
	case "", "identity":
		return plain, nil
	case "gzip", "x-gzip":
		return gzipped, nil
	case "zstd":
		return zstandard, nil
	}
	return plain, &problem{Status: 415, Reason: "unsupported_encoding", accept: "gzip, zstd", Detail: "Content-Encoding: expected gzip, zstd or none, got " + quoted(strings.Join(v, ","))}
}

// hold reserves n bytes of the memory for bodies.
func (r *request) hold(n int64) *problem {
	r.held += n
	if used := r.ep.used.Add(n); used > r.ep.memory && used > r.held {
		return &problem{Status: 429, Reason: "busy_memory", retryAfter: time.Second, Detail: fmt.Sprintf("the bodies of requests under way take %d bytes, the limit is %d (limits.memory); nothing was kept: send it again after the time in Retry-After", used-n, r.ep.memory)}
	}
	return nil
}

// read reads the body as it travels.
func (r *request) read(w nethttp.ResponseWriter) ([]byte, *problem) {
	limit := int64(r.ep.cfg.Limits.Body)
	if r.http.ContentLength > limit {
		return nil, tooLarge("the body takes %d bytes, the limit is %s (limits.body): send fewer records at once", r.http.ContentLength, r.ep.cfg.Limits.Body)
	}
	b, p := r.grow(r.bufs.body[:0], r.http.Body, limit, r.http.ContentLength, func(err error) *problem {
		switch {
		case err == nil:
			return tooLarge("the body takes more than %s (limits.body): send fewer records at once", r.ep.cfg.Limits.Body)
		case errors.Is(err, os.ErrDeadlineExceeded):
			return &problem{Status: 408, Reason: "too_slow", Detail: fmt.Sprintf("the body was not there after %s (limits.body_timeout)", r.ep.cfg.Limits.BodyTimeout)}
		}
		return &problem{Status: 400, Reason: "body_cut", Detail: "the body ended too early: " + err.Error()}
	})
	r.bufs.body = b
	if p == nil {
		// What is refused keeps its deadline: the server reads the rest of a body.
		_ = nethttp.NewResponseController(w).SetReadDeadline(time.Time{})
	}
	return b, p
}

// grow reads in to its end, at most limit bytes. size is how many are expected, -1
// if that is not known. wrong says what an error means; nil: too much.
func (r *request) grow(b []byte, in io.Reader, limit, size int64, wrong func(error) *problem) ([]byte, *problem) {
	if size < 0 {
		size = 32 << 10
	}
	held := size + 1
	if p := r.hold(held); p != nil {
		return b, p
	}
	if int64(cap(b)) < held {
		b = make([]byte, 0, held)
	}
	// What is longer than expected is read in parts, which are joined at the end:
	// growing by doubling would take three times as much.
	var full [][]byte
	total := int64(0) // bytes in full
	for {
		if len(b) == cap(b) {
			full, total = append(full, b), total+int64(len(b))
			b = make([]byte, 0, min(max(total, 64<<10), maxPart, limit+1-total))
		}
		if more := total + int64(len(b)) - held; more >= 0 {
			more = total + int64(cap(b)) - held
			if p := r.hold(more); p != nil {
				return b, p
			}
			held += more
		}
		n, err := in.Read(b[len(b):min(int64(cap(b)), limit+1-total)])
		b = b[:len(b)+n]
		switch {
		case total+int64(len(b)) > limit:
			return b, wrong(nil)
		case err == io.EOF:
			if len(full) == 0 {
				return b, nil
			}
			return slices.Concat(append(full, b)...), nil
		case err != nil:
			return b, wrong(err)
		}
	}
}

// maxPart is the size up to which parts of a body grow.
const maxPart = 4 << 20

func tooLarge(format string, args ...any) *problem {
	return &problem{Status: 413, Reason: "too_large", Detail: fmt.Sprintf(format, args...)}
}

// Decompressors are used again. One that reads zstd holds at most maxWindow of what
// it has read.
var (
	gzips = sync.Pool{New: func() any { return new(gzip.Reader) }}
	zstds = sync.Pool{New: func() any {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			panic(err) // The options are right.
		}
		return d
	}}
)

const maxWindow = 8 << 20

// decompress returns the body as it was before it was compressed.
func (r *request) decompress(e encoding, body []byte) ([]byte, *problem) {
	limit := r.ep.cfg.Limits.Decompressed
	bad := func(err error) *problem {
		return &problem{Status: 400, Reason: "body_damaged", Detail: "the body is not what Content-Encoding says: " + err.Error()}
	}
	wrong := func(err error) *problem {
		if err == nil {
			return tooLarge("the decompressed body takes more than %s (limits.decompressed): send fewer records at once", limit)
		}
		return bad(err)
	}
	var in io.Reader
	switch e {
	case plain:
		if int64(len(body)) > int64(limit) {
			return nil, wrong(nil)
		}
		return body, nil
	case gzipped:
		z := gzips.Get().(*gzip.Reader)
		defer gzips.Put(z)
		if err := z.Reset(bytes.NewReader(body)); err != nil {
			return nil, bad(err)
		}
		in = z
	case zstandard:
		z := zstds.Get().(*zstd.Decoder)
		defer func() {
			_ = z.Reset(nil) // It lets go of the body.
			zstds.Put(z)
		}()
		if err := z.Reset(bytes.NewReader(body)); err != nil {
			return nil, bad(err)
		}
		in = z
	}
	b, p := r.grow(r.bufs.plain[:0], in, int64(limit), min(4*int64(len(body)), int64(limit)), wrong)
	r.bufs.plain = b
	return b, p
}

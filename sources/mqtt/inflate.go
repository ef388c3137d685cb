package mqtt

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"frazil/dataflow"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// inflater undoes the compression of payloads, for one goroutine. What a payload
// becomes is bounded, however it was made.
type inflater struct {
	how   string
	limit int
	gz    *gzip.Reader
	zs    *zstd.Decoder
}

const (
	compressionGzip = "gzip"
	compressionZstd = "zstd"
	compressionAuto = "auto"
)

// zstdWindow bounds the memory that a frame may ask for.
const zstdWindow = 8 << 20

var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

func (z *inflater) inflate(payload []byte) ([]byte, *dataflow.Bad) {
	how := z.how
	if how == compressionAuto {
		switch {
		case bytes.HasPrefix(payload, gzipMagic):
			how = compressionGzip
		case bytes.HasPrefix(payload, zstdMagic):
			how = compressionZstd
		default:
			how = compressionNone
		}
	}
	if how == compressionNone {
		if len(payload) > z.limit {
			return nil, z.tooLarge(fmt.Sprintf("payload of %d bytes", len(payload)))
		}
		return payload, nil
	}
	r, err := z.reader(how, payload)
	if err != nil {
		return nil, &dataflow.Bad{Reason: "invalid_" + how, Detail: fmt.Sprintf("a payload of %d bytes: %v", len(payload), err)}
	}
	var out bytes.Buffer
	n, err := io.Copy(&out, io.LimitReader(r, int64(z.limit)+1))
	switch {
	case errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return nil, z.tooLarge(fmt.Sprintf("%s payload of %d bytes that wants a window over %d bytes", how, len(payload), zstdWindow))
	case err != nil:
		return nil, &dataflow.Bad{Reason: "invalid_" + how, Detail: fmt.Sprintf("a payload of %d bytes, after %d bytes of its content: %v", len(payload), n, err)}
	case n > int64(z.limit):
		return nil, z.tooLarge(fmt.Sprintf("%s payload of %d bytes, more when decompressed", how, len(payload)))
	}
	return out.Bytes(), nil
}

func (z *inflater) tooLarge(what string) *dataflow.Bad {
	return &dataflow.Bad{Reason: "too_large", Detail: fmt.Sprintf("%s, expected at most max_payload = %d bytes", what, z.limit)}
}

func (z *inflater) reader(how string, payload []byte) (io.Reader, error) {
	var err error
	if how == compressionGzip {
		if z.gz == nil {
			z.gz, err = gzip.NewReader(bytes.NewReader(payload))
			return z.gz, err
		}
		return z.gz, z.gz.Reset(bytes.NewReader(payload))
	}
	if z.zs == nil {
		z.zs, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderMaxMemory(256<<20))
		if err != nil {
			return nil, err
		}
	}
	return z.zs, z.zs.Reset(bytes.NewReader(payload))
}

func (z *inflater) close() {
	if z.zs != nil {
		z.zs.Close()
	}
}

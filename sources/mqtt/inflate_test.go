package mqtt

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

func gzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zstded(t testing.TB, b []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll(b, nil)
}

func TestInflate(t *testing.T) {
	text := []byte(`{"device":"d1"}`)
	for name, c := range map[string]struct {
		how     string
		payload []byte
		reason  string
	}{
		"none":          {compressionNone, text, ""},
		"gzip":          {compressionGzip, gzipped(t, text), ""},
		"zstd":          {compressionZstd, zstded(t, text), ""},
		"auto gzip":     {compressionAuto, gzipped(t, text), ""},
		"auto zstd":     {compressionAuto, zstded(t, text), ""},
		"auto plain":    {compressionAuto, text, ""},
		"no gzip":       {compressionGzip, text, "invalid_gzip"},
		"no zstd":       {compressionZstd, text, "invalid_zstd"},
		"cut off gzip":  {compressionGzip, gzipped(t, text)[:20], "invalid_gzip"},
		"cut off zstd":  {compressionZstd, zstded(t, text)[:12], "invalid_zstd"},
		"large":         {compressionNone, make([]byte, 1001), "too_large"},
		"large in gzip": {compressionGzip, gzipped(t, make([]byte, 1001)), "too_large"},
		"large in zstd": {compressionZstd, zstded(t, make([]byte, 1001)), "too_large"},
	} {
		z := &inflater{how: c.how, limit: 1000}
		for range 2 { // the second time with what the first one left
			got, bad := z.inflate(c.payload)
			switch {
			case c.reason == "" && (bad != nil || !bytes.Equal(got, text)):
				t.Errorf("%s: got %q, %v", name, got, bad)
			case c.reason != "" && (bad == nil || bad.Reason != c.reason || bad.Detail == ""):
				t.Errorf("%s: got %v, want %s", name, bad, c.reason)
			}
		}
		z.close()
	}
}

// A bomb is refused at its limit, whatever it would become.
func TestBombsAreBounded(t *testing.T) {
	zeros := make([]byte, 256<<20)
	bombs := map[string][]byte{compressionGzip: gzipped(t, zeros), compressionZstd: zstded(t, zeros)}
	zeros = nil
	runtime.GC()
	for how, bomb := range bombs {
		z := &inflater{how: how, limit: 4 << 20}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, bad := z.inflate(bomb)
		runtime.ReadMemStats(&after)
		if bad == nil || bad.Reason != "too_large" {
			t.Errorf("%s: %v, want too_large", how, bad)
		}
		if grown := int64(after.TotalAlloc - before.TotalAlloc); grown > 64<<20 {
			t.Errorf("%s: %d bytes were allocated for a bomb of %d", how, grown, len(bomb))
		}
		z.close()
	}
}

func FuzzInflate(f *testing.F) {
	f.Add(gzipped(f, []byte("text")))
	f.Add(zstded(f, []byte("text")))
	f.Add([]byte("text"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, how := range []string{compressionAuto, compressionGzip, compressionZstd} {
			z := &inflater{how: how, limit: 1 << 16}
			if got, bad := z.inflate(b); bad == nil && len(got) > 1<<16 {
				t.Fatalf("%d bytes came out", len(got))
			}
			z.close()
		}
	})
}

package ingest

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"testing"

	"frazil/dataflow"
	"frazil/state/wal"
)

func someBody() frameBody {
	return frameBody{
		schema: 0x0102030405060708,
		rows:   []byte("rows"),
		bads:   []badRecord{{at: 1, bad: dataflow.Bad{Reason: "r", Detail: "d"}, raw: []byte("raw")}},
		notes: []note{
			{key: wal.Key{0: 1, 15: 2}, digest: 3, at: 0, accepted: 2, rejected: []Rejection{{Index: 4, Reason: "r", Detail: "d"}}},
			{key: wal.Key{0: 5}, sequence: 300, digest: 6, at: 2, accepted: 1},
		},
	}
}

// The bytes of version 1 stay as they are.
func TestTheBodyIsWrittenAsItWas(t *testing.T) {
	const golden = "01" + "0807060504030201" +
		"01" + "01" + "0172" + "0164" + "03726177" +
		"02" +
		"01000000000000000000000000000002" + "00" + "0300000000000000" + "00" + "02" + "275b7b22696e646578223a342c22726561736f6e223a2272222c2264657461696c223a2264227d5d" +
		"05000000000000000000000000000000" + "ac02" + "0600000000000000" + "02" + "01" + "00" +
		"726f7773"
	b := someBody()
	out, err := b.encode(nil)
	must(t, err)
	out = append(out, b.rows...)
	if got := hex.EncodeToString(out); got != golden {
		t.Fatalf("body\n%s, want\n%s", got, golden)
	}
	back, err := decodeBody(out)
	must(t, err)
	if !reflect.DeepEqual(back, b) {
		t.Fatalf("read %+v, want %+v", back, b)
	}
}

func FuzzBody(f *testing.F) {
	b := someBody()
	out, err := b.encode(nil)
	must(f, err)
	f.Add(append(out, b.rows...))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := decodeBody(data)
		if err != nil {
			return
		}
		out, err := b.encode(nil)
		must(t, err)
		again, err := decodeBody(append(out, b.rows...))
		if err != nil || !bytes.Equal(again.rows, b.rows) || len(again.bads) != len(b.bads) || !reflect.DeepEqual(again.notes, b.notes) {
			t.Fatalf("read %+v, written and read again %+v, %v", b, again, err)
		}
	})
}

func TestWindowAgainstASet(t *testing.T) {
	var w window
	seen := map[uint64]bool{}
	for _, step := range []struct{ seq uint64 }{{1}, {3}, {2}, {1000}, {1100}, {77}, {76}, {5000}, {4999}, {3977}, {3976}, {5001}} {
		old := w.high >= windowSize && step.seq <= w.high-windowSize
		if got, want := w.seen(step.seq), seen[step.seq] || old; got != want {
			t.Fatalf("number %d is seen: %v, want %v", step.seq, got, want)
		}
		w.add(step.seq)
		seen[step.seq] = true
		back, ok := decodeWindow(w.encode())
		if !ok || back != w {
			t.Fatalf("window %+v, read back %+v", w, back)
		}
		for n := w.high; n > 0 && w.high-n < windowSize; n-- {
			if w.seen(n) != seen[n] {
				t.Fatalf("after %d: number %d is seen: %v, want %v", step.seq, n, w.seen(n), seen[n])
			}
		}
	}
}

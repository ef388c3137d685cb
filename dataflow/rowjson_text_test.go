package dataflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// TestTextsOfJSON compares with what writes JSON in the standard library, and with the texts
// of the libraries of decimals and uuids.
func TestTextsOfJSON(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 5))
	parts := []string{"a", "plain ", `"`, `\`, "\n", "\r", "\t", "\b", "\f", "\x00", "\x1f", "\x7f", "<&>", "ä", "日", "\U0001F600", "\u2028", "\u2029", "\u202a", "\xff", "\xc3", "\xed\xa0\x80", "\ufffd"}
	for range 20000 {
		var s strings.Builder
		for range rnd.IntN(6) {
			s.WriteString(parts[rnd.IntN(len(parts))])
		}
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(s.String()); err != nil {
			t.Fatal(err)
		}
		if got := string(appendText(nil, s.String())); got+"\n" != want.String() {
			t.Fatalf("%+q: got %s, want %s", s.String(), got, want.String())
		}
		d := decimal128.New(rnd.Int64N(5e18)>>rnd.IntN(64), rnd.Uint64()>>rnd.IntN(64))
		if rnd.IntN(2) == 0 {
			d = d.Negate()
		}
		if scale := rnd.Int32N(39); d.FitsInPrecision(38) {
			if got, want := string(appendDecimal(nil, d, scale)), d.ToString(scale); got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
		}
		var u [16]byte
		for i := range u {
			u[i] = byte(rnd.Uint32())
		}
		if got, want := string(appendUUID(nil, u)), fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:]); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
}

// TestRowsOfJSONNeedNoMemory: a value takes no memory but that of the text.
func TestRowsOfJSONNeedNoMemory(t *testing.T) {
	list := arrow.ListOf(TypeString)
	types := []arrow.DataType{
		TypeBool, TypeInt32, TypeInt64, TypeFloat32, TypeFloat64, TypeString, TypeBinary, &arrow.Decimal128Type{Precision: 20, Scale: 4},
		TypeDate, TypeTime, TypeTimestamp, TypeTimestampTZ, TypeUUID, TypeJSON, list,
		arrow.StructOf(arrow.Field{Name: "a \"name\"", Type: TypeString, Nullable: true}, arrow.Field{Name: "of", Type: list, Nullable: true}),
	}
	values := []string{
		"true", "1", "-7", "1.5", "1e300", `"it's \"quoted\"\n and long enough to need memory äöü"`, `"AAEC/w=="`, `"-12.5"`,
		`"2024-01-31"`, `"12:30:00.5"`, `"2024-01-31 12:30:00"`, `"2024-01-31 12:30:00Z"`, `"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`, `"{\"a\": 1}"`, `["a", null, "b\tc"]`,
		`{"a \"name\"": "x", "of": ["y"]}`,
	}
	buf := make([]byte, 0, 1024)
	for n, dt := range types {
		a, _, err := array.FromJSON(memory.DefaultAllocator, dt, strings.NewReader("["+values[n]+"]"))
		if err != nil {
			t.Fatalf("%s: %v", dt, err)
		}
		if got := testing.AllocsPerRun(10, func() { buf = AppendJSON(buf[:0], a, 0) }); got > 0 {
			t.Errorf("%s: %.0f allocations for %s", dt, got, buf)
		}
		a.Release()
	}
}

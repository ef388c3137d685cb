package codec

import (
	"fmt"
	"unicode/utf8"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// RawConfig makes one column of bytes of each payload.
type RawConfig struct {
	// Column to make, of type binary. Default: payload.
	Column string `yaml:"column"`
	// MaxRecord bounds the size of one payload. Default: 1MiB.
	MaxRecord component.Bytes `yaml:"max_record"`
}

// SetDefaults implements component.Defaulter.
func (c *RawConfig) SetDefaults() { *c = RawConfig{Column: "payload", MaxRecord: 1 << 20} }

// Check reports everything wrong with c, as component.Problems.
func (c *RawConfig) Check() error { return checkOne(c.Column, c.MaxRecord) }

// ArrowSchema returns the column.
func (c *RawConfig) ArrowSchema() (*arrow.Schema, error) {
	return arrow.NewSchema([]arrow.Field{{Name: c.Column, Type: dataflow.TypeBinary}}, nil), c.Check()
}

func (c *RawConfig) newDecoder(alloc memory.Allocator) (dataflow.Decoder, error) {
	schema, err := c.ArrowSchema()
	return &payloads{schema: schema, limit: int(c.MaxRecord), b: array.NewBinaryBuilder(allocator(alloc), arrow.BinaryTypes.Binary)}, err
}

// TextConfig makes one column of text of each payload.
type TextConfig struct {
	// Column to make, of type string. Default: line.
	Column string `yaml:"column"`
	// MaxRecord bounds the size of one payload. Default: 1MiB.
	MaxRecord component.Bytes `yaml:"max_record"`
}

// SetDefaults implements component.Defaulter.
func (c *TextConfig) SetDefaults() { *c = TextConfig{Column: "line", MaxRecord: 1 << 20} }

// Check reports everything wrong with c, as component.Problems.
func (c *TextConfig) Check() error { return checkOne(c.Column, c.MaxRecord) }

// ArrowSchema returns the column.
func (c *TextConfig) ArrowSchema() (*arrow.Schema, error) {
	return arrow.NewSchema([]arrow.Field{{Name: c.Column, Type: dataflow.TypeString}}, nil), c.Check()
}

func (c *TextConfig) newDecoder(alloc memory.Allocator) (dataflow.Decoder, error) {
	schema, err := c.ArrowSchema()
	return &payloads{schema: schema, limit: int(c.MaxRecord), text: array.NewStringBuilder(allocator(alloc))}, err
}

func allocator(a memory.Allocator) memory.Allocator {
	if a == nil {
		return memory.DefaultAllocator
	}
	return a
}

func checkOne(column string, limit component.Bytes) error {
	var ps component.Problems
	switch {
	case column == "":
		ps = append(ps, component.Problem{Path: "column", Msg: "the column has no name"})
	case dataflow.IsSystem(column):
		ps = append(ps, component.Problem{Path: "column", Msg: fmt.Sprintf("column %q: names beginning with %q are reserved", column, dataflow.SysPrefix)})
	}
	if limit < 1 || limit > maxPayload {
		ps = append(ps, component.Problem{Path: "max_record", Msg: fmt.Sprintf("%s is out of range: expected 1B to %s", limit, component.Bytes(maxPayload))})
	}
	if len(ps) == 0 {
		return nil
	}
	return ps
}

// payloads decodes payloads as they are. One goroutine uses it.
type payloads struct {
	schema *arrow.Schema
	limit  int
	b      *array.BinaryBuilder // of raw
	text   *array.StringBuilder // of text; nil: raw
	bytes  int
}

// Schema implements dataflow.Decoder.
func (d *payloads) Schema() *arrow.Schema { return d.schema }

// MaxRecord is as for JSON.
func (d *payloads) MaxRecord() int { return d.limit }

// Append implements dataflow.Decoder.
func (d *payloads) Append(payload []byte) *dataflow.Bad {
	if len(payload) > d.limit {
		return &dataflow.Bad{Reason: ReasonTooLarge, Detail: fmt.Sprintf("record of %d bytes, expected at most max_record = %s", len(payload), component.Bytes(d.limit))}
	}
	if d.text == nil {
		d.b.Append(payload)
	} else if at := invalidUTF8(payload); at >= 0 {
		return &dataflow.Bad{Reason: ReasonInvalidUTF8, Detail: fmt.Sprintf("byte %d: expected UTF-8, got 0x%02x", at, payload[at])}
	} else {
		d.text.BinaryBuilder.Append(payload)
	}
	d.bytes += len(payload) + 5
	return nil
}

// invalidUTF8 is where the first byte stands that begins no character, or -1.
func invalidUTF8(b []byte) int {
	if utf8.Valid(b) {
		return -1
	}
	at := 0
	for {
		r, n := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && n == 1 {
			return at
		}
		at += n
	}
}

// Rows implements dataflow.Decoder.
func (d *payloads) Rows() int {
	if d.text != nil {
		return d.text.Len()
	}
	return d.b.Len()
}

// Bytes implements dataflow.Decoder.
func (d *payloads) Bytes() int { return d.bytes }

// Flush implements dataflow.Decoder.
func (d *payloads) Flush() []arrow.Array {
	d.bytes = 0
	if d.text != nil {
		return []arrow.Array{d.text.NewArray()}
	}
	return []arrow.Array{d.b.NewArray()}
}

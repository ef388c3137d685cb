package codec

import (
	"fmt"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// AvroConfig decodes values in Avro's binary form. The columns are the fields of the
// schema's record: int, long, float, double, boolean, string, bytes as they are, enum
// as string, fixed as binary, record as struct, array as list, map as list<struct{key:
// string, value: T}>, [null, T] as a T that may be null, decimal, date, time-*,
// timestamp-*, local-timestamp-* and uuid as what they mean. Payloads of other
// versions are read into them as Avro's schema resolution says.
type AvroConfig struct {
	SchemaConfig `yaml:",inline"`
	// Column is the name of the one column of a schema that is no record. Default:
	// value.
	Column string `yaml:"column"`
	// MaxRecord bounds the size of one payload. Default: 1MiB.
	MaxRecord component.Bytes `yaml:"max_record"`
}

// SetDefaults implements component.Defaulter.
func (c *AvroConfig) SetDefaults() { *c = AvroConfig{Column: "value", MaxRecord: 1 << 20} }

// Check reports everything wrong with c, as component.Problems.
func (c *AvroConfig) Check() error { return checkSchemaFormat(&c.SchemaConfig, c.Column, c.MaxRecord) }

func checkSchemaFormat(c *SchemaConfig, column string, limit component.Bytes) error {
	ps := c.check()
	if err := checkOne(column, limit); err != nil {
		ps = append(ps, component.AsProblems(err)...)
	}
	if len(ps) == 0 {
		return nil
	}
	return ps
}

// reader is the schema of the columns, and they.
func (c *AvroConfig) reader() (*avroType, []schemaField, error) {
	s, err := c.schema()
	if err != nil {
		return nil, nil, err
	}
	t, err := parseAvro(s)
	if err != nil {
		return nil, nil, component.Badf(c.from(), "the schema: %v", err)
	}
	fields, err := t.columns(c.Column)
	if err == nil && len(fields) == 0 {
		err = fmt.Errorf("it has no fields")
	}
	if err != nil {
		return nil, nil, component.Badf(c.from(), "the schema: %v", err)
	}
	return t, fields, nil
}

// ArrowSchema returns the columns.
func (c *AvroConfig) ArrowSchema() (*arrow.Schema, error) {
	_, fields, err := c.reader()
	if err != nil {
		return nil, err
	}
	return arrowSchema(fields), nil
}

func (c *AvroConfig) newDecoder(alloc memory.Allocator) (dataflow.Decoder, error) {
	t, fields, err := c.reader()
	if err != nil {
		return nil, err
	}
	rows, err := newRowTable(fields, alloc)
	if err != nil {
		return nil, err
	}
	var r avroReader
	return newBySchema(&c.SchemaConfig, c.MaxRecord, rows, func(s *dataflow.RegisteredSchema) (program, error) {
		w, err := parseAvro(s)
		if err != nil {
			return nil, err
		}
		op, err := resolveAvro(w, t, rows.cols)
		if err != nil {
			return nil, err
		}
		return func(payload []byte) *dataflow.Bad {
			if bad := r.read(op, payload, rows.begin()); bad != nil {
				return bad
			}
			rows.commit(len(payload) + roomOf(len(payload)) - r.room)
			return nil
		}, nil
	})
}

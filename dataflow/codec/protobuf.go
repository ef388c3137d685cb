package codec

import (
	"encoding/binary"
	"fmt"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// ProtobufConfig decodes messages of Protobuf. The columns are the fields of the
// message: bool, int32, int64, float, double, string and bytes as they are, uint32 as
// int64, uint64 as decimal(20,0), enum as the name of its value, message as struct,
// repeated as list, map as list<struct{key, value}>, google.protobuf.Timestamp as
// timestamptz, wrappers as their value. Fields that can be absent are null then;
// others have their zero. Payloads of other versions are read by the numbers of their
// fields.
type ProtobufConfig struct {
	SchemaConfig `yaml:",inline"`
	// Message is the full name of the message, as shop.Order. Default: the first of the
	// schema.
	Message string `yaml:"message"`
	// MaxRecord bounds the size of one payload. Default: 1MiB.
	MaxRecord component.Bytes `yaml:"max_record"`
}

// SetDefaults implements component.Defaulter.
func (c *ProtobufConfig) SetDefaults() { *c = ProtobufConfig{MaxRecord: 1 << 20} }

// Check reports everything wrong with c, as component.Problems.
func (c *ProtobufConfig) Check() error {
	return checkSchemaFormat(&c.SchemaConfig, "value", c.MaxRecord)
}

func (c *ProtobufConfig) reader() (protoreflect.MessageDescriptor, []schemaField, error) {
	s, err := c.schema()
	if err != nil {
		return nil, nil, err
	}
	file, err := parseProto(s)
	if err != nil {
		return nil, nil, component.Badf(c.from(), "the schema: %v", err)
	}
	m, err := messageOf(file, c.Message)
	if err != nil {
		return nil, nil, component.Badf("message", "the schema: %v", err)
	}
	fields, err := protoColumns(m)
	if err != nil {
		return nil, nil, component.Badf(c.from(), "the schema: %v", err)
	}
	return m, fields, nil
}

// ArrowSchema returns the columns.
func (c *ProtobufConfig) ArrowSchema() (*arrow.Schema, error) {
	_, fields, err := c.reader()
	if err != nil {
		return nil, err
	}
	return arrowSchema(fields), nil
}

func (c *ProtobufConfig) newDecoder(alloc memory.Allocator) (dataflow.Decoder, error) {
	m, fields, err := c.reader()
	if err != nil {
		return nil, err
	}
	rows, err := newRowTable(fields, alloc)
	if err != nil {
		return nil, err
	}
	var r protoReader
	msg := newProtoMsg(m, rows.cols)
	read := func(payload []byte) *dataflow.Bad {
		if bad := r.read(msg, payload, rows.begin()); bad != nil {
			return bad
		}
		rows.commit(len(payload) + roomOf(len(payload)) - r.room)
		return nil
	}
	return newBySchema(&c.SchemaConfig, c.MaxRecord, rows, func(s *dataflow.RegisteredSchema) (program, error) {
		if c.registry == nil {
			return read, nil
		}
		file, err := parseProto(s)
		if err != nil {
			return nil, err
		}
		return func(payload []byte) *dataflow.Bad {
			path, n := protoIndexes(payload)
			if n == 0 {
				return &dataflow.Bad{Reason: ReasonNotFramed, Detail: "the place of the message in its schema, behind the id, is cut off or broken"}
			}
			if got := messageAt(file, path); got == nil || got.FullName() != m.FullName() {
				return &dataflow.Bad{Reason: ReasonIncompatibleSchema, Detail: fmt.Sprintf("expected a message %s, got %s", m.FullName(), nameAt(got, path))}
			}
			return read(payload[n:])
		}, nil
	})
}

func nameAt(m protoreflect.MessageDescriptor, path []int) string {
	if m == nil {
		return fmt.Sprintf("one at %v, where the schema has none", path)
	}
	return string(m.FullName())
}

// firstMessage is the place that most heads name.
var firstMessage = []int{0}

// maxIndexes bounds how deep a message may stand in others.
const maxIndexes = 64

// protoIndexes reads the place of a message at the beginning of b, and how long it is;
// 0: there is none.
func protoIndexes(b []byte) (path []int, n int) {
	if len(b) > 0 && b[0] == 0 {
		return firstMessage, 1
	}
	count, n := binary.Varint(b)
	if n <= 0 || count < 1 || count > maxIndexes {
		return nil, 0
	}
	for range count {
		i, m := binary.Varint(b[n:])
		if m <= 0 || i < 0 || i > 1<<20 {
			return nil, 0
		}
		path, n = append(path, int(i)), n+m
	}
	return path, n
}

// appendIndexes is what protoIndexes reads.
func appendIndexes(dst []byte, path []int) []byte {
	if len(path) == 1 && path[0] == 0 {
		return append(dst, 0)
	}
	dst = binary.AppendVarint(dst, int64(len(path)))
	for _, i := range path {
		dst = binary.AppendVarint(dst, int64(i))
	}
	return dst
}

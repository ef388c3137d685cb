package codec

import (
	"context"
	"fmt"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// protoFile is the name under which a schema is compiled; references have theirs.
const protoFile = "frazil_schema.proto"

// parseProto reads a schema and those that it imports.
func parseProto(s *dataflow.RegisteredSchema) (protoreflect.FileDescriptor, error) {
	if s.Kind != dataflow.SchemaProtobuf {
		return nil, fmt.Errorf("expected a schema of Protobuf, got one of %s", s.Kind)
	}
	texts := map[string]string{protoFile: s.Text}
	for _, ref := range s.References {
		texts[ref.Name] = ref.Text
	}
	c := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(texts)}),
		MaxParallelism: 1,
	}
	files, err := c.Compile(context.Background(), protoFile)
	if err != nil {
		return nil, err
	}
	return files[0], nil
}

// messageOf finds a message by its full name; "" is the first of the file.
func messageOf(f protoreflect.FileDescriptor, name string) (protoreflect.MessageDescriptor, error) {
	if name == "" {
		if f.Messages().Len() == 0 {
			return nil, fmt.Errorf("it has no message")
		}
		return f.Messages().Get(0), nil
	}
	var known []string
	var found protoreflect.MessageDescriptor
	var walk func(ms protoreflect.MessageDescriptors)
	walk = func(ms protoreflect.MessageDescriptors) {
		for i := range ms.Len() {
			m := ms.Get(i)
			if m.IsMapEntry() {
				continue
			}
			known = append(known, string(m.FullName()))
			if string(m.FullName()) == name {
				found = m
			}
			walk(m.Messages())
		}
	}
	walk(f.Messages())
	if found == nil {
		return nil, fmt.Errorf("it has no message %q; it has %v", name, known)
	}
	return found, nil
}

// protoPath is the place of a message in its file, by which the head of a payload names
// it.
func protoPath(m protoreflect.MessageDescriptor) []int {
	var path []int
	for d := protoreflect.Descriptor(m); ; d = d.Parent() {
		if _, ok := d.(protoreflect.MessageDescriptor); !ok {
			break
		}
		path = append([]int{d.Index()}, path...)
	}
	return path
}

// messageAt finds a message by its place.
func messageAt(f protoreflect.FileDescriptor, path []int) protoreflect.MessageDescriptor {
	ms := f.Messages()
	var m protoreflect.MessageDescriptor
	for _, i := range path {
		if i < 0 || i >= ms.Len() {
			return nil
		}
		m = ms.Get(i)
		ms = m.Messages()
	}
	return m
}

// Messages that mean one value.
const (
	protoTimestamp = "google.protobuf.Timestamp"
	protoWrappers  = "google.protobuf."
)

var wrapperNames = map[protoreflect.FullName]bool{
	protoWrappers + "DoubleValue": true, protoWrappers + "FloatValue": true, protoWrappers + "Int64Value": true, protoWrappers + "UInt64Value": true,
	protoWrappers + "Int32Value": true, protoWrappers + "UInt32Value": true, protoWrappers + "BoolValue": true, protoWrappers + "StringValue": true, protoWrappers + "BytesValue": true,
}

// protoColumns are the columns of a message.
func protoColumns(m protoreflect.MessageDescriptor) ([]schemaField, error) {
	var out []schemaField
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		spec, err := protoSpec(f, []protoreflect.MessageDescriptor{m})
		if err != nil {
			return nil, err
		}
		out = append(out, schemaField{FieldSpec: dataflow.FieldSpec{Name: string(f.Name()), Spec: spec}, nullable: f.HasPresence()})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("message %s has no fields", m.FullName())
	}
	return out, checkNames(out)
}

// protoSpec is the type of a field; above are the messages it stands in.
func protoSpec(f protoreflect.FieldDescriptor, above []protoreflect.MessageDescriptor) (dataflow.TypeSpec, error) {
	if f.IsMap() {
		value, err := protoValue(f.MapValue(), above)
		if err != nil {
			return value, err
		}
		key, err := protoValue(f.MapKey(), above)
		return listOf(structOf([]dataflow.FieldSpec{{Name: "key", Spec: key}, {Name: "value", Spec: value}})), err
	}
	value, err := protoValue(f, above)
	if err == nil && f.IsList() {
		return listOf(value), nil
	}
	return value, err
}

// uint64Type holds what 64 bits without a sign can be.
var uint64Type arrow.DataType = &arrow.Decimal128Type{Precision: 20}

func protoValue(f protoreflect.FieldDescriptor, above []protoreflect.MessageDescriptor) (dataflow.TypeSpec, error) {
	plain := func(t arrow.DataType) (dataflow.TypeSpec, error) { return dataflow.TypeSpec{Type: t}, nil }
	switch f.Kind() {
	case protoreflect.BoolKind:
		return plain(dataflow.TypeBool)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return plain(dataflow.TypeInt32)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return plain(dataflow.TypeInt64)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return plain(uint64Type)
	case protoreflect.FloatKind:
		return plain(dataflow.TypeFloat32)
	case protoreflect.DoubleKind:
		return plain(dataflow.TypeFloat64)
	case protoreflect.StringKind, protoreflect.EnumKind:
		return plain(dataflow.TypeString)
	case protoreflect.BytesKind:
		return plain(dataflow.TypeBinary)
	case protoreflect.MessageKind:
		return protoMessage(f, above)
	}
	return dataflow.TypeSpec{}, fmt.Errorf("field %q is a %s, which has no column: leave it out of the schema", f.FullName(), f.Kind())
}

func protoMessage(f protoreflect.FieldDescriptor, above []protoreflect.MessageDescriptor) (dataflow.TypeSpec, error) {
	m := f.Message()
	switch {
	case m.FullName() == protoTimestamp:
		return dataflow.TypeSpec{Type: dataflow.TypeTimestampTZ}, nil
	case wrapperNames[m.FullName()]:
		return protoValue(m.Fields().Get(0), above)
	case m.Fields().Len() == 0:
		return dataflow.TypeSpec{}, fmt.Errorf("field %q: message %s has no fields: write a schema (schema or schema_file) without it", f.FullName(), m.FullName())
	}
	for _, a := range above {
		if a.FullName() == m.FullName() {
			return dataflow.TypeSpec{}, fmt.Errorf("field %q: message %s contains itself, and a column cannot: write a schema (schema or schema_file) without the field", f.FullName(), m.FullName())
		}
	}
	above = append(above[:len(above):len(above)], m)
	var fields []dataflow.FieldSpec
	for i := range m.Fields().Len() {
		in := m.Fields().Get(i)
		spec, err := protoSpec(in, above)
		if err != nil {
			return spec, err
		}
		fields = append(fields, dataflow.FieldSpec{Name: string(in.Name()), Spec: spec})
	}
	return structOf(fields), nil
}

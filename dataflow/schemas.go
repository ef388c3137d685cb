package dataflow

import (
	"context"
	"errors"
)

// ErrNoSchema: a registry answers, and has not what was asked for.
var ErrNoSchema = errors.New("no such schema")

// ErrIncompatibleSchema: a registry refuses a schema for what its subject holds.
var ErrIncompatibleSchema = errors.New("incompatible schema")

// Kinds of schemas, as registries spell them.
const (
	SchemaAvro     = "AVRO"
	SchemaProtobuf = "PROTOBUF"
	SchemaJSON     = "JSON"
)

// RegisteredSchema is a schema as a registry holds it. It is not changed once it was
// handed out.
type RegisteredSchema struct {
	// ID is 0 for one that is not registered yet; Version counts from 1 within its
	// subject, 0 where that was not asked for.
	ID, Version int
	// Kind is SchemaAvro, SchemaProtobuf or SchemaJSON.
	Kind string
	Text string
	// References are the schemas that Text refers to, and those that they refer to,
	// each once and behind those that it refers to itself.
	References []SchemaReference
}

// SchemaReference is a schema that another one refers to.
type SchemaReference struct {
	// Name is how the other one calls it: a full name of Avro, the path of an import,
	// a $ref.
	Name    string
	Subject string
	Version int
	Text    string
}

// SchemaRegistry is a server outside that gives numbers to schemas. Safe for concurrent
// use. An error is ErrNoSchema, permanent (a login that is refused), or one that time
// heals, marked by Unavailable.
type SchemaRegistry interface {
	// Known returns the schema of an id if it was fetched; nothing is asked. known with
	// nil: the registry has said lately that it has none.
	Known(id int) (s *RegisteredSchema, known bool)
	// Fetch asks for an id, so that Known knows it.
	Fetch(ctx context.Context, id int) error
	// Subject returns a version of a subject; 0: the latest.
	Subject(ctx context.Context, subject string, version int) (*RegisteredSchema, error)
	// Register returns the id of a schema under a subject. What is not there is
	// registered; refused, the error is permanent, wraps ErrIncompatibleSchema and says
	// what is incompatible.
	Register(ctx context.Context, subject string, s RegisteredSchema) (id int, err error)
	// Find returns the id of a schema that is registered under a subject.
	Find(ctx context.Context, subject string, s RegisteredSchema) (id int, err error)
}

// SchemaRegistries opens registries by the names of their connections.
type SchemaRegistries func(connection string) (SchemaRegistry, error)

// WaitingDecoder is an optional ability of a Decoder that needs something from outside
// to read some payloads: a schema of a registry.
type WaitingDecoder interface {
	Decoder
	// Missing returns nil if Append may be called with the payload. Otherwise it
	// returns what gets what is missing; it may run in any goroutine, and fails where
	// that cannot be reached now. What is not there at all is not missing: Append calls
	// the payload bad.
	Missing(payload []byte) (fetch func(ctx context.Context) error)
}

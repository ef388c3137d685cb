package codec

import (
	"context"
	"encoding/binary"
	"fmt"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
)

// The head of a payload in the format of schema registries.
const (
	frameMagic = 0
	frameSize  = 5
)

// program reads a payload of one schema and appends its row.
type program func(payload []byte) *dataflow.Bad

// gathered is what gathers the rows of programs.
type gathered interface {
	Schema() *arrow.Schema
	Rows() int
	Bytes() int
	Flush() []arrow.Array
	Release()
}

// bySchema decodes payloads each by the program of its schema: the one of its id, or
// the only one where payloads have no head. One goroutine uses it.
type bySchema struct {
	gathered
	limit int
	only  program
	// registry is nil where payloads have no head.
	registry dataflow.SchemaRegistry
	compile  func(s *dataflow.RegisteredSchema) (program, error)
	programs map[int]program
	// last is the program of lastID: most payloads have the schema of the one before.
	last   program
	lastID int
}

// newBySchema makes a decoder of a bound config. compile makes the program of a
// writer's schema.
func newBySchema(c *SchemaConfig, limit component.Bytes, rows gathered, compile func(s *dataflow.RegisteredSchema) (program, error)) (dataflow.Decoder, error) {
	d := &bySchema{gathered: rows, limit: int(limit), registry: c.registry, compile: compile, programs: map[int]program{}}
	if c.registry != nil {
		return &waiting{d}, nil
	}
	var err error
	d.only, err = compile(c.bound)
	return d, err
}

// MaxRecord is as for JSON.
func (d *bySchema) MaxRecord() int { return d.limit }

// Extra implements dataflow.ExtraCounter.
func (d *bySchema) Extra() map[string]int64 {
	if c, ok := d.gathered.(dataflow.ExtraCounter); ok {
		return c.Extra()
	}
	return nil
}

// Append implements dataflow.Decoder.
func (d *bySchema) Append(payload []byte) *dataflow.Bad {
	if len(payload) > d.limit {
		return &dataflow.Bad{Reason: ReasonTooLarge, Detail: fmt.Sprintf("record of %d bytes, expected at most max_record = %s", len(payload), component.Bytes(d.limit))}
	}
	if d.registry == nil {
		return d.only(payload)
	}
	id, bad := frameID(payload)
	if bad != nil {
		return bad
	}
	if d.last == nil || id != d.lastID {
		p, bad := d.program(id)
		if bad != nil {
			return bad
		}
		d.last, d.lastID = p, id
	}
	return d.last(payload[frameSize:])
}

func frameID(payload []byte) (int, *dataflow.Bad) {
	if len(payload) < frameSize || payload[0] != frameMagic {
		return 0, &dataflow.Bad{Reason: ReasonNotFramed, Detail: fmt.Sprintf("expected a zero and the id of a schema in four bytes in front, got %s", excerpt(payload[:min(len(payload), 2*frameSize)]))}
	}
	return int(binary.BigEndian.Uint32(payload[1:])), nil
}

// program is that of an id. Who calls Append without asking Missing waits here.
func (d *bySchema) program(id int) (program, *dataflow.Bad) {
	if p := d.programs[id]; p != nil {
		return p, nil
	}
	s, known := d.registry.Known(id)
	if !known {
		ctx, cancel := context.WithTimeout(context.Background(), bindTimeout)
		defer cancel()
		if err := d.registry.Fetch(ctx, id); err != nil {
			return nil, &dataflow.Bad{Reason: ReasonUnknownSchema, Detail: fmt.Sprintf("schema %d cannot be fetched now: %v", id, err)}
		}
		s, _ = d.registry.Known(id)
	}
	if s == nil {
		return nil, &dataflow.Bad{Reason: ReasonUnknownSchema, Detail: fmt.Sprintf("the registry has no schema %d", id)}
	}
	p, err := d.compile(s)
	if err != nil {
		detail := fmt.Sprintf("schema %d: %v", id, err)
		p = func([]byte) *dataflow.Bad {
			return &dataflow.Bad{Reason: ReasonIncompatibleSchema, Detail: detail}
		}
	}
	d.programs[id] = p
	return p, nil
}

// waiting is a decoder of payloads with heads.
type waiting struct{ *bySchema }

// Missing implements dataflow.WaitingDecoder.
func (d *waiting) Missing(payload []byte) func(context.Context) error {
	if len(payload) > d.limit {
		return nil
	}
	id, bad := frameID(payload)
	if bad != nil || d.last != nil && id == d.lastID || d.programs[id] != nil {
		return nil
	}
	if _, known := d.registry.Known(id); known {
		return nil
	}
	registry := d.registry
	return func(ctx context.Context) error { return registry.Fetch(ctx, id) }
}

var _ dataflow.WaitingDecoder = (*waiting)(nil)

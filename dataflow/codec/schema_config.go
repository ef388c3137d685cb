package codec

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"frazil/dataflow"
	"frazil/dataflow/component"
)

// SchemaConfig says where the schema of the columns comes from.
type SchemaConfig struct {
	// Registry names a connection of the kind schema_registry. Payloads then begin with
	// the head of its format (a zero, the id of the schema in four bytes), and each is
	// read with the schema that it was written with. Default: none; payloads have no
	// head, and all are of the one schema.
	Registry string `yaml:"registry"`
	// Subject of the registry whose schema says what the columns are, as orders-value.
	// It is asked for when the file is loaded. Default: none; the schema is in the file.
	Subject string `yaml:"subject"`
	// Version of the subject. With a number the columns stay what they are when others
	// register more versions. Default: the latest.
	Version int `yaml:"version"`
	// Schema is the text of the schema. Default: none.
	Schema string `yaml:"schema"`
	// SchemaFile is a file with the schema, relative to the pipeline file. Default:
	// none.
	SchemaFile string `yaml:"schema_file"`

	bound    *dataflow.RegisteredSchema
	registry dataflow.SchemaRegistry // nil: payloads have no head
}

// check finds what is wrong with the settings by themselves.
func (c *SchemaConfig) check() component.Problems {
	var ps component.Problems
	add := func(path, format string, args ...any) {
		ps = append(ps, component.Problem{Path: path, Msg: fmt.Sprintf(format, args...)})
	}
	given := 0
	for _, set := range []bool{c.Subject != "", c.Schema != "", c.SchemaFile != ""} {
		if set {
			given++
		}
	}
	switch {
	case given == 0 && c.Registry != "":
		add("", "what the columns are is not said: write subject: SUBJECT of the registry, or schema_file: FILE")
	case given == 0:
		add("", "what the columns are is not said: write schema_file: FILE, or registry: CONNECTION and subject: SUBJECT")
	case given > 1:
		add("", "expected one of subject, schema and schema_file")
	}
	if c.Subject != "" && c.Registry == "" {
		add("subject", "a subject is one of a registry: write registry: CONNECTION beside it")
	}
	if c.Version != 0 && c.Subject == "" {
		add("version", "a version is one of a subject: write subject beside it")
	}
	if c.Version < 0 {
		add("version", "%d: expected 1 or more; leave it out for the latest", c.Version)
	}
	return ps
}

// bindTimeout bounds what is asked of a registry while a file is loaded.
const bindTimeout = 10 * time.Second

func (c *SchemaConfig) bind(dir, kind string, open dataflow.SchemaRegistries) error {
	c.bound, c.registry = nil, nil
	if c.Registry != "" {
		if open == nil {
			return component.Badf("registry", "no registry can be asked here: write schema_file, and leave registry out")
		}
		var err error
		if c.registry, err = open(c.Registry); err != nil {
			return component.Badf("registry", "%v", err)
		}
	}
	switch {
	case c.Subject != "":
		ctx, cancel := context.WithTimeout(context.Background(), bindTimeout)
		defer cancel()
		s, err := c.registry.Subject(ctx, c.Subject, c.Version)
		if err != nil {
			return component.Badf("subject", "the columns are those of a schema in the registry: %v. With schema_file no registry is asked for them", err)
		}
		if s.Kind != kind {
			return component.Badf("subject", "subject %q holds a schema of the kind %s, and this format is for %s", c.Subject, s.Kind, kind)
		}
		c.bound = s
	case c.SchemaFile != "":
		path := c.SchemaFile
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return component.Badf("schema_file", "read the schema: %v", err)
		}
		c.bound = &dataflow.RegisteredSchema{Kind: kind, Text: string(b)}
	default:
		c.bound = &dataflow.RegisteredSchema{Kind: kind, Text: c.Schema}
	}
	return nil
}

// from is the key that the schema stands under.
func (c *SchemaConfig) from() string {
	switch {
	case c.Subject != "":
		return "subject"
	case c.SchemaFile != "":
		return "schema_file"
	}
	return "schema"
}

// schema is the one that Bind got.
func (c *SchemaConfig) schema() (*dataflow.RegisteredSchema, error) {
	if c.bound == nil {
		return nil, component.Badf("", "the schema is not read yet")
	}
	return c.bound, nil
}

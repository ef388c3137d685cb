package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// JSONSchemaConfig decodes JSON documents whose columns are the properties of a JSON
// Schema: integer as int64, number as float64, string, boolean, of format date-time as
// timestamptz, date and uuid as what they mean, object with properties as struct, array
// as list, and what may be of several types as json. A document that the schema that it
// was written with does not allow is bad (schema_violation).
type JSONSchemaConfig struct {
	SchemaConfig `yaml:",inline"`
	// Validate: false leaves out the check of each document by the whole schema; the
	// types of the columns and what is required are checked all the same. The check is
	// nearly all of the cost of this format; it is left out by itself where it could find
	// no more than they. Default: true.
	Validate bool `yaml:"validate"`
	// Extra is as for json. Default: ignore.
	Extra string `yaml:"extra" oneof:"ignore,bad"`
	// Depth is as for json. Default: 64.
	Depth int `yaml:"depth"`
	// MaxRecord bounds the size of one document. Default: 1MiB.
	MaxRecord component.Bytes `yaml:"max_record"`
}

// SetDefaults implements component.Defaulter.
func (c *JSONSchemaConfig) SetDefaults() {
	def := DefaultJSONConfig()
	*c = JSONSchemaConfig{Validate: true, Extra: def.Extra, Depth: def.Depth, MaxRecord: def.MaxRecord}
}

// Check reports everything wrong with c, as component.Problems.
func (c *JSONSchemaConfig) Check() error {
	ps := c.SchemaConfig.check()
	ps = append(ps, component.AsProblems(JSONConfig{Whole: "x", Extra: c.Extra, Depth: c.Depth, MaxRecord: c.MaxRecord}.Check())...)
	if len(ps) == 0 {
		return nil
	}
	return ps
}

// columns is the config of the decoder of the documents.
func (c *JSONSchemaConfig) columns() (JSONConfig, error) {
	out := JSONConfig{Extra: c.Extra, Depth: c.Depth, MaxRecord: c.MaxRecord}
	s, err := c.schema()
	if err != nil {
		return out, err
	}
	if err = jsonColumns(s, &out); err == nil {
		err = out.Check()
	}
	if err != nil {
		return out, component.Badf(c.from(), "the schema: %v", err)
	}
	return out, nil
}

// ArrowSchema returns the columns.
func (c *JSONSchemaConfig) ArrowSchema() (*arrow.Schema, error) {
	cfg, err := c.columns()
	if err != nil {
		return nil, err
	}
	return cfg.ArrowSchema()
}

func (c *JSONSchemaConfig) newDecoder(alloc memory.Allocator) (dataflow.Decoder, error) {
	cfg, err := c.columns()
	if err != nil {
		return nil, err
	}
	dec, err := NewJSON(cfg, alloc)
	if err != nil {
		return nil, err
	}
	rows := dec.(*JSON)
	return newBySchema(&c.SchemaConfig, c.MaxRecord, rows, func(s *dataflow.RegisteredSchema) (program, error) {
		if !c.Validate || s.Text == c.bound.Text && len(s.References) == 0 && enforced(s.Text, cfg) {
			return rows.Append, nil
		}
		v, err := compileJSONSchema(s)
		if err != nil {
			return nil, err
		}
		return func(payload []byte) *dataflow.Bad { return appendValid(rows, v, payload) }, nil
	})
}

// appendValid appends a document that the schema allows.
func appendValid(rows *JSON, v *jsonschema.Schema, payload []byte) *dataflow.Bad {
	// What is no JSON is told by the decoder, in its words.
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(payload))
	if err != nil {
		return rows.Append(payload)
	}
	if err := v.Validate(doc); err != nil {
		return &dataflow.Bad{Reason: ReasonSchemaViolation, Detail: violation(err)}
	}
	return rows.Append(payload)
}

// violation says what the first failure is and where.
func violation(err error) string {
	var v *jsonschema.ValidationError
	if !errors.As(err, &v) {
		return err.Error()
	}
	for len(v.Causes) > 0 {
		v = v.Causes[0]
	}
	text := v.Error()
	if _, rest, ok := strings.Cut(text, "\n- at "); ok {
		text = "at " + rest
	}
	return text
}

const schemaURL = "frazil:///schema.json"

func compileJSONSchema(s *dataflow.RegisteredSchema) (*jsonschema.Schema, error) {
	if s.Kind != dataflow.SchemaJSON {
		return nil, fmt.Errorf("expected a JSON Schema, got one of %s", s.Kind)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	for _, ref := range s.References {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(ref.Text))
		if err == nil {
			err = c.AddResource(refURL(ref.Name), doc)
		}
		if err != nil {
			return nil, fmt.Errorf("reference %q: %w", ref.Name, err)
		}
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(s.Text))
	if err == nil {
		err = c.AddResource(schemaURL, doc)
	}
	if err != nil {
		return nil, err
	}
	return c.Compile(schemaURL)
}

// refURL is where a reference stands as the schema itself sees it.
func refURL(name string) string {
	if strings.Contains(name, "://") {
		return name
	}
	return "frazil:///" + strings.TrimPrefix(name, "/")
}

// noLoader refuses what is neither in the schema nor among its references: nothing is
// fetched, and no file is read.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is no reference of the schema", url)
}

// jsonNode is what of a JSON Schema makes columns.
type jsonNode struct {
	Ref         string            `json:"$ref"`
	Type        json.RawMessage   `json:"type"`
	Format      string            `json:"format"`
	Properties  json.RawMessage   `json:"properties"`
	Required    []string          `json:"required"`
	Items       json.RawMessage   `json:"items"`
	OneOf       []json.RawMessage `json:"oneOf"`
	AnyOf       []json.RawMessage `json:"anyOf"`
	AllOf       []json.RawMessage `json:"allOf"`
	ConnectType string            `json:"connect.type"`
	Enum        []json.RawMessage `json:"enum"`
}

// jsonWalker makes types of nodes of one document.
type jsonWalker struct {
	root json.RawMessage
	refs map[string]json.RawMessage
	walk *jsonWalk
}

// jsonWalk is where all walkers of a schema are.
type jsonWalk struct {
	// open are the $ref that are being followed: what holds itself is json there.
	open []string
	// nodes counts those that were looked at.
	nodes int
}

const (
	// maxRefs bounds a chain of $ref.
	maxRefs = 32
	// maxNodes bounds the columns that a schema can unfold to; what is more is json.
	maxNodes = 10_000
)

func jsonColumns(s *dataflow.RegisteredSchema, into *JSONConfig) error {
	if _, err := compileJSONSchema(s); err != nil {
		return err
	}
	w := &jsonWalker{root: json.RawMessage(s.Text), refs: map[string]json.RawMessage{}, walk: &jsonWalk{}}
	for _, ref := range s.References {
		w.refs[ref.Name] = json.RawMessage(ref.Text)
	}
	n, w, err := w.node(w.root)
	if err != nil {
		return err
	}
	names, props, err := membersOf(n.Properties)
	if err != nil || len(names) == 0 {
		return fmt.Errorf("expected an object with properties: its columns are they")
	}
	for i, name := range names {
		typ, null := w.typeOf(props[i])
		into.Schema = append(into.Schema, component.NamedType{Name: name, Type: typ})
		if slices.Contains(n.Required, name) && !null {
			into.Required = append(into.Required, name)
		}
	}
	return nil
}

// node reads a node and follows its $ref; w is where the target's own references hold.
func (w *jsonWalker) node(raw json.RawMessage) (n jsonNode, in *jsonWalker, err error) {
	in = w
	for range maxRefs {
		n = jsonNode{}
		if err := json.Unmarshal(raw, &n); err != nil {
			return n, in, err
		}
		if n.Ref == "" {
			return n, in, nil
		}
		doc, pointer, _ := strings.Cut(n.Ref, "#")
		if doc != "" {
			text, ok := w.refs[doc]
			if !ok {
				return n, in, fmt.Errorf("$ref %q is no reference of the schema", n.Ref)
			}
			in = &jsonWalker{root: text, refs: w.refs, walk: w.walk}
		}
		if raw, err = at(in.root, pointer); err != nil {
			return n, in, fmt.Errorf("$ref %q: %w", n.Ref, err)
		}
	}
	return n, in, fmt.Errorf("$ref %q leads in a circle", n.Ref)
}

// at follows a JSON pointer.
func at(raw json.RawMessage, pointer string) (json.RawMessage, error) {
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if part == "" {
			continue
		}
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		var m map[string]json.RawMessage
		if json.Unmarshal(raw, &m) != nil || m[part] == nil {
			return nil, fmt.Errorf("it leads nowhere")
		}
		raw = m[part]
	}
	return raw, nil
}

// membersOf lists the members of an object in their order.
func membersOf(raw json.RawMessage) (names []string, values []json.RawMessage, err error) {
	if len(raw) == 0 {
		return nil, nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, nil, fmt.Errorf("expected an object")
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, nil, err
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return nil, nil, err
		}
		names, values = append(names, name.(string)), append(values, v)
	}
	return names, values, nil
}

// typeOf is the type of a column by a node, and whether null is allowed. What has no
// other type is json.
func (w *jsonWalker) typeOf(raw json.RawMessage) (typ string, null bool) {
	if w.walk.nodes++; w.walk.nodes > maxNodes {
		return "json", true
	}
	var ref struct {
		Ref string `json:"$ref"`
	}
	if json.Unmarshal(raw, &ref) == nil && ref.Ref != "" {
		if slices.Contains(w.walk.open, ref.Ref) {
			return "json", true
		}
		w.walk.open = append(w.walk.open, ref.Ref)
		defer func() { w.walk.open = w.walk.open[:len(w.walk.open)-1] }()
	}
	n, in, err := w.node(raw)
	if err != nil || len(n.AllOf) > 0 {
		return "json", true
	}
	for _, several := range [][]json.RawMessage{n.OneOf, n.AnyOf} {
		if len(several) > 0 {
			return in.oneOf(several)
		}
	}
	names, null := n.types()
	if len(names) != 1 {
		return "json", null || len(names) == 0
	}
	return in.plain(n, names[0]), null
}

// types are the names under type, without null.
func (n *jsonNode) types() (names []string, null bool) {
	var one string
	var all []string
	if json.Unmarshal(n.Type, &one) == nil {
		all = []string{one}
	} else if json.Unmarshal(n.Type, &all) != nil {
		all = nil
	}
	if len(all) == 0 && len(n.Enum) > 0 {
		for _, v := range n.Enum {
			switch {
			case string(v) == "null":
				null = true
			case v[0] != '"':
				return nil, true
			}
		}
		return []string{"string"}, null
	}
	for _, x := range all {
		if x == "null" {
			null = true
		} else {
			names = append(names, x)
		}
	}
	return names, null
}

// oneOf is the type of the only branch beside null.
func (w *jsonWalker) oneOf(branches []json.RawMessage) (string, bool) {
	typ, null := "", false
	for _, b := range branches {
		n, _, err := w.node(b)
		if err != nil {
			return "json", true
		}
		if names, isNull := n.types(); isNull && len(names) == 0 && n.Type != nil {
			null = true
			continue
		}
		if typ != "" {
			return "json", true
		}
		var alsoNull bool
		typ, alsoNull = w.typeOf(b)
		null = null || alsoNull
	}
	if typ == "" {
		return "json", true
	}
	return typ, null
}

func (w *jsonWalker) plain(n jsonNode, name string) string {
	switch name {
	case "boolean":
		return "bool"
	case "integer":
		switch n.ConnectType {
		case "int8", "int16", "int32":
			return "int32"
		}
		return "int64"
	case "number":
		return "float64"
	case "string":
		switch n.Format {
		case "date-time":
			return "timestamptz"
		case "date", "uuid":
			return n.Format
		}
		return "string"
	case "array":
		if len(n.Items) == 0 || n.Items[0] != '{' {
			return "json"
		}
		elem, _ := w.typeOf(n.Items)
		return "list<" + elem + ">"
	case "object":
		return w.object(n)
	}
	return "json"
}

// object is a struct of its properties; one without any, or with names that a struct
// cannot have, is json.
func (w *jsonWalker) object(n jsonNode) string {
	names, props, err := membersOf(n.Properties)
	if err != nil || len(names) == 0 {
		return "json"
	}
	var parts []string
	for i, name := range names {
		if !structName(name) {
			return "json"
		}
		typ, _ := w.typeOf(props[i])
		parts = append(parts, name+": "+typ)
	}
	return "struct{" + strings.Join(parts, ", ") + "}"
}

func structName(s string) bool {
	for _, r := range s {
		if !(r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			return false
		}
	}
	return s != ""
}

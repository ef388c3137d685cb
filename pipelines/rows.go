package pipelines

import (
	"frazil/dataflow"
	"frazil/dataflow/codec"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
)

// rowConfig is the decode block of JSON objects that hold all columns of a
// source, those of its payloads and its metadata alike.
func rowConfig(schema *arrow.Schema) codec.Config {
	c := codec.DefaultJSONConfig()
	c.MaxRecord = 64 << 20
	for _, f := range schema.Fields() {
		c.Schema = append(c.Schema, component.NamedType{Name: f.Name, Type: dataflow.TypeName(f.Type)})
	}
	return codec.Config{JSON: &c}
}

package pipelines

import (
	"bytes"
	"encoding/json"

	"frazil/dataflow/component"
)

type object = component.Object

// Schema is the JSON Schema of a pipeline file, for editors: everything that lint
// says about form, with all components that are linked in. What depends on
// columns, other steps or the machine only lint sees.
func Schema() []byte {
	definitions := component.SchemaDefinitions()
	definitions["from"] = object{
		"description": "The step whose rows come in, or STEP.PORT for another port than the main one, as minute.late.",
		"type":        "string", "minLength": 1,
	}
	for _, i := range Blocks() {
		if i.Name != "pipeline" {
			definitions[i.Name] = component.SchemaOf(i)
		}
	}
	for _, i := range component.All() {
		definitions[i.Kind+"_"+i.Name] = component.SchemaOf(i)
	}
	definitions["source"] = sourceSchema()
	definitions["operator"] = readerSchema(kindOperator)
	definitions["sink"] = readerSchema(kindSink)
	definitions["connection"] = connectionSchema()

	var out object
	for _, i := range Blocks() {
		if i.Name == "pipeline" {
			out = component.SchemaOf(i)
		}
	}
	p := out["properties"].(object)
	p["name"].(object)["pattern"] = pipelineName.String() + `|\$\{`
	p["parallelism"].(object)["minimum"], p["parallelism"].(object)["maximum"] = 1, 256
	for key, of := range map[string]string{"connections": "connection", "sources": kindSource, "operators": kindOperator, "sinks": kindSink} {
		s := p[key].(object)
		s["type"] = []any{"object", "null"}
		if of == kindSource || of == kindSink {
			s["type"], s["minProperties"] = "object", 1
		}
		s["propertyNames"] = object{"pattern": stepName.String()}
		s["additionalProperties"] = reference(of)
	}
	p["tests"].(object)["type"], p["tests"].(object)["items"] = []any{"array", "null"}, reference("test")
	out["$schema"] = "http://json-schema.org/draft-07/schema#"
	out["title"] = "Frazil pipeline"
	out["definitions"] = definitions
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(out); err != nil {
		panic("a schema of plain values cannot be written: " + err.Error())
	}
	return b.Bytes()
}

func reference(name string) object { return object{"$ref": "#/definitions/" + name} }

// stepSchema takes exactly one component of a kind beside fixed keys. with adds
// to the alternative of a component.
func stepSchema(kind string, fixed object, required []any, with func(i component.Info, alternative object)) object {
	var alternatives []any
	for _, i := range component.All() {
		if i.Kind != kind {
			continue
		}
		fixed[i.Name] = object{"allOf": []any{reference(kind + "_" + i.Name)}, "description": i.Summary}
		alternative := object{"required": []any{i.Name}}
		if with != nil {
			with(i, alternative)
		}
		alternatives = append(alternatives, alternative)
	}
	out := object{"type": "object", "properties": fixed, "additionalProperties": false, "oneOf": alternatives}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

func sourceSchema() object {
	return stepSchema(kindSource, object{"decode": reference("decode"), "event_time": reference("event_time")}, nil, nil)
}

// readerSchema is that of steps with "from", which is a list only where the
// component takes several inputs.
func readerSchema(kind string) object {
	one := reference("from")
	list := object{"type": "array", "minItems": 1, "uniqueItems": true, "items": one}
	from := object{"description": "The step, or the steps, whose rows come in."}
	return stepSchema(kind, object{"from": from}, []any{"from"}, func(i component.Info, alternative object) {
		takes := one
		if o := component.OperatorNamed(i.Name); kind == kindOperator && o.MultiInput {
			takes = object{"anyOf": []any{one, list}}
		}
		alternative["properties"] = object{"from": takes}
	})
}

func connectionSchema() object { return stepSchema("connection", object{}, nil, nil) }

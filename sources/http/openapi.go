package http

import (
	"encoding/json"
	"fmt"
	"math"
	nethttp "net/http"
	"slices"

	"frazil/dataflow"
	"frazil/dataflow/codec"

	"github.com/apache/arrow-go/v18/arrow"
)

// object is a JSON object; its keys are written in their order by name.
type object = map[string]any

// openAPI describes the streams of an address, as OpenAPI 3.1.
func (l *listener) openAPI(w nethttp.ResponseWriter) {
	paths := object{pathHealth: object{"get": object{
		"operationId": "health", "summary": "Whether the address takes records.",
		"responses": object{"200": content("All streams take records.", typeJSON, object{"type": "object"}), "503": refused("A stream takes none now.")},
	}}}
	for _, ep := range l.endpoints() {
		paths[ep.path] = object{"post": ep.operation()}
	}
	doc := object{
		"openapi": "3.1.0",
		"info":    object{"title": "Frazil", "version": "1", "description": "Streams of a Frazil pipeline, which records are posted to. A status that begins with 2 says that as many records as accepted counts are kept; any other that nothing is, or (5xx) that it is not known."},
		"paths":   paths,
		"components": object{
			"schemas":         object{"Problem": problemSchema, "Result": resultSchema},
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}},
		},
	}
	w.Header().Set("Content-Type", typeJSON)
	_ = json.NewEncoder(w).Encode(doc) // The client is gone.
}

func content(description, mediaType string, schema any) object {
	return object{"description": description, "content": object{mediaType: object{"schema": schema}}}
}

func refused(description string) object {
	return content(description, "application/problem+json", object{"$ref": "#/components/schemas/Problem"})
}

var rejectedSchema = object{"type": "array", "items": object{
	"type": "object", "required": []string{"index", "reason"},
	"properties": object{"index": object{"type": "integer", "minimum": 0}, "reason": object{"type": "string"}, "detail": object{"type": "string"}},
}}

var resultSchema = object{
	"type": "object", "required": []string{"accepted", "rejected"},
	"properties": object{
		"accepted":         object{"type": "integer", "minimum": 0, "description": "Records that are kept."},
		"rejected":         rejectedSchema,
		"first_sequence":   object{"type": "integer", "minimum": 1},
		"last_sequence":    object{"type": "integer", "minimum": 1},
		"already_accepted": object{"type": "boolean", "description": "A retry of a request that was accepted so long ago that its answer is not remembered."},
	},
}

var problemSchema = object{
	"type": "object", "required": []string{"type", "title", "status", "reason", "detail"},
	"properties": object{
		"type": object{"type": "string"}, "title": object{"type": "string"}, "status": object{"type": "integer"},
		"reason": object{"type": "string", "description": "A stable code."}, "detail": object{"type": "string"}, "rejected": rejectedSchema,
	},
}

// operation describes posting to one stream.
func (ep *endpoint) operation() object {
	result := object{"$ref": "#/components/schemas/Result"}
	responses := object{
		"200": content("All records are kept.", typeJSON, result),
		"400": refused("The request cannot be read."), "403": refused("Not allowed here."), "405": refused("Another method than POST."),
		"408": refused("The body came too slowly."), "413": refused("Too large."), "415": refused("A type or an encoding that is not known."),
		"422": refused("No record was accepted, or the idempotency key was used with another body."),
		"429": refused("Busy: try again after the time in Retry-After."), "500": refused("A bug; it is not known whether the request was kept."),
		"503": refused("It is not known whether the request was kept: send it again."),
	}
	if ep.cfg.OnBad == onBadReject {
		responses["207"] = content("Some records are kept, rejected lists the others.", typeJSON, result)
	}
	out := object{
		"operationId": "post_" + ep.step, "summary": "Send records to the stream " + ep.step + ".",
		"description": "A request with the header Idempotency-Key (1 to 255 characters), or with Frazil-Producer and Frazil-Sequence, may be sent again: it is answered as the first time, with Idempotent-Replayed: true, and adds nothing. Bodies may have Content-Encoding gzip or zstd.",
		"requestBody": object{"required": true, "content": ep.bodies()}, "responses": responses,
	}
	if ep.auth != nil {
		responses["401"] = refused("Not known who it is.")
		if len(ep.auth.tokens) > 0 {
			out["security"] = []object{{"token": []string{}}}
		}
	}
	return out
}

// bodies describes what may be sent, by type.
func (ep *endpoint) bodies() object {
	out := object{}
	var data any = object{}
	if ep.json != nil {
		data = recordSchema(*ep.json)
	}
	for _, t := range ep.types() {
		var schema any
		switch t {
		case typeJSON:
			schema = object{"anyOf": []any{data, object{"type": "array", "items": data, "maxItems": ep.cfg.Limits.Records}}}
		case typeEvent:
			schema = eventSchema(data)
		case typeEvents:
			schema = object{"type": "array", "items": eventSchema(data), "maxItems": ep.cfg.Limits.Records}
		case typeNDJSON:
			schema = object{"type": "string", "description": "JSON documents as in " + typeJSON + ", one a line."}
		case typeCSV:
			schema = object{"type": "string", "description": "RFC 4180; the first record names the columns."}
		default:
			schema = object{"type": "string", "format": "binary"}
		}
		out[t] = object{"schema": schema}
	}
	return out
}

// eventSchema is a CloudEvent around data.
func eventSchema(data any) object {
	text := object{"type": "string", "minLength": 1}
	optional := object{"anyOf": []any{text, object{"type": "null"}}}
	return object{
		"type": "object", "required": []string{"specversion", "id", "source", "type", "data"},
		"properties": object{
			"specversion": object{"const": "1.0"}, "id": text, "source": text, "type": text, "subject": optional, "dataschema": optional,
			"datacontenttype": optional,
			"time":            object{"anyOf": []any{object{"type": "string", "format": "date-time"}, object{"type": "null"}}},
			"data":            data,
		},
		"propertyNames":        object{"pattern": "^[a-z0-9]+$"},
		"additionalProperties": object{"type": []string{"string", "number", "boolean", "null"}},
	}
}

// recordSchema describes the documents of a decode block.
func recordSchema(c codec.JSONConfig) any {
	props := object{}
	for _, f := range c.Schema {
		spec, err := dataflow.ParseType(f.Type)
		if err != nil {
			props[f.Name] = object{} // It was checked.
			continue
		}
		s := valueSchema(spec, c)
		if !slices.Contains(c.Required, f.Name) {
			s = orNull(s)
		}
		props[f.Name] = s
	}
	if len(props) == 0 {
		return object{}
	}
	out := object{"type": "object", "properties": props, "additionalProperties": c.Extra != codec.ExtraBad}
	if len(c.Required) > 0 {
		out["required"] = c.Required
	}
	if c.Whole != "" {
		out["description"] = "Documents that are no objects are taken as well."
	}
	return out
}

func orNull(s any) any { return object{"anyOf": []any{s, object{"type": "null"}}} }

// maxFloat32 is the least float64 whose text no float32 is near to.
const maxFloat32 = 0x1.ffffff0000001p127

const (
	patternBase64 = `^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$`
	patternClock  = `(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?`
	patternDate   = `(?!0000)[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])`
)

// valueSchema describes the values of a column.
func valueSchema(t dataflow.TypeSpec, c codec.JSONConfig) any {
	switch {
	case arrow.TypeEqual(t.Type, dataflow.TypeUUID):
		return object{"type": "string", "format": "uuid"}
	case arrow.TypeEqual(t.Type, dataflow.TypeJSON):
		return object{}
	}
	switch x := t.Type.(type) {
	case *arrow.BooleanType:
		return object{"type": "boolean"}
	case *arrow.Int32Type:
		return object{"type": "integer", "format": "int32", "minimum": math.MinInt32, "maximum": math.MaxInt32}
	case *arrow.Int64Type:
		return object{"type": "integer", "format": "int64", "minimum": math.MinInt64, "maximum": math.MaxInt64}
	case *arrow.Float32Type:
		return object{"type": "number", "format": "float", "exclusiveMinimum": -maxFloat32, "exclusiveMaximum": maxFloat32}
	case *arrow.Float64Type:
		return object{"type": "number", "format": "double"}
	case *arrow.Decimal128Type:
		return decimalSchema(x)
	case *arrow.BinaryType:
		return object{"type": "string", "contentEncoding": "base64", "pattern": patternBase64}
	case *arrow.Date32Type:
		return object{"type": "string", "format": "date"}
	case *arrow.Time64Type:
		return object{"type": "string", "pattern": "^" + patternClock + "$"}
	case *arrow.TimestampType:
		return timestampSchema(t, x)
	case *arrow.ListType:
		return object{"type": "array", "items": orNull(valueSchema(t.Fields[0].Spec, c))}
	case *arrow.StructType:
		props := object{}
		for _, f := range t.Fields {
			props[f.Name] = orNull(valueSchema(f.Spec, c))
		}
		return object{"type": "object", "properties": props, "additionalProperties": c.Extra != codec.ExtraBad}
	}
	return object{"type": "string"}
}

func decimalSchema(t *arrow.Decimal128Type) any {
	whole := max(t.Precision-t.Scale, 1)
	pattern := fmt.Sprintf(`^-?(?:0|[1-9][0-9]{0,%d})`, whole-1)
	if t.Scale > 0 {
		pattern += fmt.Sprintf(`(?:\.[0-9]{1,%d})?`, t.Scale)
	}
	limit := math.Pow10(int(t.Precision - t.Scale))
	return object{"anyOf": []any{
		object{"type": "string", "pattern": pattern + "$", "description": "A number in a text keeps all digits."},
		object{"type": "number", "exclusiveMinimum": -limit, "exclusiveMaximum": limit, "multipleOf": math.Pow10(-int(t.Scale))},
	}}
}

// timestampSchema describes times, whose bounds time_range may narrow further.
func timestampSchema(t dataflow.TypeSpec, x *arrow.TimestampType) any {
	perSecond := map[string]int64{"s": 1, "ms": 1000, "us": 1_000_000}[t.Unit]
	switch {
	case t.Unit == "ns":
		return object{"type": "number", "minimum": math.MinInt64, "maximum": math.MaxInt64, "description": "Nanoseconds since 1970."}
	case perSecond > 0:
		const first, last = -62135596800, 253402300799 // the years 1 to 9999
		return object{"type": "number", "minimum": first * perSecond, "exclusiveMaximum": (last + 1) * perSecond, "description": "Since 1970, in " + t.Unit + "."}
	case x.TimeZone != "":
		return object{"type": "string", "format": "date-time"}
	}
	return object{"type": "string", "pattern": "^" + patternDate + "T" + patternClock + "$"}
}

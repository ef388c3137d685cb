package operators

import "frazil/dataflow/component"

// What types that decode themselves look like in a file, for editors.

// JSONSchema implements component.Schemer.
func (By) JSONSchema() component.Object {
	return component.Object{"description": "A column, or {name: expression}.", "anyOf": []any{
		component.Object{"type": "string"},
		component.Object{"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": component.Object{"type": []any{"string", "number", "boolean"}}},
	}}
}

// JSONSchema implements component.Schemer.
func (Width) JSONSchema() component.Object {
	return component.Object{"description": "A duration with its unit, or calendar units: 1m, 1d, 1w, 1mo, 1y.", "anyOf": []any{
		component.Object{"type": "string", "pattern": `^[0-9]+(d|w|mo|y)$`},
		component.Object{"$ref": "#/definitions/duration"},
	}}
}

// JSONSchema implements component.Schemer.
func (Offset) JSONSchema() component.Object {
	return component.Object{"description": "A duration with its unit, also backwards: 8h, -30m.", "anyOf": []any{
		component.Object{"type": "string", "pattern": `^-`},
		component.Object{"$ref": "#/definitions/duration"},
	}}
}

// JSONSchema implements component.Schemer.
func (Scalar) JSONSchema() component.Object {
	return component.Object{"description": "A text, a number, true or false.", "type": []any{"string", "number", "boolean"}}
}

// Guards.
var (
	_ component.Schemer = By{}
	_ component.Schemer = Scalar("")
	_ component.Schemer = Width("")
	_ component.Schemer = Offset("")
)

package codec

import (
	"encoding/json"
	"slices"
)

// says are the keywords that say nothing about which documents are allowed.
var says = []string{"$schema", "$id", "$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "javaType", "connect.type", "connect.index", "definitions", "$defs"}

// enforced says whether the decoder of the columns refuses by itself all that a schema
// refuses, so that documents need not be held against it: types and required columns
// say all of it. cfg are the columns it gives.
func enforced(text string, cfg JSONConfig) bool {
	n, ok := keywords(json.RawMessage(text), "type", "properties", "required")
	if !ok || string(n["type"]) != `"object"` {
		return false
	}
	var required []string
	if n["required"] != nil && json.Unmarshal(n["required"], &required) != nil {
		return false
	}
	names, props, err := membersOf(n["properties"])
	if err != nil {
		return false
	}
	for i, name := range names {
		null, ok := enforcedValue(props[i])
		// What may be missing must be allowed to be null, and the other way round: for
		// the decoder they are the same.
		if !ok || null == slices.Contains(required, name) {
			return false
		}
	}
	for _, name := range required {
		if !slices.Contains(cfg.Required, name) {
			return false
		}
	}
	return true
}

// keywords are those of a node; ok is false if it has others than known, or than those
// that say nothing.
func keywords(raw json.RawMessage, known ...string) (n map[string]json.RawMessage, ok bool) {
	if json.Unmarshal(raw, &n) != nil || n == nil {
		return nil, false
	}
	for k := range n {
		if !slices.Contains(known, k) && !slices.Contains(says, k) {
			return nil, false
		}
	}
	return n, true
}

// enforcedValue says of a property whether null is allowed, and whether the type of its
// column is all that its schema asks for.
func enforcedValue(raw json.RawMessage) (null, ok bool) {
	n, ok := keywords(raw, "type", "format", "items", "properties", "oneOf")
	if !ok {
		return false, false
	}
	if n["oneOf"] != nil {
		return true, n["type"] == nil && n["items"] == nil && n["properties"] == nil && enforcedOption(n["oneOf"])
	}
	if n["type"] == nil {
		return true, n["items"] == nil && n["properties"] == nil && n["format"] == nil
	}
	var name string
	if json.Unmarshal(n["type"], &name) != nil {
		return false, false
	}
	switch name {
	case "boolean", "integer", "number", "string":
		return false, n["items"] == nil && n["properties"] == nil
	case "array":
		// Of elements the decoder takes null.
		null, ok := enforcedValue(n["items"])
		return false, ok && null
	case "object":
		names, props, err := membersOf(n["properties"])
		if err != nil || len(names) == 0 {
			return false, false
		}
		for i, name := range names {
			if null, ok := enforcedValue(props[i]); !ok || !null || !structName(name) {
				return false, false
			}
		}
		return false, true
	}
	return false, false
}

// enforcedOption says whether a oneOf is of null and one type.
func enforcedOption(raw json.RawMessage) bool {
	var of []json.RawMessage
	if json.Unmarshal(raw, &of) != nil || len(of) != 2 {
		return false
	}
	for i, b := range of {
		if n, ok := keywords(b, "type"); ok && string(n["type"]) == `"null"` {
			null, ok := enforcedValue(of[1-i])
			return ok && !null
		}
	}
	return false
}

package codec

import (
	"bytes"
	"fmt"

	"frazil/dataflow"
)

// Lines returns the lines of b that hold more than white space, which NDJSON
// separates documents by. They alias b. ok is false for more than max.
func Lines(b []byte, max int) (lines [][]byte, ok bool) {
	lines = make([][]byte, 0, min(bytes.Count(b, newline)+1, max))
	for len(b) > 0 {
		line := b
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			line, b = b[:i], b[i+1:]
		} else {
			b = nil
		}
		if line = bytes.Trim(line, " \t\r"); len(line) == 0 {
			continue
		}
		if len(lines) == max {
			return nil, false
		}
		lines = append(lines, line)
	}
	return lines, true
}

var newline = []byte{'\n'}

// Elements returns the elements of a JSON array, or a document that is no array
// by itself; depth bounds how deep arrays and objects nest in an element. They
// alias b. What is no JSON is refused as a whole: where the next element would
// begin is not known.
func Elements(b []byte, depth, max int) (elements [][]byte, bad *dataflow.Bad) {
	i := skipSpace(b, 0)
	if i >= len(b) {
		return nil, &dataflow.Bad{Reason: ReasonInvalidJSON, Detail: "byte 0: expected a JSON document, got nothing"}
	}
	if b[i] != '[' {
		return [][]byte{bytes.Trim(b, " \t\r\n")}, nil
	}
	depth = min(depth, maxDepth)
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == ']' {
		return nil, behind(b, i+1)
	}
	for {
		end, f := skipValue(b, i, 0, depth)
		if f != fine {
			return nil, fault2bad(b, end, f, depth)
		}
		if len(elements) == max {
			return nil, tooManyRecords(max)
		}
		elements = append(elements, b[i:end:end])
		i = skipSpace(b, end)
		if i < len(b) && b[i] == ']' {
			return elements, behind(b, i+1)
		}
		if i >= len(b) || b[i] != ',' {
			return nil, fault2bad(b, i, faultSyntax, depth)
		}
		i = skipSpace(b, i+1)
	}
}

// behind refuses what follows a document.
func behind(b []byte, i int) *dataflow.Bad {
	if i = skipSpace(b, i); i < len(b) {
		return &dataflow.Bad{Reason: ReasonInvalidJSON, Detail: fmt.Sprintf("byte %d: expected the end of the document, got %s", i, excerpt(b[i:]))}
	}
	return nil
}

func tooManyRecords(max int) *dataflow.Bad {
	return &dataflow.Bad{Reason: ReasonTooLarge, Detail: fmt.Sprintf("expected at most %d records at once", max)}
}

// fault2bad says what stands at i of b instead of JSON.
func fault2bad(b []byte, i int, f fault, depth int) *dataflow.Bad {
	switch {
	case f == faultDepth:
		return &dataflow.Bad{Reason: ReasonTooDeep, Detail: fmt.Sprintf("byte %d: nested deeper than depth = %d", i, depth)}
	case i >= len(b):
		return &dataflow.Bad{Reason: ReasonInvalidJSON, Detail: fmt.Sprintf("byte %d: the document ends too early", i)}
	case f == faultUTF8:
		return &dataflow.Bad{Reason: ReasonInvalidUTF8, Detail: fmt.Sprintf("byte %d: expected UTF-8 text, got %s", i, excerpt(b[i:]))}
	}
	return &dataflow.Bad{Reason: ReasonInvalidJSON, Detail: fmt.Sprintf("byte %d: expected JSON, got %s", i, excerpt(b[i:]))}
}

// members visits the members of the JSON object in b, which is checked on the
// way; keys are decoded, values are as they stand. It stops at the first *Bad.
func members(b []byte, depth int, visit func(key string, value []byte) *dataflow.Bad) *dataflow.Bad {
	if at, f := validate(b, depth); f != fine {
		return fault2bad(b, at, f, depth)
	}
	i := skipSpace(b, 0)
	if b[i] != '{' {
		return &dataflow.Bad{Reason: ReasonNotAnObject, Detail: fmt.Sprintf("expected an object, got %s", excerpt(b[i:]))}
	}
	for i = skipSpace(b, i+1); b[i] != '}'; {
		start := i
		value, _ := skipKey(b, i)
		end, _ := skipString(b, start+1)
		key := unquote(b[start:end])
		i, _ = skipValue(b, value, 1, depth)
		if bad := visit(key, b[value:i:i]); bad != nil {
			return bad
		}
		if i = skipSpace(b, i); b[i] == ',' {
			i = skipSpace(b, i+1)
		}
	}
	return nil
}

// unquote reads a valid JSON string with its quotes.
func unquote(b []byte) string {
	text, _, _ := unescape(nil, b, 1)
	return string(text)
}

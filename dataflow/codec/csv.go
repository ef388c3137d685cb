package codec

import (
	"bytes"
	"fmt"
	"slices"
	"unicode/utf8"

	"frazil/dataflow"

	"github.com/apache/arrow-go/v18/arrow"
)

// ReasonInvalidCSV: a record that is not as RFC 4180 or the header wants it.
const ReasonInvalidCSV = "invalid_csv"

// CSV reads CSV documents (RFC 4180, UTF-8) whose first record names the columns,
// and writes each further one as the JSON document that a JSON decode block reads,
// so that both have the same rules. A field without quotes and without text is
// null, one with quotes is the empty text. It is immutable and safe to share.
type CSV struct {
	columns map[string]csvKind
}

// csvKind is how the text of a field stands in JSON.
type csvKind uint8

const (
	csvText    csvKind = iota
	csvNumber          // as it is, where it is a number
	csvBool            // true and false
	csvLiteral         // a JSON document
)

// NewCSV makes a reader for the schema of c.
func NewCSV(c JSONConfig) (*CSV, error) {
	out := &CSV{columns: map[string]csvKind{}}
	for _, f := range c.Schema {
		spec, err := dataflow.ParseType(f.Type)
		if err != nil {
			return nil, err
		}
		kind := csvText
		switch spec.Type.ID() {
		case arrow.BOOL:
			kind = csvBool
		case arrow.INT32, arrow.INT64, arrow.FLOAT32, arrow.FLOAT64, arrow.DECIMAL128:
			kind = csvNumber
		case arrow.TIMESTAMP:
			if spec.Unit != "" {
				kind = csvNumber
			}
		case arrow.LIST, arrow.STRUCT:
			kind = csvLiteral
		}
		if arrow.TypeEqual(spec.Type, dataflow.TypeJSON) {
			kind = csvLiteral
		}
		out.columns[f.Name] = kind
	}
	return out, nil
}

// CSVRecord is a record of a document: a JSON document, or why it is none, with its
// bytes as they came.
type CSVRecord struct {
	JSON []byte
	Bad  *dataflow.Bad
	Raw  []byte
}

// maxCSVColumns bounds the header.
const maxCSVColumns = 10_000

// Records reads a document of at most max records. A document whose records
// cannot be told apart is refused as a whole.
func (c *CSV) Records(b []byte, max int) ([]CSVRecord, *dataflow.Bad) {
	r := csvReader{b: bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))}
	if bad := r.next(); bad != nil {
		return nil, bad
	}
	keys, kinds, bad := c.header(&r)
	if bad != nil {
		return nil, bad
	}
	var out []CSVRecord
	for r.i < len(r.b) {
		if bad := r.next(); bad != nil {
			return nil, bad
		}
		if len(r.fields) == 1 && len(keys) > 1 && r.start == r.end {
			continue // an empty line
		}
		if len(out) == max {
			return nil, tooManyRecords(max)
		}
		x := CSVRecord{Raw: r.b[r.start:r.end:r.end], Bad: r.fault}
		if x.Bad == nil && len(r.fields) != len(keys) {
			x.Bad = &dataflow.Bad{Reason: ReasonInvalidCSV, Detail: fmt.Sprintf("line %d: expected %d fields as in the header, got %d", r.line, len(keys), len(r.fields))}
		}
		if x.Bad == nil {
			x.JSON, x.Bad = r.document(keys, kinds)
		}
		out = append(out, x)
	}
	return out, nil
}

func (c *CSV) header(r *csvReader) (keys [][]byte, kinds []csvKind, bad *dataflow.Bad) {
	wrong := func(format string, args ...any) *dataflow.Bad {
		return &dataflow.Bad{Reason: ReasonInvalidCSV, Detail: "the header: " + fmt.Sprintf(format, args...)}
	}
	if r.fault != nil {
		return nil, nil, wrong("%s", r.fault.Detail)
	}
	if len(r.fields) > maxCSVColumns {
		return nil, nil, wrong("expected at most %d columns, got %d", maxCSVColumns, len(r.fields))
	}
	var names []string
	seen := map[string]bool{}
	for _, f := range r.fields {
		name := string(r.text(f))
		switch {
		case name == "":
			return nil, nil, wrong("expected the names of the columns, got an empty one")
		case !utf8.ValidString(name):
			return nil, nil, wrong("expected UTF-8 text, got %q", name)
		case seen[name]:
			return nil, nil, wrong("column %q stands there twice", name)
		}
		seen[name] = true
		names = append(names, name)
		keys = append(keys, append(appendString(nil, []byte(name)), ':'))
		kinds = append(kinds, c.columns[name])
	}
	if !slices.ContainsFunc(names, func(n string) bool { _, ok := c.columns[n]; return ok }) {
		return nil, nil, wrong("expected the names of columns, got none of them in %s", excerpt(r.b[r.start:r.end]))
	}
	return keys, kinds, nil
}

// csvReader reads one record after another.
type csvReader struct {
	b          []byte
	i          int // where the next record begins
	start, end int // of the record at hand, without its end of line
	line       int // of the record at hand, from 1
	lines      int // lines before i
	fields     []csvField
	fault      *dataflow.Bad
	scratch    []byte
}

// csvField is where a field stands, without its quotes.
type csvField struct {
	start, end int
	quoted     bool
	doubled    bool // it holds doubled quotes
}

func (r *csvReader) next() *dataflow.Bad {
	r.start, r.fields, r.fault = r.i, r.fields[:0], nil
	r.line = r.lines + 1
	if r.i >= len(r.b) {
		return &dataflow.Bad{Reason: ReasonInvalidCSV, Detail: "expected a header with the names of the columns, got nothing"}
	}
	i := r.i
	for {
		f := csvField{start: i}
		if i < len(r.b) && r.b[i] == '"' {
			var bad *dataflow.Bad
			if f, i, bad = r.quoted(i); bad != nil {
				return bad
			}
		} else {
			for i < len(r.b) && r.b[i] != ',' && r.b[i] != '\n' {
				if r.b[i] == '"' {
					r.wrong("line %d: a quote in a field that does not begin with one", r.line)
				}
				i++
			}
			f.end = i
			if i > f.start && r.b[i-1] == '\r' && (i == len(r.b) || r.b[i] == '\n') {
				f.end--
			}
			if bytes.IndexByte(r.b[f.start:f.end], '\r') >= 0 {
				r.wrong("line %d: a carriage return in a field without quotes", r.line)
			}
		}
		if len(r.fields) <= maxCSVColumns { // more are wrong anyway
			r.fields = append(r.fields, f)
		}
		if i < len(r.b) && r.b[i] == ',' {
			i++
			continue
		}
		r.end = i
		if i > r.start && r.b[i-1] == '\r' {
			r.end--
		}
		if r.i = i; i < len(r.b) {
			r.i, r.lines = i+1, r.lines+1
		}
		return nil
	}
}

func (r *csvReader) wrong(format string, args ...any) {
	if r.fault == nil {
		r.fault = &dataflow.Bad{Reason: ReasonInvalidCSV, Detail: fmt.Sprintf(format, args...)}
	}
}

// quoted reads the field whose first quote stands at i. One that is not closed, or
// goes on behind its end, leaves open where records end.
func (r *csvReader) quoted(i int) (f csvField, end int, bad *dataflow.Bad) {
	line := r.lines + 1
	f = csvField{start: i + 1, quoted: true}
	for i++; ; i++ {
		n := bytes.IndexByte(r.b[i:], '"')
		if n < 0 {
			return f, 0, &dataflow.Bad{Reason: ReasonInvalidCSV, Detail: fmt.Sprintf("line %d: a quote that is not closed", line)}
		}
		r.lines += bytes.Count(r.b[i:i+n], newline)
		i += n
		if i+1 < len(r.b) && r.b[i+1] == '"' {
			f.doubled = true
			i++
			continue
		}
		break
	}
	f.end = i
	i++
	rest := r.b[i:]
	switch {
	case len(rest) == 0, rest[0] == ',', rest[0] == '\n':
		return f, i, nil
	case rest[0] == '\r' && (len(rest) == 1 || rest[1] == '\n'):
		return f, i + 1, nil
	}
	return f, 0, &dataflow.Bad{Reason: ReasonInvalidCSV, Detail: fmt.Sprintf("line %d: expected a comma or the end of the line behind a closing quote, got %s", line, excerpt(rest))}
}

// text returns the text of a field; it is valid until the next call.
func (r *csvReader) text(f csvField) []byte {
	b := r.b[f.start:f.end]
	if !f.doubled {
		return b
	}
	r.scratch = r.scratch[:0]
	for {
		i := bytes.IndexByte(b, '"')
		if i < 0 {
			r.scratch = append(r.scratch, b...)
			return r.scratch
		}
		r.scratch = append(r.scratch, b[:i+1]...)
		b = b[i+2:]
	}
}

// document writes the record at hand as JSON.
func (r *csvReader) document(keys [][]byte, kinds []csvKind) ([]byte, *dataflow.Bad) {
	n := 2
	for i, f := range r.fields {
		n += len(keys[i]) + f.end - f.start + 3
	}
	out := append(make([]byte, 0, n), '{')
	for i, f := range r.fields {
		if f.start == f.end && !f.quoted {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, keys[i]...)
		text := r.text(f)
		if kinds[i] == csvLiteral {
			// It must not end here, and what follows it be taken for other fields.
			if at, f := validate(text, maxDepth); f != fine {
				bad := fault2bad(text, at, f, maxDepth)
				bad.Detail = fmt.Sprintf("line %d, column %s %s", r.line, keys[i], bad.Detail)
				return nil, bad
			}
		}
		out = appendCSV(out, text, kinds[i])
	}
	return append(out, '}'), nil
}

func appendCSV(out, text []byte, kind csvKind) []byte {
	literal := false
	switch kind {
	case csvNumber:
		_, end := scanNumber(text, 0)
		literal = end > 0 && end == len(text)
	case csvBool:
		literal = string(text) == "true" || string(text) == "false"
	case csvLiteral:
		literal = true
	}
	if literal {
		return append(out, text...)
	}
	return appendString(out, text)
}

// appendString writes text as a JSON string. Bytes that are no UTF-8 stay as they
// are, for the decoder to refuse.
func appendString(out, text []byte) []byte {
	const hex = "0123456789abcdef"
	out = append(out, '"')
	for len(text) > 0 {
		n := textEnd(text, 0)
		out = append(out, text[:n]...)
		if n == len(text) {
			break
		}
		switch c := text[n]; c {
		case '"', '\\':
			out = append(out, '\\', c)
		default:
			out = append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		text = text[n+1:]
	}
	return append(out, '"')
}

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"frazil/dataflow"
	"frazil/dataflow/codec"
	"frazil/dataflow/component"
	"frazil/operators/expr"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

func init() {
	register(command{"expr", "EXPRESSION [--row JSON | --row -] [--schema COLUMNS] [--format text|ndjson]", "evaluate an expression", (*cli).expr})
}

// exprBatch is how many rows are evaluated at a time.
const exprBatch = 8192

func (c *cli) expr(args []string) int {
	var form, row, schema string
	rest, code, ok := c.flags("expr", args, func(fs *flag.FlagSet) {
		fs.StringVar(&row, "row", "", "the columns as a JSON object; - reads rows from the standard input, one a line")
		fs.StringVar(&schema, "schema", "", "the columns and their types, as 'price int64, ts timestamptz'; without it they are those of the JSON values: "+
			"whole numbers int64, others float64, texts string, objects and lists json")
		format(fs, &form, "text", "ndjson")
	})
	if !ok {
		return code
	}
	if len(rest) != 1 {
		return c.wrong("expr needs one EXPRESSION; put -- before one that begins with a minus")
	}
	x := &exprRun{c: c, text: rest[0], ndjson: form == "ndjson"}
	return x.run(row, schema)
}

// exprRun evaluates one expression over rows.
type exprRun struct {
	c      *cli
	text   string
	ndjson bool

	ev      *expr.Evaluator
	e       *expr.Expr
	decoder dataflow.Decoder
	numbers []int // of the rows decoded, from 1
	refused []refusedRow
	failed  bool
}

// refusedRow is a row that could not be decoded.
type refusedRow struct {
	number int
	bad    dataflow.Bad
}

func (x *exprRun) run(row, schema string) int {
	rows, code := x.rows(row)
	if code != exitOK {
		return code
	}
	var cols component.NamedTypes
	if schema == "" {
		cols = inferColumns(rows)
	} else {
		var err error
		if cols, err = parseColumns(schema); err != nil {
			return x.c.wrong("--schema: %v", err)
		}
	}
	if err := x.compile(cols); err != nil {
		return x.c.wrong("%v", err)
	}
	switch {
	case row == "" && schema != "": // the types alone
		rows = nil
	case row == "":
		rows = [][]byte{nil}
	}
	if !x.ndjson {
		fmt.Fprintln(x.c.out, x.e.TypeText())
	} else if len(rows) == 0 {
		x.encode(map[string]any{"type": x.e.TypeText()})
	}
	for i, r := range rows {
		x.add(i+1, r)
		if len(x.numbers)+len(x.refused) == exprBatch || i == len(rows)-1 {
			if err := x.flush(); err != nil {
				return x.c.failed(err)
			}
		}
	}
	if x.failed {
		return exitFailed
	}
	return exitOK
}

// rows returns the JSON objects.
func (x *exprRun) rows(row string) ([][]byte, int) {
	if row == "" {
		return nil, exitOK
	}
	text := []byte(row)
	if row == "-" {
		var err error
		if text, err = io.ReadAll(x.c.in); err != nil {
			return nil, x.c.failed(fmt.Errorf("read rows: %w", err))
		}
	}
	var out [][]byte
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			out = append(out, line)
		}
	}
	if row != "-" { // it may be written over several lines
		out = [][]byte{text}
	}
	return out, exitOK
}

// compile checks the text; what is wrong is shown with its place.
func (x *exprRun) compile(cols component.NamedTypes) error {
	schema := arrow.NewSchema(nil, nil)
	if len(cols) > 0 {
		d, err := codec.NewJSON(codec.JSONConfig{Schema: cols, Depth: 256, MaxRecord: 256 << 20, MaxFields: 1 << 20}, memory.DefaultAllocator)
		if err != nil {
			return err
		}
		x.decoder, schema = d, d.Schema()
	}
	e, err := expr.Compile(x.text, schema)
	var at *expr.Error
	if errors.As(err, &at) {
		return fmt.Errorf("%s%s", at.Msg, pointer(x.text, at.Offset))
	}
	if err != nil {
		return err
	}
	x.e, x.ev = e, e.NewEvaluator(memory.DefaultAllocator)
	return nil
}

// pointer is the line of text that offset lies in, with a caret under the place.
func pointer(text string, offset int) string {
	offset = min(max(offset, 0), len(text))
	start := strings.LastIndexByte(text[:offset], '\n') + 1
	line, _, _ := strings.Cut(text[start:], "\n")
	before := strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, text[start:offset])
	return "\n    " + line + "\n    " + before + "^"
}

// add decodes a row.
func (x *exprRun) add(number int, row []byte) {
	if x.decoder != nil {
		if bad := x.decoder.Append(row); bad != nil {
			x.refused = append(x.refused, refusedRow{number, *bad})
			return
		}
	}
	x.numbers = append(x.numbers, number)
}

// flush evaluates the rows decoded, and reports on all in their order.
func (x *exprRun) flush() error {
	schema := arrow.NewSchema(nil, nil)
	var cols []arrow.Array
	if x.decoder != nil {
		schema, cols = x.decoder.Schema(), x.decoder.Flush()
	}
	b := array.NewRecordBatch(schema, cols, int64(len(x.numbers)))
	for _, a := range cols {
		a.Release()
	}
	defer b.Release()
	a, errs, err := x.ev.Eval(b)
	if err != nil {
		return err
	}
	defer a.Release()
	for i, n := range x.numbers {
		x.reportRefused(n)
		if len(errs) > 0 && errs[0].Row == i {
			x.bad(n, errs[0].Bad)
			errs = errs[1:]
			continue
		}
		x.value(n, a, i)
	}
	x.reportRefused(math.MaxInt)
	x.numbers = x.numbers[:0]
	return nil
}

// reportRefused reports on the rows before one that could not be decoded.
func (x *exprRun) reportRefused(before int) {
	for len(x.refused) > 0 && x.refused[0].number < before {
		x.bad(x.refused[0].number, x.refused[0].bad)
		x.refused = x.refused[1:]
	}
}

func (x *exprRun) value(number int, a arrow.Array, i int) {
	if !x.ndjson {
		fmt.Fprintf(x.c.out, "%s\n", expr.AppendText(nil, a, i))
		return
	}
	value := dataflow.AppendJSON(nil, a, i)
	if a.DataType().ID() == arrow.INTERVAL_MONTH_DAY_NANO && a.IsValid(i) {
		value, _ = json.Marshal(string(expr.AppendText(nil, a, i)))
	}
	x.encode(struct {
		Row   int             `json:"row"`
		Value json.RawMessage `json:"value"`
		Type  string          `json:"type"`
	}{number, value, x.e.TypeText()})
}

func (x *exprRun) bad(number int, b dataflow.Bad) {
	x.failed = true
	if !x.ndjson {
		fmt.Fprintf(x.c.err, "row %d is bad: %s: %s\n", number, b.Reason, b.Detail)
		return
	}
	x.encode(struct {
		Row    int    `json:"row"`
		Reason string `json:"reason"`
		Detail string `json:"detail"`
	}{number, b.Reason, b.Detail})
}

func (x *exprRun) encode(v any) {
	e := json.NewEncoder(x.c.out)
	e.SetEscapeHTML(false)
	_ = e.Encode(v)
}

// parseColumns reads "a int64, b decimal(10,2)"; a colon may stand between name
// and type.
func parseColumns(text string) (component.NamedTypes, error) {
	var out component.NamedTypes
	depth, start := 0, 0
	add := func(part string) error {
		part = strings.TrimSpace(part)
		cut := strings.IndexAny(part, " \t\n:")
		if cut < 1 {
			return fmt.Errorf("%q: expected a name and a type, as price int64", part)
		}
		name, kind := part[:cut], strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(part[cut:]), ":"))
		if _, err := dataflow.ParseType(kind); err != nil {
			return fmt.Errorf("column %q: %w", name, err)
		}
		out = append(out, component.NamedType{Name: name, Type: kind})
		return nil
	}
	for i := range len(text) {
		switch text[i] {
		case '(', '<', '{':
			depth++
		case ')', '>', '}':
			depth--
		case ',':
			if depth > 0 {
				continue
			}
			if err := add(text[start:i]); err != nil {
				return nil, err
			}
			start = i + 1
		}
	}
	return out, add(text[start:])
}

// inferColumns finds the columns and types of rows: true and false are bool,
// whole numbers of 64 bits int64, other numbers float64, texts string, objects
// and lists json, what is null everywhere string. int64 and float64 together are
// float64, other mixtures json.
func inferColumns(rows [][]byte) component.NamedTypes {
	var out component.NamedTypes
	at := map[string]int{}
	for _, row := range rows {
		d := json.NewDecoder(bytes.NewReader(row))
		if t, err := d.Token(); err != nil || t != json.Delim('{') {
			continue
		}
		for d.More() {
			var v json.RawMessage
			name, err := d.Token()
			if err != nil || d.Decode(&v) != nil {
				break
			}
			n := name.(string)
			i, known := at[n]
			if !known && utf8.ValidString(n) && n != "" && !dataflow.IsSystem(n) {
				i = len(out)
				at[n] = i
				out = append(out, component.NamedType{Name: n})
				known = true
			}
			if known {
				out[i].Type = commonType(out[i].Type, jsonType(v))
			}
		}
	}
	for i := range out {
		if out[i].Type == "" {
			out[i].Type = "string"
		}
	}
	return out
}

func jsonType(v json.RawMessage) string {
	switch v[0] {
	case 'n':
		return ""
	case 't', 'f':
		return "bool"
	case '"':
		return "string"
	case '{', '[':
		return "json"
	}
	var i int64
	if json.Unmarshal(v, &i) == nil {
		return "int64"
	}
	return "float64"
}

func commonType(a, b string) string {
	switch {
	case a == "" || a == b:
		return b
	case b == "":
		return a
	case a == "int64" && b == "float64", a == "float64" && b == "int64":
		return "float64"
	}
	return "json"
}

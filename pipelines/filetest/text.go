package filetest

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"frazil/dataflow"
	"frazil/dataflow/component"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/extensions"
)

// rowText writes a row as one line of YAML: its columns that are not null, only
// those in only if that is given.
func rowText(schema []arrow.Field, r row, only map[string]bool) string {
	var parts []string
	for _, f := range schema {
		v, ok := r[f.Name]
		if !ok || string(v) == "null" && !only[f.Name] || only != nil && !only[f.Name] {
			continue
		}
		t := valueText(f.Type, v)
		if f.Name == "row" && isBad(schema) {
			t = documentText(v)
		}
		parts = append(parts, keyText(f.Name)+": "+t)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// isBad says whether the rows are those of a bad port, whose row is a document.
func isBad(schema []arrow.Field) bool {
	bad := dataflow.UserFields(dataflow.BadSchema)
	return len(schema) == len(bad) && schema[0].Name == bad[0].Name && schema[len(schema)-1].Name == bad[len(bad)-1].Name
}

// documentText writes text that holds a JSON object as YAML.
func documentText(v json.RawMessage) string {
	var text string
	if json.Unmarshal(v, &text) != nil || !json.Valid([]byte(text)) || !strings.HasPrefix(text, "{") {
		return valueText(dataflow.TypeString, v)
	}
	return flow(json.RawMessage(text))
}

// valueText writes a value as YAML.
func valueText(t arrow.DataType, v json.RawMessage) string {
	if len(v) == 0 || string(v) == "null" {
		return "null"
	}
	var text string
	quoted := json.Unmarshal(v, &text) == nil
	switch t := t.(type) {
	case *arrow.ListType:
		var items []json.RawMessage
		_ = json.Unmarshal(v, &items) // AppendJSON wrote it.
		out := make([]string, len(items))
		for i, x := range items {
			out[i] = valueText(t.Elem(), x)
		}
		return "[" + strings.Join(out, ", ") + "]"
	case *arrow.StructType:
		r := row{}
		_ = json.Unmarshal(v, &r) // AppendJSON wrote it.
		return rowText(t.Fields(), r, nil)
	case *extensions.JSONType:
		return flow(v)
	case *arrow.TimestampType, *arrow.Time64Type:
		return shortTime(text)
	}
	switch {
	case t.ID() == arrow.BINARY:
		return binaryText(text)
	case arrow.IsDecimal(t.ID()):
		return text
	case t.ID() == arrow.DATE32, !quoted:
		if quoted {
			return text
		}
		return string(v)
	}
	return scalarText(text)
}

// shortTime leaves zeros behind the second out.
func shortTime(text string) string {
	zone := ""
	if strings.HasSuffix(text, "Z") {
		text, zone = text[:len(text)-1], "Z"
	}
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	if zone == "" {
		return `"` + text + `"`
	}
	return text + zone
}

func binaryText(digits string) string {
	b, err := hex.DecodeString(digits)
	if err != nil {
		return scalarText(digits)
	}
	printable := utf8.Valid(b) && !bytes.HasPrefix(b, []byte(`\x`)) && !bytes.ContainsFunc(b, func(r rune) bool { return !unicode.IsPrint(r) })
	if printable {
		return scalarText(string(b))
	}
	return `"\\x` + digits + `"`
}

var (
	plainText = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_./-]*( [A-Za-z0-9_./-]+)*$`)
	notPlain  = regexp.MustCompile(`(?i)^(null|true|false|yes|no|on|off|y|n|nan|inf|infinity)$`)
)

// scalarText writes text as YAML, in quotes where it would be something else.
func scalarText(s string) string {
	if plainText.MatchString(s) && !notPlain.MatchString(s) {
		return s
	}
	s = strings.ReplaceAll(s, "${", "$${")
	if strings.ContainsAny(s, "\"\\") && !strings.Contains(s, "'") && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "'" + s + "'"
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // Text always encodes.
	return strings.TrimRight(b.String(), "\n")
}

// keyText writes a key; n and y are names here.
func keyText(s string) string {
	if s == "n" || s == "y" {
		return s
	}
	return scalarText(s)
}

// flow writes a JSON document as YAML, keys in their order.
func flow(v json.RawMessage) string {
	dec := json.NewDecoder(bytes.NewReader(v))
	dec.UseNumber()
	return flowValue(dec)
}

func flowValue(dec *json.Decoder) string {
	tok, err := dec.Token()
	if err != nil {
		return "null"
	}
	switch tok := tok.(type) {
	case json.Delim:
		var parts []string
		for dec.More() {
			if tok == '{' {
				key, _ := dec.Token() // A key is always text.
				parts = append(parts, scalarText(fmt.Sprint(key))+": "+flowValue(dec))
				continue
			}
			parts = append(parts, flowValue(dec))
		}
		_, _ = dec.Token() // The end of it.
		if tok == '{' {
			return "{" + strings.Join(parts, ", ") + "}"
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case string:
		return scalarText(tok)
	case nil:
		return "null"
	}
	return fmt.Sprint(tok)
}

// nodeText writes a value of the file in one line.
func nodeText(n *component.Node) string {
	switch n.Kind {
	case component.Null:
		return "null"
	case component.List:
		parts := make([]string, len(n.Items))
		for i, x := range n.Items {
			parts[i] = nodeText(x)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case component.Map:
		parts := make([]string, len(n.Entries))
		for i, e := range n.Entries {
			parts[i] = keyText(e.Key) + ": " + nodeText(e.Value)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case component.Text:
		if regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-`).MatchString(n.Text) {
			return n.Text
		}
		return scalarText(n.Text)
	}
	return n.Text
}

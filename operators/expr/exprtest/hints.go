package exprtest

import (
	"strings"

	"frazil/operators/expr"
)

// notPostgres says why a function is not asked of PostgreSQL; "" if it is.
func notPostgres(o expr.Overload) string {
	switch {
	case strings.HasPrefix(o.Name, "json_") || o.Name == "to_json":
		return "json is jsonb here"
	case o.Name == "strpos" && o.Args[0] == "binary":
		return "written position(a in b)"
	}
	return ""
}

// limit names the operand, from 1, that says how large a text or number becomes.
var limit = map[string]int{
	"repeat": 2, "lpad": 2, "rpad": 2, "factorial": 1, "unary !": 1,
}

var (
	units  = []string{"microseconds", "milliseconds", "second", "minute", "hour", "day", "week", "month", "quarter", "year", "decade", "century", "millennium"}
	fields = []string{"microseconds", "milliseconds", "second", "minute", "hour", "day", "week", "month", "quarter", "year", "decade", "century", "millennium",
		"dow", "isodow", "doy", "isoyear", "epoch", "julian", "timezone", "timezone_hour", "YEAR"}
	likes = []string{"%", "_", "a%", "%b%", "%c", "a_c", "", "abc", "%\\%%", "a\\_b%", "%ä%", "__", "%%", "_%_", "ABC", "%日%", "\\"}
	// Patterns that mean the same in PostgreSQL and RE2.
	patterns = []string{"a", "^a", "c$", "[0-9]+", "[a-c]+", "b*c", "(a)(b)", "x|y", "a{2}", "[^a-z ]", "^$", "[[:digit:]]", "\\.", "(b)"}
	keys     = []string{"a", "b", "A", "c", "", "ü", "0"}
	paths    = []string{"{a}", "{a,b}", "{0}", "{a,b,2,c}", "{-1}", "{}", "{1,0}", "{a,NULL}"}
	formats  = []string{"hex", "base64", "escape"}
	strides  = []string{"15 minutes", "1 hour", "1 day", "7 days", "00:00:00.25", "0", "1 mon", "-1 hour"}
	numberTo = []string{"999", "9,999.99", "000.00", "FM999.0", "S99", "99PR", "FM9999999.99", "9.9EEEE", "RN", "L99", "099", "MI99"}
)

// hints are texts for operands of functions that take few: others are tried as
// well, seldom.
var hints = map[string][][]string{
	"date_trunc": {units, nil, zones}, "date_part": {fields}, "extract": {fields}, "timezone": {zones}, "date_bin": {strides},
	"like": {nil, likes, {"\\", "!", "a", ""}}, "ilike": {nil, likes, {"\\", "!", "a", ""}},
	"~~": {nil, likes}, "!~~": {nil, likes}, "~~*": {nil, likes}, "!~~*": {nil, likes},
	"~": {nil, patterns}, "~*": {nil, patterns}, "!~": {nil, patterns}, "!~*": {nil, patterns},
	"regexp_replace": {nil, patterns, {"", "x", "[\\1]", "\\&"}, {"", "g", "i", "gi"}}, "regexp_match": {nil, patterns, {"", "i"}},
	"regexp_matches": {nil, patterns, {"", "g", "i"}}, "regexp_count": {nil, patterns}, "regexp_like": {nil, patterns}, "regexp_substr": {nil, patterns},
	"regexp_instr": {nil, patterns}, "regexp_split_to_array": {nil, patterns},
	"encode": {nil, formats}, "decode": {nil, formats}, "split_part": {nil, {",", "|", "a", " ", ""}},
	"normalize": {nil, {"NFC", "NFD", "NFKC", "NFKD"}}, "convert_from": {nil, {"UTF8", "utf-8", "latin1"}}, "convert_to": {nil, {"UTF8", "utf-8", "latin1"}},
	"to_char": {nil, numberTo}, "to_number": {{"12", "1,234.50", "-7", "<5>"}, numberTo},
	"->": {nil, keys}, "->>": {nil, keys}, "?": {nil, keys}, "jsonb_extract_path": {nil, keys}, "jsonb_extract_path_text": {nil, keys},
	"#>": {nil, paths}, "#>>": {nil, paths}, "#-": {nil, paths}, "?|": {nil, paths}, "?&": {nil, paths},
	"array_to_string": {nil, {",", "|", ""}, {"*", "null"}}, "array_length": {nil, {"1", "2", "0"}}, "array_upper": {nil, {"1", "2", "0"}}, "array_lower": {nil, {"1", "2", "0"}},
	"string_to_array": {nil, {",", "|", ""}},
}

package expr

func init() {
	d := func(name, text string, examples ...example) { describe("json", name, text, examples...) }
	d("->", "A member of an object by its name, or an element of an array by its number, counted from 0, from the end where it is negative; null where there is none. On a column of type json nothing is read but what leads there.",
		example{`'{"a": {"b": 1}}'::json -> 'a'`, `{"b": 1}`}, example{`'[1, 2]'::json -> -1`, "2"})
	d("->>", "As ->, as a text: strings without their quotes, null for a JSON null.",
		example{`'{"a": "x"}'::json ->> 'a'`, "x"}, example{`'{"a": null}'::json ->> 'a'`, "null"})
	d("#>", "What stands at a path, a list of names and numbers.", example{`'{"a": [1, {"b": 2}]}'::json #> '{a,1,b}'`, "2"})
	d("#>>", "As #>, as a text.", example{`'{"a": ["x"]}'::json #>> '{a,0}'`, "x"})
	d("@>", "Whether the left document holds all of the right one, at the same places.", example{`'{"a": 1, "b": 2}'::json @> '{"a": 1}'`, "true"})
	d("<@", "Whether the right document holds all of the left one.", example{`'[1]'::json <@ '[1, 2]'`, "true"})
	d("?", "Whether a text is the name of a member, or an element.", example{`'{"a": null}'::json ? 'a'`, "true"})
	d("?|", "Whether any of the texts is.", example{`'{"a": 1}'::json ?| array['a', 'b']`, "true"})
	d("?&", "Whether all of the texts are.", example{`'{"a": 1}'::json ?& array['a', 'b']`, "false"})
	d("||", "Two objects as one, the right one's members win; two arrays as one; other values are taken for arrays of one element.",
		example{`'{"a": 1}'::json || '{"b": 2}'`, `{"a": 1, "b": 2}`}, example{`'[1]'::json || '2'`, "[1, 2]"})
	d("-", "Without the members or elements of a name, or of names, or without the element of a number.",
		example{`'{"a": 1, "b": 2}'::json - 'a'`, `{"b": 2}`}, example{`'[1, 2, 3]'::json - 0`, "[2, 3]"})
	d("#-", "Without what stands at a path.", example{`'{"a": [1, 2]}'::json #- '{a,0}'`, `{"a": [2]}`})
	for op, e := range map[string]example{
		"=": {`'{"a": 1.0, "b": 2}'::json = '{"b": 2, "a": 1}'`, "true"}, "<>": {`'1'::json <> '2'`, "true"},
		"<": {`'"z"'::json < '1'`, "true"}, "<=": {`'1'::json <= '1'`, "true"}, ">": {`'{}'::json > '[]'`, "true"}, ">=": {`'[1, 2]'::json >= '[3]'`, "true"},
	} {
		d(op, "Compares documents by value, in jsonb's order: null, strings, numbers, booleans, arrays, objects.", e)
	}
	for _, p := range []string{"jsonb", "json"} {
		d(p+"_typeof", "What a document is: object, array, string, number, boolean or null.", example{p + `_typeof('[1]')`, "array"})
		d(p+"_array_length", "The number of elements of an array; another document is bad.", example{p + `_array_length('[1, 2]')`, "2"})
		d(p+"_extract_path", "What stands at a path, each step an operand.", example{p + `_extract_path('{"a": [1, 2]}', 'a', '1')`, "2"})
		d(p+"_extract_path_text", "As "+p+"_extract_path, as a text.", example{p + `_extract_path_text('{"a": ["x"]}', 'a', '0')`, "x"})
		d(p+"_strip_nulls", "Without the members that are null, at every depth.", example{p + `_strip_nulls('{"a": null, "b": [null]}')`, `{"b": [null]}`})
		d(p+"_build_array", "An array of the operands.", example{p + `_build_array(1, 'x', null)`, `[1, "x", null]`})
		d(p+"_build_object", "An object of names and values in turn.", example{p + `_build_object('a', 1, 'b', true)`, `{"a": 1, "b": true}`})
	}
	for _, name := range []string{"to_jsonb", "to_json"} {
		d(name, "A value as JSON: numbers and booleans as they are, times in ISO 8601, lists as arrays, other values as strings.",
			example{name + `(array[1, null])`, "[1, null]"}, example{name + `(date '2024-02-29')`, `"2024-02-29"`})
	}
	d("jsonb_set", "With a value in the place of what stands at a path; one that is not there is added, unless the last operand is false.",
		example{`jsonb_set('{"a": {"b": 1}}', '{a,b}', '2')`, `{"a": {"b": 2}}`}, example{`jsonb_set('{}', '{a}', '1', false)`, "{}"})
	d("jsonb_insert", "With a value before what stands at a path of an array, behind it if the last operand is true, or as a new member.",
		example{`jsonb_insert('[1, 2]', '{0}', '0')`, "[0, 1, 2]"}, example{`jsonb_insert('[1, 2]', '{0}', '0', true)`, "[1, 0, 2]"})
	d("jsonb_pretty", "The document on several lines, indented.", example{`jsonb_pretty('[1]')`, "[\n    1\n]"})
}
